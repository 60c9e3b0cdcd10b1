//! A text on its way into the agent: its stage, and what the person did meanwhile.

use crate::{
    bridge::{input::IncomingMessage, keyboard::Reader, obstacle::Obstacle},
    protocol::Moment,
};

/// The text that is being typed. There is one at a time.
#[derive(Debug)]
pub(super) struct Injection {
    pub(super) content: Content,
    /// The digits of its frame.
    pub(super) hex: String,
    /// The program that the text was typed into.
    pub(super) reader: Reader,
    pub(super) stage: Stage,
    /// Whether the person's keys are passed on: the program asks something, or does not take the
    /// text as it should.
    pub(super) passes_keys: bool,
    /// Why the text is not submitted, or does not leave the input line.
    pub(super) obstacle: Option<Obstacle>,
    pub(super) interference: Interference,
}

/// The content of a frame.
#[derive(Debug)]
pub(super) enum Content {
    Message(IncomingMessage),
    /// A text of the relay's own.
    Notice,
}

/// The stages of an injection, in order. A text that stays in the input line goes back to
/// `Submitting`.
#[derive(Clone, Copy, Debug)]
pub(super) enum Stage {
    /// The text is being written to the terminal.
    Typing {
        /// The count of written bytes at which all of the text is there.
        until: u64,
    },
    /// The text is in the terminal, and its Enter waits for the screen to settle.
    Guard {
        /// When the text was written, or a dialog was last on the screen.
        typed_at: Moment,
        /// Since when the screen has to settle.
        since: Moment,
    },
    /// The Enter is being written to the terminal.
    Submitting {
        /// The count of written bytes at which the text has been written.
        until: u64,
        /// Counts attempts.
        presses: u32,
    },
    /// The Enter is in the terminal, and the text has not left the input line yet.
    Leaving {
        /// When the Enter was there.
        since: Moment,
        /// Counts attempts.
        presses: u32,
        checked_at: Moment,
    },
}

/// The person's keys that reached the program while a text was in its input line.
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
