//! What was taken already, and how a repaint of it is told from something new.

use std::collections::VecDeque;

use super::Message;
use super::page::digest;

/// How many messages are remembered; a repaint shows fewer.
const REMEMBERED: usize = 65_536;

/// As many letters at the beginning of a body tell it from others where it has more.
const LETTERS: usize = 16;

/// What tells a message from others, however often a CLI paints it: not how its lines are broken, which
/// marks stand before them, and how long its rules are.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Identity {
    whole: u64,
    /// Of its beginning.
    head: u64,
}

impl Identity {
    pub(super) fn of(message: &Message) -> Self {
        let Message { to, kind, body, thread, topic, reply, data, meta } = message;
        let mut letters: String = body.chars().filter(|c| c.is_alphanumeric()).collect();
        if letters.is_empty() {
            letters = body.split_whitespace().collect();
        }
        let head: String = letters.chars().take(LETTERS).collect();
        let address = (to, kind, thread, topic, reply);
        Self { whole: digest(&(address, &letters, data, meta)), head: digest(&(address, &head)) }
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
pub(super) enum Replay {
    /// None began, or something new came.
    #[default]
    Over,
    /// Nothing was shown again yet; those before `end` may come.
    Begun {
        /// How many were taken before the repaint.
        end: usize,
    },
    /// They are being shown again.
    Following {
        /// As above.
        end: usize,
        /// Which may be the next one; several while equal ones leave it open.
        next: Vec<usize>,
        /// How many were shown again.
        count: usize,
    },
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
        if taken.count() == 0 { Self::Over } else { Self::Begun { end: taken.count() } }
    }

    /// Where among these messages the first stands that was taken before, and its number.
    pub(super) fn first_again(messages: &[Identity], taken: &Taken) -> Option<(usize, usize)> {
        let number = |&message: &Identity| taken.all(message, 0, taken.count()).last().copied();
        messages.iter().enumerate().find_map(|(at, message)| Some((at, number(message)?)))
    }

    /// What this message is, which stands behind those that were asked for before.
    pub(super) fn judge(&mut self, message: Identity, taken: &Taken) -> Standing {
        let (end, next, count) = match self {
            Self::Over => return Standing::First,
            Self::Begun { end } => (*end, taken.all(message, 0, *end), 0),
            Self::Following { end, next, count } => {
                let (end, count) = (*end, *count);
                (end, Self::following(next, end, count, message, taken), count)
            }
        };
        if next.is_empty() {
            return match self {
                // What came before was all of the repaint.
                Self::Following { end, next, .. } if !next.contains(end) => {
                    Standing::Between(next.iter().copied().max().unwrap_or(*end))
                }
                _ => Standing::First,
            };
        }
        let next = next.into_iter().map(|number| number + 1).collect();
        *self = Self::Following { end, next, count: count + 1 };
        Standing::Again
    }

    /// Which of those taken a message may be: the next, the next in another reading, one further on, or,
    /// while one alone says where the repaint began, any.
    fn following(
        next: &[usize],
        end: usize,
        count: usize,
        message: Identity,
        taken: &Taken,
    ) -> Vec<usize> {
        let next = next.iter().copied().filter(|&number| number < end);
        let at = |number: &usize| taken.get(*number);
        let exact: Vec<usize> = next.clone().filter(|one| at(one) == Some(&message)).collect();
        if !exact.is_empty() {
            return exact;
        }
        let Some(first) = next.clone().min() else { return Vec::new() };
        let further = taken.all(message, first, end);
        if !further.is_empty() {
            return further;
        }
        let alike: Vec<usize> =
            next.filter(|one| at(one).is_some_and(|known| known.head == message.head)).collect();
        if alike.is_empty() && count == 1 { taken.all(message, 0, end) } else { alike }
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
        match self {
            Self::Over => {}
            Self::Begun { end } => *end += 1,
            Self::Following { end, next, .. } => {
                *end += 1;
                next.iter_mut().filter(|one| moves(**one)).for_each(|one| *one += 1);
            }
        }
    }
}
