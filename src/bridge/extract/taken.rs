//! What was taken already, and how a repaint of it is told from something new.

use std::collections::VecDeque;

use super::page::digest;
use super::{Extracted, Problem};
use crate::bridge::outgoing::OutgoingMessage;

/// How many messages are remembered; a repaint shows fewer.
const REMEMBERED: usize = 65_536;

/// As many of the last are asked whether a message is another reading of them.
const ALIKE_MAX: usize = 256;

/// As many letters at the beginning or the end of a body tell it from others where it has more.
const LETTERS: usize = 16;

/// And so many others, where there is no letter: programs that count the columns of joined emoji otherwise
/// than the terminal paint over what stands behind them.
const SYMBOLS: usize = 2;

/// What tells a message from others, however often a CLI paints it: not how its lines are broken, which
/// marks stand before them, and how long its rules are.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Identity {
    whole: u64,
    /// Of its beginning and of its end; a CLI that moves its rows about may show one without the other.
    head: u64,
    tail: u64,
}

impl Identity {
    pub(super) fn of(what: &Extracted) -> Self {
        match what {
            Extracted::Found(message) => Self::of_message(message),
            Extracted::Problem(problem) => Self::of_problem(problem),
        }
    }

    /// What was wrong and where: the sentence may say at which column, which is another one after a
    /// resize.
    fn of_problem(problem: &Problem) -> Self {
        let letters = || problem.row.chars().filter(|c| c.is_alphanumeric());
        let whole = digest(&(problem.what, letters().collect::<String>()));
        let head = digest(&(problem.what, letters().take(LETTERS).collect::<String>()));
        Self { whole, head, tail: head }
    }

    fn of_message(message: &OutgoingMessage) -> Self {
        let OutgoingMessage { to, kind, body, thread, topic, reply_to, data, meta } = message;
        let (mut letters, mut enough) = (String::new(), LETTERS);
        letters.extend(body.chars().filter(|c| c.is_alphanumeric()));
        if letters.is_empty() {
            (letters, enough) = (body.split_whitespace().collect(), SYMBOLS);
        }
        let head: String = letters.chars().take(enough).collect();
        let tail: String = letters.chars().rev().take(enough).collect();
        let address = (to, kind, thread, topic, reply_to);
        Self {
            whole: digest(&(address, &letters, data, meta)),
            head: digest(&(address, &head)),
            tail: digest(&(address, &tail)),
        }
    }

    /// Whether this may be the same in another reading.
    fn is_like(&self, other: &Self) -> bool {
        self.head == other.head || self.tail == other.tail
    }
}

/// The messages taken so far, in the order in which they stand.
#[derive(Debug, Default)]
pub(super) struct Taken {
    log: VecDeque<Identity>,
    /// How many were forgotten before the first of `log`.
    forgotten: usize,
}

impl Taken {
    /// How many were taken in all.
    pub(super) fn count(&self) -> usize {
        self.forgotten + self.log.len()
    }

    /// One more was taken, after all others.
    pub(super) fn push(&mut self, message: Identity) {
        self.insert(self.count(), message);
    }

    /// One more was taken, that stands before the one of this number.
    pub(super) fn insert(&mut self, number: usize, message: Identity) {
        self.log.insert(number.saturating_sub(self.forgotten), message);
        if self.log.len() > REMEMBERED {
            self.log.pop_front();
            self.forgotten += 1;
        }
    }

    fn get(&self, number: usize) -> Option<&Identity> {
        self.log.get(number.checked_sub(self.forgotten)?)
    }

    /// The numbers of this message, from one on and below another.
    fn all(&self, message: Identity, from: usize, end: usize) -> Vec<usize> {
        let is_it = |&number: &usize| self.get(number) == Some(&message);
        (from.max(self.forgotten)..end).filter(is_it).collect()
    }
}

/// After a repaint began: which messages stood there before it.
///
/// They come in the order in which they were taken. Some may be missing, and one that could not be read
/// before may stand between them; that alone makes none of the others new.
#[derive(Debug, Clone, Default)]
pub(super) struct Replay {
    /// How many were taken before the repaint; none where it is over.
    end: usize,
    /// Which may be the next one, once one was shown again; several while equal ones leave it open.
    next: Vec<usize>,
    /// How many were shown again.
    count: usize,
    /// They may be shown several times: by the terminal, which breaks its rows elsewhere, and by the program.
    over_and_over: bool,
}

/// What a message is after a repaint.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Standing {
    /// It was taken before.
    Again,
    /// It is new.
    First,
    /// It was not taken before, and stands before the one of this number, which was.
    Between(usize),
}

impl Replay {
    /// A repaint begins now.
    pub(super) fn of(taken: &Taken) -> Self {
        Self { end: taken.count(), ..Self::default() }
    }

    /// Another one begins, perhaps because the terminal has another size.
    pub(super) fn again(&self, taken: &Taken, resized: bool) -> Self {
        Self { over_and_over: resized || self.over_and_over, ..Self::of(taken) }
    }

    /// Whether the terminal has got another size in this turn.
    pub(super) fn after_resize(&self) -> bool {
        self.over_and_over
    }

    /// Where among these messages the first stands that was taken before, and its number.
    pub(super) fn first_again(messages: &[Identity], taken: &Taken) -> Option<(usize, usize)> {
        let number = |&message: &Identity| taken.all(message, 0, taken.count()).last().copied();
        messages.iter().enumerate().find_map(|(at, message)| Some((at, number(message)?)))
    }

    /// What this message is, which stands behind those that were asked for before.
    pub(super) fn judge(&mut self, message: Identity, taken: &Taken) -> Standing {
        let again = self.which(message, taken);
        if !again.is_empty() {
            self.next = again.into_iter().map(|number| number + 1).collect();
            self.count += 1;
            return Standing::Again;
        }
        match self.next.iter().max() {
            Some(&next) if !self.next.contains(&self.end) => Standing::Between(next),
            // Nothing was shown again yet, or all of it.
            _ => Standing::First,
        }
    }

    /// Which of those taken a message may be: the next, one further on, the next in another reading, or any.
    fn which(&self, message: Identity, taken: &Taken) -> Vec<usize> {
        let any = || taken.all(message, 0, self.end);
        if self.count == 0 && !self.over_and_over {
            return any();
        }
        let next = self.next.iter().copied().filter(|&number| number < self.end);
        let at = |number: &usize| taken.get(*number);
        let mut found: Vec<usize> = next.clone().filter(|one| at(one) == Some(&message)).collect();
        if let Some(first) = next.clone().min().filter(|_| found.is_empty()) {
            found = taken.all(message, first, self.end);
        }
        if found.is_empty() {
            let is_alike = |one: &usize| at(one).is_some_and(|known| known.is_like(&message));
            found = next.clone().filter(is_alike).collect();
        }
        // One alone hardly says where the repaint began.
        if found.is_empty() && (self.over_and_over || self.count == 1 && next.count() > 0) {
            found = any();
        }
        if found.is_empty() && self.over_and_over {
            // The program and the terminal have mixed up its rows.
            let is_alike = |one: &usize| at(one).is_some_and(|known| known.is_like(&message));
            found = (self.end.saturating_sub(ALIKE_MAX)..self.end).filter(is_alike).collect();
        }
        found
    }

    /// One was taken that stands before the one of this number, and that was judged here.
    pub(super) fn pass(&mut self, number: usize) {
        self.move_on(|one| one >= number);
    }

    /// One was taken that stands before the one of this number, and that will be judged here.
    pub(super) fn make_room(&mut self, number: usize) {
        self.move_on(|one| one > number);
    }

    fn move_on(&mut self, moves: impl Fn(usize) -> bool) {
        if self.end > 0 {
            self.end += 1;
            self.next.iter_mut().filter(|one| moves(**one)).for_each(|one| *one += 1);
        }
    }
}
