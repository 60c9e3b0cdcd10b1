//! The messages that wait to be typed, and the reason that was reported for the wait.

use crate::{
    bridge::{input::IncomingMessage, obstacle::Obstacle},
    protocol::Moment,
};
use std::collections::VecDeque;

/// The number of messages at which the queue is full. The daemon itself has fewer unacknowledged
/// messages in flight to one client.
const MESSAGES_MAX: usize = 1000;

/// The number of bytes of bodies at which the queue is full.
const BYTES_MAX: usize = 16 << 20;

/// The obstacle that currently keeps all texts from being typed.
#[derive(Clone, Copy, Debug)]
pub(super) struct Block {
    pub(super) why: Obstacle,
    pub(super) since: Moment,
}

/// Waiting messages in the order in which they are typed: urgent ones first.
#[derive(Default)]
pub(super) struct MessageQueue {
    urgent: VecDeque<QueuedMessage>,
    rest: VecDeque<QueuedMessage>,
    bytes: usize,
    /// The reason that was reported last. Messages are typed one at a time, so one reason holds for
    /// all.
    reported: Option<Obstacle>,
    /// Whether a text was typed since the last report, so that the reason may have changed.
    is_outdated: bool,
}

struct QueuedMessage {
    message: IncomingMessage,
    /// Whether `MessageQueue::reported` was reported for this message.
    is_reported: bool,
}

impl MessageQueue {
    pub(super) fn len(&self) -> usize {
        self.urgent.len() + self.rest.len()
    }

    pub(super) fn is_empty(&self) -> bool {
        self.len() == 0
    }

    pub(super) fn is_full(&self) -> bool {
        self.len() >= MESSAGES_MAX || self.bytes >= BYTES_MAX
    }

    pub(super) fn contains(&self, id: &str) -> bool {
        self.all().any(|waiting| waiting.message.id == id)
    }

    pub(super) fn push(&mut self, message: IncomingMessage) {
        self.bytes += message.body.len();
        let queue = if message.urgent { &mut self.urgent } else { &mut self.rest };
        queue.push_back(QueuedMessage { message, is_reported: false });
    }

    pub(super) fn pop(&mut self) -> Option<IncomingMessage> {
        let next = self.urgent.pop_front().or_else(|| self.rest.pop_front())?;
        self.bytes -= next.message.body.len();
        Some(next.message)
    }

    /// Whether the reason for a message's wait was not reported yet, or may have changed.
    pub(super) fn has_unreported(&self) -> bool {
        self.all().any(|waiting| self.is_outdated || !waiting.is_reported)
    }

    /// Marks a message as unreported, because the daemon that redelivers it has forgotten the
    /// report.
    pub(super) fn forget_report(&mut self, id: &str) {
        let mut all = self.urgent.iter_mut().chain(&mut self.rest);
        if let Some(waiting) = all.find(|waiting| waiting.message.id == id) {
            waiting.is_reported = false;
        }
    }

    /// Lets the next reason replace the reported one at once, since a text was typed.
    pub(super) fn outdate_report(&mut self) {
        self.is_outdated = true;
    }

    /// Whether a reason was reported for the message that is typed next.
    pub(super) fn next_is_reported(&self) -> bool {
        self.reported.is_some() && self.all().next().is_some_and(|waiting| waiting.is_reported)
    }

    /// Whether `why` is the reason that was reported.
    pub(super) fn is_reported_as(&self, why: Obstacle) -> bool {
        self.reported == Some(why)
    }

    /// Forgets the reported reason. Returns the ids of the messages for which it was reported.
    pub(super) fn withdraw_report(&mut self) -> Vec<String> {
        if self.reported.take().is_none() {
            return Vec::new();
        }
        let reported = self.all().filter(|waiting| waiting.is_reported);
        reported.map(|waiting| waiting.message.id.clone()).collect()
    }

    /// Returns the reason to report, and the ids of the messages that need the report.
    ///
    /// A reason replaces the reported one if it `lasts`, or if a text was typed since the last
    /// report. Otherwise new messages are reported with the old reason.
    pub(super) fn report(&mut self, why: Obstacle, lasts: bool) -> (Obstacle, Vec<String>) {
        let replaces = std::mem::take(&mut self.is_outdated) || lasts;
        let why = self.reported.filter(|_| !replaces).unwrap_or(why);
        let is_new = self.reported.replace(why) != Some(why);
        let all = self.urgent.iter_mut().chain(&mut self.rest);
        let unreported = all.filter_map(|waiting| {
            let was_reported = std::mem::replace(&mut waiting.is_reported, true);
            (is_new || !was_reported).then(|| waiting.message.id.clone())
        });
        (why, unreported.collect())
    }

    fn all(&self) -> impl Iterator<Item = &QueuedMessage> {
        self.urgent.iter().chain(&self.rest)
    }
}
