//! The terminal side's inputs: everything that can happen around an agent.

use super::{
    failure::DeliveryFailure,
    frame::Head,
    keyboard::Reader,
    outgoing::OutgoingMessage,
    output::{Caller, SendHandle},
    transcript::{Record, TranscriptId},
};
use protocol::{Moment, activity::Activity, deliver::Proof, hook, payload::LoopCount};

/// A message for the agent.
#[derive(Clone, Debug, Default)]
pub struct IncomingMessage {
    /// The delivery's id.
    pub id: String,
    /// The sender's name.
    pub from: String,
    /// The id of the sender's session.
    pub session: Option<String>,
    /// How the daemon authenticated the sender, if the DELIVER states it.
    pub auth: Option<Proof>,
    /// The topic that the message was sent to.
    pub topic: Option<String>,
    /// The sender's label for the conversation.
    pub thread: Option<String>,
    /// Whether the message is typed before waiting messages that are not urgent.
    pub urgent: bool,
    /// The number of this delivery attempt, from 1; at a redelivery, at least 2.
    pub attempt: u32,
    /// The sender's count of messages with the agent.
    pub hops: Option<LoopCount>,
    /// Whether the daemon waits for an acknowledgement.
    pub requires_ack: bool,
    /// The text.
    pub body: String,
}

impl IncomingMessage {
    /// Returns the facts for a frame's first line. `auth` is the authentication that the agent
    /// should see.
    pub(crate) fn head(&self, auth: Option<Proof>) -> Head<'_> {
        Head {
            from: &self.from,
            id: &self.id,
            again: self.attempt > 1,
            auth,
            topic: self.topic.as_deref(),
            thread: self.thread.as_deref(),
        }
    }
}

/// A message from the agent that waits at its recipient.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct UnreadMessage {
    /// The message's handle, if the wrapper sent the message and still knows it.
    pub handle: Option<SendHandle>,
    /// The recipient's name.
    pub to: String,
    /// How long the message has waited, in milliseconds.
    pub for_ms: u64,
    /// The reason, in the recipient's words.
    pub why: String,
    /// The recipient's activity and its duration in milliseconds, if known.
    pub doing: Option<(Activity, u64)>,
}

/// An event for the terminal side.
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
    /// The message of [`Output::Expand`](super::Output::Expand) goes to these agents. If it goes to
    /// nobody, the error is a clause that says why.
    Expanded(OutgoingMessage, Result<Vec<String>, String>),
    /// A message arrived for the agent.
    Delivered(IncomingMessage),
    /// The daemon accepted a message from the agent.
    Accepted {
        /// The handle of the message.
        handle: SendHandle,
        /// Whether the message waits because its recipient is not connected.
        away: bool,
    },
    /// A message from the agent was not delivered, now or after an earlier acceptance.
    Undelivered(DeliveryFailure),
    /// A message from the agent waits at its recipient.
    Unread(UnreadMessage),
    /// The connection to the relay was made (`true`) or lost.
    Connected(bool),
    /// The relay rejected the agent.
    Rejected {
        /// The reason, as a sentence without its full stop.
        why: String,
        /// Whether the wrapper makes no further attempt to connect.
        is_permanent: bool,
    },
    /// The person put the agent's messages on hold (`true`) or released them.
    Held(bool),
    /// The child's terminal accepted this many bytes of [`Output::Write`](super::Output::Write).
    Written(usize),
    /// According to the operating system, this transcript is the child's.
    Owned(TranscriptId),
    /// A transcript that may be the child's has one more record.
    Recorded(TranscriptId, Record),
    /// All records in the followed transcripts up to the time `at` have been passed on.
    Searched {
        /// When the files were read.
        at: Moment,
        /// Whether no other agent of the same kind worked in the child's directory then.
        is_alone: bool,
    },
    /// This program reads the terminal now.
    Reads {
        /// The program.
        reader: Reader,
        /// Whether the terminal gathers lines for it, according to the system.
        gathers_lines: bool,
    },
    /// An inner `run` has marked that the output from here on belongs to it (`true`), or no longer.
    InnerOutput(bool),
    /// A hook reports, and waits for [`Output::Hooked`](super::Output::Hooked).
    Hooked(Caller, hook::Report),
    /// This hook had ended before it was answered.
    HookGone(Caller),
    /// This hook was answered with a text, and disconnected without PRINTED.
    HookUnconfirmed(Caller),
    /// The process of [`Output::Wake`](super::Output::Wake) failed to deliver the message with this
    /// id to the agent.
    NotWoken(String),
    /// A command of the agent takes the message whose id begins with this text, or all messages,
    /// and waits for [`Output::Taken`](super::Output::Taken).
    Take(Caller, Option<String>),
    /// A command of the agent is about to send a message to this recipient, and waits for
    /// [`Output::Counted`](super::Output::Counted).
    Count(Caller, String),
    /// Both the agent and this other agent have edited the file with this path within ten minutes.
    Collided(String, String),
    /// The terminal side's deadline is reached.
    Tick,
    /// The child has ended and all its output was passed on. Later inputs have no effect.
    ChildGone,
}
