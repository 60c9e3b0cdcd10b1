//! The two threads that wait for a client of the daemon.

use super::{event::Event, hands::Client};
use crate::{
    link::{End, Held, Lane, Reading, STACK_BYTES, WriterWire, read_frames, write_batches},
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

/// Batches that may wait for a writer beside the one it writes: the next is gathered meanwhile.
const WRITER_BATCHES: usize = 1;

/// What every client's threads share.
#[derive(Clone, Debug)]
pub(super) struct Surroundings {
    pub(super) inbox: Sender<Event>,
    pub(super) frame_bytes_max: usize,
    pub(super) held: Held,
    pub(super) half_read_bytes_max: usize,
    pub(super) owner: User,
}

/// Starts a client's threads. The one given back is the reader, which outlives the writer.
pub(super) fn start(
    id: ClientId,
    stream: Stream,
    all: &Surroundings,
) -> io::Result<JoinHandle<()>> {
    let (batches, to_write) = bounded(WRITER_BATCHES);
    let (write_stream, inbox) = (stream.clone(), all.inbox.clone());
    let writer = named(format!("writer-{}", id.0)).spawn(move || {
        write_batches(&write_stream, &to_write, |buffer| {
            // Without an inbox the daemon is at its end, and nobody counts any more.
            drop(inbox.send(Event::Written(id, buffer)));
        });
    })?;
    let wire = WriterWire { stream: stream.clone(), writer: batches };
    let all = all.clone();
    named(format!("reader-{}", id.0)).spawn(move || {
        let reading = Reading {
            frame_bytes_max: all.frame_bytes_max,
            gate: Arc::default(),
            held: all.held.clone(),
            half_read_bytes_max: all.half_read_bytes_max,
        };
        let client = Client::new(stream.clone(), Lane::new(wire), Arc::clone(&reading.gate));
        {
            let last = LastWord { id, inbox: &all.inbox };
            last.say(Event::Accepted(id, Box::new(client)));
            read(id, &stream, &reading, &all);
        }
        // The router's thread drops the lane when it hears the last word; that ends the writer.
        if writer.join().is_err() {
            tracing::error!("the writer of client {} panicked", id.0);
        }
    })
}

fn named(name: String) -> thread::Builder {
    thread::Builder::new().name(name).stack_size(STACK_BYTES)
}

fn read(id: ClientId, stream: &Stream, reading: &Reading, all: &Surroundings) {
    let mut known = false;
    let end = read_frames(stream, reading, |batch| {
        if !known {
            if let Err(violation) = check_peer(stream, &all.owner) {
                return ControlFlow::Break(End::Violated(violation));
            }
            known = true;
        }
        let bytes = batch.bytes();
        all.held.add(bytes);
        match all.inbox.send(Event::Batch(id, batch)) {
            Ok(()) => ControlFlow::Continue(()),
            Err(_) => {
                all.held.subtract(bytes);
                ControlFlow::Break(End::Closed)
            }
        }
    });
    match end {
        End::Closed => {}
        End::Failed(why) => tracing::debug!("client {}: {why}", id.0),
        End::Violated(violation) => {
            drop(all.inbox.send(Event::Violated(id, violation)));
            discard(stream);
        }
    }
}

/// The system's own word on who is there, asked before the first frame is looked at.
fn check_peer(stream: &Stream, owner: &User) -> Result<(), Violation> {
    let unauthorized = |message: String| Violation::new(ErrorCode::Unauthorized, message);
    match stream.peer() {
        Ok(peer) if peer.user == *owner => Ok(()),
        Ok(peer) => Err(unauthorized(format!(
            "this daemon belongs to user {owner}; user {} can't use it",
            peer.user
        ))),
        Err(error) => Err(unauthorized(format!("the system doesn't say who you are: {error}"))),
    }
}

/// Reads on without looking, so that the peer can take in what it is told before the end.
fn discard(stream: &Stream) {
    let mut scratch = [0; 4096];
    while matches!((&*stream).read(&mut scratch), Ok(count) if count > 0) {}
}

/// Sends a reader's first and last word. A reader that panics costs its client, nobody else.
struct LastWord<'a> {
    id: ClientId,
    inbox: &'a Sender<Event>,
}

impl LastWord<'_> {
    /// Without an inbox the daemon is at its end, and the streams are being closed.
    fn say(&self, event: Event) {
        drop(self.inbox.send(event));
    }
}

impl Drop for LastWord<'_> {
    fn drop(&mut self) {
        if thread::panicking() {
            let violation = Violation::new(ErrorCode::Internal, "the daemon made a mistake");
            self.say(Event::Violated(self.id, violation));
        }
        self.say(Event::Ended(self.id));
    }
}
