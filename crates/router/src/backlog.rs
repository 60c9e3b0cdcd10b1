//! The backlog: who has handed how much to the store that it has not handled yet.
//!
//! Changes, and actions that wait for them, are charged to the principal whose input caused them. A
//! principal whose share of the bound is used up waits: its clients' frames, and its deliveries.
//! So nobody waits long for what others have handed to the store.
//!
//! One input can end thousands of records: a cumulative ACK ends deliveries, the end of a guest its
//! streams. For these changes nobody waits, so those beyond their principal's share are handed over
//! later. After a crash before that, a delivery is repeated that was acknowledged.

use super::keys::AgentKey;
use protocol::record::Change;
use std::{
    collections::{BTreeMap, VecDeque},
    mem,
};

/// Bytes of content whose writing costs as much as another change.
const BYTES_PER_CHANGE: usize = 4_096;

/// Subscriptions of a session whose record costs as much as another change.
const SUBSCRIPTIONS_PER_CHANGE: usize = 16;

/// The store's unhandled work, by payer.
#[derive(Debug, Default)]
pub(super) struct Backlog {
    charges: VecDeque<Charge>,
    /// The cost of the input that is being handled.
    uncharged: usize,
    /// Changes that wait for the share of their principal. No queue is empty.
    deferred: BTreeMap<AgentKey, VecDeque<Change>>,
}

/// The changes of one input that the store has not handled, and who pays for them.
#[derive(Debug)]
pub(super) struct Charge {
    pub(super) payer: AgentKey,
    pub(super) cost: usize,
    /// The ticket of the last change.
    ticket: u64,
}

impl Backlog {
    pub(super) const fn add(&mut self, cost: usize) {
        self.uncharged += cost;
    }

    /// Takes the cost since the last call. It is charged to nobody unless
    /// [`charge`](Self::charge) follows.
    pub(super) const fn take_uncharged(&mut self) -> usize {
        mem::replace(&mut self.uncharged, 0)
    }

    /// The cost of the input that is being handled so far.
    pub(super) const fn uncharged(&self) -> usize {
        self.uncharged
    }

    /// Whether changes of a principal, as it is listed, wait for its share.
    pub(super) fn has_deferred(&self, principal: AgentKey) -> bool {
        self.deferred.contains_key(&principal)
    }

    /// Defers a change until its principal may hand more to the store.
    pub(super) fn defer(&mut self, principal: AgentKey, change: Change) {
        self.deferred.entry(principal).or_default().push_back(change);
    }

    /// Returns the principals whose changes are deferred.
    pub(super) fn deferring(&self) -> Vec<AgentKey> {
        self.deferred.keys().copied().collect()
    }

    /// Removes and returns the oldest deferred change of a principal.
    pub(super) fn pop_deferred(&mut self, principal: AgentKey) -> Option<Change> {
        let queue = self.deferred.get_mut(&principal)?;
        let change = queue.pop_front();
        if queue.is_empty() {
            self.deferred.remove(&principal);
        }
        change
    }

    /// Charges a payer until the store has handled the change with this ticket.
    pub(super) fn charge(&mut self, payer: AgentKey, cost: usize, ticket: u64) {
        self.charges.push_back(Charge { payer, cost, ticket });
    }

    /// Removes and returns a charge for changes up to this one.
    pub(super) fn next_handled(&mut self, upto: u64) -> Option<Charge> {
        self.charges.pop_front_if(|charge| charge.ticket <= upto)
    }
}

/// Returns the cost of a change, in writes of a row.
pub(super) fn cost_of(change: &Change) -> usize {
    match change {
        Change::Accepted(accepted) | Change::AcceptedAgain(accepted) => {
            1 + accepted.deliveries.len() + of_bytes(accepted.message.shared.len())
        }
        Change::Answer(answer) => 1 + of_bytes(answer.message.shared.len()),
        Change::Notice(notice) => 1 + of_bytes(notice.frame.len()),
        Change::Session(session) => 1 + session.subscriptions.len() / SUBSCRIPTIONS_PER_CHANGE,
        _ => 1,
    }
}

const fn of_bytes(bytes: usize) -> usize {
    bytes / BYTES_PER_CHANGE
}

#[cfg(test)]
mod inspect {
    use super::*;

    impl Backlog {
        pub(crate) fn charges(&self) -> impl Iterator<Item = &Charge> {
            self.charges.iter()
        }

        pub(crate) fn deferred(&self) -> impl Iterator<Item = &Change> {
            self.deferred.values().flatten()
        }
    }
}
