//! Replay buffers: the messages that were delivered last, retained for a client that asks for them
//! again.
//!
//! Only a session with `resume` has a replay buffer. When memory is short, replay buffers are
//! dropped first.

use super::{message::Message, stream::Streams};
use crate::{
    accounts::{Holders, size_class},
    capacity::shrink,
    keys::AgentKey,
};
use std::{collections::VecDeque, hint::black_box};

/// A session's replay buffer.
#[derive(Debug, Default)]
pub(crate) struct Replay {
    /// The messages, by their order. Most messages are added at the end.
    messages: VecDeque<Message>,
    bytes: usize,
    /// The size class in which the buffer is listed among all.
    class: usize,
}

impl Replay {
    pub(super) fn len(&self) -> usize {
        self.messages.len()
    }

    /// Returns all messages, the oldest first.
    pub(crate) fn iter(&self) -> impl Iterator<Item = &Message> {
        self.messages.iter()
    }

    /// Returns the order of the oldest message.
    pub(super) fn oldest(&self) -> Option<u64> {
        self.messages.front().map(|message| message.order)
    }

    pub(super) fn get_mut(&mut self, order: u64) -> Option<&mut Message> {
        let index = self.find(order).ok()?;
        self.messages.get_mut(index)
    }

    /// Removes and returns a message, if its stream is still open.
    pub(super) fn take(&mut self, order: u64, streams: &Streams) -> Option<Message> {
        let index = self.find(order).ok()?;
        streams.get(self.messages[index].stream)?;
        let message = self.messages.remove(index)?;
        self.bytes -= message.bytes;
        shrink(&mut self.messages);
        Some(message)
    }

    pub(super) fn put(&mut self, message: Message) {
        self.bytes += message.bytes;
        if self.messages.back().is_none_or(|last| last.order < message.order) {
            return self.messages.push_back(message);
        }
        let (Ok(index) | Err(index)) = self.find(message.order);
        self.messages.insert(index, message);
    }

    /// Whether the buffer exceeds these bounds.
    pub(super) fn exceeds(&self, messages_max: usize, bytes_max: usize) -> bool {
        self.messages.len() > messages_max || self.bytes > bytes_max
    }

    /// Reads the oldest messages, which are in no cache of the processor. It waits for all of them
    /// at once, instead of for each one when it is dropped.
    pub(super) fn read_oldest(&self, count: usize) {
        for message in self.messages.iter().take(count) {
            black_box(message.sent.shared.first().copied());
        }
    }

    /// Removes and returns the oldest message, if the buffer exceeds these bounds.
    pub(super) fn pop_beyond(&mut self, messages_max: usize, bytes_max: usize) -> Option<Message> {
        if !self.exceeds(messages_max, bytes_max) {
            return None;
        }
        let message = self.messages.pop_front()?;
        self.bytes -= message.bytes;
        shrink(&mut self.messages);
        Some(message)
    }

    /// Updates the buffer's place among all.
    pub(super) fn list(&mut self, agent: AgentKey, all: &mut Holders<AgentKey>) {
        all.hold(agent, &mut self.class, size_class(self.bytes));
    }

    fn find(&self, order: u64) -> Result<usize, usize> {
        self.messages.binary_search_by_key(&order, |message| message.order)
    }
}

#[cfg(test)]
mod inspect {
    use super::*;

    impl Replay {
        pub(crate) const fn bytes(&self) -> usize {
            self.bytes
        }
    }
}
