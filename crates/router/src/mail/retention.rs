//! Retention of delivered messages: how they enter a replay buffer, leave it, and are queued again.

use super::{
    message::{Message, QueueState},
    stream::Streams,
    table::Mail,
};
use crate::{
    context::Context,
    keys::{AgentKey, StreamKey},
    work::{self, DELIVERY_WORK, NODE_WORK},
};
use rustc_hash::FxHashMap;

/// A full replay buffer drops this many messages at a time, or a 16th of its bound.
const SLICE: usize = 6;

impl Mail {
    /// Retains a message that was delivered, if its recipient can ask for it again.
    pub(crate) fn retain_for_replay(
        &mut self,
        ctx: &mut Context,
        message: Message,
        can_resume: bool,
    ) {
        let (messages_max, bytes_max) =
            (ctx.limits.replay_messages_max, ctx.limits.replay_bytes_max);
        let mailbox = self.mailboxes.get_mut(message.to.0).filter(|_| can_resume);
        let Some(mailbox) = mailbox else {
            return self.note_gone(message.stream, message.seq);
        };
        ctx.memory.charge_replay(message.memory_bytes());
        let agent = message.to;
        mailbox.replay.put(message);
        if mailbox.replay.exceeds(messages_max, bytes_max) {
            let count = SLICE.min(messages_max / 16);
            mailbox.replay.read_oldest(count);
            let messages_max = messages_max - count;
            while let Some(oldest) = mailbox.replay.pop_beyond(messages_max, bytes_max) {
                ctx.memory.release_replay(oldest.memory_bytes());
                note_gone(&mut self.streams, oldest.stream, oldest.seq);
            }
        }
        mailbox.replay.list(agent, &mut self.replays);
        self.make_room(ctx, 0);
    }

    /// Notes that a delivered message cannot be replayed.
    pub(crate) fn note_gone(&mut self, stream: StreamKey, seq: u64) {
        note_gone(&mut self.streams, stream, seq);
    }

    /// Drops replay buffers until memory has room for this number of bytes. Each of them is at
    /// least half as large as the largest one.
    pub(crate) fn make_room(&mut self, ctx: &mut Context, bytes: usize) {
        while ctx.memory.replay() > 0
            && !ctx.has_memory_for(bytes)
            && let Some((_, agent)) = self.replays.largest()
        {
            self.drop_replay(ctx, agent);
        }
    }

    /// Drops an agent's replay buffer.
    pub(crate) fn drop_replay(&mut self, ctx: &mut Context, agent: AgentKey) {
        let Some(mailbox) = self.mailboxes.get_mut(agent.0) else { return };
        while let Some(message) = mailbox.replay.pop_beyond(0, 0) {
            ctx.memory.release_replay(message.memory_bytes());
            note_gone(&mut self.streams, message.stream, message.seq);
        }
        mailbox.replay.list(agent, &mut self.replays);
    }

    /// Removes and returns an at-most-once message from a replay buffer, to be queued again.
    pub(crate) fn take_retained(
        &mut self,
        ctx: &mut Context,
        agent: AgentKey,
        order: u64,
    ) -> Option<Message> {
        let replay = &mut self.mailboxes.get_mut(agent.0)?.replay;
        let message = replay.take(order, &self.streams)?;
        replay.list(agent, &mut self.replays);
        ctx.memory.release_replay(message.memory_bytes());
        Some(message)
    }

    /// Queues all messages again that an agent missed: in each stream, those after this sequence
    /// number.
    pub(crate) fn rewind(
        &mut self,
        ctx: &mut Context,
        agent: AgentKey,
        after: &FxHashMap<StreamKey, u64>,
    ) {
        if after.is_empty() {
            return;
        }
        for (stream, after) in after {
            // When an older connection was replaced, a forgotten sender's last message may have
            // ended, which closes its stream.
            let Some(stream) = self.streams.get_mut(*stream) else { continue };
            for key in stream.take_back(*after) {
                ctx.spend(DELIVERY_WORK);
                self.end_flight(ctx, key, QueueState::Waiting);
            }
        }
        ctx.spend(NODE_WORK * self.mailboxes[agent.0].replay.len() as u64);
        let missed = self.mailboxes[agent.0].replay.iter().filter(|message| {
            let (stream, seq) = (message.stream, message.seq);
            after.get(&stream).is_some_and(|after| seq > *after)
                && message.expires > ctx.now.monotonic
                && self.streams.get(stream).is_some_and(|stream| !stream.is_waiting(seq))
        });
        let missed = missed.map(|message| message.order).skip(ctx.planted.skipped_replays());
        for order in missed.collect::<Vec<_>>() {
            if let Some(copy) = self.replay_copy(agent, order) {
                ctx.spend(DELIVERY_WORK + work::of_bytes(copy.bytes));
                self.insert(ctx, copy);
            }
        }
        for stream in after.keys() {
            if self.streams.get(*stream).is_some() {
                self.refresh_turn(*stream);
            }
        }
    }

    /// Returns a copy of a retained message, to be handed out once more.
    fn replay_copy(&mut self, agent: AgentKey, order: u64) -> Option<Message> {
        let message = self.mailboxes.get_mut(agent.0)?.replay.get_mut(order)?;
        if message.reliable.is_some() {
            message.attempts += 1;
        }
        // An at-least-once message is already acknowledged, so its copy requires no ACK.
        let sent = message.sent.clone();
        Some(Message { sent, is_replay: true, reliable: None, ..*message })
    }
}

fn note_gone(streams: &mut Streams, stream: StreamKey, seq: u64) {
    if let Some(stream) = streams.get_mut(stream) {
        stream.gone = stream.gone.max(seq);
    }
}
