//! Messages that reached the agent without typing, and are not yet recorded as arrived.

use crate::{bounded, input::IncomingMessage, output::Caller};
use protocol::{Moment, hook};
use std::collections::VecDeque;

/// How long a record may take after the end of its turn, or after the end of a hook that has not
/// confirmed the message.
const LATE_MS: u64 = 2000;

/// How long an idle agent may take to begin a turn before it counts as not woken.
const WOKEN_MS: u64 = 30_000;

/// A message that was handed over. During the lease, no other route delivers it.
#[derive(Debug)]
pub(super) struct Lease {
    pub(super) message: IncomingMessage,
    pub(super) route: Route,
    since: Moment,
    /// When the first turn since then ended.
    turn_ended_at: Option<Moment>,
    /// When the hook ended without confirming the message.
    unconfirmed_at: Option<Moment>,
}

/// A way to the agent other than typing.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Route {
    /// A command of the agent has printed the message.
    Read,
    /// This hook has begun a turn with the message.
    Woken(Caller),
    /// Another process of the CLI adds the message to the agent's queue of prompts.
    Queued,
}

/// How many read frames are remembered until a record shows them.
const READ_FRAMES_MAX: usize = 256;

/// All leases, in the order of the handovers.
#[derive(Debug, Default)]
pub(super) struct Leases {
    leases: Vec<Lease>,
    /// The frames that a command has printed, with the ids of their messages. They are remembered
    /// beyond the lease, since a record may come late.
    read: VecDeque<(hook::Frame, String)>,
}

impl Leases {
    pub(super) fn len(&self) -> usize {
        self.leases.len()
    }

    pub(super) fn is_empty(&self) -> bool {
        self.leases.is_empty()
    }

    pub(super) fn contains(&self, id: &str) -> bool {
        self.leases.iter().any(|lease| lease.message.id == id)
    }

    /// Returns the last leased message's id that begins with `prefix`.
    pub(super) fn find(&self, prefix: &str) -> Option<String> {
        let mut ids = self.leases.iter().rev().map(|lease| &lease.message.id);
        ids.find(|id| id.starts_with(prefix)).cloned()
    }

    pub(super) fn add(&mut self, now: Moment, message: IncomingMessage, route: Route) {
        let (since, turn_ended_at, unconfirmed_at) = (now, None, None);
        self.leases.push(Lease { message, route, since, turn_ended_at, unconfirmed_at });
    }

    /// Ends the lease of a message that has arrived.
    pub(super) fn end(&mut self, id: &str) -> Option<Lease> {
        let at = self.leases.iter().position(|lease| lease.message.id == id)?;
        Some(self.leases.remove(at))
    }

    /// Ends the leases of a hook that could not be reached.
    pub(super) fn end_unreached(&mut self, caller: Caller) -> Vec<Lease> {
        self.take(|lease| lease.route == Route::Woken(caller))
    }

    /// Notes that a hook has ended and may not have printed its messages.
    pub(super) fn hook_unconfirmed(&mut self, now: Moment, caller: Caller) {
        for lease in self.leases.iter_mut().filter(|lease| lease.route == Route::Woken(caller)) {
            lease.unconfirmed_at = Some(now);
        }
    }

    pub(super) fn end_all(&mut self) -> Vec<Lease> {
        self.take(|_| true)
    }

    /// Notes that the agent's turn has ended.
    pub(super) fn turn_ended(&mut self, now: Moment) {
        for lease in &mut self.leases {
            lease.turn_ended_at = lease.turn_ended_at.or(Some(now));
        }
    }

    /// Whether the next message must wait: a hook is about to begin a turn, or a message may have
    /// to be redelivered first.
    pub(super) fn bar_others(&self) -> bool {
        self.leases.iter().any(|lease| lease.route != Route::Read || lease.turn_ended_at.is_some())
    }

    /// Remembers a frame for a command to print.
    pub(super) fn remember_read(&mut self, frame: hook::Frame, id: String) {
        bounded::push(&mut self.read, READ_FRAMES_MAX, (frame, id));
    }

    /// Forgets the frames that a tool's result shows. Returns the ids of their messages.
    pub(super) fn take_read(&mut self, shown: &[hook::Frame]) -> Vec<String> {
        let (arrived, rest) =
            self.read.drain(..).partition::<VecDeque<_>, _>(|(frame, _)| shown.contains(frame));
        self.read = rest;
        arrived.into_iter().map(|(_, id)| id).collect()
    }

    /// Returns when the next lease becomes doubtful. `is_at_work` says that hooks report a turn;
    /// its end will decide.
    pub(super) fn deadline(&self, is_at_work: bool) -> Option<Moment> {
        self.leases.iter().filter_map(|lease| lease.doubt_at(is_at_work)).min()
    }

    /// Ends the leases of messages without a record in time.
    pub(super) fn take_doubtful(&mut self, now: Moment, is_at_work: bool) -> Vec<Lease> {
        self.take(|lease| lease.doubt_at(is_at_work).is_some_and(|at| at <= now))
    }

    fn take(&mut self, is_taken: impl Fn(&Lease) -> bool) -> Vec<Lease> {
        self.leases.extract_if(.., |lease| is_taken(lease)).collect()
    }
}

impl Lease {
    /// Whether the CLI seems to have ignored the message.
    pub(super) fn is_ignored(&self) -> bool {
        self.route != Route::Read && self.unconfirmed_at.is_none()
    }

    /// Returns when the message begins to count as not arrived.
    fn doubt_at(&self, is_at_work: bool) -> Option<Moment> {
        let after_turn = self.turn_ended_at.map(|at| at.plus(LATE_MS));
        let awaits_turn = self.route != Route::Read && !is_at_work;
        let woken = awaits_turn.then(|| match self.unconfirmed_at {
            Some(at) => at.plus(LATE_MS),
            None => self.since.plus(WOKEN_MS),
        });
        after_turn.into_iter().chain(woken).min()
    }
}
