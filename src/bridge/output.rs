//! The bridge's outputs: actions for its driver, and the state that the driver may ask for.

use super::{obstacle::Obstacle, outgoing::OutgoingMessage};

/// Identifies one outgoing message until the daemon has accepted or refused it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct SendHandle(pub u64);

/// An action for the driver.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Output {
    /// Write these bytes to the child's terminal, in a separate write and in the order of the
    /// outputs.
    Write(Vec<u8>),
    /// Send this message.
    Send(SendHandle, OutgoingMessage),
    /// Acknowledge the delivery with this id, because its message was typed and submitted.
    Acknowledge(String),
    /// Report the progress of the delivery with this id.
    Report(String, Progress),
    /// Return the delivery with this id to the daemon, because its message cannot be typed any
    /// more. The daemon delivers it again.
    Return(String),
    /// Write this line to the log.
    Log(String),
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

/// A summary of the bridge for `agent-relay status` and attach clients.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct State {
    /// The number of messages that wait to be typed.
    pub waiting: usize,
    /// The reason why the messages wait.
    pub why: Option<Obstacle>,
    /// The number of messages typed so far.
    pub typed: u64,
    /// Whether the relay is connected.
    pub connected: bool,
    /// Whether the person holds the agent's messages.
    pub held: bool,
}
