//! An injection: a text on its way into the agent, its stage, and the person's keys meanwhile.

use crate::{input::IncomingMessage, keyboard::Reader, obstacle::Obstacle};
use protocol::Moment;

/// The text that is being typed. At most one text is typed at a time.
#[derive(Debug)]
pub(super) struct Injection {
    pub(super) content: Content,
    /// The digits of the text's frame.
    pub(super) hex: String,
    /// The program that the text was typed into.
    pub(super) reader: Reader,
    pub(super) stage: Stage,
    /// Whether the person's keys are passed on, because the program asks something or does not
    /// handle the text as expected.
    pub(super) passes_keys: bool,
    /// The reason why the text is not submitted, or does not leave the input line.
    pub(super) obstacle: Option<Obstacle>,
    pub(super) interference: Interference,
}

/// The content of a frame.
#[derive(Debug)]
pub(super) enum Content {
    Message(IncomingMessage),
    /// A text of the relay itself.
    Notice,
}

/// The stages of an injection, in order. A text that stays in the input line goes back to
/// `Submitting`.
#[derive(Clone, Copy, Debug)]
pub(super) enum Stage {
    /// The text is being written to the terminal.
    Typing {
        /// The count of written bytes at which the terminal has the whole text.
        until: u64,
    },
    /// The text is in the terminal, and its Enter waits for the screen to settle.
    Guard {
        /// The time at which the text was written, or a dialog was last on the screen.
        typed_at: Moment,
        /// The time from which on the screen must be unchanged for the recipe's `guard_ms`.
        since: Moment,
    },
    /// The Enter is being written to the terminal.
    Submitting {
        /// The count of written bytes at which the terminal has the Enter.
        until: u64,
        /// The number of attempts to submit the text so far, with this one.
        presses: u32,
    },
    /// The Enter is in the terminal, and the text has not left the input line yet.
    Leaving {
        /// The time at which the terminal had the Enter.
        since: Moment,
        /// The number of attempts to submit the text so far, with this one.
        presses: u32,
        checked_at: Moment,
        /// The time of the last check at which the input line held the text.
        held_at: Moment,
    },
}

/// The kinds of the person's keys that reached the program while a text was in its input line.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Interference {
    None,
    Keys,
    /// Keys with an Enter among them, which may have submitted the text.
    Enter,
}

impl Injection {
    pub(super) fn is_of(&self, id: &str) -> bool {
        self.message().is_some_and(|message| message.id == id)
    }

    pub(super) fn message(&self) -> Option<&IncomingMessage> {
        match &self.content {
            Content::Message(message) => Some(message),
            Content::Notice => None,
        }
    }
}

impl Content {
    pub(super) fn into_message(self) -> Option<IncomingMessage> {
        match self {
            Self::Message(message) => Some(message),
            Self::Notice => None,
        }
    }
}
