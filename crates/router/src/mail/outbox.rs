//! An agent's queue: its length, in total and by sender, and the stream whose turn is next.
//!
//! The queue counts all messages for the agent that have not ended: messages that wait, messages in
//! flight and unacknowledged, and at-most-once messages that were handed out and are not written
//! yet. The messages themselves are in their streams; the outbox only knows which stream's turn it
//! is.

use super::{message::RECORD_BYTES, report_counts::ReportCounts, sent::Sent};
use crate::{
    accounts::{excess, nameless},
    capacity::shrink_map,
    keys::{AgentKey, StreamKey},
    limits::Limits,
};
use rustc_hash::FxHashMap;
use std::collections::BTreeMap;

/// A number of messages, and their bytes.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Load {
    pub(crate) messages: usize,
    pub(crate) bytes: usize,
    /// The memory of those among them that were sent to several recipients.
    pub(crate) copies: usize,
}

impl Load {
    /// The load of a message for one recipient, with this number of bytes.
    pub(crate) const fn of(sent: &Sent, bytes: usize) -> Self {
        let copies = if sent.to_everyone { bytes + RECORD_BYTES } else { 0 };
        Self { messages: 1, bytes, copies }
    }

    /// The bytes that count in the memory.
    pub(crate) const fn memory_bytes(self) -> usize {
        self.bytes + self.messages * RECORD_BYTES
    }

    pub(crate) const fn add(&mut self, load: Self) {
        self.messages += load.messages;
        self.bytes += load.bytes;
        self.copies += load.copies;
    }

    const fn subtract(&mut self, load: Self) {
        self.messages -= load.messages;
        self.bytes -= load.bytes;
        self.copies -= load.copies;
    }
}

/// The first message of a stream, if it may go out.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Turn {
    /// The message's order. Across streams, older messages go first.
    pub(crate) order: u64,
    /// Whether the message is delivered at least once.
    pub(crate) is_reliable: bool,
}

/// An agent's queue.
#[derive(Debug, Default)]
pub(crate) struct Outbox {
    total: Load,
    /// The part of each sender in the total. All nameless senders are one.
    shares: FxHashMap<AgentKey, Load>,
    /// Streams whose first message may go out, by that message's order: one map for at-most-once
    /// messages, one for at-least-once messages.
    at_most_once: BTreeMap<u64, StreamKey>,
    at_least_once: BTreeMap<u64, StreamKey>,
    /// The number of at-least-once DELIVERs in flight.
    pub(crate) in_flight: u64,
    /// The recipient's reports on these.
    pub(super) reports: ReportCounts,
}

impl Outbox {
    pub(crate) const fn total(&self) -> Load {
        self.total
    }

    /// Whether the queue has room for another message of a sender, which the accounts list as
    /// `listed`. An empty queue has room for any message. A sender may use half of what the others
    /// leave of it.
    pub(super) fn has_room(
        &self,
        limits: &Limits,
        from: AgentKey,
        listed: AgentKey,
        bytes: usize,
    ) -> bool {
        if self.total.messages == 0 {
            return true;
        }
        let share = self.shares.get(&self.payer(from, listed)).copied().unwrap_or_default();
        let (messages, most) = (limits.queue_messages_max, limits.queue_bytes_max);
        excess(share.messages, self.total.messages, 1, messages) == 0
            && excess(share.bytes, self.total.bytes, bytes, most) == 0
    }

    /// Returns the memory of a sender's messages to several recipients that the queue has.
    pub(super) fn copies_of(&self, from: AgentKey, listed: AgentKey) -> usize {
        self.shares.get(&self.payer(from, listed)).map_or(0, |share| share.copies)
    }

    pub(super) fn charge(&mut self, from: AgentKey, listed: AgentKey, load: Load) {
        let payer = self.payer(from, listed);
        self.total.add(load);
        self.shares.entry(payer).or_default().add(load);
    }

    pub(super) fn release(&mut self, from: AgentKey, load: Load) {
        let payer = self.payer(from, nameless());
        self.total.subtract(load);
        let share = self.shares.get_mut(&payer).expect("only charged bytes are released");
        share.subtract(load);
        if share.messages == 0 {
            self.shares.remove(&payer);
            shrink_map(&mut self.shares);
        }
    }

    /// Returns the key that a sender is charged as. One whose name was forgotten since stays itself
    /// while the queue has messages of it.
    fn payer(&self, from: AgentKey, listed: AgentKey) -> AgentKey {
        if self.shares.contains_key(&from) { from } else { listed }
    }

    /// Returns the part of each sender in the total.
    pub(super) fn shares(&self) -> impl Iterator<Item = (AgentKey, Load)> {
        self.shares.iter().map(|(from, load)| (*from, *load))
    }

    /// Replaces a stream's turn.
    pub(super) fn set_turn(&mut self, stream: StreamKey, old: Option<Turn>, new: Option<Turn>) {
        if let Some(old) = old {
            self.line(old.is_reliable).remove(&old.order);
        }
        if let Some(new) = new {
            self.line(new.is_reliable).insert(new.order, stream);
        }
    }

    const fn line(&mut self, is_reliable: bool) -> &mut BTreeMap<u64, StreamKey> {
        if is_reliable { &mut self.at_least_once } else { &mut self.at_most_once }
    }

    /// Returns the stream whose turn it is. At-least-once messages go out only while fewer than
    /// `in_flight_max` are in flight.
    pub(crate) fn next(&self, in_flight_max: u64) -> Option<StreamKey> {
        let once = self.at_most_once.first_key_value();
        let reliable = self.at_least_once.first_key_value();
        match (once, reliable.filter(|_| self.in_flight < in_flight_max)) {
            (Some(once), Some(reliable)) => Some(*once.min(reliable).1),
            (once, reliable) => once.or(reliable).map(|(_, stream)| *stream),
        }
    }
}

#[cfg(test)]
mod inspect {
    use super::*;

    impl Outbox {
        pub(crate) fn is_consistent(&self) -> bool {
            let mut sum = Load::default();
            self.shares.values().for_each(|share| sum.add(*share));
            sum == self.total && self.shares.values().all(|share| share.messages > 0)
        }

        pub(crate) fn share(&self, payer: AgentKey) -> Load {
            self.shares.get(&payer).copied().unwrap_or_default()
        }

        /// Returns the key that a sender was charged as.
        pub(crate) fn payer_of(&self, from: AgentKey) -> AgentKey {
            self.payer(from, nameless())
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::keys::AgentSlot;
    use slotmap::SlotMap;

    #[test]
    fn outbox_that_had_many_senders_keeps_no_capacity() {
        let (mut outbox, mut slots) = (Outbox::default(), SlotMap::<AgentSlot, ()>::default());
        let senders = [(); 4_000].map(|()| AgentKey(slots.insert(())));
        let load = Load { messages: 1, ..Load::default() };
        senders.iter().for_each(|sender| outbox.charge(*sender, *sender, load));
        senders[1..].iter().for_each(|sender| outbox.release(*sender, load));
        assert!(outbox.is_consistent() && outbox.shares.capacity() <= 32);
    }
}
