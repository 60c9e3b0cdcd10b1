//! The writing half of the daemon's end: write through when nobody else writes, hand over when not.
//!
//! The router's thread writes straight to a client's stream, with a write that never blocks, as long
//! as that client's writer thread has nothing in hand. What the system doesn't take at once is handed
//! over. "The channel is empty" would not mean "the writer is idle": the writer may hold what it took
//! out, and two writers on one stream mix their frames. So what was handed over is counted, raised
//! before the hand-over and lowered once the writer reports it written, and only a count of zero lets
//! the router's thread write.

use super::STACK_BYTES;
use crossbeam_channel::{Receiver, Sender, TrySendError};
use platform::transport::{Stream, Written};
use std::io::{self, Write};

/// Room that a lane keeps for its next frames.
const KEEP_BYTES: usize = 2 * STACK_BYTES;

/// What a lane writes on.
pub trait Wire {
    /// Writes what the system takes at once, perhaps nothing; never blocks.
    fn write_now(&self, bytes: &[u8]) -> io::Result<usize>;

    /// Gives bytes to the writer thread, or gives them back if it has enough in hand.
    fn hand_over(&self, bytes: Vec<u8>) -> Result<(), Vec<u8>>;
}

/// A stream, and the channel to the thread that writes on it.
#[derive(Debug)]
pub struct WriterWire {
    /// The client's stream.
    pub stream: Stream,
    /// To [`write_batches`].
    pub writer: Sender<Vec<u8>>,
}

impl Wire for WriterWire {
    fn write_now(&self, bytes: &[u8]) -> io::Result<usize> {
        match self.stream.write_now(bytes)? {
            Written::Bytes(count) => Ok(count),
            Written::Unsupported => Ok(0),
        }
    }

    fn hand_over(&self, bytes: Vec<u8>) -> Result<(), Vec<u8>> {
        match self.writer.try_send(bytes) {
            Ok(()) => Ok(()),
            // A writer that is gone has failed: its stream is closed, and the reader says so.
            Err(TrySendError::Full(bytes) | TrySendError::Disconnected(bytes)) => Err(bytes),
        }
    }
}

/// One client's way out of the daemon.
#[derive(Debug)]
pub struct Lane<W> {
    wire: W,
    waiting: Vec<u8>,
    in_hand: usize,
}

impl<W: Wire> Lane<W> {
    /// A lane with nothing to write.
    pub const fn new(wire: W) -> Self {
        Self { wire, waiting: Vec::new(), in_hand: 0 }
    }

    /// Where the next frames are appended; [`flush`](Self::flush) sends them off.
    pub const fn waiting(&mut self) -> &mut Vec<u8> {
        &mut self.waiting
    }

    /// Whether everything has left for the system.
    #[must_use]
    pub const fn is_empty(&self) -> bool {
        self.waiting.is_empty() && self.in_hand == 0
    }

    /// Whether the writer thread has anything, or must have.
    #[must_use]
    pub const fn in_hand(&self) -> usize {
        self.in_hand
    }

    /// Sends off what waits. Gives back the bytes that the system took at once.
    pub fn flush(&mut self) -> io::Result<usize> {
        let mut through = 0;
        if self.in_hand == 0 && !self.waiting.is_empty() {
            through = self.wire.write_now(&self.waiting)?;
            self.waiting.drain(..through);
        }
        if self.waiting.is_empty() {
            self.waiting.shrink_to(KEEP_BYTES);
            return Ok(through);
        }
        let bytes = std::mem::take(&mut self.waiting);
        self.in_hand += bytes.len();
        if let Err(bytes) = self.wire.hand_over(bytes) {
            self.in_hand -= bytes.len();
            self.waiting = bytes;
        }
        Ok(through)
    }

    /// Takes the writer's report, and its buffer for the next frames.
    pub fn written(&mut self, mut buffer: Vec<u8>) {
        self.in_hand -= buffer.len();
        if self.waiting.capacity() == 0 && buffer.capacity() <= KEEP_BYTES {
            buffer.clear();
            self.waiting = buffer;
        }
    }

    /// Gives up the wire: with it the writer's channel closes, so that the writer ends when it has
    /// written what it holds.
    pub fn into_wire(self) -> W {
        self.wire
    }
}

/// The writer thread: writes each batch and reports it. Ends politely when the lane is gone.
pub fn write_batches(stream: &Stream, batches: &Receiver<Vec<u8>>, report: impl Fn(Vec<u8>)) {
    while let Ok(bytes) = batches.recv() {
        if (&*stream).write_all(&bytes).is_err() {
            // The reader finds the same end and reports it; nothing more can be written.
            stream.hang_up();
            return;
        }
        report(bytes);
    }
    stream.hang_up();
}
