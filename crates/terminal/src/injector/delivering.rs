//! The stages of a text on its way into the agent.

use super::interference::Interference;
use crate::obstacle::Obstacle;
use protocol::Moment;

/// The stages of a text, in order. At most one text is on its way.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Delivering {
    /// No text is on its way. The next one waits, if there is one.
    Waiting {
        /// What obstructs the next text.
        block: Option<Block>,
        /// The last text, if only an Enter has followed it.
        left: Option<Left>,
    },
    /// The text is being written to the terminal.
    Typing {
        /// The count of written bytes when the terminal has the whole text.
        end: u64,
    },
    /// The terminal has the text, and its Enter waits for the screen to settle.
    Settling {
        /// Since when the composer should show the text: since it was written, or since the last
        /// question or other program went away.
        missing_since: Moment,
        /// When the screen must begin to be unchanged for the recipe's `guard_ms`.
        since: Moment,
    },
    /// The Enter is being written to the terminal.
    Submitting {
        /// The count of written bytes when the terminal has the Enter.
        end: u64,
        /// How many times Enter was pressed for the text, including this one.
        presses: u32,
    },
    /// The terminal has the Enter, and the text has not left the composer yet. A text that stays
    /// there is submitted again.
    Leaving {
        /// When the terminal had the Enter.
        since: Moment,
        /// How many times Enter was pressed for the text so far.
        presses: u32,
        /// The time of the last look at the composer.
        checked_at: Moment,
        /// When the composer was last seen holding the text.
        seen_at: Moment,
        /// Whether the program seems to ignore Enter.
        is_ignored: bool,
    },
}

/// An obstacle to typing the next text.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Block {
    pub(super) why: Obstacle,
    pub(super) since: Moment,
}

/// A text that seems to have left the composer. It may be seen there again: the program took its
/// Enter for a line break, and painted so slowly that the text seemed to have left.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Left {
    /// When Enter was last pressed.
    pub(super) pressed_at: Moment,
    /// How many times Enter was pressed for the text so far.
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

    /// Returns what obstructs the next text.
    pub(super) fn block(&self) -> Option<Block> {
        let Self::Waiting { block, .. } = *self else { return None };
        block
    }

    /// Returns the last text as having left, if only an Enter has followed it.
    pub(super) fn left(&self, interference: Interference) -> Option<Left> {
        let Self::Leaving { since, presses, checked_at, .. } = *self else { return None };
        let left = Left { pressed_at: since, presses, checked_at };
        (interference == Interference::None).then_some(left)
    }

    /// Returns the stage as a word.
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
