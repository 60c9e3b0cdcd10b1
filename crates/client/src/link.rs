//! Frames over a stream: the threads that read and write.
//!
//! [`Connection`] is a client's end: two bounded channels of batches and the two threads that serve
//! them. The daemon has one router for all clients, so it uses the parts: a thread with
//! [`read_frames`] for each client, and a [`Lane`] that writes directly or hands over to a thread
//! with [`write_batches`].

mod lane;
mod reader;

pub use lane::{Lane, STACK_BYTES, SpareBuffers, Wire, write_batches};
pub use reader::{BufferedBytes, End, HalfRead, LONG_BYTES, ReadQuota, Reading, read_frames};

use crossbeam_channel::{Receiver, Sender, bounded};
use parking_lot::Mutex;
use platform::transport::{Stream, Written};
use protocol::frame::{Batch, Frames};
use std::{
    io::{self, Write},
    ops::ControlFlow,
    sync::{
        Arc,
        atomic::{AtomicU64, Ordering},
    },
    thread::{self, JoinHandle},
    time::Duration,
};

/// The capacity of a connection's channels, in batches.
const CHANNEL_BATCHES: usize = 64;

/// The minimum length of a read that makes it likely that more bytes are available at once.
const LONG_READ_BYTES: usize = 8 * 1024;

/// The bytes that a writer gathers for one write, at most.
const GATHER_BYTES: usize = 256 * 1024;

/// A client's end of a connection: two bounded channels of whole frames.
///
/// Dropping `outgoing` closes the connection after everything sent is written. `incoming` is
/// disconnected when nothing more arrives; [`Ending::why`] then has the reason.
#[derive(Debug)]
pub struct Connection {
    /// Frames from the peer.
    pub incoming: Receiver<Batch>,
    /// Frames to the peer, which the writer thread writes.
    pub outgoing: Sender<Batch>,
    /// The number of batches handed over to the writer thread by [`Self::send`].
    handed_over: u64,
    /// The number of batches that the writer thread has written.
    written: Arc<AtomicU64>,
    /// The end of the connection.
    pub ending: Ending,
    threads: Option<JoinHandle<()>>,
}

/// A handle that ends a connection and has the reason of its end. Clones belong to the same
/// connection.
#[derive(Clone, Debug, Default)]
pub struct Ending {
    stream: Option<Stream>,
    why: Arc<Mutex<Option<End>>>,
}

impl Ending {
    /// Ends the connection at once and unblocks its threads; unwritten frames are lost.
    pub fn hang_up(&self) {
        if let Some(stream) = &self.stream {
            stream.hang_up();
        }
    }

    /// The reason why nothing more arrives.
    #[must_use]
    pub fn why(&self) -> Option<End> {
        self.why.lock().clone()
    }

    fn set(&self, end: End) {
        self.why.lock().get_or_insert(end);
    }
}

impl Connection {
    /// Starts the two threads of a connection over a stream, `NAME-reader` and `NAME-writer`. The
    /// threads end with the stream. A frame from the peer has at most `frame_bytes_max` bytes.
    ///
    /// # Errors
    /// If the system starts no thread. The stream is closed then.
    pub fn over(stream: Stream, name: &str, frame_bytes_max: usize) -> io::Result<Self> {
        Self::with_pauses(stream, name, frame_bytes_max, Duration::ZERO)
    }

    /// Like [`Self::over`], with a pause after each short read. Frames arrive later by up to the
    /// pause, several together, and each costs less.
    pub(crate) fn with_pauses(
        stream: Stream,
        name: &str,
        frame_bytes_max: usize,
        pause: Duration,
    ) -> io::Result<Self> {
        let (read_sender, incoming) = bounded(CHANNEL_BATCHES);
        let (outgoing, to_write) = bounded::<Batch>(CHANNEL_BATCHES);
        let ending = Ending { stream: Some(stream.clone()), why: Arc::default() };
        let written = Arc::new(AtomicU64::new(0));
        let (read_stream, read_ending) = (stream.clone(), ending.clone());
        // Waits for: the system, then the channel of frames. The writer joins it.
        let reader = thread::Builder::new().name(format!("{name}-reader")).spawn(move || {
            let reading = Reading::new(frame_bytes_max);
            let send = |frames: Frames<'_>| {
                let batch = frames.to_batch();
                // After a long read, more bytes are available already.
                let pauses = !pause.is_zero() && batch.as_bytes().len() < LONG_READ_BYTES;
                if read_sender.send(batch).is_err() {
                    return ControlFlow::Break(End::Closed);
                }
                if pauses {
                    thread::sleep(pause);
                }
                ControlFlow::Continue(())
            };
            read_ending.set(read_frames(&read_stream, &reading, send, |_| {}));
        })?;
        let (write_ending, count) = (ending.clone(), Arc::clone(&written));
        // Waits for: its channel, the system; at its end the reader, after it has hung up.
        let threads = thread::Builder::new().name(format!("{name}-writer")).spawn(move || {
            if let Err(error) = write_gathered(&stream, &to_write, &count) {
                write_ending.set(End::Failed(error.to_string()));
            }
            stream.hang_up();
            // The reader ends with the stream. It is joined here, so that every thread is joined.
            if reader.join().is_err() {
                write_ending.set(End::Failed("the reader thread panicked".into()));
            }
        });
        // If the writer cannot be started, only the end of the stream ends the reader.
        let threads = threads.inspect_err(|_| ending.hang_up())?;
        Ok(Self { incoming, outgoing, handed_over: 0, written, ending, threads: Some(threads) })
    }

    /// Writes a batch, as much as the system takes without blocking, and hands the rest over to the
    /// writer thread: waking that thread takes longer than writing. `outgoing` must have room. The
    /// batch is lost if the connection has ended.
    pub fn send(&mut self, batch: Batch) {
        // While the writer thread holds a batch, two writers would mix their frames.
        let is_idle = self.handed_over == self.written.load(Ordering::Acquire);
        let batch = match is_idle.then(|| self.write_now(&batch)).flatten() {
            Some(count) if count == batch.bytes() => return,
            Some(count) => Batch::of(batch.as_bytes()[count..].to_vec()),
            None => batch,
        };
        self.handed_over += 1;
        // If the channel is disconnected, the incoming channel ends too, after the peer's last
        // frames.
        drop(self.outgoing.try_send(batch));
    }

    /// The number of bytes that the system accepted at once, or `None` if the writer thread has to
    /// write. After an error, the writer thread meets it again.
    fn write_now(&self, batch: &Batch) -> Option<usize> {
        match self.ending.stream.as_ref()?.write_now(batch.as_bytes()) {
            Ok(Written::Bytes(count)) => Some(count),
            Ok(Written::Unsupported) | Err(_) => None,
        }
    }

    /// Closes the connection after everything sent is written, and waits for that. Frames that
    /// arrive meanwhile are dropped.
    pub fn close(self) {
        let Self { incoming, outgoing, threads, .. } = self;
        drop((incoming, outgoing));
        if let Some(threads) = threads {
            // A panic of the thread was reported by the panic hook.
            drop(threads.join());
        }
    }

    /// The two ends of a connection in memory.
    #[cfg(test)]
    pub(crate) fn memory() -> (Self, Self) {
        let (left_out, right_in) = bounded(CHANNEL_BATCHES);
        let (right_out, left_in) = bounded(CHANNEL_BATCHES);
        let end = |incoming, outgoing| Self {
            incoming,
            outgoing,
            handed_over: 0,
            written: Arc::default(),
            ending: Ending::default(),
            threads: None,
        };
        (end(left_in, left_out), end(right_in, right_out))
    }
}

/// Writes batches until the channel is disconnected. Batches that wait are written together.
///
/// `written` counts them.
fn write_gathered(
    stream: &Stream,
    batches: &Receiver<Batch>,
    written: &AtomicU64,
) -> io::Result<()> {
    let mut gathered = Vec::new();
    while let Ok(batch) = batches.recv() {
        gathered.clear();
        let mut count = 1;
        gathered.extend_from_slice(batch.as_bytes());
        while gathered.len() < GATHER_BYTES
            && let Ok(batch) = batches.try_recv()
        {
            gathered.extend_from_slice(batch.as_bytes());
            count += 1;
        }
        (&*stream).write_all(&gathered)?;
        written.fetch_add(count, Ordering::Release);
    }
    Ok(())
}
