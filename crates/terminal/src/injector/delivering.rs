//! The stages of a text on its way into the agent.

use super::interference::Interference;
use crate::obstacle::Obstacle;
use protocol::Moment;

/// The stages of a text, in order. At most one text is on its way at a time.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Delivering {
    /// No text is on its way. The next one waits, if there is one.
    Waiting {
        /// The obstacle that keeps the next text from being typed.
        block: Option<Block>,
        /// The last text, as long as nothing but an Enter has followed it.
        left: Option<Left>,
    },
    /// The text is being written to the terminal.
    Typing {
        /// The count of written bytes at which the terminal has the whole text.
        end: u64,
    },
    /// The terminal has the text, and its Enter waits for the screen to settle.
    Settling {
        /// The time from which on the composer should show the text: it was written then, or the
        /// last question or other program went away.
        missing_since: Moment,
        /// The time from which on the screen must be unchanged for the recipe's `guard_ms`.
        since: Moment,
    },
    /// The Enter is being written to the terminal.
    Submitting {
        /// The count of written bytes at which the terminal has the Enter.
        end: u64,
        /// The number of attempts to submit the text so far, with this one.
        presses: u32,
    },
    /// The terminal has the Enter, and the text has not left the composer yet. A text that stays
    /// there is submitted again.
    Leaving {
        /// The time at which the terminal had the Enter.
        since: Moment,
        /// The number of attempts to submit the text so far.
        presses: u32,
        /// The time of the last look at the composer.
        checked_at: Moment,
        /// The time of the last look at which the composer held the text.
        seen_at: Moment,
        /// Whether the program takes no Enter, as far as is known.
        is_ignored: bool,
    },
}

/// An obstacle that keeps the next text from being typed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Block {
    pub(super) why: Obstacle,
    pub(super) since: Moment,
}

/// A text that seems to have left the composer. It may be seen there again: the program took its
/// Enter for a line break, and was so slow to paint that the text seemed to have left.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Left {
    /// The time at which the Enter was last pressed.
    pub(super) pressed_at: Moment,
    /// The number of attempts to submit the text so far.
    pub(super) presses: u32,
    /// The time of the last look at the composer.
    pub(super) checked_at: Moment,
}

impl Default for Delivering {
    fn default() -> Self {
        Self::Waiting { block: None, left: None }
    }
}

impl Delivering {
    /// Whether a text is on its way.
    pub(super) fn has_text(&self) -> bool {
        !matches!(self, Self::Waiting { .. })
    }

    /// Returns what keeps the next text from being typed.
    pub(super) fn block(&self) -> Option<Block> {
        let Self::Waiting { block, .. } = *self else { return None };
        block
    }

    /// Returns the last text as one that has left, if only an Enter has followed it.
    pub(super) fn left(&self, interference: Interference) -> Option<Left> {
        let Self::Leaving { since, presses, checked_at, .. } = *self else { return None };
        let left = Left { pressed_at: since, presses, checked_at };
        (interference == Interference::None).then_some(left)
    }

    /// Returns the stage in a word.
    pub(super) fn stage(&self) -> &'static str {
        match self {
            Self::Waiting { .. } => "waiting",
            Self::Typing { .. } => "typing",
            Self::Settling { .. } => "settling",
            Self::Submitting { .. } => "submitting",
            Self::Leaving { .. } => "leaving",
        }
    }
}
