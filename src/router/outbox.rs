//! An agent's queue: how much may wait for it, whose it is, and what goes out next.
//!
//! It counts everything that was taken for the agent and has not left: what waits, what is on the way
//! unacknowledged, and, of at-most-once messages, what was handed out but not written yet. The messages
//! themselves stand in their streams; here is only which stream's turn it is.

use super::{AgentKey, StreamKey, hash::FastMap, limits::Limits};
use std::collections::BTreeMap;

/// Messages, and their bytes.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct Load {
    pub(super) messages: usize,
    pub(super) bytes: usize,
}

impl Load {
    const fn add(&mut self, bytes: usize) {
        self.messages += 1;
        self.bytes += bytes;
    }

    const fn subtract(&mut self, bytes: usize) {
        self.messages -= 1;
        self.bytes -= bytes;
    }

    const fn fits(self, bytes: usize, messages_max: usize, bytes_max: usize) -> bool {
        self.messages < messages_max && self.bytes + bytes <= bytes_max
    }
}

/// A stream's first message that may go out: when it was taken, and how it is to be delivered.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Turn {
    /// Counts up over all messages, so that older ones go first across streams.
    pub(super) order: u64,
    /// At least once.
    pub(super) kept: bool,
}

/// One agent's.
#[derive(Debug, Default)]
pub(super) struct Outbox {
    total: Load,
    shares: FastMap<AgentKey, Load>,
    once: BTreeMap<u64, StreamKey>,
    kept: BTreeMap<u64, StreamKey>,
    /// At-least-once DELIVERs on the way.
    pub(super) in_flight: u64,
}

impl Outbox {
    pub(super) const fn total(&self) -> Load {
        self.total
    }

    /// Whether a message of `from` may join. An empty queue takes any one; a sender has half.
    pub(super) fn has_room(&self, limits: &Limits, from: AgentKey, bytes: usize) -> bool {
        if self.total.messages == 0 {
            return true;
        }
        let share = self.shares.get(&from).copied().unwrap_or_default();
        let (messages, most) = (limits.queue_messages_max, limits.queue_bytes_max);
        self.total.fits(bytes, messages, most) && share.fits(bytes, messages / 2, most / 2)
    }

    pub(super) fn charge(&mut self, from: AgentKey, bytes: usize) {
        self.total.add(bytes);
        self.shares.entry(from).or_default().add(bytes);
    }

    pub(super) fn release(&mut self, from: AgentKey, bytes: usize) {
        self.total.subtract(bytes);
        let share = self.shares.get_mut(&from).expect("what is released was charged");
        share.subtract(bytes);
        if share.messages == 0 {
            self.shares.remove(&from);
        }
    }

    /// A stream's turn changed.
    pub(super) fn turn(&mut self, stream: StreamKey, old: Option<Turn>, new: Option<Turn>) {
        if let Some(old) = old {
            self.line(old.kept).remove(&old.order);
        }
        if let Some(new) = new {
            self.line(new.kept).insert(new.order, stream);
        }
    }

    const fn line(&mut self, kept: bool) -> &mut BTreeMap<u64, StreamKey> {
        if kept { &mut self.kept } else { &mut self.once }
    }

    /// The stream whose turn it is, where at-least-once messages only go if `in_flight_max` allows.
    pub(super) fn next(&self, in_flight_max: u64) -> Option<StreamKey> {
        let once = self.once.first_key_value();
        let kept = self.kept.first_key_value().filter(|_| self.in_flight < in_flight_max);
        match (once, kept) {
            (Some(once), Some(kept)) => Some(*once.min(kept).1),
            (once, kept) => once.or(kept).map(|(_, stream)| *stream),
        }
    }

    #[cfg(test)]
    pub(super) fn is_consistent(&self) -> bool {
        let mut sum = Load::default();
        for share in self.shares.values() {
            sum.messages += share.messages;
            sum.bytes += share.bytes;
        }
        sum == self.total && self.shares.values().all(|share| share.messages > 0)
    }

    #[cfg(test)]
    pub(super) fn share(&self, from: AgentKey) -> Load {
        self.shares.get(&from).copied().unwrap_or_default()
    }
}
