//! The messages that wait to be typed, and the reported reason for the wait.

use crate::{input::IncomingMessage, obstacle::Obstacle};
use std::collections::VecDeque;

/// The queue is full at this number of messages. The daemon itself has fewer unacknowledged
/// messages in flight to one client.
const MESSAGES_MAX: usize = 1000;

/// How many of an id's first characters an agent sees.
const SHOWN_ID: usize = 8;

/// How many messages, and how many bytes of them, one command of the agent reads at most. CLIs
/// shorten a tool's long result.
const READ_MESSAGES_MAX: usize = 16;
const READ_BYTES_MAX: usize = 8 << 10;

/// The queue is full at this number of bytes in bodies.
const BYTES_MAX: usize = 16 << 20;

/// Waiting messages in typing order: urgent ones first.
#[derive(Default)]
pub(super) struct MessageQueue {
    waiting: VecDeque<QueuedMessage>,
    bytes: usize,
    /// The last reported reason. Messages are typed one at a time, so one reason applies to all.
    pub(super) reported: Option<Obstacle>,
    /// Whether a text was typed since the last report, so that the reason may have changed.
    pub(super) is_outdated: bool,
}

struct QueuedMessage {
    message: IncomingMessage,
    /// Whether `MessageQueue::reported` was reported for this message.
    is_reported: bool,
    /// Whether the agent was notified of this message.
    is_announced: bool,
    /// Whether a hook should have begun a turn with the message, and no record shows that it did.
    was_ignored: bool,
}

/// A message that the agent is notified of.
#[derive(Debug)]
pub(super) struct Announced {
    pub(super) from: String,
    pub(super) id: String,
    pub(super) bytes: usize,
    /// Whether a command of the agent can read it.
    pub(super) is_readable: bool,
}

impl MessageQueue {
    pub(super) fn len(&self) -> usize {
        self.waiting.len()
    }

    pub(super) fn is_empty(&self) -> bool {
        self.waiting.is_empty()
    }

    pub(super) fn is_full(&self) -> bool {
        self.len() >= MESSAGES_MAX || self.bytes >= BYTES_MAX
    }

    pub(super) fn contains(&self, id: &str) -> bool {
        self.waiting.iter().any(|waiting| waiting.message.id == id)
    }

    pub(super) fn push(&mut self, message: IncomingMessage) {
        let at = if message.urgent { self.urgent() } else { self.waiting.len() };
        self.insert(at, message, false);
    }

    /// Puts a message that was handed over before all others of its urgency.
    pub(super) fn push_front(&mut self, message: IncomingMessage, was_ignored: bool) {
        let at = if message.urgent { 0 } else { self.urgent() };
        self.insert(at, message, was_ignored);
    }

    /// Counts the urgent messages.
    fn urgent(&self) -> usize {
        self.waiting.partition_point(|waiting| waiting.message.urgent)
    }

    fn insert(&mut self, at: usize, message: IncomingMessage, was_ignored: bool) {
        self.bytes += message.body.len();
        let (is_reported, is_announced) = (false, false);
        let waiting = QueuedMessage { message, is_reported, is_announced, was_ignored };
        self.waiting.insert(at, waiting);
    }

    /// Whether a hook should have begun a turn with the next message, and no record shows that it
    /// did.
    pub(super) fn next_was_ignored(&self) -> bool {
        self.waiting.front().is_some_and(|next| next.was_ignored)
    }

    pub(super) fn pop(&mut self) -> Option<IncomingMessage> {
        self.remove_at(0)
    }

    /// Removes the message with this id.
    pub(super) fn remove(&mut self, id: &str) -> Option<IncomingMessage> {
        self.remove_at(self.waiting.iter().position(|waiting| waiting.message.id == id)?)
    }

    fn remove_at(&mut self, at: usize) -> Option<IncomingMessage> {
        let QueuedMessage { message, .. } = self.waiting.remove(at)?;
        self.bytes -= message.body.len();
        Some(message)
    }

    /// Removes messages for a command that shows them: the one whose id begins with `prefix`, after
    /// its sender's older ones, or the next ones. If they are too many or too long, removes only
    /// the first ones. A message stays if an older one of its sender stays.
    pub(super) fn take(&mut self, prefix: Option<&str>) -> Vec<IncomingMessage> {
        let last = prefix.and_then(|prefix| self.find_only(prefix));
        if prefix.is_some() && last.is_none() {
            return Vec::new();
        }
        let (mut ids, mut bytes) = (Vec::new(), 0);
        let mut staying: Vec<&str> = Vec::new();
        for QueuedMessage { message, .. } in &self.waiting {
            if last.is_some_and(|last| last.from != message.from) {
                continue;
            }
            let is_next = ids.len() < READ_MESSAGES_MAX;
            let fits = is_next && bytes + message.body.len() <= READ_BYTES_MAX;
            if fits && !staying.contains(&message.from.as_str()) {
                bytes += message.body.len();
                ids.push(message.id.clone());
            } else {
                staying.push(&message.from);
            }
            if last.is_some_and(|last| last.id == message.id) {
                break;
            }
        }
        ids.iter().filter_map(|id| self.remove(id)).collect()
    }

    /// Returns the message with this id. Also accepts an id's first characters, as many as an agent
    /// sees, if only one id begins with them.
    pub(super) fn find_only(&self, id: &str) -> Option<&IncomingMessage> {
        let messages = || self.waiting.iter().map(|waiting| &waiting.message);
        let whole = messages().find(|message| message.id == id);
        let mut begun = messages().filter(|message| message.id.starts_with(id));
        let only = begun.next().filter(|_| id.len() >= SHOWN_ID && begun.next().is_none());
        whole.or(only)
    }

    /// Notes that the agent was not notified of these messages after all.
    pub(super) fn forget_announced(&mut self, ids: &[String]) {
        for waiting in &mut self.waiting {
            waiting.is_announced &= !ids.contains(&waiting.message.id);
        }
    }

    /// Returns the messages that the agent was not notified of, and notes that it is now. A message
    /// is not readable if it is too long, if its id cannot be a word of a command, or if it follows
    /// such a message from the same sender.
    pub(super) fn announce(&mut self) -> Vec<Announced> {
        let (mut announced, mut staying) = (Vec::new(), Vec::new());
        for waiting in &mut self.waiting {
            let IncomingMessage { from, id, body, .. } = &waiting.message;
            let is_typable = id.bytes().take(SHOWN_ID).all(|byte| byte.is_ascii_hexdigit());
            let is_readable = is_typable && body.len() <= READ_BYTES_MAX && !staying.contains(from);
            if !is_readable {
                staying.push(from.clone());
            }
            if !std::mem::replace(&mut waiting.is_announced, true) {
                let (from, id, bytes) = (from.clone(), id.clone(), body.len());
                announced.push(Announced { from, id, bytes, is_readable });
            }
        }
        announced
    }

    /// Whether the reason for a message's wait was not reported yet, or may have changed.
    pub(super) fn has_unreported(&self) -> bool {
        self.waiting.iter().any(|waiting| self.is_outdated || !waiting.is_reported)
    }

    /// Marks a message as unreported, because the daemon that redelivers it has forgotten the
    /// report.
    pub(super) fn forget_report(&mut self, id: &str) {
        for waiting in &mut self.waiting {
            waiting.is_reported &= waiting.message.id != id;
        }
    }

    /// Whether a reason was reported for the next message to be typed.
    pub(super) fn next_is_reported(&self) -> bool {
        self.reported.is_some() && self.waiting.front().is_some_and(|next| next.is_reported)
    }

    /// Forgets the reported reason. Returns the ids of the messages that it was reported for.
    pub(super) fn withdraw_report(&mut self) -> Vec<String> {
        if self.reported.take().is_none() {
            return Vec::new();
        }
        let reported = self.waiting.iter().filter(|waiting| waiting.is_reported);
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
        let unreported = self.waiting.iter_mut().filter_map(|waiting| {
            let was_reported = std::mem::replace(&mut waiting.is_reported, true);
            (is_new || !was_reported).then(|| waiting.message.id.clone())
        });
        (why, unreported.collect())
    }
}
