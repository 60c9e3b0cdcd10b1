//! The clients, as routing has them: their handles, and the frames that wait.

use super::{
    channel::{Channels, LANE_BYTES},
    client_handle::{ClientHandle, Connection, Link},
    entry::Entry,
    turns::Pid,
};
use client::link::{BufferedBytes, Lane, SpareBuffers};
use protocol::channel::Control;
use router::{ClientId, Frame, schedule::Schedule};
use rustc_hash::FxHashMap;
use std::{collections::BTreeSet, mem};

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
        if let Link::Channel(channel) = &client.link {
            self.add_channel(channel.connection, id);
        }
        self.handles.insert(id, client);
        self.schedule.add(id, pid);
    }

    /// Returns a client's process, if the system tells it.
    pub(super) fn pid(&self, id: ClientId) -> Pid {
        self.handles.get(&id)?.pid
    }

    /// Adds a channel to its connection, unless that is gone already.
    fn add_channel(&mut self, connection: ClientId, id: ClientId) {
        if let Some(Connection { lane, channels, .. }) = self.connection(connection) {
            let own_bytes = lane.as_ref().map_or(0, Lane::unwritten);
            let channels = channels.get_or_insert_with(|| Box::new(Channels::new(own_bytes)));
            channels.here.insert(id);
        }
    }

    fn connection(&mut self, id: ClientId) -> Option<&mut Connection> {
        self.handles.get_mut(&id)?.connection()
    }

    /// Removes a client whose reader has ended, or whose channel has.
    pub(super) fn remove(&mut self, id: ClientId) {
        self.end_channel(id);
        if let Some(client) = self.handles.remove(&id) {
            client.leave(id);
            if let Link::Channel(channel) = &client.link
                && let Some(connection) = self.handles.get_mut(&channel.connection)
            {
                if let Some(Connection { channels: Some(channels), .. }) = connection.connection() {
                    channels.here.remove(&id);
                }
                connection.mark_dirty(channel.connection, &mut self.dirty);
            }
        }
        self.schedule.remove(id);
    }

    /// Tells a client the end of its channel, unless it was told or has a connection of its own.
    /// Returns whether this was the end.
    fn end_channel(&mut self, id: ClientId) -> bool {
        let channel = self.handles.get_mut(&id).and_then(|client| client.channel());
        let Some((end, connection)) =
            channel.and_then(|channel| Some((channel.end()?, channel.connection)))
        else {
            return false;
        };
        self.append_control(connection, end);
        true
    }

    fn append_control(&mut self, id: ClientId, control: Control) {
        let Some(client) = self.handles.get_mut(&id) else { return };
        if let Some(connection) = client.connection() {
            connection.append_control(control, &mut self.spare);
            client.mark_dirty(id, &mut self.dirty);
        }
    }

    /// Lets a client send more in its channel, if it may.
    pub(super) fn grant(&mut self, id: ClientId, buffered: &BufferedBytes) {
        let channel = self.handles.get_mut(&id).and_then(|client| client.channel());
        if let Some(channel) = channel
            && let Some(control) = channel.to_grant(buffered)
        {
            let connection = channel.connection;
            self.append_control(connection, control);
        }
    }

    /// Adds the credit that a client has granted in its channel.
    pub(super) fn add_credit(&mut self, id: ClientId) {
        let Some(client) = self.handles.get_mut(&id) else { return };
        if let Some(channel) = client.channel() {
            channel.add_credit();
            client.mark_dirty(id, &mut self.dirty);
        }
    }

    /// Notes that a client is an operator.
    pub(super) fn make_operator(&mut self, id: ClientId) {
        self.schedule.make_operator(id);
        if let Some(client) = self.handles.get(&id) {
            client.make_operator();
        }
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
        let is_here = self.handles.get(&id).is_some_and(|client| client.is_open());
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
            if let Some(connection) = client.connection() {
                connection.lane = None;
            }
        }
        if self.end_channel(id) {
            self.schedule.push(id, Entry::Ended);
        }
        self.schedule.set_blocked(id, false);
    }

    /// Ends all connections at once, and forgets them.
    pub(super) fn hang_up_all(&mut self) {
        self.handles.drain().for_each(|(_, client)| client.hang_up());
    }

    /// Adds a frame to what a client is sent, which is flushed later.
    pub(super) fn append(&mut self, id: ClientId, frame: &Frame) {
        let Some(client) = self.handles.get_mut(&id) else { return };
        if !client.is_open() {
            return;
        }
        let append = |unsent: &mut Vec<u8>| {
            unsent.extend_from_slice(&frame.head);
            if let Some(shared) = &frame.shared {
                unsent.extend_from_slice(shared);
            }
        };
        let unsent = match &mut client.link {
            Link::Channel(channel) => {
                append(&mut channel.unsent);
                channel.unsent.len()
            }
            Link::Connection(Connection { lane: Some(lane), channels, .. }) => {
                let unsent = lane.unsent(&mut self.spare);
                match channels {
                    Some(channels) => channels.append_own(unsent, append),
                    None => append(unsent),
                }
                unsent.len()
            }
            Link::Connection(_) => 0,
        };
        if (unsent.saturating_sub(frame.bytes())..unsent).contains(&FULL_BYTES) {
            self.full.push(id);
        }
        client.mark_dirty(id, &mut self.dirty);
    }

    /// Notes that a client's writer wrote this buffer. Returns how many bytes of it were the
    /// client's own frames, not those of its channels.
    pub(super) fn written(&mut self, id: ClientId, buffer: Vec<u8>) -> usize {
        let Some(client) = self.handles.get_mut(&id) else { return 0 };
        let count = buffer.len();
        let Some(Connection { lane, channels, .. }) = client.connection() else { return 0 };
        if let Some(lane) = lane {
            lane.written(buffer, &mut self.spare);
        }
        let own = channels.as_mut().map_or(count, |channels| channels.written(count));
        client.mark_dirty(id, &mut self.dirty);
        own
    }

    /// Whether the system has taken all that was written to a client.
    pub(super) fn is_written(&self, id: ClientId) -> bool {
        self.handles.get(&id).is_none_or(|client| match &client.link {
            Link::Connection(connection) => connection.lane.as_ref().is_none_or(Lane::is_written),
            Link::Channel(channel) => channel.unsent.is_empty(),
        })
    }

    /// Takes a client whose lane is to be flushed.
    pub(super) fn take_dirty(&mut self) -> Option<ClientId> {
        let id = self.dirty.pop()?;
        if let Some(client) = self.handles.get_mut(&id) {
            client.dirty = false;
        }
        Some(id)
    }

    /// Flushes what a client is sent. Returns the number of its bytes that the system has taken, or
    /// a channel's connection.
    pub(super) fn flush(&mut self, id: ClientId) -> usize {
        let Some(client) = self.handles.get_mut(&id) else { return 0 };
        match client.link {
            Link::Connection(_) => self.flush_connection(id),
            Link::Channel(_) => self.flush_channel(id),
        }
    }

    fn flush_connection(&mut self, id: ClientId) -> usize {
        let Some(client) = self.handles.get_mut(&id) else { return 0 };
        let Some(Connection { lane: Some(lane), channels, .. }) = client.connection() else {
            return 0;
        };
        let written = match lane.flush(&mut self.spare) {
            Ok(written) => written,
            Err(error) => {
                tracing::debug!("client {}: {error}", id.0);
                self.hang_up(id);
                return 0;
            }
        };
        let Some(channels) = channels else {
            client.close_if_done();
            return written;
        };
        let own = channels.written(written);
        let is_short = lane.unwritten() < LANE_BYTES;
        let waiting = if is_short { mem::take(&mut channels.waiting) } else { BTreeSet::new() };
        client.close_if_done();
        for id in waiting {
            if let Some(channel) = self.handles.get_mut(&id) {
                channel.mark_dirty(id, &mut self.dirty);
            }
        }
        own
    }

    /// Moves bytes of a channel to its connection's lane, unless that is long.
    fn flush_channel(&mut self, id: ClientId) -> usize {
        let Some(connection_id) =
            self.handles.get_mut(&id).and_then(|client| Some(client.channel()?.connection))
        else {
            return 0;
        };
        let [Some(client), Some(connection)] = self.handles.get_disjoint_mut([&id, &connection_id])
        else {
            return 0;
        };
        let closing = client.closing;
        let (Some(channel), Some(Connection { lane: Some(lane), channels: Some(channels), .. })) =
            (client.channel(), connection.connection())
        else {
            return 0;
        };
        if !channel.unsent.is_empty() && lane.unwritten() >= LANE_BYTES {
            channels.waiting.insert(id);
            return 0;
        }
        let count = channels.take(lane.unsent(&mut self.spare), channel);
        let is_done = closing && channel.unsent.is_empty();
        connection.mark_dirty(connection_id, &mut self.dirty);
        if is_done && self.end_channel(id) {
            self.schedule.push(id, Entry::Ended);
        }
        count
    }
}
