//! The bridge's inputs: everything that can happen around an agent.

use super::{
    failure::DeliveryFailure,
    keyboard::Reader,
    output::SendHandle,
    recipe::Recipe,
    transcript::{Record, TranscriptId},
};
use crate::protocol::{Moment, deliver::Proof};

/// A message for the agent.
#[derive(Clone, Debug, Default)]
pub struct IncomingMessage {
    /// The delivery's id.
    pub id: String,
    /// The sender's name.
    pub from: String,
    /// The id of the sender's session.
    pub session: Option<String>,
    /// The proof by which the daemon knows the sender.
    pub auth: Option<Proof>,
    /// Whether the message is typed before others that wait.
    pub urgent: bool,
    /// Counts deliveries of this message, from 1; 2 or more at a redelivery.
    pub attempt: u32,
    /// The text.
    pub body: String,
}

/// An event for the bridge.
#[derive(Debug)]
pub enum Input<'a> {
    /// The child printed these bytes.
    Printed(&'a [u8]),
    /// The person's terminal sent these bytes: keys, or answers to the child's queries.
    Keys(&'a [u8]),
    /// The terminal's size changed.
    Resized {
        /// The new number of columns.
        columns: usize,
        /// The new number of rows.
        rows: usize,
    },
    /// A message arrived for the agent.
    Delivered(IncomingMessage),
    /// The daemon accepted a message of the agent's.
    Accepted {
        /// The message.
        handle: SendHandle,
        /// Whether the message waits because its recipient is not connected.
        away: bool,
    },
    /// A message of the agent's was not delivered, now or after an earlier acceptance.
    Undelivered(DeliveryFailure),
    /// The connection to the relay was made (`true`) or lost.
    Connected(bool),
    /// The relay rejected the agent.
    Rejected {
        /// A sentence without its full stop.
        why: String,
        /// Whether no further attempt is made.
        is_permanent: bool,
    },
    /// The person put the agent's messages on hold (`true`) or released them.
    Held(bool),
    /// The child's terminal accepted this many bytes of [`Output::Write`](super::Output::Write).
    Written(usize),
    /// This transcript is the child's: the system says so.
    Owned(TranscriptId),
    /// A transcript that may be the child's has another record.
    Recorded(TranscriptId, Record),
    /// All records that the followed transcripts had at `at` have been passed on.
    Searched {
        /// The moment at which the files were read.
        at: Moment,
        /// Whether no other agent of the same kind worked in the child's directory then.
        is_alone: bool,
    },
    /// This program reads the terminal from now on.
    Reads(Reader),
    /// The program that reads the terminal has this recipe rather than the command's.
    Recognised(Box<Recipe>),
    /// The deadline is reached.
    Tick,
    /// The child has ended and all its output was passed on. Later inputs have no effect.
    ChildGone,
}
