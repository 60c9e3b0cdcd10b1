//! The reading half: from the bytes of a stream to batches of whole frames.

use crate::protocol::{
    code::{ErrorCode, Violation},
    frame::{Batch, Decoder},
};
use parking_lot::{Condvar, Mutex};
use platform::transport::Stream;
use std::{
    io::{self, Read},
    ops::ControlFlow,
    sync::{
        Arc,
        atomic::{AtomicUsize, Ordering},
    },
};

/// The length up to which a half-read frame is allowed, however many bytes all readers hold.
const LONG_BYTES: usize = 64 * 1024;

/// The reason why nothing more is read.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum End {
    /// The connection was closed by either end.
    Closed,
    /// A read failed with this error.
    Failed(String),
    /// The peer sent bytes that are not frames.
    Violated(Violation),
}

/// A switch that pauses a reader: while it is on, nothing is read from the peer.
#[derive(Debug, Default)]
pub struct ReadPause {
    paused: Mutex<bool>,
    changed: Condvar,
}

impl ReadPause {
    /// Pauses or resumes the reader.
    pub fn set(&self, paused: bool) {
        *self.paused.lock() = paused;
        self.changed.notify_all();
    }

    fn wait(&self) {
        let mut paused = self.paused.lock();
        while *paused {
            self.changed.wait(&mut paused);
        }
    }
}

/// A count of the bytes outside the router: in half-read frames, and in frames that wait in the
/// inbox.
#[derive(Clone, Debug, Default)]
pub struct BufferedBytes(Arc<Counts>);

#[derive(Debug, Default)]
struct Counts {
    all: AtomicUsize,
    half_read: AtomicUsize,
}

impl BufferedBytes {
    /// The number of bytes.
    #[must_use]
    pub fn bytes(&self) -> usize {
        self.0.all.load(Ordering::Relaxed)
    }

    /// Adds to the count.
    pub fn add(&self, bytes: usize) {
        self.0.all.fetch_add(bytes, Ordering::Relaxed);
    }

    /// Subtracts from the count.
    pub fn subtract(&self, bytes: usize) {
        self.0.all.fetch_sub(bytes, Ordering::Relaxed);
    }

    fn half_read(&self) -> usize {
        self.0.half_read.load(Ordering::Relaxed)
    }
}

/// The options of a reader.
#[derive(Clone, Debug)]
pub struct Reading {
    /// The longest frame accepted.
    pub frame_bytes_max: usize,
    /// The switch that pauses the reader.
    pub pause: Arc<ReadPause>,
    /// The count to which the bytes of half-read frames are added.
    pub buffered: BufferedBytes,
    /// The limit of half-read bytes of all readers. Above it, a long half-read frame ends its
    /// connection.
    pub half_read_bytes_max: usize,
}

impl Reading {
    /// Options of a reader with its own pause switch and count.
    #[must_use]
    pub fn new(frame_bytes_max: usize) -> Self {
        let (pause, buffered) = (Arc::default(), BufferedBytes::default());
        Self { frame_bytes_max, pause, buffered, half_read_bytes_max: usize::MAX }
    }
}

/// Reads until the stream ends, its bytes are not frames, or `take` breaks.
///
/// All whole frames of one read are passed to `take` together.
pub fn read_frames(
    stream: &Stream,
    reading: &Reading,
    mut take: impl FnMut(Batch) -> ControlFlow<End>,
) -> End {
    let mut decoder = Decoder::new(reading.frame_bytes_max);
    let mut share = Share { buffered: &reading.buffered, bytes: 0 };
    loop {
        reading.pause.wait();
        match (&*stream).read(decoder.space()) {
            Ok(0) => return End::Closed,
            Ok(count) => decoder.filled(count),
            Err(error) if error.kind() == io::ErrorKind::Interrupted => continue,
            Err(error) => return End::Failed(error.to_string()),
        }
        loop {
            match decoder.batch() {
                Ok(Some(batch)) => {
                    if let ControlFlow::Break(end) = take(batch) {
                        return end;
                    }
                }
                Ok(None) => break,
                Err(violation) => return End::Violated(violation),
            }
        }
        share.set(decoder.pending());
        let max = reading.half_read_bytes_max;
        if share.bytes > LONG_BYTES && reading.buffered.half_read() > max {
            let message =
                format!("the incomplete frames of all clients together are over {max} bytes");
            return End::Violated(Violation::new(ErrorCode::TooManyClients, message));
        }
    }
}

/// A reader's share of [`BufferedBytes`], subtracted when the reader ends or panics.
struct Share<'a> {
    buffered: &'a BufferedBytes,
    bytes: usize,
}

impl Share<'_> {
    fn set(&mut self, bytes: usize) {
        let half_read = &self.buffered.0.half_read;
        if bytes > self.bytes {
            self.buffered.add(bytes - self.bytes);
            half_read.fetch_add(bytes - self.bytes, Ordering::Relaxed);
        } else if bytes < self.bytes {
            self.buffered.subtract(self.bytes - bytes);
            half_read.fetch_sub(self.bytes - bytes, Ordering::Relaxed);
        }
        self.bytes = bytes;
    }
}

impl Drop for Share<'_> {
    fn drop(&mut self) {
        self.set(0);
    }
}
