//! The tables of messages, and the only ways in and out of them.

use super::{
    dead_letters::DeadLetters,
    mailbox::Mailbox,
    message::{Message, QueueState, UnreadNotice},
    messages::Messages,
    outbox::{Load, Turn},
    sent::Sent,
    stream::{Stream, Streams},
};
use crate::{
    accounts::{Class, Holders},
    context::Context,
    hash::HashKey,
    keys::{AgentKey, AgentSlot, MessageKey, StreamKey},
    timers::Timer,
};
use rustc_hash::FxHashMap;
use slotmap::SecondaryMap;
use std::{collections::BTreeSet, mem};
use uuid::Uuid;

/// All mail.
#[derive(Debug)]
pub(crate) struct Mail {
    pub(super) messages: Messages,
    /// At-least-once messages by the id of their DELIVER.
    pub(super) deliveries: FxHashMap<Uuid, MessageKey>,
    pub(super) streams: Streams,
    pub(super) mailboxes: SecondaryMap<AgentSlot, Mailbox>,
    pub(super) dead_letters: DeadLetters,
    /// All replay buffers, by their size classes.
    pub(super) replays: Holders<AgentKey>,
    /// The number of SENDs in all dedup windows.
    pub(super) dedup_entries: usize,
}

/// The streams of an agent that is being forgotten: to it, and from it.
#[derive(Debug, Default)]
pub(crate) struct DetachedStreams {
    pub(crate) receives: BTreeSet<StreamKey>,
    pub(crate) sends: BTreeSet<StreamKey>,
}

impl Mail {
    pub(crate) fn new(hash_key: HashKey) -> Self {
        Self {
            messages: Messages::default(),
            deliveries: FxHashMap::default(),
            streams: Streams::new(hash_key),
            mailboxes: SecondaryMap::default(),
            dead_letters: DeadLetters::default(),
            replays: Holders::default(),
            dedup_entries: 0,
        }
    }

    /// Adds a message to every table, and to the waiting messages of its stream.
    pub(crate) fn insert(&mut self, ctx: &mut Context, mut message: Message) -> MessageKey {
        let Message { id, to, stream, seq, order, bytes, expires, .. } = message;
        if message.is_replay {
            ctx.charge_memory(to, message.memory_bytes());
        } else {
            self.charge(ctx, to, &message.sent, bytes);
        }
        if message.reliable().is_some() {
            ctx.accounts.charge(Class::Mail, message.sent.from, bytes);
        }
        message.timer = expires;
        let state = message.reliable().map(|reliable| reliable.state);
        let key = MessageKey(self.messages.insert(message));
        // A message that is being persisted gets its timer when it is accepted.
        if state != Some(QueueState::Persisting) {
            ctx.timers.set(expires, Timer::Message(key));
        }
        if state.is_some() {
            self.deliveries.insert(id, key);
        }
        self.mailboxes[to.0].index(state.is_some()).insert(order, key);
        let joined = &mut self.streams[stream];
        joined.last_order = joined.last_order.max(order);
        joined.wait(seq, key);
        self.refresh_turn(stream);
        key
    }

    /// Removes a message from every table. Closes its stream if the message was the last one of a
    /// forgotten sender.
    pub(crate) fn remove(&mut self, ctx: &mut Context, key: MessageKey) -> Option<Message> {
        let message = self.take_out(ctx, key)?;
        if !message.is_replay {
            self.release(ctx, message.to, &message.sent, message.bytes);
        }
        if let Some(reliable) = message.reliable() {
            ctx.accounts.release(Class::Mail, message.sent.from, message.bytes);
            self.deliveries.remove(&message.id);
            if matches!(reliable.state, QueueState::InFlight { .. }) {
                let outbox = &mut self.mailboxes[message.to.0].outbox;
                outbox.in_flight -= 1;
                outbox.reports.remove(ctx, message.to, message.order, reliable.reported.as_deref());
            }
            self.change_dedup(ctx, message.sent.from, |window| window.close_one(reliable.digest));
        }
        self.settle_stream(ctx, message.stream);
        Some(message)
    }

    /// Removes a message from its stream, in order to hand it out. Its queue stays charged until
    /// the frame is [released](Self::release), and the caller has to [settle](Self::settle_stream)
    /// its stream.
    pub(crate) fn take_out(&mut self, ctx: &mut Context, key: MessageKey) -> Option<Message> {
        let message = self.messages.remove(key.0)?;
        ctx.timers.cancel(message.timer, Timer::Message(key));
        if let Some(UnreadNotice::ToldAt(at)) = message.reliable().map(|reliable| reliable.unread) {
            ctx.timers.cancel(at, Timer::Unread(key));
        }
        self.streams[message.stream].forget(message.seq);
        if let Some(recipient) = self.mailboxes.get_mut(message.to.0) {
            recipient.index(message.reliable().is_some()).remove(&message.order);
        }
        if message.is_replay {
            ctx.release_memory(message.to, message.memory_bytes());
        }
        Some(message)
    }

    /// Charges an agent's queue, and the sender's share of the memory, for a message.
    pub(crate) fn charge(&mut self, ctx: &mut Context, to: AgentKey, sent: &Sent, bytes: usize) {
        let (from, load) = (sent.from, Load::of(sent, bytes));
        self.mailboxes[to.0].outbox.charge(from, ctx.accounts.listed_as(from), load);
        ctx.charge_memory(from, load.memory_bytes());
        ctx.accounts.charge(Class::Copies, from, load.copies);
    }

    /// Releases an agent's queue from the charge for a message, unless the agent is forgotten.
    pub(crate) fn release(&mut self, ctx: &mut Context, to: AgentKey, sent: &Sent, bytes: usize) {
        self.release_all(ctx, Some(to), Some((sent.from, Load::of(sent, bytes))));
    }

    /// Releases the queue of an agent, if there is one, from the charge for several messages of one
    /// sender.
    pub(crate) fn release_all(
        &mut self,
        ctx: &mut Context,
        to: Option<AgentKey>,
        load: Option<(AgentKey, Load)>,
    ) {
        if let (Some(to), Some((from, load))) = (to, load)
            && let Some(mailbox) = self.mailboxes.get_mut(to.0)
        {
            mailbox.outbox.release(from, load);
            release_load(ctx, from, load);
        }
    }

    /// Sets a message's timer for the end of its delay, or of its time to live.
    pub(super) fn set_timer(&mut self, ctx: &mut Context, key: MessageKey) {
        let message = &mut self.messages[key.0];
        ctx.timers.cancel(message.timer, Timer::Message(key));
        message.timer = match message.reliable().map(|reliable| reliable.state) {
            Some(QueueState::Delayed(until)) => message.expires.min(until),
            _ => message.expires,
        };
        ctx.timers.set(message.timer, Timer::Message(key));
    }

    /// Updates a stream's turn in its recipient's outbox: the stream's first message, if it may go
    /// out. Also updates whether the stream has messages in flight.
    pub(super) fn refresh_turn(&mut self, key: StreamKey) {
        let stream = &mut self.streams[key];
        let is_in_flight = !stream.in_flight.is_empty();
        if is_in_flight != stream.is_in_flight {
            stream.is_in_flight = is_in_flight;
            let streams = &mut self.mailboxes[stream.to().0].in_flight_streams;
            if is_in_flight {
                streams.insert(key)
            } else {
                streams.remove(&key)
            };
        }
        let turn = stream.waiting.front().and_then(|(seq, message)| {
            let message = &self.messages[message.0];
            let turn = Turn { order: message.order, is_reliable: message.reliable().is_some() };
            (!message.is_blocked() && *seq <= stream.reserved).then_some(turn)
        });
        if turn != stream.turn {
            self.mailboxes[stream.to().0].outbox.set_turn(key, stream.turn, turn);
            stream.turn = turn;
        }
    }

    /// Updates a stream's turn after a message was removed, and closes the stream if it has ended.
    pub(crate) fn settle_stream(&mut self, ctx: &mut Context, key: StreamKey) {
        self.refresh_turn(key);
        self.close_if_over(ctx, key);
    }

    /// Closes a stream whose sender is forgotten, once none of its messages waits or is in flight.
    pub(crate) fn close_if_over(&mut self, ctx: &mut Context, key: StreamKey) {
        let stream = &self.streams[key];
        if stream.is_orphan && stream.is_empty() {
            if let Some(recipient) = self.mailboxes.get_mut(stream.to().0) {
                recipient.receives.remove(&key);
            }
            self.close_stream(ctx, key);
        }
    }

    /// Opens a mailbox for an agent. An agent that is no guest is a principal.
    pub(crate) fn open_mailbox(
        &mut self,
        ctx: &mut Context,
        agent: AgentKey,
        number: u64,
        is_guest: bool,
    ) {
        if !is_guest {
            ctx.accounts.open(agent);
        }
        self.mailboxes.insert(agent.0, Mailbox::new(number, is_guest));
    }

    /// Removes and returns an agent's streams, to it and from it, before the agent is forgotten.
    pub(crate) fn detach_streams(&mut self, agent: AgentKey) -> DetachedStreams {
        let Some(mailbox) = self.mailboxes.get_mut(agent.0) else { return Default::default() };
        DetachedStreams {
            receives: mem::take(&mut mailbox.receives),
            sends: mem::take(&mut mailbox.sends),
        }
    }

    /// Closes a stream whose recipient is forgotten.
    pub(crate) fn close_detached(&mut self, ctx: &mut Context, key: StreamKey) {
        let Some(stream) = self.streams.get(key) else { return };
        if let Some(sender) = self.mailboxes.get_mut(stream.from().0) {
            sender.sends.remove(&key);
        }
        self.close_stream(ctx, key);
    }

    /// Marks a stream whose sender is forgotten: the stream ends with its last message.
    pub(crate) fn orphan(&mut self, ctx: &mut Context, key: StreamKey) {
        if let Some(stream) = self.streams.get_mut(key) {
            stream.is_orphan = true;
            self.close_if_over(ctx, key);
        }
    }

    /// Removes the mailbox of an agent that is forgotten. Returns the number of its floor's record,
    /// or 0, and whether its dedup window had any SENDs.
    pub(crate) fn remove_mailbox(&mut self, ctx: &mut Context, agent: AgentKey) -> (u64, bool) {
        let Some(mailbox) = self.mailboxes.remove(agent.0) else { return (0, false) };
        // Only unwritten frames of a connection that has not ended can still be charged here.
        ctx.release_memory(agent, mailbox.dedup.left_bytes());
        for (from, load) in mailbox.outbox.shares() {
            release_load(ctx, from, load);
        }
        ctx.accounts.close(agent);
        self.dedup_entries -= mailbox.dedup.len();
        (mailbox.floor.number, !mailbox.dedup.is_empty())
    }

    pub(crate) fn message(&self, key: MessageKey) -> Option<&Message> {
        self.messages.get(key.0)
    }

    pub(crate) fn stream(&self, key: StreamKey) -> Option<&Stream> {
        self.streams.get(key)
    }

    /// Returns the number of messages that have not ended.
    pub(crate) fn messages(&self) -> usize {
        self.messages.len()
    }

    /// Returns the number of open streams.
    pub(crate) fn streams(&self) -> usize {
        self.streams.len()
    }
}

/// Releases a sender's shares from the charge for messages.
fn release_load(ctx: &mut Context, from: AgentKey, load: Load) {
    ctx.release_memory(from, load.memory_bytes());
    ctx.accounts.release(Class::Copies, from, load.copies);
}

#[cfg(test)]
mod inspect {
    use super::*;

    impl Mail {
        pub(crate) fn all_messages(&self) -> impl Iterator<Item = &Message> {
            self.messages.values()
        }

        pub(crate) fn all_streams(&self) -> impl Iterator<Item = &Stream> {
            self.streams.all()
        }

        pub(crate) fn all_mailboxes(&self) -> impl Iterator<Item = (AgentKey, &Mailbox)> {
            self.mailboxes.iter().map(|(slot, mailbox)| (AgentKey(slot), mailbox))
        }

        pub(crate) fn replay_holders(&self) -> impl Iterator<Item = (usize, AgentKey)> {
            self.replays.all()
        }

        pub(crate) fn delivery_count(&self) -> usize {
            self.deliveries.len()
        }

        pub(crate) const fn dedup_entry_count(&self) -> usize {
            self.dedup_entries
        }
    }
}
