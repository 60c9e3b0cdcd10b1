//! Opening of streams, for new messages and for those that an earlier daemon recorded.

use super::{
    message::{HEAD_BYTES_MAX, Message, QueueState, Reliable, UnreadNotice},
    sent::Sent,
    stream::Stream,
    table::Mail,
};
use crate::{
    accounts::Class,
    context::Context,
    keys::{AgentKey, MessageKey, StreamKey},
    send_digest::SendDigest,
};
use protocol::record::{DeliveryRecord, MessageRecord, StreamRecord};
use std::sync::Arc;

impl Mail {
    pub(crate) fn find_stream(
        &self,
        from: AgentKey,
        to: AgentKey,
        topic: Option<&str>,
    ) -> Option<StreamKey> {
        self.streams.find(self.mailboxes.get(from.0)?.number, to, topic)
    }

    /// Opens the stream of two known agents. Its numbers begin above the sender's floor.
    pub(crate) fn open_stream(
        &mut self,
        ctx: &mut Context,
        from: AgentKey,
        to: AgentKey,
        topic: Option<&str>,
    ) -> StreamKey {
        ctx.accounts.charge(Class::Streams, from, 1);
        let sender = &self.mailboxes[from.0];
        let floor = ctx.planted.floor(sender.floor.seq);
        let reserved = if sender.is_guest { u64::MAX } else { floor };
        let stream = self.streams.open((from, sender.number), to, topic, (floor, reserved));
        self.mailboxes[from.0].sends.insert(stream);
        self.mailboxes[to.0].receives.insert(stream);
        stream
    }

    /// Opens a recorded stream of a sender that is known.
    pub(crate) fn restore_stream(
        &mut self,
        ctx: &mut Context,
        record: &StreamRecord,
        from: AgentKey,
        to: AgentKey,
    ) -> StreamKey {
        ctx.accounts.charge(Class::Streams, from, 1);
        let numbers = (ctx.planted.restored_seq(record.reserved), record.reserved);
        let key = self.streams.open((from, record.from), to, record.topic.as_deref(), numbers);
        self.mailboxes[from.0].sends.insert(key);
        self.note_restored(key, record, false);
        key
    }

    /// Opens a recorded stream of a sender that is forgotten. Only recorded messages are added to
    /// the stream, and all of them may go out.
    pub(crate) fn restore_orphan(
        &mut self,
        ctx: &mut Context,
        record: &StreamRecord,
        ghost: AgentKey,
        to: AgentKey,
        last_seq: u64,
    ) -> StreamKey {
        ctx.accounts.charge(Class::Streams, ghost, 1);
        let numbers = (last_seq, u64::MAX);
        let key = self.streams.open((ghost, record.from), to, record.topic.as_deref(), numbers);
        self.note_restored(key, record, true);
        key
    }

    fn note_restored(&mut self, key: StreamKey, record: &StreamRecord, is_orphan: bool) {
        let stream = &mut self.streams[key];
        (stream.number, stream.is_recorded, stream.is_orphan) = (record.number, true, is_orphan);
        self.mailboxes[stream.to().0].receives.insert(key);
    }

    /// Queues a message from its records, with `attempts` in place of the recorded number.
    pub(crate) fn restore_message(
        &mut self,
        ctx: &mut Context,
        stream: StreamKey,
        delivery: &DeliveryRecord,
        (message, sent): (&MessageRecord, Arc<Sent>),
        attempts: u32,
        digest: SendDigest,
    ) -> MessageKey {
        self.streams[stream].forget_sender_process();
        let restored = Message {
            to: self.streams[stream].to(),
            stream,
            seq: delivery.seq,
            order: delivery.number,
            id: delivery.id,
            bytes: sent.shared.len() + HEAD_BYTES_MAX,
            sent,
            expires: delivery.expires,
            timer: delivery.expires,
            attempts,
            is_replay: false,
            reliable: Some(Box::new(Reliable {
                message: message.number,
                unix_ms: message.unix_ms,
                recorded: attempts,
                failures: delivery.failures,
                state: QueueState::Waiting,
                digest,
                reported: None,
                unread: UnreadNotice::default(),
            })),
        };
        self.insert(ctx, restored)
    }

    /// Completes a restart: estimates which messages cannot be replayed, and closes streams that
    /// have ended.
    pub(crate) fn finish_restore(&mut self, ctx: &mut Context) {
        for key in self.streams.keys() {
            self.streams[key].guess_gone();
            self.settle_stream(ctx, key);
        }
    }

    /// Finds the stream to an agent by the number of its sender and its topic.
    pub(crate) fn find_stream_to(
        &self,
        to: AgentKey,
        sender: u64,
        topic: Option<&str>,
    ) -> Option<StreamKey> {
        self.streams.find(sender, to, topic)
    }

    /// Returns the streams to an agent.
    pub(crate) fn streams_to(&self, agent: AgentKey) -> impl Iterator<Item = (StreamKey, &Stream)> {
        let keys = self.mailboxes.get(agent.0).into_iter().flat_map(|mailbox| &mailbox.receives);
        keys.filter_map(|key| Some((*key, self.streams.get(*key)?)))
    }

    /// Whether an agent has, or had, a stream to or from it, or a SEND that is remembered.
    pub(crate) fn has_had_mail(&self, agent: AgentKey) -> bool {
        self.mailboxes.get(agent.0).is_some_and(|mailbox| {
            !mailbox.receives.is_empty()
                || !mailbox.sends.is_empty()
                || mailbox.floor.seq > 0
                || !mailbox.dedup.is_empty()
        })
    }

    /// Returns the number of streams to an agent.
    pub(crate) fn count_streams_to(&self, agent: AgentKey) -> usize {
        self.mailboxes.get(agent.0).map_or(0, |mailbox| mailbox.receives.len())
    }

    /// Returns the last sequence number of an open stream whose message cannot be replayed.
    pub(crate) fn gone(&self, key: StreamKey) -> u64 {
        self.streams[key].gone
    }

    /// Returns the last sequence number of an idle stream that was closed and is not open again; 0
    /// if none is known.
    pub(crate) fn closed_at(&self, from: AgentKey, to: AgentKey, topic: Option<&str>) -> u64 {
        let number = self.mailboxes.get(from.0).map(|sender| sender.number);
        number.map_or(0, |from| self.streams.closed_at(from, to, topic))
    }
}
