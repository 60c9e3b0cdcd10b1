//! Frames over a stream: the threads that wait for the system, so that nobody else has to.
//!
//! [`Connection`] is a client's end: two bounded channels of batches and the two threads that serve
//! them. The daemon has one machine for all its clients, so it uses the parts: [`read_frames`] on a
//! thread for each client, and a [`Lane`] each, which writes through or hands over to the thread that
//! runs [`write_batches`].

mod lane;
mod reader;

pub use lane::{Lane, Wire, WriterWire, write_batches};
pub use reader::{End, Gate, Held, Reading, read_frames};

use crate::protocol::frame::Batch;
use crossbeam_channel::{Receiver, Sender, bounded};
use parking_lot::Mutex;
use platform::transport::Stream;
use std::{
    io::{self, Write},
    ops::ControlFlow,
    sync::Arc,
    thread::{self, JoinHandle},
};

/// Batches that a connection's channel holds before its sender waits.
const CHANNEL_BATCHES: usize = 64;

/// A writer gathers what waits up to this many bytes into one call.
const GATHER_BYTES: usize = 256 * 1024;

/// Stack of a thread that moves bytes: it calls nothing deep, and there are two for each client.
pub const STACK_BYTES: usize = 256 * 1024;

/// A client's end of a connection: two bounded channels of whole frames.
///
/// Dropping `outgoing` ends it politely: what was sent is written first. `incoming` disconnects when
/// nothing more comes; [`Ending::why`] then says why.
#[derive(Debug)]
pub struct Connection {
    /// What the peer says.
    pub incoming: Receiver<Batch>,
    /// What the peer is to hear.
    pub outgoing: Sender<Batch>,
    /// How it ends.
    pub ending: Ending,
    threads: Option<JoinHandle<()>>,
}

/// How a connection ends, and the means to end it. Clones mean the same connection.
#[derive(Clone, Debug, Default)]
pub struct Ending {
    stream: Option<Stream>,
    why: Arc<Mutex<Option<End>>>,
}

impl Ending {
    /// Ends the connection now, unblocking its threads; what is still to be written is lost.
    pub fn hang_up(&self) {
        if let Some(stream) = &self.stream {
            stream.hang_up();
        }
    }

    /// Why nothing more comes in.
    #[must_use]
    pub fn why(&self) -> Option<End> {
        self.why.lock().clone()
    }

    fn set(&self, end: End) {
        self.why.lock().get_or_insert(end);
    }
}

impl Connection {
    /// Starts the two threads of a connection over a stream. They end with it.
    pub fn over(stream: Stream, name: &str, frame_bytes_max: usize) -> io::Result<Self> {
        let (to_us, incoming) = bounded(CHANNEL_BATCHES);
        let (outgoing, to_peer) = bounded::<Batch>(CHANNEL_BATCHES);
        let ending = Ending { stream: Some(stream.clone()), why: Arc::default() };
        let (read_stream, read_ending) = (stream.clone(), ending.clone());
        let reader = thread::Builder::new().name(format!("{name}-reader")).spawn(move || {
            let reading = Reading::new(frame_bytes_max);
            let end = read_frames(&read_stream, &reading, |batch| match to_us.send(batch) {
                Ok(()) => ControlFlow::Continue(()),
                Err(_) => ControlFlow::Break(End::Closed),
            });
            read_ending.set(end);
        })?;
        let written_by = ending.clone();
        let threads = thread::Builder::new().name(format!("{name}-writer")).spawn(move || {
            if let Err(error) = write_gathered(&stream, &to_peer) {
                written_by.set(End::Failed(error.to_string()));
            }
            stream.hang_up();
            // The reader ends with the stream; joining it here gives every thread an owner.
            if reader.join().is_err() {
                written_by.set(End::Failed("the reader thread panicked".into()));
            }
        });
        // Without a writer nobody would end the reader.
        let threads = threads.inspect_err(|_| ending.hang_up())?;
        Ok(Self { incoming, outgoing, ending, threads: Some(threads) })
    }

    /// Ends it politely and waits for that: what was sent is written, what comes is dropped.
    pub fn close(self) {
        let Self { incoming, outgoing, threads, .. } = self;
        drop((incoming, outgoing));
        if let Some(threads) = threads {
            // Its own panic was reported by the panic hook; there is nothing left to end.
            drop(threads.join());
        }
    }

    /// Two ends of a connection that needs no system, for tests.
    #[must_use]
    pub fn memory() -> (Self, Self) {
        let (left_out, right_in) = bounded(CHANNEL_BATCHES);
        let (right_out, left_in) = bounded(CHANNEL_BATCHES);
        let end = |incoming, outgoing| Self {
            incoming,
            outgoing,
            ending: Ending::default(),
            threads: None,
        };
        (end(left_in, left_out), end(right_in, right_out))
    }
}

/// Writes batches as they come, all that wait in one call, until the channel's senders are gone.
fn write_gathered(stream: &Stream, batches: &Receiver<Batch>) -> io::Result<()> {
    let mut gathered = Vec::new();
    while let Ok(batch) = batches.recv() {
        gathered.clear();
        gathered.extend_from_slice(batch.as_bytes());
        while gathered.len() < GATHER_BYTES
            && let Ok(batch) = batches.try_recv()
        {
            gathered.extend_from_slice(batch.as_bytes());
        }
        (&*stream).write_all(&gathered)?;
    }
    Ok(())
}
