//! The terminal side's outputs: actions for its driver, and the state that the driver may ask for.

use super::{activity::Doing, obstacle::Obstacle, outgoing::OutgoingMessage};
use protocol::payload::LoopCount;
use std::fmt;

/// Identifies one outgoing message until the daemon has accepted or refused it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct SendHandle(pub u64);

/// The minimum delay before a returned message is redelivered, in milliseconds.
pub(super) const RETURN_MS: u64 = 1000;

/// Identifies a hook or a command of the agent that waits for an answer.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Caller(pub u64);

/// An action for the driver.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Output {
    /// Write these bytes to the child's terminal, in a separate write and in the order of the
    /// outputs.
    Write(Vec<u8>),
    /// Determine which program reads the terminal, and answer at once with
    /// [`Input::Reads`](super::Input::Reads): a key is about to be pressed.
    Identify,
    /// Send this message. If the agent's work is known, send the agent's count of messages with the
    /// recipient, too.
    Send(SendHandle, OutgoingMessage, Option<LoopCount>),
    /// Determine the agents of this message's group, and answer with
    /// [`Input::Expanded`](super::Input::Expanded).
    Expand(OutgoingMessage),
    /// Acknowledge the delivery with this id, because its message was typed and submitted.
    Acknowledge(String),
    /// Report the progress of the delivery with this id.
    Report(String, Progress),
    /// Return the delivery with this id to the daemon, because its message can no longer be typed.
    /// The daemon redelivers it after at least this number of milliseconds.
    Return(String, u64),
    /// Answer a hook, with a text for the agent if there is one.
    Hooked(Caller, Option<String>),
    /// Start a process of the agent's CLI that adds a text to a conversation's queue of prompts.
    Wake {
        /// The process's arguments.
        arguments: &'static [&'static str],
        /// The CLI's id of the conversation.
        session: String,
        /// The text.
        text: String,
        /// The id of the delivery in it, for [`Input::NotWoken`](super::Input::NotWoken).
        id: String,
    },
    /// Answer a command that takes messages.
    Taken(Caller, Taken),
    /// Report the agent's activity to the daemon. Only the latest activity counts.
    Activity(Doing),
    /// Answer a command that sends a message, with the count to send with it.
    Counted(Caller, Option<LoopCount>),
    /// Write this line to the log.
    Log(String),
}

/// The answer to a command of the agent that takes messages.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Taken {
    /// Messages in their frames.
    Text(String),
    /// No such message waits.
    Nothing,
    /// The messages cannot be read now.
    Unreadable(Unreadable),
}

/// Why waiting messages cannot be read.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Unreadable {
    /// No hook would report whether the agent has read them.
    NoHooks,
    /// The person holds them.
    Held,
    /// The agent is not at work, so they are about to be typed.
    Idle,
    /// The message waits because the agent and its sender only answer each other.
    Looping,
    /// One is longer than a CLI's display of a command's output.
    Long,
}

impl fmt::Display for Unreadable {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::NoHooks => "no hook of the agent's CLI has reported yet, so it will be typed",
            Self::Held => "your user holds your messages",
            Self::Idle => "you are idle, so it will be typed",
            Self::Looping => {
                "its sender and you only answer each other: it waits for your user's prompt, or for \
                 you to use a tool"
            }
            Self::Long => {
                "it, or an earlier one from the same sender, exceeds 8 KiB: it will be typed after \
                 your turn"
            }
        })
    }
}

/// The progress of a delivery into the agent.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Progress {
    /// Not typed yet, for this reason.
    Waiting(Obstacle),
    /// Not typed yet, and the reported reason no longer holds.
    Unhindered,
    /// Typed and submitted.
    Injected,
    /// Recorded in the transcript of the agent's program, as a prompt with the whole frame.
    Confirmed,
}

/// A summary of the terminal side for `agent-relay status` and attach clients.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct State {
    /// The number of messages that are not known to have reached the agent.
    pub waiting: usize,
    /// Why the messages wait.
    pub why: Option<Obstacle>,
    /// The number of messages typed so far.
    pub typed: u64,
    /// Whether the relay is connected.
    pub connected: bool,
    /// Whether the person holds the agent's messages.
    pub held: bool,
}
