//! What reaches the router's inbox.

use super::hands::Client;
use crate::{
    protocol::{code::Violation, frame::Batch},
    router::ClientId,
};
use serde_json::value::RawValue;

/// Everything that the router's thread is told by the others.
#[derive(Debug)]
pub(super) enum Event {
    /// A client's reader begins.
    Accepted(ClientId, Box<Client>),
    /// It read whole frames.
    Batch(ClientId, Batch),
    /// It read what is no frame, or from a stranger.
    Violated(ClientId, Violation),
    /// Its writer wrote this buffer.
    Written(ClientId, Vec<u8>),
    /// Its reader ends.
    Ended(ClientId),
    /// What `status` says about the daemon changed.
    Described(Box<RawValue>),
    /// The daemon shall stop, for this reason.
    Stop(&'static str),
}
