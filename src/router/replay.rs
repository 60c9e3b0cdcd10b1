//! What was delivered last, at hand for a client that wants to hear it again.
//!
//! Only a session with `resume` has such. It is what goes first when memory is short.

use super::{AgentKey, Frame, Router, StreamKey, alarm::Alarm, message::Message, stream::Streams};
use std::{collections::BTreeMap, sync::Arc};

/// One session's.
#[derive(Debug, Default)]
pub(super) struct Replay {
    /// By their order.
    messages: BTreeMap<u64, Message>,
    bytes: usize,
}

impl Replay {
    pub(super) const fn bytes(&self) -> usize {
        self.bytes
    }

    /// All of them, the oldest first.
    pub(super) fn iter(&self) -> impl Iterator<Item = &Message> {
        self.messages.values()
    }

    /// The order of the oldest.
    pub(super) fn oldest(&self) -> Option<u64> {
        self.messages.first_key_value().map(|(order, _)| *order)
    }

    pub(super) fn get(&self, order: u64) -> Option<&Message> {
        self.messages.get(&order)
    }

    pub(super) fn get_mut(&mut self, order: u64) -> Option<&mut Message> {
        self.messages.get_mut(&order)
    }

    /// Takes one out, if its stream is still open.
    pub(super) fn take(&mut self, order: u64, streams: &Streams) -> Option<Message> {
        streams.get(self.messages.get(&order)?.stream)?;
        let message = self.messages.remove(&order)?;
        self.bytes -= message.bytes;
        Some(message)
    }

    fn put(&mut self, message: Message) {
        self.bytes += message.bytes;
        self.messages.insert(message.order, message);
    }

    fn pop_beyond(&mut self, messages_max: usize, bytes_max: usize) -> Option<Message> {
        if self.messages.len() <= messages_max && self.bytes <= bytes_max {
            return None;
        }
        let (_, message) = self.messages.pop_first()?;
        self.bytes -= message.bytes;
        Some(message)
    }
}

impl Router {
    /// A message was delivered and is over: its recipient may want to hear it again.
    pub(super) fn put_by(&mut self, message: Message) {
        let limits = &self.limits;
        let recipient = self.roster.get_mut(message.to);
        let session = recipient.and_then(|agent| agent.session.as_deref_mut());
        let Some(session) = session.filter(|session| session.capabilities.resume) else {
            return self.lose_track(message.stream, message.seq);
        };
        self.memory.replay += message.bytes;
        session.replay.put(message);
        while let Some(oldest) =
            session.replay.pop_beyond(limits.replay_messages_max, limits.replay_bytes_max)
        {
            self.memory.replay -= oldest.bytes;
            if let Some(stream) = self.streams.get_mut(oldest.stream) {
                stream.gone = stream.gone.max(oldest.seq);
            }
        }
        self.make_room(0);
    }

    /// A message that was delivered can't come again.
    pub(super) fn lose_track(&mut self, stream: StreamKey, seq: u64) {
        if let Some(stream) = self.streams.get_mut(stream) {
            stream.gone = stream.gone.max(seq);
        }
    }

    /// The same frame, in bytes that can be handed out more than once.
    pub(super) fn repeatable(&mut self, frame: Frame) -> Frame {
        if frame.shared.is_some() {
            return frame;
        }
        let shared = Some(Arc::from(frame.head.as_slice()));
        self.recycle(frame);
        Frame { head: Vec::new(), shared }
    }

    /// Where memory is too short for so many bytes, what is at hand to be replayed makes room, the
    /// largest of it first.
    pub(super) fn make_room(&mut self, bytes: usize) {
        while self.memory.replay > 0
            && self.memory_held() + bytes > self.limits.memory_bytes_max
            && let Some(agent) = self.roster.most_replay()
        {
            self.drop_replay(agent);
        }
    }

    /// Nothing is at hand any more.
    pub(super) fn drop_replay(&mut self, agent: AgentKey) {
        let Some(session) = self.roster[agent].session.as_deref_mut() else { return };
        while let Some(message) = session.replay.pop_beyond(0, 0) {
            self.memory.replay -= message.bytes;
            if let Some(stream) = self.streams.get_mut(message.stream) {
                stream.gone = stream.gone.max(message.seq);
            }
        }
    }

    /// Puts an at-most-once message into line.
    pub(super) fn wait_once(&mut self, mut message: Message) {
        let (stream, seq, expires) = (message.stream, message.seq, message.expires);
        message.alarm = expires;
        let key = self.messages.insert(message);
        self.alarms.set(expires, Alarm::Message(key));
        self.streams[stream].wait(seq, key);
        self.refresh_turn(stream);
    }
}
