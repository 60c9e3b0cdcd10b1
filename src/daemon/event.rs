//! Events in the router's inbox.

use super::{client_handle::ClientHandle, entry::QueuedFrames};
use protocol::{code::Violation, relay::Process};
use router::{ClientId, PeerProcess, policy::Policy};
use std::sync::Arc;

/// An event for the router.
#[derive(Debug)]
pub(super) enum Event {
    /// A client has connected, from this process, and its reader has started, or it has a channel.
    Accepted(ClientId, Option<PeerProcess>, Box<ClientHandle>),
    /// The client's reader read whole frames.
    Frames(ClientId, QueuedFrames),
    /// The client's reader read something else than frames, or the client is another user's.
    Violated(ClientId, Violation),
    /// The client has to end at once, without the frames that wait.
    Evicted(ClientId, Violation),
    /// The client's writer wrote this buffer.
    Written(ClientId, Vec<u8>),
    /// The client has granted credit in its channel.
    Credited(ClientId),
    /// The client's writer has failed.
    WriterFailed(ClientId),
    /// The client's reader has ended, or its channel.
    Ended(ClientId),
    /// The description of the daemon in `status` has changed.
    Described(Process<'static>),
    /// An hour has passed, so the store is told the time.
    Hour,
    /// The store has a report.
    Stored(store::Report),
    /// The vital thread with this name panicked.
    Panicked(&'static str),
    /// The policy file was read again for these clients, or cannot be read for this reason.
    PolicyRead(Vec<ClientId>, Result<Arc<Policy>, String>),
    /// The daemon is to stop, for this reason.
    Stop(&'static str),
}
