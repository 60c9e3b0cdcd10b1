//! Replay buffers: the messages that were delivered last, retained for a client that asks for them
//! again.
//!
//! Only a session with `resume` has a replay buffer. When memory is short, replay buffers are
//! dropped first.

use super::{message::Message, stream::Streams};
use crate::router::{context::Context, frame::Frame};
use std::{collections::BTreeMap, sync::Arc};

/// A session's replay buffer.
#[derive(Debug, Default)]
pub(in crate::router) struct Replay {
    /// The messages, by their order.
    messages: BTreeMap<u64, Message>,
    bytes: usize,
}

impl Replay {
    pub(in crate::router) const fn bytes(&self) -> usize {
        self.bytes
    }

    /// Returns all messages, the oldest first.
    pub(in crate::router) fn iter(&self) -> impl Iterator<Item = &Message> {
        self.messages.values()
    }

    /// Returns the order of the oldest message.
    pub(super) fn oldest(&self) -> Option<u64> {
        self.messages.first_key_value().map(|(order, _)| *order)
    }

    pub(super) fn get_mut(&mut self, order: u64) -> Option<&mut Message> {
        self.messages.get_mut(&order)
    }

    /// Removes and returns a message, if its stream is still open.
    pub(super) fn take(&mut self, order: u64, streams: &Streams) -> Option<Message> {
        streams.get(self.messages.get(&order)?.stream)?;
        let message = self.messages.remove(&order)?;
        self.bytes -= message.bytes;
        Some(message)
    }

    pub(super) fn put(&mut self, message: Message) {
        self.bytes += message.bytes;
        self.messages.insert(message.order, message);
    }

    /// Removes and returns the oldest message, if the buffer exceeds these bounds.
    pub(super) fn pop_beyond(&mut self, messages_max: usize, bytes_max: usize) -> Option<Message> {
        if self.messages.len() <= messages_max && self.bytes <= bytes_max {
            return None;
        }
        let (_, message) = self.messages.pop_first()?;
        self.bytes -= message.bytes;
        Some(message)
    }
}

/// Converts a frame into shared bytes, which can be handed out more than once.
pub(in crate::router) fn repeatable(ctx: &mut Context, frame: Frame) -> Frame {
    if frame.shared.is_some() {
        return frame;
    }
    let shared = Some(Arc::from(frame.head.as_slice()));
    ctx.recycle(frame);
    Frame { head: Vec::new(), shared }
}
