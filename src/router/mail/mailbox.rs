//! A mailbox: everything in the mail that belongs to one agent.

use super::{dedup::DedupWindow, outbox::Outbox, replay::Replay};
use crate::router::keys::StreamKey;
use std::collections::BTreeSet;

/// An agent's mailbox.
#[derive(Debug)]
pub(in crate::router) struct Mailbox {
    /// The agent's number in records.
    pub(super) number: u64,
    pub(super) is_guest: bool,
    /// The queue of messages for the agent.
    pub(in crate::router) outbox: Outbox,
    /// Streams to the agent.
    pub(in crate::router) receives: BTreeSet<StreamKey>,
    /// Streams from the agent.
    pub(super) sends: BTreeSet<StreamKey>,
    /// The floor above which the numbers of new streams from the agent begin.
    pub(super) floor: Floor,
    pub(in crate::router) dedup: DedupWindow,
    pub(in crate::router) replay: Replay,
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
            receives: BTreeSet::new(),
            sends: BTreeSet::new(),
            floor: Floor::default(),
            dedup: DedupWindow::default(),
            replay: Replay::default(),
        }
    }

    /// Returns the floor, and the number of its record.
    #[cfg(test)]
    pub(in crate::router) const fn floor(&self) -> (u64, u64) {
        (self.floor.seq, self.floor.number)
    }
}
