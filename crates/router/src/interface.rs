//! The router's interface: its inputs and its outputs.

pub use super::frame::Frame;
use super::policy::Policy;
use protocol::{
    client_frame::ClientFrame,
    code::{ErrorCode, Violation},
    record::{Change, Query, QueryResult},
};
use std::sync::Arc;

/// A connection's number. Numbers count up for as long as the daemon runs, and are never reused.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct ClientId(pub u64);

/// A process at the other end of connections.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct PeerProcess {
    /// The process id.
    pub pid: u32,
    /// The time of its start, in the system's units; 0 if the system does not tell it.
    pub start: u64,
}

/// An event for the router.
#[derive(Debug)]
pub enum Input<'a> {
    /// A connection of this process was accepted; `None` if the system does not tell the process.
    Connected(ClientId, Option<PeerProcess>),
    /// Frames of the client arrived, and wait for the client's turn. Arrival counts as a sign of
    /// life, whenever the frames are handled.
    Arrived(ClientId),
    /// A frame whose turn it is.
    Frame(ClientId, ClientFrame<'a>),
    /// The client's bytes are not a frame, or the peer belongs to another user. Nothing more is
    /// read from the client.
    Violated(ClientId, Violation),
    /// The system has accepted this number of bytes of the client's [`Output::Frame`]s.
    Written(ClientId, usize),
    /// The connection ended, from either side, and all its frames are handled. This is the last
    /// input about the client.
    Disconnected(ClientId),
    /// The store has persisted all changes up to this one, counted over all [`Output::Persist`]s.
    Persisted(u64),
    /// The store lost its file and begins with an empty one.
    Lost,
    /// The store has handled all changes up to this one, but could not persist the messages among
    /// them, for this reason.
    Refused(u64, &'a str),
    /// The answer to this client's [`Output::Query`], or the reason why there is none, as a
    /// sentence.
    Found(ClientId, Result<QueryResult, String>),
    /// The owner's policy from now on.
    Policy(Arc<Policy>),
    /// The policy file was read again at this client's request. The error is the reason why it
    /// cannot be read, as a sentence.
    Reloaded(ClientId, Result<(), String>),
    /// Bytes that the daemon holds outside the router: half-read frames, its inbox.
    Outside(usize),
    /// The router's deadline is reached. If more timers are due than one tick handles, the deadline
    /// stays in the past.
    Tick,
    /// The daemon has to stop, for this reason, which BYE states.
    Stop(&'static str),
}

/// An effect for the driver to carry out.
#[derive(Debug)]
pub enum Output {
    /// A change that the store has to persist. Changes are persisted in the order of these outputs.
    Persist(Change),
    /// A query that the store has to answer after all changes before it. A client has one query at
    /// a time.
    Query(ClientId, Box<Query>),
    /// A request to read the policy file again, for this client.
    Reload(ClientId),
    /// A frame to write. The frames of one client are written in the order of these outputs.
    Frame(ClientId, Frame),
    /// Makes the client's frames wait (true), or lets them be handled again (false).
    SetPaused(ClientId, bool),
    /// The client has completed its handshake: it may send more at once than a stranger.
    Admitted(ClientId),
    /// The client is an operator: it gets its turns in the operators' group.
    Operator(ClientId),
    /// Closes the connection once the frames that were handed out are written. Frames of the client
    /// that wait for its turn are dropped. [`Input::Disconnected`] follows.
    Close(ClientId, CloseReason),
    /// Closes the connection at once, and discards unwritten frames. [`Input::Disconnected`]
    /// follows.
    HangUp(ClientId),
    /// A line for the daemon's log.
    Log(String),
    /// All clients got BYE and are closed: the daemon may end.
    Stopped,
}

/// A bound for the size of an output. Every message moves one or two outputs, so rare large
/// contents are boxed.
const _: () = assert!(size_of::<Output>() <= 64);

/// The reason for which the daemon closes a connection.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum CloseReason {
    /// The client sent BYE.
    Bye,
    /// A fatal ERROR was sent.
    Fault(ErrorCode),
    /// The daemon stops.
    Stopping,
}
