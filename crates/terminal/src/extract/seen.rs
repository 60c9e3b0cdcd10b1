//! The messages extracted so far, and how they are recognised after a repaint.
//!
//! A message is recognised by its position among the others as well as by its text: an agent may
//! send the same text twice.

use std::collections::VecDeque;
use std::hash::{DefaultHasher, Hash, Hasher};

use super::extracted::{Extracted, Problem};
use crate::outgoing::OutgoingMessage;

/// How many messages are remembered. A repaint shows fewer.
const REMEMBERED_MAX: usize = 65_536;

/// How many of the last messages are compared by similarity after a resize, which may change how a
/// message reads.
const SIMILAR_MAX: usize = 256;

/// How many letters at the beginning or end of a body distinguish it from others.
const EDGE_LETTERS: usize = 16;

/// How many symbols distinguish a body without letters. The number is small: programs and terminals
/// disagree about the width of joined emoji, so programs may paint over later symbols.
const EDGE_SYMBOLS: usize = 2;

/// Hashes of the parts of a message or problem that do not change when it is repainted. They leave
/// out line breaks, marks before lines, and the length of rules.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Fingerprint {
    whole: u64,
    /// The hash of the body's beginning. A resize may leave no more of the body.
    head: u64,
    /// The hash of the body's end. A resize may leave no more of the body.
    tail: u64,
}

impl Fingerprint {
    pub(super) fn of(extracted: &Extracted) -> Self {
        match extracted {
            Extracted::Message(message) => Self::of_message(message),
            Extracted::Problem(problem) => Self::of_problem(problem),
        }
    }

    /// Returns the fingerprint of a problem. It leaves out the sentence, since a resize may change
    /// the column that the sentence names.
    fn of_problem(problem: &Problem) -> Self {
        let letters = || problem.line.chars().filter(|c| c.is_alphanumeric());
        let whole = hash(&(problem.fault, letters().collect::<String>()));
        let head = hash(&(problem.fault, letters().take(EDGE_LETTERS).collect::<String>()));
        Self { whole, head, tail: head }
    }

    fn of_message(message: &OutgoingMessage) -> Self {
        let OutgoingMessage { to, kind, body, thread, topic, reply_to, data, meta } = message;
        let (mut letters, mut edge) = (String::new(), EDGE_LETTERS);
        letters.extend(body.chars().filter(|c| c.is_alphanumeric()));
        if letters.is_empty() {
            (letters, edge) = (body.split_whitespace().collect(), EDGE_SYMBOLS);
        }
        let head: String = letters.chars().take(edge).collect();
        let tail: String = letters.chars().rev().take(edge).collect();
        let header = (to, kind, thread, topic, reply_to);
        Self {
            whole: hash(&(header, &letters, data, meta)),
            head: hash(&(header, &head)),
            tail: hash(&(header, &tail)),
        }
    }

    /// Whether both may be the same message, read only in part at one of the times.
    fn is_similar(&self, other: &Self) -> bool {
        self.head == other.head || self.tail == other.tail
    }
}

/// Returns a hash of a value. Equal values have equal hashes within a process.
pub(super) fn hash(value: &(impl Hash + ?Sized)) -> u64 {
    let mut hasher = DefaultHasher::new();
    value.hash(&mut hasher);
    hasher.finish()
}

/// The messages extracted so far, numbered in their order.
#[derive(Debug, Default)]
pub(super) struct SeenLog {
    log: VecDeque<Fingerprint>,
    /// How many messages were forgotten. All of them came before the first of `log`.
    forgotten: usize,
}

impl SeenLog {
    /// Returns the number of all messages, which is the ordinal of the next one.
    pub(super) fn count(&self) -> usize {
        self.forgotten + self.log.len()
    }

    /// Adds a message. It comes before the message with this ordinal, or after all others.
    pub(super) fn insert(&mut self, before: Option<usize>, message: Fingerprint) {
        let ordinal = before.unwrap_or_else(|| self.count());
        self.log.insert(ordinal.saturating_sub(self.forgotten), message);
        if self.log.len() > REMEMBERED_MAX {
            self.log.pop_front();
            self.forgotten += 1;
        }
    }

    fn get(&self, ordinal: usize) -> Option<&Fingerprint> {
        self.log.get(ordinal.checked_sub(self.forgotten)?)
    }

    /// Returns the ordinals in `from..end` of messages with this fingerprint.
    fn find_all(&self, message: Fingerprint, from: usize, end: usize) -> Vec<usize> {
        let matches = |&ordinal: &usize| self.get(ordinal) == Some(&message);
        (from.max(self.forgotten)..end).filter(matches).collect()
    }
}

/// The position of a repaint within the messages that were extracted before it.
///
/// A repaint shows messages in their order. Some may be missing. A message that could not be read
/// before may be between known messages; these are not new for that reason.
#[derive(Debug, Clone, Default)]
pub(super) struct RepaintTracker {
    /// The number of messages that were extracted before the repaint, or 0 without a repaint.
    end: usize,
    /// The possible ordinals of the next message, after a message was recognised. There are several
    /// if the recognised message has equals.
    next: Vec<usize>,
    /// The number of messages that were recognised.
    recognised: usize,
    /// Whether the terminal was resized. After a resize, messages may be shown twice: by the
    /// terminal, which wraps its rows again, and by the program.
    after_resize: bool,
}

/// The result of comparing a message with those extracted before.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Verdict {
    /// The message was extracted before.
    Seen,
    /// The message is new. It comes before the message with this ordinal, or after all that were
    /// extracted before.
    New(Option<usize>),
}

impl RepaintTracker {
    /// Returns a tracker for a repaint that begins now.
    pub(super) fn begin(seen: &SeenLog) -> Self {
        Self { end: seen.count(), ..Self::default() }
    }

    /// Returns a tracker for the next repaint in the same turn. A resize may have caused it.
    pub(super) fn begin_again(&self, seen: &SeenLog, is_resize: bool) -> Self {
        Self { after_resize: is_resize || self.after_resize, ..Self::begin(seen) }
    }

    /// Whether the terminal was resized in this turn.
    pub(super) fn after_resize(&self) -> bool {
        self.after_resize
    }

    /// Returns the index of the first of these messages that was extracted before, and its ordinal.
    pub(super) fn first_seen(messages: &[Fingerprint], seen: &SeenLog) -> Option<(usize, usize)> {
        let ordinal =
            |&message: &Fingerprint| seen.find_all(message, 0, seen.count()).last().copied();
        messages.iter().enumerate().find_map(|(at, message)| Some((at, ordinal(message)?)))
    }

    /// Compares the next message of the repaint with the messages extracted before.
    pub(super) fn judge(&mut self, message: Fingerprint, seen: &SeenLog) -> Verdict {
        let candidates = self.candidates(message, seen);
        if !candidates.is_empty() {
            self.next = candidates.into_iter().map(|ordinal| ordinal + 1).collect();
            self.recognised += 1;
            return Verdict::Seen;
        }
        match self.next.iter().max() {
            Some(&next) if !self.next.contains(&self.end) => Verdict::New(Some(next)),
            // No message was recognised yet, or all known messages come before this one.
            _ => Verdict::New(None),
        }
    }

    /// Returns the ordinals of the known messages that `message` may repeat: the expected one, a
    /// later one, a similar one in the expected position, or any.
    fn candidates(&self, message: Fingerprint, seen: &SeenLog) -> Vec<usize> {
        let any = || seen.find_all(message, 0, self.end);
        if self.recognised == 0 && !self.after_resize {
            return any();
        }
        let is_same = |ordinal: &usize| seen.get(*ordinal) == Some(&message);
        let is_similar =
            |ordinal: &usize| seen.get(*ordinal).is_some_and(|known| known.is_similar(&message));
        let next = self.next.iter().copied().filter(|&ordinal| ordinal < self.end);
        let mut found: Vec<usize> = next.clone().filter(is_same).collect();
        if let Some(first) = next.clone().min().filter(|_| found.is_empty()) {
            found = seen.find_all(message, first, self.end);
        }
        if found.is_empty() {
            found = next.clone().filter(is_similar).collect();
        }
        // A single recognised message does not prove where the repaint began.
        if found.is_empty() && (self.after_resize || self.recognised == 1 && next.count() > 0) {
            found = any();
        }
        if found.is_empty() && self.after_resize {
            // After a resize, rows of the program and of the terminal may be mixed.
            found = (self.end.saturating_sub(SIMILAR_MAX)..self.end).filter(is_similar).collect();
        }
        found
    }

    /// Updates the ordinals from `first` on after a message was inserted. If this tracker has yet
    /// to judge that message, it gets the ordinal after it.
    pub(super) fn renumber(&mut self, first: usize) {
        if self.end > 0 {
            self.end += 1;
            self.next.iter_mut().filter(|next| **next >= first).for_each(|next| *next += 1);
        }
    }
}
