//! The handle of a client's connection for the threads that route.

use super::{
    channel::{Channel, Channels},
    client_wire::ClientWire,
    turns::Pid,
};
use client::link::{HalfRead, Lane, ReadQuota, SpareBuffers};
use platform::transport::Stream;
use protocol::channel::Control;
use router::ClientId;
use std::{
    mem,
    sync::{
        Arc,
        atomic::{AtomicBool, Ordering},
    },
};

/// The bytes of a client's parsed frames that may wait for the client's turn.
const QUOTA_BYTES: usize = 128 << 10;

/// A client's way out, and how its frames are flushed and closed.
#[derive(Debug)]
pub(super) struct ClientHandle {
    pub(super) link: Link,
    /// The process at the other end.
    pub(super) pid: Pid,
    /// Whether to close the link once everything was handed over.
    pub(super) closing: bool,
    /// Whether the client is in the list of clients that are to be flushed.
    pub(super) dirty: bool,
}

/// The route to a client.
#[derive(Debug)]
pub(super) enum Link {
    /// A connection.
    Connection(Connection),
    /// A channel of an operator's connection.
    Channel(Channel),
}

/// The stream, lane and read quota of a connection.
#[derive(Debug)]
pub(super) struct Connection {
    stream: Stream,
    /// The lane to write on; none once the client is being closed and everything was handed over.
    pub(super) lane: Option<Lane<ClientWire>>,
    read_quota: Arc<ReadQuota>,
    half_read: HalfRead,
    /// Whether the client is an operator, whose connection may have channels.
    is_operator: Arc<AtomicBool>,
    /// The channels, once there was one.
    pub(super) channels: Option<Box<Channels>>,
}

impl Connection {
    pub(super) const fn new(
        stream: Stream,
        lane: Lane<ClientWire>,
        read_quota: Arc<ReadQuota>,
        half_read: HalfRead,
        is_operator: Arc<AtomicBool>,
    ) -> Self {
        let lane = Some(lane);
        Self { stream, lane, read_quota, half_read, is_operator, channels: None }
    }

    /// Ends the connection at once; unwritten frames are lost.
    fn hang_up(&self) {
        // A reader that waits for its quota would not notice the end of the stream.
        self.read_quota.lift();
        self.stream.hang_up();
    }

    /// Appends a control frame, if the connection is open.
    pub(super) fn append_control(&mut self, control: Control, spare: &mut SpareBuffers) {
        if let (Some(channels), Some(lane)) = (&mut self.channels, &mut self.lane) {
            channels.append_control(lane.unsent(spare), control);
        }
    }

    /// Whether the connection can be closed: nothing is unsent, and no channel is left.
    fn is_done(&self) -> bool {
        self.lane.as_ref().is_some_and(Lane::is_empty)
            && self.channels.as_ref().is_none_or(|channels| channels.here.is_empty())
    }
}

impl ClientHandle {
    pub(super) const fn new(link: Link) -> Self {
        Self { link, pid: None, closing: false, dirty: false }
    }

    /// Returns the connection, unless the client is a channel.
    pub(super) const fn connection(&mut self) -> Option<&mut Connection> {
        match &mut self.link {
            Link::Connection(connection) => Some(connection),
            Link::Channel(_) => None,
        }
    }

    /// Returns the channel, unless the client has a connection of its own.
    pub(super) const fn channel(&mut self) -> Option<&mut Channel> {
        match &mut self.link {
            Link::Connection(_) => None,
            Link::Channel(channel) => Some(channel),
        }
    }

    /// Whether frames can still be written.
    pub(super) const fn is_open(&self) -> bool {
        match &self.link {
            Link::Connection(connection) => connection.lane.is_some(),
            Link::Channel(channel) => !channel.is_ended,
        }
    }

    /// Lets the client send more at once, because its handshake is complete.
    pub(super) fn admit(&self, id: ClientId) {
        if let Link::Connection(connection) = &self.link {
            connection.read_quota.raise(QUOTA_BYTES);
            connection.half_read.admit(id.0);
        }
    }

    /// Lets the client's connection have channels.
    pub(super) fn make_operator(&self) {
        if let Link::Connection(connection) = &self.link {
            connection.is_operator.store(true, Ordering::Release);
        }
    }

    /// Lets the reader go on to the end of the stream, because the connection is being closed.
    pub(super) fn lift_read_quota(&self) {
        if let Link::Connection(connection) = &self.link {
            connection.read_quota.lift();
        }
    }

    /// Ends the connection at once; unwritten frames are lost. A channel ends with its connection.
    pub(super) fn hang_up(&self) {
        if let Link::Connection(connection) = &self.link {
            connection.hang_up();
        }
    }

    /// Notes that the reader has ended.
    pub(super) fn leave(&self, id: ClientId) {
        if let Link::Connection(connection) = &self.link {
            connection.half_read.leave(id.0);
        }
    }

    /// Closes the connection if that is due.
    pub(super) fn close_if_done(&mut self) {
        let closing = self.closing;
        if let Some(connection) = self.connection()
            && closing
            && connection.is_done()
        {
            connection.lane = None;
        }
    }

    /// Adds the client to the list of clients that are to be flushed, if it is not there yet.
    pub(super) fn mark_dirty(&mut self, id: ClientId, dirty: &mut Vec<ClientId>) {
        if !mem::replace(&mut self.dirty, true) {
            dirty.push(id);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::daemon::{
        Inbox, client_threads::start, event::Event, reader_context::ReaderContext,
    };
    use client::link::{BufferedBytes, HalfRead};
    use crossbeam_channel::bounded;
    use platform::{endpoint::Endpoint, paths, peer::User, transport::Listener};
    use protocol::frame;
    use std::{
        env, fs,
        io::Write,
        process, thread,
        time::{Duration, Instant},
    };

    /// Waits for the next event of an inbox that nobody reads.
    fn next(inbox: &Inbox) -> Event {
        let start = Instant::now();
        loop {
            if let Some(event) = inbox.pop() {
                return event;
            }
            assert!(start.elapsed() < Duration::from_secs(60), "no event came");
            thread::yield_now();
        }
    }

    #[test]
    fn hang_up_ends_a_client_whose_reader_waits_for_its_quota() {
        let folder = env::temp_dir().join(format!("ar-handle-{}", process::id()));
        paths::make_private_dir(&folder).unwrap();
        let endpoint = Endpoint::inside(&folder, "daemon").unwrap();
        let listener = Listener::bind(&endpoint).unwrap();
        let near = Stream::connect(&endpoint).unwrap();
        let inbox = Inbox::new();
        let (buffered, owner) = (BufferedBytes::default(), User::me().unwrap());
        let half_read = HalfRead::new(usize::MAX, usize::MAX);
        let (_router, router_ended) = bounded(1);
        let context = ReaderContext {
            inbox: inbox.clone(),
            frame_bytes_max: 1 << 20,
            buffered,
            half_read,
            owner,
            router_ended,
            ids: Arc::default(),
        };
        let reader = start(ClientId(1), listener.accept().unwrap(), &context).unwrap();
        drop(context);
        let Event::Accepted(.., client) = next(&inbox) else { panic!("the client is accepted") };
        // The first frame uses the quota up, so that the reader waits with the second one.
        let json = format!(
            r#"{{"v":1,"type":"SEND","id":"i","ts":1,"to":"Bob","payload":{{"body":"{}"}}}}"#,
            "x".repeat(60_000)
        );
        let mut bytes = Vec::new();
        frame::append(&mut bytes, |frame| frame.extend_from_slice(json.as_bytes()));
        (&near).write_all(&bytes.repeat(2)).unwrap();
        let taken = next(&inbox);
        assert!(matches!(taken, Event::Frames(..)), "{taken:?}");
        client.hang_up();
        drop(client);
        while !matches!(next(&inbox), Event::Ended(_)) {}
        reader.join().unwrap();
        fs::remove_dir_all(folder).unwrap();
    }
}
