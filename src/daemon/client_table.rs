//! The clients, as routing has them: their handles, and the frames that wait.

use super::{client_handle::ClientHandle, entry::Entry, turns::Pid};
use client::link::{Lane, SpareBuffers};
use router::{ClientId, Frame, schedule::Schedule};
use rustc_hash::FxHashMap;

/// The unsent bytes with which a lane is written before the others.
const FULL_BYTES: usize = 64 * 1024;

/// The clients' handles, and their frames that the router has not handled.
#[derive(Debug, Default)]
pub(super) struct ClientTable {
    handles: FxHashMap<ClientId, Box<ClientHandle>>,
    /// The frames that the router has not handled, by client.
    pub(super) schedule: Schedule<Entry>,
    /// Clients whose lanes have something to write.
    dirty: Vec<ClientId>,
    spare: SpareBuffers,
    /// Clients whose lanes have so much to write that it should not wait.
    pub(super) full: Vec<ClientId>,
}

impl ClientTable {
    /// Adds a client, whose reader has started, and its process.
    pub(super) fn add(&mut self, id: ClientId, pid: Pid, mut client: Box<ClientHandle>) {
        client.pid = pid;
        self.handles.insert(id, client);
        self.schedule.add(id, pid);
    }

    /// Returns a client's process, if the system tells it.
    pub(super) fn pid(&self, id: ClientId) -> Pid {
        self.handles.get(&id)?.pid
    }

    /// Removes a client whose reader has ended.
    pub(super) fn remove(&mut self, id: ClientId) {
        if let Some(client) = self.handles.remove(&id) {
            client.half_read.leave(id.0);
        }
        self.schedule.remove(id);
    }

    /// Lets a client send more at once, because its handshake is complete.
    pub(super) fn admit(&self, id: ClientId) {
        if let Some(client) = self.handles.get(&id) {
            client.admit(id);
        }
    }

    /// Lets a client's frames wait until it reads its answers, or ends that. The frames of a client
    /// that is gone do not wait for its reading.
    pub(super) fn set_paused(&mut self, id: ClientId, is_paused: bool) {
        let is_here = self.handles.get(&id).is_some_and(|client| client.lane.is_some());
        self.schedule.set_blocked(id, is_paused && is_here);
    }

    /// Drops a client's frames that wait for its turn, and closes its stream once its lane has
    /// handed everything over. The report of its end stays.
    pub(super) fn close(&mut self, id: ClientId) {
        self.schedule.discard(id, |entry| matches!(entry, Entry::Ended));
        if let Some(client) = self.handles.get_mut(&id) {
            client.closing = true;
            client.lift_read_quota();
            client.mark_dirty(id, &mut self.dirty);
        }
    }

    /// Ends a client's connection at once. Frames that it sent are still handled, even if they had
    /// to wait until it reads its answers: it will not.
    pub(super) fn hang_up(&mut self, id: ClientId) {
        if let Some(client) = self.handles.get_mut(&id) {
            client.hang_up();
            client.lane = None;
        }
        self.schedule.set_blocked(id, false);
    }

    /// Ends all connections at once, and forgets them.
    pub(super) fn hang_up_all(&mut self) {
        self.handles.drain().for_each(|(_, client)| client.hang_up());
    }

    /// Adds a frame to a client's lane, which is flushed later.
    pub(super) fn append(&mut self, id: ClientId, frame: &Frame) {
        let Some(client) = self.handles.get_mut(&id) else { return };
        let Some(lane) = &mut client.lane else { return };
        let unsent = lane.unsent(&mut self.spare);
        let before = unsent.len();
        unsent.extend_from_slice(&frame.head);
        if let Some(shared) = &frame.shared {
            unsent.extend_from_slice(shared);
        }
        if (before..unsent.len()).contains(&FULL_BYTES) {
            self.full.push(id);
        }
        client.mark_dirty(id, &mut self.dirty);
    }

    /// Notes that a client's writer wrote this buffer. Returns false if the client is gone.
    pub(super) fn written(&mut self, id: ClientId, buffer: Vec<u8>) -> bool {
        let Some(client) = self.handles.get_mut(&id) else { return false };
        if let Some(lane) = &mut client.lane {
            lane.written(buffer, &mut self.spare);
        }
        client.mark_dirty(id, &mut self.dirty);
        true
    }

    /// Whether the system has taken all that was written to a client.
    pub(super) fn is_written(&self, id: ClientId) -> bool {
        let lane = self.handles.get(&id).and_then(|client| client.lane.as_ref());
        lane.is_none_or(Lane::is_written)
    }

    /// Takes a client whose lane is to be flushed.
    pub(super) fn take_dirty(&mut self) -> Option<ClientId> {
        let id = self.dirty.pop()?;
        if let Some(client) = self.handles.get_mut(&id) {
            client.dirty = false;
        }
        Some(id)
    }

    /// Flushes a client's lane. Returns the number of bytes that the system has taken.
    pub(super) fn flush(&mut self, id: ClientId) -> usize {
        let Some(client) = self.handles.get_mut(&id) else { return 0 };
        let Some(lane) = &mut client.lane else { return 0 };
        let written = match lane.flush(&mut self.spare) {
            Ok(written) => written,
            Err(error) => {
                tracing::debug!("client {}: {error}", id.0);
                self.hang_up(id);
                return 0;
            }
        };
        if client.closing && lane.is_empty() {
            client.lane = None;
        }
        written
    }
}
