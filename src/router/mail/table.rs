//! The tables of messages, and the only ways in and out of them.

use super::{
    dead_letters::DeadLetters,
    mailbox::Mailbox,
    message::{Message, State},
    outbox::Turn,
    stream::{Stream, Streams},
};
use crate::router::{
    context::Context,
    hash::HashKey,
    keys::{AgentKey, AgentSlot, MessageKey, MessageSlot, StreamKey},
    timers::Timer,
};
use rustc_hash::FxHashMap;
use slotmap::{SecondaryMap, SlotMap};
use std::mem;
use uuid::Uuid;

/// All mail.
#[derive(Debug)]
pub(in crate::router) struct Mail {
    pub(super) messages: SlotMap<MessageSlot, Message>,
    /// At-least-once messages by the id of their DELIVER.
    pub(super) deliveries: FxHashMap<Uuid, MessageKey>,
    pub(super) streams: Streams,
    pub(super) mailboxes: SecondaryMap<AgentSlot, Mailbox>,
    pub(super) dead_letters: DeadLetters,
    /// The number of SENDs in all dedup windows.
    pub(super) dedup_entries: usize,
}

impl Mail {
    pub(in crate::router) fn new(hash_key: HashKey) -> Self {
        Self {
            messages: SlotMap::default(),
            deliveries: FxHashMap::default(),
            streams: Streams::new(hash_key),
            mailboxes: SecondaryMap::default(),
            dead_letters: DeadLetters::default(),
            dedup_entries: 0,
        }
    }

    /// Adds a message to every table, and to the waiting messages of its stream.
    pub(in crate::router) fn insert(
        &mut self,
        ctx: &mut Context,
        mut message: Message,
    ) -> MessageKey {
        let Message { from, to, stream, seq, order, bytes, expires, .. } = message;
        if message.is_replay {
            ctx.memory.charge(bytes);
        } else {
            self.charge(ctx, to, from, bytes);
        }
        message.timer = expires;
        let delivery = message.reliable().map(|reliable| (reliable.id, reliable.state));
        let key = MessageKey(self.messages.insert(message));
        // A message that is being persisted gets its timer when it is accepted.
        if !matches!(delivery, Some((_, State::Persisting))) {
            ctx.timers.set(expires, Timer::Message(key));
        }
        if let Some((id, _)) = delivery {
            self.deliveries.insert(id, key);
        }
        let joined = &mut self.streams[stream];
        joined.last_order = joined.last_order.max(order);
        joined.wait(seq, key);
        self.refresh_turn(stream);
        key
    }

    /// Removes a message from every table. Closes its stream if the message was the last one of a
    /// forgotten sender.
    pub(in crate::router) fn remove(
        &mut self,
        ctx: &mut Context,
        key: MessageKey,
    ) -> Option<Message> {
        let message = self.take_out(ctx, key)?;
        if !message.is_replay {
            self.release(ctx, message.to, message.from, message.bytes);
        }
        if let Some(reliable) = message.reliable() {
            self.deliveries.remove(&reliable.id);
            if matches!(reliable.state, State::InFlight { .. }) {
                self.mailboxes[message.to.0].outbox.in_flight -= 1;
            }
            if let Some(sender) = self.mailboxes.get_mut(message.from.0) {
                sender.dedup.close_one(reliable.digest);
            }
        }
        self.settle_stream(ctx, message.stream);
        Some(message)
    }

    /// Removes a message from its stream, in order to hand it out. Its queue stays charged until
    /// the frame is [released](Self::release), and the caller has to [settle](Self::settle_stream)
    /// its stream.
    pub(in crate::router) fn take_out(
        &mut self,
        ctx: &mut Context,
        key: MessageKey,
    ) -> Option<Message> {
        let message = self.messages.remove(key.0)?;
        ctx.timers.cancel(message.timer, Timer::Message(key));
        self.streams[message.stream].forget(message.seq);
        if message.is_replay {
            ctx.memory.release(message.bytes);
        }
        Some(message)
    }

    /// Charges an agent's queue for a message.
    pub(in crate::router) fn charge(
        &mut self,
        ctx: &mut Context,
        to: AgentKey,
        from: AgentKey,
        bytes: usize,
    ) {
        self.mailboxes[to.0].outbox.charge(from, bytes);
        ctx.memory.charge(bytes);
    }

    /// Releases an agent's queue from the charge for a message, unless the agent is forgotten.
    pub(in crate::router) fn release(
        &mut self,
        ctx: &mut Context,
        to: AgentKey,
        from: AgentKey,
        bytes: usize,
    ) {
        if let Some(mailbox) = self.mailboxes.get_mut(to.0) {
            mailbox.outbox.release(from, bytes);
            ctx.memory.release(bytes);
        }
    }

    /// Sets a message's timer for the end of its delay, or of its time to live.
    pub(super) fn set_timer(&mut self, ctx: &mut Context, key: MessageKey) {
        let message = &mut self.messages[key.0];
        ctx.timers.cancel(message.timer, Timer::Message(key));
        message.timer = match message.reliable().map(|reliable| reliable.state) {
            Some(State::Delayed(until)) => message.expires.min(until),
            _ => message.expires,
        };
        ctx.timers.set(message.timer, Timer::Message(key));
    }

    /// Updates a stream's turn in its recipient's outbox: the stream's first message, if it may go
    /// out.
    pub(super) fn refresh_turn(&mut self, key: StreamKey) {
        let stream = &mut self.streams[key];
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
    pub(in crate::router) fn settle_stream(&mut self, ctx: &mut Context, key: StreamKey) {
        self.refresh_turn(key);
        self.close_if_over(ctx, key);
    }

    /// Closes a stream whose sender is forgotten, once none of its messages waits or is in flight.
    pub(in crate::router) fn close_if_over(&mut self, ctx: &mut Context, key: StreamKey) {
        let stream = &self.streams[key];
        if stream.is_orphan && stream.is_empty() {
            if let Some(recipient) = self.mailboxes.get_mut(stream.to().0) {
                recipient.receives.remove(&key);
            }
            self.close_stream(ctx, key);
        }
    }

    /// Opens a mailbox for an agent.
    pub(in crate::router) fn open_mailbox(&mut self, agent: AgentKey, number: u64, is_guest: bool) {
        self.mailboxes.insert(agent.0, Mailbox::new(number, is_guest));
    }

    /// Removes and returns an agent's streams, to it and from it, before the agent is forgotten.
    pub(in crate::router) fn detach_streams(
        &mut self,
        agent: AgentKey,
    ) -> (Vec<StreamKey>, Vec<StreamKey>) {
        let Some(mailbox) = self.mailboxes.get_mut(agent.0) else { return Default::default() };
        let (to, from) = (mem::take(&mut mailbox.receives), mem::take(&mut mailbox.sends));
        (to.into_iter().collect(), from.into_iter().collect())
    }

    /// Closes a stream whose recipient is forgotten.
    pub(in crate::router) fn close_detached(&mut self, ctx: &mut Context, key: StreamKey) {
        let Some(stream) = self.streams.get(key) else { return };
        if let Some(sender) = self.mailboxes.get_mut(stream.from().0) {
            sender.sends.remove(&key);
        }
        self.close_stream(ctx, key);
    }

    /// Marks a stream whose sender is forgotten: the stream ends with its last message.
    pub(in crate::router) fn orphan(&mut self, ctx: &mut Context, key: StreamKey) {
        if let Some(stream) = self.streams.get_mut(key) {
            stream.is_orphan = true;
            self.close_if_over(ctx, key);
        }
    }

    /// Removes the mailbox of an agent that is forgotten. Returns the number of its floor's record,
    /// or 0, and whether its dedup window had any SENDs.
    pub(in crate::router) fn remove_mailbox(
        &mut self,
        ctx: &mut Context,
        agent: AgentKey,
    ) -> (u64, bool) {
        let Some(mailbox) = self.mailboxes.remove(agent.0) else { return (0, false) };
        // Only unwritten frames of a connection that has not ended can still be charged here.
        ctx.memory.release(mailbox.outbox.total().bytes);
        self.dedup_entries -= mailbox.dedup.len();
        (mailbox.floor.number, !mailbox.dedup.is_empty())
    }

    pub(in crate::router) fn message(&self, key: MessageKey) -> Option<&Message> {
        self.messages.get(key.0)
    }

    pub(in crate::router) fn stream(&self, key: StreamKey) -> Option<&Stream> {
        self.streams.get(key)
    }

    /// Returns the number of messages that have not ended.
    pub(in crate::router) fn messages(&self) -> usize {
        self.messages.len()
    }

    /// Returns the number of open streams.
    pub(in crate::router) fn streams(&self) -> usize {
        self.streams.len()
    }

    #[cfg(test)]
    pub(in crate::router) fn all_messages(&self) -> impl Iterator<Item = &Message> {
        self.messages.values()
    }

    #[cfg(test)]
    pub(in crate::router) fn all_streams(&self) -> impl Iterator<Item = &Stream> {
        self.streams.all()
    }

    #[cfg(test)]
    pub(in crate::router) fn all_mailboxes(&self) -> impl Iterator<Item = (AgentKey, &Mailbox)> {
        self.mailboxes.iter().map(|(slot, mailbox)| (AgentKey(slot), mailbox))
    }

    #[cfg(test)]
    pub(in crate::router) fn delivery_count(&self) -> usize {
        self.deliveries.len()
    }

    #[cfg(test)]
    pub(in crate::router) const fn dedup_entry_count(&self) -> usize {
        self.dedup_entries
    }
}
