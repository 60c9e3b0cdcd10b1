//! Who hears it: the pure machine in the daemon's middle.
//!
//! A driver hands it everything that happens as an [`Input`] and does what each [`Output`] says, in
//! order. The machine never waits, reads no clock and returns no error: a peer's mistake becomes an
//! answer or a close.

use crate::protocol::{Now, code::Violation};
use std::sync::Arc;

/// A connection, for as long as the daemon runs. Never used twice.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct ClientId(pub u64);

/// Everything that can happen.
#[derive(Debug)]
pub enum Input<'a> {
    /// A stream of the owner's was accepted; nothing has been said yet.
    Connected(ClientId),
    /// One whole frame's JSON.
    Frame(ClientId, &'a [u8]),
    /// The client's bytes are no frame, or the peer is somebody else's. Nothing more is read from it.
    Violated(ClientId, Violation),
    /// So many bytes of this client's [`Output::Frame`]s have left for the system.
    Written(ClientId, usize),
    /// The connection ended, either way. Its last input.
    Disconnected(ClientId),
    /// Bytes that the daemon holds outside the machine: half-read frames, its inbox.
    Outside(usize),
    /// The deadline is reached.
    Tick,
    /// The daemon shall go down; the reason is BYE's.
    Stop(&'static str),
}

/// Everything that is to be done.
#[derive(Debug)]
pub enum Output {
    /// Write a frame. Frames of one client leave in this order.
    Frame(ClientId, Frame),
    /// Stop reading from the client (false), or go on (true).
    Gate(ClientId, bool),
    /// Write what was handed out, then close. [`Input::Disconnected`] follows.
    Close(ClientId, CloseReason),
    /// Close at once, whatever is still to be written. [`Input::Disconnected`] follows.
    HangUp(ClientId),
    /// A line for the log, at the level that a person who runs the place wants.
    Log(String),
    /// Everybody was told BYE and has been closed: the daemon may end.
    Stopped,
}

/// A frame's bytes, its length in front: the recipient's own part, and what others share.
#[derive(Clone, Debug)]
pub struct Frame {
    /// Length, and all or the first part of the JSON.
    pub head: Vec<u8>,
    /// The rest, made once for all recipients.
    pub shared: Option<Arc<[u8]>>,
}

impl Frame {
    /// Bytes in all.
    #[must_use]
    pub fn bytes(&self) -> usize {
        self.head.len() + self.shared.as_ref().map_or(0, |shared| shared.len())
    }
}

/// Why the daemon closes a connection.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum CloseReason {
    /// The client said BYE.
    Bye,
    /// A fatal ERROR was sent.
    Fault(crate::protocol::code::ErrorCode),
    /// The daemon goes down.
    Stopping,
}
