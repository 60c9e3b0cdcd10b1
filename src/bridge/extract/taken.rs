//! What was taken already, and how a repaint of it is told from something new.

use std::collections::VecDeque;

/// How many messages are remembered; a repaint shows fewer.
const REMEMBERED: usize = 65_536;

/// The messages taken so far, in order, each as a number that stands for it.
#[derive(Debug, Default)]
pub(super) struct Taken {
    log: VecDeque<u64>,
    /// How many were forgotten before the first of `log`.
    forgotten: usize,
}

impl Taken {
    /// How many were taken in all.
    pub(super) fn count(&self) -> usize {
        self.forgotten + self.log.len()
    }

    /// One more was taken.
    pub(super) fn push(&mut self, message: u64) {
        if self.log.len() == REMEMBERED {
            self.log.pop_front();
            self.forgotten += 1;
        }
        self.log.push_back(message);
    }

    fn is(&self, index: usize, message: u64) -> bool {
        index.checked_sub(self.forgotten).and_then(|index| self.log.get(index)) == Some(&message)
    }

    /// How many messages of an alternate screen's picture are old: all, where they are a run of those
    /// taken; else as many as overlap with their end.
    pub(super) fn old_in_picture(&self, picture: &[u64]) -> usize {
        let starts = |start: usize, part: &[u64]| {
            part.iter().enumerate().all(|(at, &message)| self.log.get(start + at) == Some(&message))
        };
        if (0..self.log.len()).any(|start| starts(start, picture)) {
            return picture.len();
        }
        (1..=picture.len().min(self.log.len()))
            .rev()
            .find(|&length| starts(self.log.len() - length, &picture[..length]))
            .unwrap_or(0)
    }
}

/// After a repaint began: messages are old as long as they form a run in those taken before it.
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
    /// A run is being shown again.
    Following {
        /// As above.
        end: usize,
        /// Which may be the next of the run; several while equal ones leave it open.
        next: Vec<usize>,
    },
}

impl Replay {
    /// A repaint begins now.
    pub(super) fn of(taken: &Taken) -> Self {
        if taken.count() == 0 { Self::Over } else { Self::Begun { end: taken.count() } }
    }

    /// Whether `message` was taken before and is only shown again.
    pub(super) fn covers(&mut self, message: u64, taken: &Taken) -> bool {
        let is_next = |&index: &usize| taken.is(index, message);
        let (end, next): (usize, Vec<usize>) = match std::mem::take(self) {
            Self::Over => return false,
            Self::Begun { end } => (end, (taken.forgotten..end).filter(is_next).collect()),
            Self::Following { end, next } => {
                (end, next.into_iter().filter(|&index| index < end && is_next(&index)).collect())
            }
        };
        let next: Vec<usize> = next.into_iter().map(|index| index + 1).collect();
        if next.is_empty() {
            return false;
        }
        *self = Self::Following { end, next };
        true
    }
}
