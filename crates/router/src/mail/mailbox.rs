//! A mailbox: everything in the mail that belongs to one agent.

use super::{dedup::DedupWindow, outbox::Outbox, replay::Replay};
use crate::keys::{MessageKey, StreamKey};
use protocol::Moment;
use std::collections::{BTreeMap, BTreeSet};

/// An agent's mailbox.
#[derive(Debug)]
pub(crate) struct Mailbox {
    /// The agent's number in records.
    pub(super) number: u64,
    pub(super) is_guest: bool,
    /// The queue of messages for the agent.
    pub(crate) outbox: Outbox,
    /// At-least-once messages for the agent that have not ended, by their order.
    pub(crate) at_least_once: BTreeMap<u64, MessageKey>,
    /// At-most-once messages that wait for the agent, by their order.
    pub(crate) at_most_once: BTreeMap<u64, MessageKey>,
    /// Streams with messages in flight to the agent.
    pub(crate) in_flight_streams: BTreeSet<StreamKey>,
    /// Streams to the agent.
    pub(crate) receives: BTreeSet<StreamKey>,
    /// Streams from the agent.
    pub(super) sends: BTreeSet<StreamKey>,
    /// The moments until which the agent's next searches for idle streams are put off.
    pub(super) search_after: [Moment; 2],
    /// The floor above which the numbers of new streams from the agent begin.
    pub(super) floor: Floor,
    pub(crate) dedup: DedupWindow,
    pub(crate) replay: Replay,
}

/// The highest sequence number of a sender's closed streams.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Floor {
    pub(super) seq: u64,
    /// The number of the floor's record; 0 if there is none.
    pub(super) number: u64,
}

impl Mailbox {
    pub(super) fn new(number: u64, is_guest: bool) -> Self {
        Self {
            number,
            is_guest,
            outbox: Outbox::default(),
            at_least_once: BTreeMap::new(),
            at_most_once: BTreeMap::new(),
            in_flight_streams: BTreeSet::new(),
            receives: BTreeSet::new(),
            sends: BTreeSet::new(),
            search_after: [Moment(0); 2],
            floor: Floor::default(),
            dedup: DedupWindow::default(),
            replay: Replay::default(),
        }
    }

    /// Returns the messages of one kind that are in the table, by their order.
    pub(super) const fn index(&mut self, is_reliable: bool) -> &mut BTreeMap<u64, MessageKey> {
        if is_reliable { &mut self.at_least_once } else { &mut self.at_most_once }
    }
}

#[cfg(test)]
mod inspect {
    use super::*;

    impl Mailbox {
        /// Returns the floor, and the number of its record.
        pub(crate) const fn floor(&self) -> (u64, u64) {
            (self.floor.seq, self.floor.number)
        }
    }
}
