//! Timers: the moments at which the router has to act, and their subjects.
//!
//! A timer may fire after its subject has ended; its handler checks that. If a deadline moves
//! often, as a client's does with each frame, the timer is not moved: its handler sets it again
//! when it fires.

use super::{
    ClientId,
    keys::{AgentKey, MessageKey},
};
use protocol::Moment;
use std::collections::BTreeSet;
use uuid::Uuid;

/// The most timers that fire at one tick. Frames of all clients are handled in between, fewer SENDs
/// at least once than this number, so that these cannot come faster than they expire.
pub(super) const TIMERS_PER_TICK: usize = if cfg!(test) { 4 } else { 512 };

/// The subject of a timer.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum Timer {
    /// A client's handshake, heartbeat or close.
    Client(ClientId),
    /// A message's time to live, or the end of its delay.
    Message(MessageKey),
    /// The time at which a message's sender is told that the message waits at its recipient.
    Unread(MessageKey),
    /// The time at which an absent agent's name is forgotten.
    Agent(AgentKey),
    /// The end of an absent agent's session.
    Session(AgentKey),
    /// The timeout of the question that the delivery with this id asks.
    Question(Uuid),
    /// The end of the time after a start in which names are kept.
    Returns,
    /// The end of the time that a stop may take.
    Stop,
}

/// All timers, by time. Of those that are due, messages come last: they may be very many.
#[derive(Debug, Default)]
pub(super) struct Timers {
    messages: BTreeSet<(Moment, Timer)>,
    others: BTreeSet<(Moment, Timer)>,
}

impl Timers {
    /// Sets a timer. A timer at the greatest moment never fires.
    pub(super) fn set(&mut self, at: Moment, timer: Timer) {
        if at.0 < u64::MAX {
            self.like(timer).insert((at, timer));
        }
    }

    pub(super) fn cancel(&mut self, at: Moment, timer: Timer) {
        self.like(timer).remove(&(at, timer));
    }

    /// Returns the time of the next timer.
    pub(super) fn next(&self) -> Option<Moment> {
        let firsts = [&self.messages, &self.others].map(|timers| timers.first());
        firsts.into_iter().flatten().map(|(at, _)| *at).min()
    }

    /// Removes and returns a timer that is due.
    pub(super) fn take_due(&mut self, now: Moment) -> Option<Timer> {
        let mut all = [&mut self.others, &mut self.messages].into_iter();
        let due = all.find(|timers| timers.first().is_some_and(|(at, _)| *at <= now))?;
        due.pop_first().map(|(_, timer)| timer)
    }

    const fn like(&mut self, timer: Timer) -> &mut BTreeSet<(Moment, Timer)> {
        if matches!(timer, Timer::Message(_) | Timer::Unread(_)) {
            &mut self.messages
        } else {
            &mut self.others
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::keys::MessageSlot;

    #[test]
    fn due_messages_come_last() {
        let mut timers = Timers::default();
        let message = Timer::Message(MessageKey(MessageSlot::default()));
        timers.set(Moment(1), message);
        timers.set(Moment(2), Timer::Stop);
        timers.set(Moment(9), Timer::Client(ClientId(1)));
        assert_eq!(timers.next(), Some(Moment(1)));
        assert_eq!(timers.take_due(Moment(2)), Some(Timer::Stop));
        assert_eq!(timers.take_due(Moment(2)), Some(message));
        assert_eq!((timers.take_due(Moment(2)), timers.next()), (None, Some(Moment(9))));
    }
}
