//! The reader thread of each client.

use super::{
    Inbox,
    channel_reader::ChannelReader,
    client_handle::{ClientHandle, Connection, Link},
    client_wire::{ClientWire, WriterReport},
    entry::{QueuedFrames, Quota},
    event::Event,
    reader_context::ReaderContext,
};
use client::link::{End, LONG_BYTES, Lane, ReadQuota, Reading, STACK_BYTES, read_frames};
use platform::{foreground::start_time, peer::User, transport::Stream};
use protocol::{
    channel::{Part, next_part},
    client_frame::ClientBatch,
    code::{ErrorCode, Violation},
    frame::Frames,
};
use router::{ClientId, PeerProcess};
use std::{
    io::{self, Read},
    ops::ControlFlow,
    sync::{
        Arc,
        atomic::{AtomicBool, Ordering},
    },
    thread::{self, JoinHandle},
};

/// The bytes of parsed frames that may wait for the turn of a client that has not completed its
/// handshake.
const STRANGER_QUOTA_BYTES: usize = 32 << 10;

/// Starts a client's reader, which outlives the client's writer.
pub(super) fn start(
    id: ClientId,
    stream: Stream,
    context: &ReaderContext,
) -> io::Result<JoinHandle<()>> {
    let inbox = context.inbox.clone();
    let report = move |report| {
        // Sending fails only while the daemon is ending. Then the count does not matter.
        drop(inbox.send(match report {
            WriterReport::Written(buffer) => Event::Written(id, buffer),
            WriterReport::Failed => Event::WriterFailed(id),
        }));
    };
    let (wire, writers) = ClientWire::new(id.0, stream.clone(), report);
    let context = context.clone();
    // Waits for: the system; its quota, while the client leaves answers unread; the inbox. At its
    // end its writer, until a batch takes five seconds or `router` has ended.
    let reader = thread::Builder::new().name(format!("reader-{}", id.0)).stack_size(STACK_BYTES);
    reader.spawn(move || {
        let process = process_of(&stream);
        let reading = Reading {
            reader: id.0,
            pid: process.map(|process| process.pid),
            frame_bytes_max: context.frame_bytes_max,
            buffered: context.buffered.clone(),
            half_read: context.half_read.clone(),
        };
        let quota = Arc::new(ReadQuota::new(STRANGER_QUOTA_BYTES));
        let is_operator = Arc::<AtomicBool>::default();
        let (half_read, lane) = (context.half_read.clone(), Lane::new(wire));
        let (read_quota, flag) = (Arc::clone(&quota), Arc::clone(&is_operator));
        let connection = Connection::new(stream.clone(), lane, read_quota, half_read, flag);
        let client = ClientHandle::new(Link::Connection(connection));
        {
            let guard = EndGuard { id, inbox: &context.inbox };
            guard.send(Event::Accepted(id, process, Box::new(client)));
            let channels = ChannelReader::new(id, process, &context);
            read(id, &stream, &reading, (&quota, &is_operator, channels), &context);
        }
        // The guard has reported the end, so the lane is dropped, which ends the writer and the
        // channel.
        for writer in writers {
            if writer.join(&stream, &context.router_ended).is_err() {
                tracing::error!("the writer of client {} panicked", id.0);
            }
        }
    })
}

fn read(
    id: ClientId,
    stream: &Stream,
    reading: &Reading,
    (quota, is_operator, mut channels): (&Arc<ReadQuota>, &AtomicBool, ChannelReader<'_>),
    context: &ReaderContext,
) {
    let mut is_checked = false;
    let own = |mut frames: Frames<'_>| {
        while frames.bytes() > 0 {
            let batch = ClientBatch::parse(&mut frames);
            let is_long = batch.bytes() > LONG_BYTES;
            let reader = Quota::Reader(Arc::clone(quota));
            let queued = QueuedFrames::new(batch, reader, &context.buffered);
            if context.inbox.send(Event::Frames(id, queued)).is_err() {
                return ControlFlow::Break(End::Closed);
            }
            if is_long {
                // Until a stranger's long frame is handled, it counts as half read.
                quota.drain(STRANGER_QUOTA_BYTES);
            }
        }
        quota.await_share(&context.buffered);
        ControlFlow::Continue(())
    };
    let take = |mut frames: Frames<'_>| {
        if !is_checked {
            if let Err(violation) = check_peer(stream, &context.owner) {
                return ControlFlow::Break(End::Violated(violation));
            }
            is_checked = true;
        }
        if !is_operator.load(Ordering::Acquire) {
            return own(frames);
        }
        while let Some(part) = next_part(&mut frames) {
            match part {
                Part::Control(control) => channels.control(control)?,
                Part::Frames(frames) if channels.selects_own() => own(frames)?,
                Part::Frames(frames) => channels.frames(frames)?,
            }
        }
        ControlFlow::Continue(())
    };
    let evict = |victim| {
        let violation = context.half_read.violation(victim);
        // Sending fails only while the daemon is ending.
        drop(context.inbox.send(Event::Evicted(ClientId(victim), violation)));
    };
    let end = read_frames(stream, reading, take, evict);
    drop(channels);
    match end {
        End::Closed => {}
        End::Failed(why) => tracing::debug!("client {}: {why}", id.0),
        End::Violated(violation) => {
            drop(context.inbox.send(Event::Violated(id, violation)));
            discard(stream);
        }
    }
}

fn process_of(stream: &Stream) -> Option<PeerProcess> {
    let pid = stream.peer_pid()?;
    Some(PeerProcess { pid, start: start_time(pid).unwrap_or_default() })
}

/// Checks the peer's user before the first frame is handled.
fn check_peer(stream: &Stream, owner: &User) -> Result<(), Violation> {
    let unauthorized = |message: String| Violation::new(ErrorCode::Unauthorized, message);
    match stream.peer() {
        Ok(user) if user == *owner => Ok(()),
        Ok(user) => Err(unauthorized(format!(
            "this daemon belongs to user {owner}; user {user} cannot use it"
        ))),
        Err(error) => Err(unauthorized(format!("the system does not tell your user: {error}"))),
    }
}

/// Reads and discards the peer's bytes, so that the peer can still receive the answer.
fn discard(stream: &Stream) {
    let mut scratch = [0; 4096];
    while matches!((&*stream).read(&mut scratch), Ok(count) if count > 0) {}
}

/// A guard that reports the end of a reader, even if the reader panics. A panic affects only the
/// reader's client, unless the reader was routing.
struct EndGuard<'a> {
    id: ClientId,
    inbox: &'a Inbox,
}

impl EndGuard<'_> {
    /// Sends an event. Sending fails only while the daemon is ending, when it closes the streams.
    fn send(&self, event: Event) {
        drop(self.inbox.send(event));
    }
}

impl Drop for EndGuard<'_> {
    fn drop(&mut self) {
        if thread::panicking() {
            let violation =
                Violation::new(ErrorCode::Internal, "the daemon failed; its log says more");
            self.send(Event::Violated(self.id, violation));
        }
        self.send(Event::Ended(self.id));
    }
}
