//! Messages that were handed to the agent in another way than by typing, and of which no record
//! shows yet that they arrived.

use crate::{bounded, input::IncomingMessage, output::Caller};
use protocol::{Moment, hook};
use std::collections::VecDeque;

/// The time in which a record may still come after the end of its turn, or after the end of a hook
/// that has not confirmed the message.
const LATE_MS: u64 = 2000;

/// The time after which an idle agent counts as not woken.
const WOKEN_MS: u64 = 30_000;

/// A message that was handed over. As long as the lease lasts, the message is not handed over in
/// another way.
#[derive(Debug)]
pub(super) struct Lease {
    pub(super) message: IncomingMessage,
    pub(super) route: Route,
    since: Moment,
    /// The end of the first turn that has ended since then.
    turn_ended_at: Option<Moment>,
    /// The time at which the hook was gone, without having confirmed the message.
    unconfirmed_at: Option<Moment>,
}

/// A way to the agent other than typing.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Route {
    /// A command of the agent's has printed the message.
    Read,
    /// This hook has begun a turn with the message.
    Woken(Caller),
    /// Another process of the CLI adds the message to the agent's queue of prompts.
    Queued,
}

/// The most frames that were read and are remembered until a record shows them.
const READ_FRAMES_MAX: usize = 256;

/// All leases, in the order in which the messages were handed over.
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

    /// Returns the id of the last leased message whose id begins with `prefix`.
    pub(super) fn find(&self, prefix: &str) -> Option<String> {
        let mut ids = self.leases.iter().rev().map(|lease| &lease.message.id);
        ids.find(|id| id.starts_with(prefix)).cloned()
    }

    pub(super) fn add(&mut self, now: Moment, message: IncomingMessage, route: Route) {
        let (since, turn_ended_at, unconfirmed_at) = (now, None, None);
        self.leases.push(Lease { message, route, since, turn_ended_at, unconfirmed_at });
    }

    /// Ends the lease of a message, which has arrived.
    pub(super) fn end(&mut self, id: &str) -> Option<Lease> {
        let at = self.leases.iter().position(|lease| lease.message.id == id)?;
        Some(self.leases.remove(at))
    }

    /// Ends the leases of a hook that was not reached.
    pub(super) fn end_unreached(&mut self, caller: Caller) -> Vec<Lease> {
        self.take(|lease| lease.route == Route::Woken(caller))
    }

    /// Notes that a hook is gone and may not have printed its messages.
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
    /// to be delivered again before it.
    pub(super) fn bar_others(&self) -> bool {
        self.leases.iter().any(|lease| lease.route != Route::Read || lease.turn_ended_at.is_some())
    }

    /// Remembers a frame that a command prints.
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

    /// Returns the time at which the next lease is in doubt. `is_at_work` says that hooks report a
    /// turn, whose end will decide.
    pub(super) fn deadline(&self, is_at_work: bool) -> Option<Moment> {
        self.leases.iter().filter_map(|lease| lease.doubt_at(is_at_work)).min()
    }

    /// Ends the leases of messages of which no record has come in time.
    pub(super) fn take_doubtful(&mut self, now: Moment, is_at_work: bool) -> Vec<Lease> {
        self.take(|lease| lease.doubt_at(is_at_work).is_some_and(|at| at <= now))
    }

    fn take(&mut self, is_taken: impl Fn(&Lease) -> bool) -> Vec<Lease> {
        self.leases.extract_if(.., |lease| is_taken(lease)).collect()
    }
}

impl Lease {
    /// Whether the CLI has ignored the message, as far as is known.
    pub(super) fn is_ignored(&self) -> bool {
        self.route != Route::Read && self.unconfirmed_at.is_none()
    }

    /// Returns the time from which on the message counts as not arrived.
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
