//! The reading half: bytes of a stream into batches of whole frames.

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

/// Half-read frames up to this length are let be, however much is held.
const LONG_BYTES: usize = 64 * 1024;

/// Why nothing more is read.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum End {
    /// The peer closed, or we did.
    Closed,
    /// The system's words.
    Failed(String),
    /// The peer's bytes are no frames.
    Violated(Violation),
}

/// A door in front of a reader: while it is shut, nothing more is read from that peer.
#[derive(Debug, Default)]
pub struct Gate {
    shut: Mutex<bool>,
    changed: Condvar,
}

impl Gate {
    /// Opens or shuts it.
    pub fn set_open(&self, open: bool) {
        *self.shut.lock() = !open;
        self.changed.notify_all();
    }

    fn wait(&self) {
        let mut shut = self.shut.lock();
        while *shut {
            self.changed.wait(&mut shut);
        }
    }
}

/// Bytes that readers hold in frames which are not whole, and that wait to be looked at.
#[derive(Clone, Debug, Default)]
pub struct Held(Arc<Counts>);

#[derive(Debug, Default)]
struct Counts {
    all: AtomicUsize,
    half_read: AtomicUsize,
}

impl Held {
    /// All of them.
    #[must_use]
    pub fn bytes(&self) -> usize {
        self.0.all.load(Ordering::Relaxed)
    }

    /// Some more.
    pub fn add(&self, bytes: usize) {
        self.0.all.fetch_add(bytes, Ordering::Relaxed);
    }

    /// Some fewer.
    pub fn subtract(&self, bytes: usize) {
        self.0.all.fetch_sub(bytes, Ordering::Relaxed);
    }

    fn half_read(&self) -> usize {
        self.0.half_read.load(Ordering::Relaxed)
    }
}

/// How to read.
#[derive(Clone, Debug)]
pub struct Reading {
    /// The longest frame that is taken.
    pub frame_bytes_max: usize,
    /// What may hold the reading up.
    pub gate: Arc<Gate>,
    /// Where half-read frames are counted.
    pub held: Held,
    /// A long frame that comes while more than this is half-read, by all readers, ends its connection.
    pub half_read_bytes_max: usize,
}

impl Reading {
    /// Reading with an open gate and a count of its own.
    #[must_use]
    pub fn new(frame_bytes_max: usize) -> Self {
        let (gate, held) = (Arc::default(), Held::default());
        Self { frame_bytes_max, gate, held, half_read_bytes_max: usize::MAX }
    }
}

/// Reads until the stream ends, its bytes are no frames, or `take` has enough.
///
/// All whole frames of one read are handed to `take` together.
pub fn read_frames(
    stream: &Stream,
    reading: &Reading,
    mut take: impl FnMut(Batch) -> ControlFlow<End>,
) -> End {
    let mut decoder = Decoder::new(reading.frame_bytes_max);
    let mut counted = Counted { held: &reading.held, bytes: 0 };
    loop {
        reading.gate.wait();
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
        counted.set(decoder.pending());
        let most = reading.half_read_bytes_max;
        if counted.bytes > LONG_BYTES && reading.held.half_read() > most {
            let message =
                format!("all clients together have over {most} bytes in frames that aren't whole");
            return End::Violated(Violation::new(ErrorCode::TooManyClients, message));
        }
    }
}

/// One reader's share of [`Held`]; given back when the reader ends, however it ends.
struct Counted<'a> {
    held: &'a Held,
    bytes: usize,
}

impl Counted<'_> {
    fn set(&mut self, bytes: usize) {
        let half_read = &self.held.0.half_read;
        if bytes > self.bytes {
            self.held.add(bytes - self.bytes);
            half_read.fetch_add(bytes - self.bytes, Ordering::Relaxed);
        } else if bytes < self.bytes {
            self.held.subtract(self.bytes - bytes);
            half_read.fetch_sub(self.bytes - bytes, Ordering::Relaxed);
        }
        self.bytes = bytes;
    }
}

impl Drop for Counted<'_> {
    fn drop(&mut self) {
        self.set(0);
    }
}
