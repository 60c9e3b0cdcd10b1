//! The handle that the router's thread has of a client's connection.

use crate::{
    link::{Lane, ReadPause, WriterWire},
    router::ClientId,
};
use platform::transport::Stream;
use std::{mem, sync::Arc};

/// The stream, lane and read pause of a client.
#[derive(Debug)]
pub(super) struct ClientHandle {
    stream: Stream,
    /// The lane to write on; none once the client is being closed and everything was handed over.
    pub(super) lane: Option<Lane<WriterWire>>,
    read_pause: Arc<ReadPause>,
    /// Whether to close the stream once the lane has handed everything over.
    pub(super) closing: bool,
    /// Whether the client is in the list of clients whose lanes are to be flushed.
    pub(super) dirty: bool,
}

impl ClientHandle {
    pub(super) const fn new(
        stream: Stream,
        lane: Lane<WriterWire>,
        read_pause: Arc<ReadPause>,
    ) -> Self {
        Self { stream, lane: Some(lane), read_pause, closing: false, dirty: false }
    }

    /// Pauses or resumes reading from the client.
    pub(super) fn set_read_paused(&self, paused: bool) {
        self.read_pause.set(paused);
    }

    /// Ends the connection at once; unwritten frames are lost.
    pub(super) fn hang_up(&self) {
        // A paused reader would not notice the end of the stream.
        self.set_read_paused(false);
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
