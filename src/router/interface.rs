//! The router's interface: what can happen, and what is to be done.

pub use super::frame::Frame;
use super::policy::Policy;
use crate::{
    protocol::code::{ErrorCode, Violation},
    record::{Change, Query, QueryResult},
};
use std::sync::Arc;

/// A connection's number. Numbers count up for as long as the daemon runs, and are never reused.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct ClientId(pub u64);

/// An event for the router.
#[derive(Debug)]
pub enum Input<'a> {
    /// A connection of the owner was accepted. Nothing has been received yet.
    Connected(ClientId),
    /// One whole frame's JSON.
    Frame(ClientId, &'a [u8]),
    /// The client's bytes are no frame, or the peer is another user's. Nothing more is read from
    /// it.
    Violated(ClientId, Violation),
    /// The system has accepted this number of bytes of the client's [`Output::Frame`]s.
    Written(ClientId, usize),
    /// The connection ended, from either side. This is the last input about the client.
    Disconnected(ClientId),
    /// The store has persisted all changes up to this one, counted over all [`Output::Persist`]s.
    Persisted(u64),
    /// The store lost its file and begins with an empty one.
    Lost,
    /// All changes up to this one are done, but the messages among them could not be persisted, for
    /// this reason.
    Refused(u64, &'a str),
    /// The answer to this client's [`Output::Query`], or why there is none, in a sentence.
    Found(ClientId, Result<QueryResult, String>),
    /// The owner's policy from now on.
    Policy(Arc<Policy>),
    /// The policy file was read again, as this client asked; or why it cannot be read, in a
    /// sentence.
    Reloaded(ClientId, Result<(), String>),
    /// Bytes that the daemon holds outside the router: half-read frames, its inbox.
    Outside(usize),
    /// The deadline is reached.
    Tick,
    /// The daemon has to stop, for this reason, which BYE states.
    Stop(&'static str),
}

/// An effect for the driver to carry out.
#[derive(Debug)]
pub enum Output {
    /// Have the store persist a change. Changes are persisted in this order.
    Persist(Change),
    /// Ask the store, after all changes before. A client has one query at a time.
    Query(ClientId, Box<Query>),
    /// Read the policy file again, for this client.
    Reload(ClientId),
    /// Write a frame. Frames of one client leave in this order.
    Frame(ClientId, Frame),
    /// Pause reading from the client (false), or go on (true).
    SetReading(ClientId, bool),
    /// Write what was handed out, then close. [`Input::Disconnected`] follows.
    Close(ClientId, CloseReason),
    /// Close the connection at once, and discard unwritten frames. [`Input::Disconnected`] follows.
    HangUp(ClientId),
    /// A line for the log, at the level that an operator wants.
    Log(String),
    /// All clients got BYE and are closed: the daemon may end.
    Stopped,
}

/// Each message moves one or two of them: what is rare and large is boxed.
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
