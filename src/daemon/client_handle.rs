//! The handle of a client's connection for the threads that route.

use super::{client_wire::ClientWire, turns::Pid};
use client::link::{HalfRead, Lane, ReadQuota};
use platform::transport::Stream;
use router::ClientId;
use std::{mem, sync::Arc};

/// The bytes of a client's parsed frames that may wait for the client's turn.
const QUOTA_BYTES: usize = 128 << 10;

/// The stream, lane and read quota of a client.
#[derive(Debug)]
pub(super) struct ClientHandle {
    stream: Stream,
    /// The lane to write on; none once the client is being closed and everything was handed over.
    pub(super) lane: Option<Lane<ClientWire>>,
    read_quota: Arc<ReadQuota>,
    pub(super) half_read: HalfRead,
    /// The process at the other end.
    pub(super) pid: Pid,
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
        half_read: HalfRead,
    ) -> Self {
        let lane = Some(lane);
        Self { stream, lane, read_quota, half_read, pid: None, closing: false, dirty: false }
    }

    /// Lets the client send more at once, because its handshake is complete.
    pub(super) fn admit(&self, id: ClientId) {
        self.read_quota.raise(QUOTA_BYTES);
        self.half_read.admit(id.0);
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

#[cfg(test)]
mod tests {
    use super::*;
    use crate::daemon::{
        Inbox,
        client_threads::{ReaderContext, start},
        event::Event,
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
