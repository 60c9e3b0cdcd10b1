//! Points in time at which the machine wants to be woken.
//!
//! Whoever sets an alarm remembers when it is set for, and moves or removes it with that. A client's
//! is not moved by each frame it sends: it goes off, finds that life was heard since, and is set again.

use super::{AgentKey, ClientId, MessageKey};
use crate::protocol::Moment;
use std::collections::BTreeSet;
use uuid::Uuid;

/// What an alarm is about.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum Alarm {
    /// Its handshake, its heartbeat, or its end.
    Client(ClientId),
    /// Its time to live, or the end of its rest.
    Message(MessageKey),
    /// Its name is to be forgotten.
    Agent(AgentKey),
    /// Its session can't be taken up any more.
    Session(AgentKey),
    /// The question that the delivery with this id asks has to be answered.
    Question(Uuid),
    /// Stopping has taken long enough.
    Stop,
}

/// All of them, by time.
#[derive(Debug, Default)]
pub(super) struct Alarms(BTreeSet<(Moment, Alarm)>);

impl Alarms {
    /// A moment that saturated means never.
    pub(super) fn set(&mut self, at: Moment, alarm: Alarm) {
        if at.0 < u64::MAX {
            self.0.insert((at, alarm));
        }
    }

    pub(super) fn remove(&mut self, at: Moment, alarm: Alarm) {
        self.0.remove(&(at, alarm));
    }

    pub(super) fn first(&self) -> Option<Moment> {
        self.0.first().map(|(at, _)| *at)
    }

    /// Takes one that is due.
    pub(super) fn take_due(&mut self, now: Moment) -> Option<Alarm> {
        if self.first()? > now {
            return None;
        }
        self.0.pop_first().map(|(_, alarm)| alarm)
    }
}
