//! What reaches the router's inbox.

use super::hands::Client;
use crate::{
    protocol::{code::Violation, frame::Batch, relay::Process},
    router::{ClientId, policy::Policy},
    store::Report,
};
use std::sync::Arc;

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
    Described(Process<'static>),
    /// An hour has gone by: the store forgets what is old by this clock.
    Hour,
    /// The store says something.
    Stored(Report),
    /// Its thread panicked.
    StoreDied,
    /// The policy file was read again, for these; or why it can't be.
    PolicyRead(Vec<ClientId>, Result<Arc<Policy>, String>),
    /// The daemon shall stop, for this reason.
    Stop(&'static str),
}
