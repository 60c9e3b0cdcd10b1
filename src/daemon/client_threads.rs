//! The reader thread of each client.

use super::{
    Inbox,
    client_handle::ClientHandle,
    client_wire::{ClientWire, WriterReport},
    entry::QueuedFrames,
    event::Event,
};
use client::link::{
    BufferedBytes, End, HalfRead, LONG_BYTES, Lane, ReadQuota, Reading, STACK_BYTES, read_frames,
};
use crossbeam_channel::Receiver;
use platform::{foreground::start_time, peer::User, transport::Stream};
use protocol::{
    client_frame::ClientBatch,
    code::{ErrorCode, Violation},
    frame::Frames,
};
use router::{ClientId, PeerProcess};
use std::{
    io::{self, Read},
    ops::ControlFlow,
    sync::Arc,
    thread::{self, JoinHandle},
};

/// The bytes of parsed frames that may wait for the turn of a client that has not completed its
/// handshake.
const STRANGER_QUOTA_BYTES: usize = 32 << 10;

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
}

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
        let half_read = context.half_read.clone();
        let lane = Lane::new(wire);
        let client = ClientHandle::new(stream.clone(), lane, Arc::clone(&quota), half_read);
        {
            let guard = EndGuard { id, inbox: &context.inbox };
            guard.send(Event::Accepted(id, process, Box::new(client)));
            read(id, &stream, &reading, &quota, &context);
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
    quota: &Arc<ReadQuota>,
    context: &ReaderContext,
) {
    let mut is_checked = false;
    let take = |mut frames: Frames<'_>| {
        if !is_checked {
            if let Err(violation) = check_peer(stream, &context.owner) {
                return ControlFlow::Break(End::Violated(violation));
            }
            is_checked = true;
        }
        while frames.bytes() > 0 {
            let batch = ClientBatch::parse(&mut frames);
            let is_long = batch.bytes() > LONG_BYTES;
            let queued = QueuedFrames::new(batch, quota, &context.buffered);
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
    let evict = |victim| {
        let violation = context.half_read.violation(victim);
        // Sending fails only while the daemon is ending.
        drop(context.inbox.send(Event::Evicted(ClientId(victim), violation)));
    };
    match read_frames(stream, reading, take, evict) {
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
