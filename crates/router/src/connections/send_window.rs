//! A client's window: the frames that were handed out and are not written yet.

use crate::{capacity::shrink, keys::MessageKey, mail::Sent, outcome::Notice};
use std::{collections::VecDeque, sync::Arc};

/// Unwritten frames, the oldest first.
#[derive(Debug, Default)]
pub(crate) struct Window {
    frames: VecDeque<Unwritten>,
    /// The number of written bytes of the first frame.
    written: usize,
    deliveries: usize,
    answers: usize,
    /// The bytes of notices, which are kept next to the copies that are being written.
    kept: usize,
}

/// A frame that is not written yet.
#[derive(Debug)]
pub(crate) struct Unwritten {
    pub(crate) bytes: usize,
    pub(crate) content: Content,
}

/// The content of a frame in the window, which decides what happens once it is written or lost.
#[derive(Debug)]
pub(crate) enum Content {
    /// An answer to a frame of the client.
    Answer,
    /// A notice, which has to reach its sender even if this frame is not written.
    Notice(Notice),
    /// A tap's copy, or a replayed message.
    Copy,
    /// An at-most-once message.
    AtMostOnce {
        sent: Arc<Sent>,
        /// The message's order, by which a retained message is found.
        order: u64,
        /// The bytes that the message counts in its recipient's queue.
        charged: usize,
    },
    /// An at-least-once message.
    AtLeastOnce(MessageKey),
}

impl Unwritten {
    /// Returns the bytes that the frame counts in the memory.
    pub(super) fn memory_bytes(&self) -> usize {
        self.bytes + self.content.kept_bytes()
    }
}

impl Content {
    /// Whether the frame counts as an answer, and not as a delivery.
    pub(crate) const fn is_answer(&self) -> bool {
        matches!(self, Self::Answer | Self::Notice(_))
    }

    /// Returns the bytes that are kept until the frame is written, and that nothing else counts.
    pub(super) fn kept_bytes(&self) -> usize {
        if let Self::Notice(notice) = self { notice.frame.len() } else { 0 }
    }
}

impl Window {
    /// Whether the window has room for a DELIVER of this length. An empty window has room for any.
    pub(super) const fn has_room(&self, bytes: usize, window_bytes: usize) -> bool {
        self.deliveries == 0 || self.deliveries + bytes <= window_bytes
    }

    /// Returns the bytes of unwritten answers.
    pub(crate) const fn answers(&self) -> usize {
        self.answers
    }

    /// Returns the bytes that all unwritten frames count in the memory.
    pub(crate) const fn memory_bytes(&self) -> usize {
        self.deliveries + self.answers + self.kept
    }

    pub(super) fn push(&mut self, bytes: usize, content: Content) {
        *self.sum(&content) += bytes;
        self.kept += content.kept_bytes();
        self.frames.push_back(Unwritten { bytes, content });
    }

    /// Counts bytes that were written; [`next_written`](Self::next_written) returns their frames.
    pub(super) const fn add_written(&mut self, bytes: usize) {
        self.written += bytes;
    }

    /// Removes and returns the oldest frame, if it is completely written.
    pub(super) fn next_written(&mut self) -> Option<Unwritten> {
        match self.frames.front() {
            Some(first) if first.bytes <= self.written => {
                self.written -= first.bytes;
                self.pop()
            }
            Some(_) => None,
            None => {
                self.written = 0;
                None
            }
        }
    }

    /// Removes and returns the oldest frame.
    pub(crate) fn pop(&mut self) -> Option<Unwritten> {
        let frame = self.frames.pop_front()?;
        shrink(&mut self.frames);
        *self.sum(&frame.content) -= frame.bytes;
        self.kept -= frame.content.kept_bytes();
        Some(frame)
    }

    pub(super) fn frames_mut(&mut self) -> impl Iterator<Item = &mut Unwritten> {
        self.frames.iter_mut()
    }

    pub(crate) fn frames(&self) -> impl Iterator<Item = &Unwritten> {
        self.frames.iter()
    }

    const fn sum(&mut self, content: &Content) -> &mut usize {
        if content.is_answer() { &mut self.answers } else { &mut self.deliveries }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn window_that_was_long_keeps_no_capacity() {
        let mut window = Window::default();
        (0..9_000).for_each(|_| window.push(1, Content::Answer));
        (1..9_000).for_each(|_| assert!(window.pop().is_some()));
        assert!(window.frames.len() == 1 && window.frames.capacity() < 16);
    }
}
