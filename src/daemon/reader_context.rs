//! Data shared by the readers of all clients.

use super::Inbox;
use client::link::{BufferedBytes, HalfRead};
use crossbeam_channel::Receiver;
use platform::peer::User;
use router::ClientId;
use std::sync::{
    Arc,
    atomic::{AtomicU64, Ordering},
};

/// The data that the threads of all clients share.
#[derive(Clone, Debug)]
pub(super) struct ReaderContext {
    pub(super) inbox: Inbox,
    pub(super) frame_bytes_max: usize,
    pub(super) buffered: BufferedBytes,
    pub(super) half_read: HalfRead,
    pub(super) owner: User,
    /// Disconnected when the router's thread has ended.
    pub(super) router_ended: Receiver<()>,
    /// The number of the next client.
    pub(super) ids: Arc<AtomicU64>,
}

impl ReaderContext {
    /// Returns a number that no other client has.
    pub(super) fn next_id(&self) -> ClientId {
        ClientId(self.ids.fetch_add(1, Ordering::Relaxed))
    }
}
