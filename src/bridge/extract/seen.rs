//! The messages extracted so far, and whether a message after a repaint is one of them.
//!
//! A message is recognised by its place among the others, not by its text alone: an agent may say
//! the same twice.

use std::collections::VecDeque;
use std::hash::{DefaultHasher, Hash, Hasher};

use super::extracted::{Extracted, Problem};
use crate::bridge::outgoing::OutgoingMessage;

/// Messages that are remembered; a repaint shows fewer.
const REMEMBERED_MAX: usize = 65_536;

/// Last messages that are compared where another size may have changed how a message reads.
const SIMILAR_MAX: usize = 256;

/// Letters at the beginning or the end of a body that tell it from others.
const EDGE_LETTERS: usize = 16;

/// Symbols that do so in a body without letters. There are few: programs and terminals disagree
/// about the width of joined emoji, so programs may paint over the symbols after them.
const EDGE_SYMBOLS: usize = 2;

/// Hashes of the parts of a message or problem that are the same however often it is painted: not
/// its line breaks, the marks before its lines, or the length of its rules.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Fingerprint {
    whole: u64,
    /// The beginning of the body, which may be all that is left of it after a resize.
    head: u64,
    /// The end of the body, likewise.
    tail: u64,
}

impl Fingerprint {
    pub(super) fn of(extracted: &Extracted) -> Self {
        match extracted {
            Extracted::Message(message) => Self::of_message(message),
            Extracted::Problem(problem) => Self::of_problem(problem),
        }
    }

    /// Leaves the sentence out: it may name a column, which a resize changes.
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

    /// Whether both may be the same message, of which one was read in part.
    fn is_similar(&self, other: &Self) -> bool {
        self.head == other.head || self.tail == other.tail
    }
}

/// A hash of a value, the same within a process.
pub(super) fn hash(value: &(impl Hash + ?Sized)) -> u64 {
    let mut hasher = DefaultHasher::new();
    value.hash(&mut hasher);
    hasher.finish()
}

/// The messages extracted so far, numbered in the order in which they stand.
#[derive(Debug, Default)]
pub(super) struct SeenLog {
    log: VecDeque<Fingerprint>,
    /// Messages that were forgotten, before the first of `log`.
    forgotten: usize,
}

impl SeenLog {
    /// The count of all messages, which is the ordinal of the next one.
    pub(super) fn count(&self) -> usize {
        self.forgotten + self.log.len()
    }

    /// Adds a message after all others.
    pub(super) fn push(&mut self, message: Fingerprint) {
        self.insert(self.count(), message);
    }

    /// Adds a message before the message with this ordinal.
    pub(super) fn insert(&mut self, ordinal: usize, message: Fingerprint) {
        self.log.insert(ordinal.saturating_sub(self.forgotten), message);
        if self.log.len() > REMEMBERED_MAX {
            self.log.pop_front();
            self.forgotten += 1;
        }
    }

    fn get(&self, ordinal: usize) -> Option<&Fingerprint> {
        self.log.get(ordinal.checked_sub(self.forgotten)?)
    }

    /// The ordinals in `from..end` of messages with this fingerprint.
    fn find_all(&self, message: Fingerprint, from: usize, end: usize) -> Vec<usize> {
        let matches = |&ordinal: &usize| self.get(ordinal) == Some(&message);
        (from.max(self.forgotten)..end).filter(matches).collect()
    }
}

/// The position of a repaint within the messages that were extracted before it.
///
/// A repaint shows messages in their order. Some may be missing, and one that could not be read
/// before may stand between them, without making the others new.
#[derive(Debug, Clone, Default)]
pub(super) struct RepaintTracker {
    /// Messages that were extracted before the repaint; 0 without a repaint.
    end: usize,
    /// Ordinals that the next message may have, once a message was recognised: several while equal
    /// messages leave it open.
    next: Vec<usize>,
    /// Messages that were recognised.
    recognised: usize,
    /// After a resize, messages may be shown repeatedly: by the terminal, which wraps its rows
    /// anew, and by the program.
    after_resize: bool,
}

/// The result of comparing a message with those extracted before.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Verdict {
    /// The message was extracted before.
    Seen,
    /// The message is new, and stands after those extracted before.
    New,
    /// The message is new, and stands before the message with this ordinal.
    NewBefore(usize),
}

impl RepaintTracker {
    /// A tracker for a repaint that begins now.
    pub(super) fn begin(seen: &SeenLog) -> Self {
        Self { end: seen.count(), ..Self::default() }
    }

    /// A tracker for the next repaint of the same turn, which may be due to a resize.
    pub(super) fn begin_again(&self, seen: &SeenLog, is_resize: bool) -> Self {
        Self { after_resize: is_resize || self.after_resize, ..Self::begin(seen) }
    }

    /// Whether the terminal was resized in this turn.
    pub(super) fn after_resize(&self) -> bool {
        self.after_resize
    }

    /// The index of the first of these messages that was extracted before, and its ordinal.
    pub(super) fn first_seen(messages: &[Fingerprint], seen: &SeenLog) -> Option<(usize, usize)> {
        let ordinal =
            |&message: &Fingerprint| seen.find_all(message, 0, seen.count()).last().copied();
        messages.iter().enumerate().find_map(|(at, message)| Some((at, ordinal(message)?)))
    }

    /// Compares the next message of the repaint.
    pub(super) fn judge(&mut self, message: Fingerprint, seen: &SeenLog) -> Verdict {
        let candidates = self.candidates(message, seen);
        if !candidates.is_empty() {
            self.next = candidates.into_iter().map(|ordinal| ordinal + 1).collect();
            self.recognised += 1;
            return Verdict::Seen;
        }
        match self.next.iter().max() {
            Some(&next) if !self.next.contains(&self.end) => Verdict::NewBefore(next),
            // No message was recognised yet, or all were.
            _ => Verdict::New,
        }
    }

    /// Returns the ordinals of the known messages that `message` may repeat: the next one, a later
    /// one, the next one in another reading of the repaint, or any.
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
        // A single recognised message is weak evidence of where the repaint began.
        if found.is_empty() && (self.after_resize || self.recognised == 1 && next.count() > 0) {
            found = any();
        }
        if found.is_empty() && self.after_resize {
            // Rows of the program and of the terminal may be mixed.
            found = (self.end.saturating_sub(SIMILAR_MAX)..self.end).filter(is_similar).collect();
        }
        found
    }

    /// Renumbers after a message was inserted before `ordinal` that was judged by this tracker.
    pub(super) fn inserted(&mut self, ordinal: usize) {
        self.renumber(|next| next >= ordinal);
    }

    /// Renumbers after a message was inserted before `ordinal` that this tracker is still to judge.
    pub(super) fn inserted_unjudged(&mut self, ordinal: usize) {
        self.renumber(|next| next > ordinal);
    }

    fn renumber(&mut self, moves: impl Fn(usize) -> bool) {
        if self.end > 0 {
            self.end += 1;
            self.next.iter_mut().filter(|next| moves(**next)).for_each(|next| *next += 1);
        }
    }
}
