//! Timers: the moments at which the router has to act, and their subjects.
//!
//! A timer may fire after its subject has ended; its handler checks that. If a deadline moves
//! often, as a client's does with each frame, the timer is not moved: its handler sets it again
//! when it fires.

use super::{
    ClientId,
    keys::{AgentKey, MessageKey},
};
use crate::protocol::Moment;
use std::collections::BTreeSet;
use uuid::Uuid;

/// The subject of a timer.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum Timer {
    /// A client's handshake, heartbeat or close.
    Client(ClientId),
    /// A message's time to live, or the end of its delay.
    Message(MessageKey),
    /// The time at which an absent agent's name is forgotten.
    Agent(AgentKey),
    /// The end of an absent agent's session.
    Session(AgentKey),
    /// The timeout of the question that the delivery with this id asks.
    Question(Uuid),
    /// The end of the time that a stop may take.
    Stop,
}

/// All timers, by time.
#[derive(Debug, Default)]
pub(super) struct Timers(BTreeSet<(Moment, Timer)>);

impl Timers {
    /// Sets a timer. A timer at the greatest moment never fires.
    pub(super) fn set(&mut self, at: Moment, timer: Timer) {
        if at.0 < u64::MAX {
            self.0.insert((at, timer));
        }
    }

    pub(super) fn cancel(&mut self, at: Moment, timer: Timer) {
        self.0.remove(&(at, timer));
    }

    /// Returns the time of the next timer.
    pub(super) fn next(&self) -> Option<Moment> {
        self.0.first().map(|(at, _)| *at)
    }

    /// Removes and returns a timer that is due.
    pub(super) fn take_due(&mut self, now: Moment) -> Option<Timer> {
        if self.next()? > now {
            return None;
        }
        self.0.pop_first().map(|(_, timer)| timer)
    }
}
