//! The handle that the router's thread has of a client's connection.

use super::client_wire::ClientWire;
use client::link::{Lane, ReadQuota};
use platform::transport::Stream;
use router::ClientId;
use std::{mem, sync::Arc};

/// The stream, lane and read quota of a client.
#[derive(Debug)]
pub(super) struct ClientHandle {
    stream: Stream,
    /// The lane to write on; none once the client is being closed and everything was handed over.
    pub(super) lane: Option<Lane<ClientWire>>,
    read_quota: Arc<ReadQuota>,
    /// Whether to close the stream once the lane has handed everything over.
    pub(super) closing: bool,
    /// Whether the client is in the list of clients whose lanes are to be flushed.
    pub(super) dirty: bool,
}

impl ClientHandle {
    pub(super) const fn new(
        stream: Stream,
        lane: Lane<ClientWire>,
        read_quota: Arc<ReadQuota>,
    ) -> Self {
        Self { stream, lane: Some(lane), read_quota, closing: false, dirty: false }
    }

    /// Lets the reader go on to the end of the stream, because the connection is being closed.
    pub(super) fn lift_read_quota(&self) {
        self.read_quota.lift();
    }

    /// Ends the connection at once; unwritten frames are lost.
    pub(super) fn hang_up(&self) {
        // A reader that waits for its quota would not notice the end of the stream.
        self.lift_read_quota();
        self.stream.hang_up();
    }

    /// Adds the client to the list of clients whose lanes are to be flushed, if it is not there
    /// yet.
    pub(super) fn mark_dirty(&mut self, id: ClientId, dirty: &mut Vec<ClientId>) {
        if !mem::replace(&mut self.dirty, true) {
            dirty.push(id);
        }
    }
}
