//! The reader and writer threads of each client.

use super::{client_handle::ClientHandle, event::Event};
use crate::{
    link::{
        BufferedBytes, End, Lane, Reading, STACK_BYTES, WriterWire, read_frames, write_batches,
    },
    protocol::code::{ErrorCode, Violation},
    router::ClientId,
};
use crossbeam_channel::{Sender, bounded};
use platform::{peer::User, transport::Stream};
use std::{
    io::{self, Read},
    ops::ControlFlow,
    sync::Arc,
    thread::{self, JoinHandle},
};

/// The number of batches that wait for a writer besides the one it writes.
const WRITER_BATCHES: usize = 1;

/// The data that the threads of all clients share.
#[derive(Clone, Debug)]
pub(super) struct ReaderContext {
    pub(super) inbox: Sender<Event>,
    pub(super) frame_bytes_max: usize,
    pub(super) buffered: BufferedBytes,
    pub(super) half_read_bytes_max: usize,
    pub(super) owner: User,
}

/// Starts a client's threads. Returns the reader, which outlives the writer.
pub(super) fn start(
    id: ClientId,
    stream: Stream,
    context: &ReaderContext,
) -> io::Result<JoinHandle<()>> {
    let (batches, to_write) = bounded(WRITER_BATCHES);
    let (write_stream, inbox) = (stream.clone(), context.inbox.clone());
    let writer = named(format!("writer-{}", id.0)).spawn(move || {
        write_batches(&write_stream, &to_write, |buffer| {
            // Sending fails only while the daemon is ending. Then the count does not matter.
            drop(inbox.send(Event::Written(id, buffer)));
        });
    })?;
    let wire = WriterWire { stream: stream.clone(), writer: batches };
    let context = context.clone();
    named(format!("reader-{}", id.0)).spawn(move || {
        let reading = Reading {
            frame_bytes_max: context.frame_bytes_max,
            pause: Arc::default(),
            buffered: context.buffered.clone(),
            half_read_bytes_max: context.half_read_bytes_max,
        };
        let client = ClientHandle::new(stream.clone(), Lane::new(wire), Arc::clone(&reading.pause));
        {
            let guard = EndGuard { id, inbox: &context.inbox };
            guard.send(Event::Accepted(id, Box::new(client)));
            read(id, &stream, &reading, &context);
        }
        // The guard has reported the end, so the router's thread drops the lane, which ends the
        // writer.
        if writer.join().is_err() {
            tracing::error!("the writer of client {} panicked", id.0);
        }
    })
}

fn named(name: String) -> thread::Builder {
    thread::Builder::new().name(name).stack_size(STACK_BYTES)
}

fn read(id: ClientId, stream: &Stream, reading: &Reading, context: &ReaderContext) {
    let mut is_checked = false;
    let end = read_frames(stream, reading, |batch| {
        if !is_checked {
            if let Err(violation) = check_peer(stream, &context.owner) {
                return ControlFlow::Break(End::Violated(violation));
            }
            is_checked = true;
        }
        let bytes = batch.bytes();
        context.buffered.add(bytes);
        match context.inbox.send(Event::Batch(id, batch)) {
            Ok(()) => ControlFlow::Continue(()),
            Err(_) => {
                context.buffered.subtract(bytes);
                ControlFlow::Break(End::Closed)
            }
        }
    });
    match end {
        End::Closed => {}
        End::Failed(why) => tracing::debug!("client {}: {why}", id.0),
        End::Violated(violation) => {
            drop(context.inbox.send(Event::Violated(id, violation)));
            discard(stream);
        }
    }
}

/// Checks the peer's user before the first frame is handled.
fn check_peer(stream: &Stream, owner: &User) -> Result<(), Violation> {
    let unauthorized = |message: String| Violation::new(ErrorCode::Unauthorized, message);
    match stream.peer() {
        Ok(peer) if peer.user == *owner => Ok(()),
        Ok(peer) => Err(unauthorized(format!(
            "this daemon belongs to user {owner}; user {} cannot use it",
            peer.user
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
/// reader's client.
struct EndGuard<'a> {
    id: ClientId,
    inbox: &'a Sender<Event>,
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
