//! The writing half of the daemon's end: writes directly while the writer thread is idle, and hands
//! over to it otherwise.
//!
//! The thread that routes writes to a client's stream itself, without blocking, while the client's
//! writer thread has nothing to write. Bytes that the system does not take at once are handed over
//! to the writer. An empty channel does not mean an idle writer: the writer may hold a batch that
//! it took out, and two writers on one stream would mix their frames. So the bytes handed over are
//! counted before the hand-over and subtracted once the writer reports them, and a thread that
//! routes writes only while the count is zero.

use crossbeam_channel::Receiver;
use platform::transport::Stream;
use std::{
    io::{self, Write},
    mem,
};

/// The stack size of a thread that reads frames and may route, or that writes. There are two for
/// each client.
pub const STACK_BYTES: usize = 256 * 1024;

/// The largest capacity of a spare buffer, and the most bytes of all spare buffers.
const SPARE_BYTES: usize = 512 * 1024;
const SPARES_BYTES_MAX: usize = 8 << 20;

/// The most bytes in one hand-over. A slow client's progress is reported in steps of this size.
const HAND_OVER_BYTES: usize = 256 * 1024;

/// The transport of a lane.
pub trait Wire {
    /// Writes as many bytes as the system takes at once, possibly none, without blocking.
    fn write_now(&self, bytes: &[u8]) -> io::Result<usize>;

    /// Hands bytes to the writer thread, or returns them if its channel is full.
    ///
    /// # Errors
    /// If there is no writer thread and none can be started.
    fn hand_over(&mut self, bytes: Vec<u8>) -> io::Result<Result<(), Vec<u8>>>;
}

/// Empty buffers that lanes share: a lane takes one only while it has something to write.
#[derive(Debug, Default)]
pub struct SpareBuffers {
    buffers: Vec<Vec<u8>>,
    /// The sum of their capacities.
    bytes: usize,
}

impl SpareBuffers {
    fn take(&mut self) -> Vec<u8> {
        let buffer = self.buffers.pop().unwrap_or_default();
        self.bytes -= buffer.capacity();
        buffer
    }

    fn give(&mut self, mut buffer: Vec<u8>) {
        let bytes = buffer.capacity();
        if (1..=SPARE_BYTES).contains(&bytes) && self.bytes + bytes <= SPARES_BYTES_MAX {
            buffer.clear();
            self.bytes += bytes;
            self.buffers.push(buffer);
        }
    }
}

/// The queue of bytes to one client. Dropping the lane ends the writer thread once the thread has
/// written everything handed over.
#[derive(Debug)]
pub struct Lane<W> {
    wire: W,
    /// Bytes to be written.
    unsent: Vec<u8>,
    /// The number of bytes at the front of `unsent` that are written or handed over; never all of
    /// them.
    sent: usize,
    /// The bytes handed over that the writer thread has not reported yet.
    handed_over: usize,
}

impl<W: Wire> Lane<W> {
    /// A lane with nothing to write.
    pub const fn new(wire: W) -> Self {
        Self { wire, unsent: Vec::new(), sent: 0, handed_over: 0 }
    }

    /// The buffer to append frames to; [`flush`](Self::flush) sends them.
    pub fn unsent(&mut self, spare: &mut SpareBuffers) -> &mut Vec<u8> {
        if self.unsent.capacity() == 0 {
            self.unsent = spare.take();
        }
        &mut self.unsent
    }

    /// Whether all bytes are written or handed over.
    pub const fn is_empty(&self) -> bool {
        self.unsent.is_empty()
    }

    /// The number of bytes that the system has not taken.
    pub const fn unwritten(&self) -> usize {
        self.unsent.len() - self.sent + self.handed_over
    }

    /// Whether the system has taken all bytes.
    pub const fn is_written(&self) -> bool {
        self.unwritten() == 0
    }

    /// Writes or hands over what is unsent. Returns the number of bytes that the system took at
    /// once.
    pub fn flush(&mut self, spare: &mut SpareBuffers) -> io::Result<usize> {
        let mut written = 0;
        if self.handed_over == 0 && !self.unsent.is_empty() {
            written = self.wire.write_now(&self.unsent[self.sent..])?;
            self.mark_sent(written);
        }
        if self.unsent.is_empty() {
            spare.give(mem::take(&mut self.unsent));
        } else {
            self.hand_over()?;
        }
        Ok(written)
    }

    /// Hands over [`HAND_OVER_BYTES`] at most, if the writer's channel has room.
    fn hand_over(&mut self) -> io::Result<()> {
        let count = (self.unsent.len() - self.sent).min(HAND_OVER_BYTES);
        let is_all = count == self.unsent.len();
        let bytes = if is_all {
            mem::take(&mut self.unsent)
        } else {
            self.unsent[self.sent..][..count].to_vec()
        };
        self.handed_over += count;
        match self.wire.hand_over(bytes)? {
            Ok(()) if is_all => {}
            Ok(()) => self.mark_sent(count),
            Err(bytes) => {
                self.handed_over -= count;
                if is_all {
                    self.unsent = bytes;
                }
            }
        }
        Ok(())
    }

    /// Marks bytes as sent. The rest moves to the front once a quarter is sent, which bounds the
    /// cost of moving, and the memory that is not counted as unwritten. Then a large buffer
    /// shrinks, since a client that does not read may keep it for long.
    fn mark_sent(&mut self, count: usize) {
        self.sent += count;
        if 4 * self.sent >= self.unsent.len() {
            self.unsent.drain(..self.sent);
            self.sent = 0;
            if !self.unsent.is_empty() && self.unsent.capacity() > SPARE_BYTES {
                self.unsent.shrink_to_fit();
            }
        }
    }

    /// Handles the writer's report of a written buffer.
    pub fn written(&mut self, buffer: Vec<u8>, spare: &mut SpareBuffers) {
        self.handed_over -= buffer.len();
        spare.give(buffer);
    }
}

/// Runs a writer thread: writes each batch and reports it, until the lane is dropped or a write
/// fails. When the thread ends or panics, the stream is hung up.
///
/// # Errors
/// If a write fails.
pub fn write_batches(
    stream: &Stream,
    batches: &Receiver<Vec<u8>>,
    report: impl Fn(Vec<u8>),
) -> io::Result<()> {
    let _guard = HangUpGuard(stream);
    while let Ok(bytes) = batches.recv() {
        (&*stream).write_all(&bytes)?;
        report(bytes);
    }
    Ok(())
}

struct HangUpGuard<'a>(&'a Stream);

impl Drop for HangUpGuard<'_> {
    fn drop(&mut self) {
        self.0.hang_up();
    }
}

#[cfg(test)]
mod tests {
    //! Tests of the hand-over under shuttle: a [`Lane`] between models of a routing thread and
    //! the writer thread, with a socket of little capacity.

    use super::*;
    use shuttle::{
        rand::{Rng, thread_rng},
        sync::{
            Arc, Condvar, Mutex,
            mpsc::{SyncSender, TrySendError, channel, sync_channel},
        },
        thread,
    };
    use std::sync::atomic::{AtomicUsize as Count, Ordering};

    const ROOM: usize = 5;
    const FRAMES: u8 = 6;
    const FRAME_BYTES: usize = 4;
    const WRITER_BATCHES: usize = 1;

    /// A socket: the bytes that are written and not read yet, and those that are read.
    #[derive(Default)]
    struct Socket {
        state: Mutex<(Vec<u8>, Vec<u8>)>,
        changed: Condvar,
    }

    impl Socket {
        /// Takes a random number of the bytes, as many as there is room for.
        fn take(&self, bytes: &[u8]) -> usize {
            let mut state = self.state.lock().unwrap();
            let room = (ROOM - state.0.len()).min(bytes.len());
            let count = if room > 0 { thread_rng().gen_range(1..=room) } else { 0 };
            state.0.extend_from_slice(&bytes[..count]);
            self.changed.notify_all();
            count
        }

        /// Blocks until all bytes are accepted. A second writer could write in between.
        fn write_all(&self, mut bytes: &[u8]) {
            while !bytes.is_empty() {
                let count = self.take(bytes);
                bytes = &bytes[count..];
                if count == 0 {
                    let mut state = self.state.lock().unwrap();
                    while state.0.len() == ROOM {
                        state = self.changed.wait(state).unwrap();
                    }
                }
            }
        }

        /// Reads as the peer until it has all bytes.
        fn read_until(&self, total: usize) {
            let mut state = self.state.lock().unwrap();
            while state.1.len() < total {
                while state.0.is_empty() {
                    state = self.changed.wait(state).unwrap();
                }
                let (unread, read) = &mut *state;
                read.append(unread);
                self.changed.notify_all();
            }
        }
    }

    struct ModelWire {
        socket: Arc<Socket>,
        writer: SyncSender<Vec<u8>>,
    }

    impl Wire for ModelWire {
        fn write_now(&self, bytes: &[u8]) -> io::Result<usize> {
            Ok(self.socket.take(bytes))
        }

        fn hand_over(&mut self, bytes: Vec<u8>) -> io::Result<Result<(), Vec<u8>>> {
            Ok(self.writer.try_send(bytes).map_err(|error| match error {
                TrySendError::Full(bytes) | TrySendError::Disconnected(bytes) => bytes,
            }))
        }
    }

    fn frames() -> Vec<u8> {
        (0..FRAMES).flat_map(|frame| [frame; FRAME_BYTES]).collect()
    }

    /// Flushes the lane. If `counts` is false, pretends that nothing was handed over, to plant a
    /// bug.
    fn flush(lane: &mut Lane<ModelWire>, counts: bool) {
        let handed_over = lane.handed_over;
        if !counts {
            lane.handed_over = 0;
        }
        lane.flush(&mut SpareBuffers::default()).unwrap();
        if !counts {
            lane.handed_over += handed_over;
        }
    }

    /// Appends and flushes frames one by one while writer and reader run. Returns what the reader
    /// read.
    fn run(counts: bool) -> Vec<u8> {
        let socket = Arc::new(Socket::default());
        let (writer, batches) = sync_channel::<Vec<u8>>(WRITER_BATCHES);
        let (report, reports) = channel();
        let writing = Arc::clone(&socket);
        let writer_thread = thread::spawn(move || {
            while let Ok(bytes) = batches.recv() {
                writing.write_all(&bytes);
                report.send(bytes).unwrap();
            }
        });
        let reading = Arc::clone(&socket);
        let total = frames().len();
        let reader_thread = thread::spawn(move || reading.read_until(total));
        let mut lane = Lane::new(ModelWire { socket: Arc::clone(&socket), writer });
        for frame in frames().chunks(FRAME_BYTES) {
            lane.unsent(&mut SpareBuffers::default()).extend_from_slice(frame);
            flush(&mut lane, counts);
            while let Ok(buffer) = reports.try_recv() {
                lane.written(buffer, &mut SpareBuffers::default());
            }
        }
        while !lane.is_written() {
            flush(&mut lane, counts);
            if lane.handed_over > 0 {
                lane.written(reports.recv().unwrap(), &mut SpareBuffers::default());
            }
            thread::yield_now();
        }
        drop(lane);
        writer_thread.join().unwrap();
        reader_thread.join().unwrap();
        let state = socket.state.lock().unwrap();
        state.1.clone()
    }

    /// A socket that never accepts bytes without blocking, and a writer channel with room for one
    /// batch.
    #[derive(Default)]
    struct Stuck(Option<Vec<u8>>);

    impl Wire for Stuck {
        fn write_now(&self, _: &[u8]) -> io::Result<usize> {
            Ok(0)
        }

        fn hand_over(&mut self, bytes: Vec<u8>) -> io::Result<Result<(), Vec<u8>>> {
            if self.0.is_some() {
                return Ok(Err(bytes));
            }
            self.0 = Some(bytes);
            Ok(Ok(()))
        }
    }

    #[test]
    fn long_output_is_handed_over_in_ordered_pieces() {
        let mut lane = Lane::new(Stuck::default());
        let all: Vec<u8> = (0..2 * HAND_OVER_BYTES + 5).map(|at| (at / 1000) as u8).collect();
        lane.unsent(&mut SpareBuffers::default()).extend_from_slice(&all);
        let mut written = Vec::new();
        for bytes in [HAND_OVER_BYTES, HAND_OVER_BYTES, 5] {
            lane.flush(&mut SpareBuffers::default()).unwrap();
            lane.flush(&mut SpareBuffers::default()).unwrap();
            assert_eq!(lane.handed_over, bytes);
            let batch = lane.wire.0.take().unwrap();
            written.extend_from_slice(&batch);
            lane.written(batch, &mut SpareBuffers::default());
        }
        assert!(lane.is_written() && written == all);
    }

    #[test]
    fn bytes_are_written_once_the_writer_reports_them() {
        let spare = &mut SpareBuffers::default();
        let mut lane = Lane::new(Stuck::default());
        lane.unsent(spare).push(7);
        lane.flush(spare).unwrap();
        assert!(lane.is_empty() && !lane.is_written());
        let batch = lane.wire.0.take().unwrap();
        lane.written(batch, spare);
        assert!(lane.is_written());
    }

    #[test]
    fn unsent_bytes_are_not_moved_for_each_piece_and_their_buffer_shrinks() {
        const PIECES: usize = 16;
        let spare = &mut SpareBuffers::default();
        let mut lane = Lane::new(Stuck::default());
        lane.unsent(spare).extend_from_slice(&vec![7; PIECES * HAND_OVER_BYTES]);
        let (mut address, mut moves) = (lane.unsent(spare).as_ptr(), 0);
        for left in (1..PIECES).rev() {
            lane.flush(spare).unwrap();
            // The channel has no room for another piece.
            lane.flush(spare).unwrap();
            let batch = lane.wire.0.take().unwrap();
            assert_eq!(batch.len(), HAND_OVER_BYTES);
            lane.written(batch, spare);
            let unsent = lane.unsent(spare);
            let most = SPARE_BYTES.max(left * HAND_OVER_BYTES * 4 / 3);
            assert!(unsent.capacity() <= most, "{left} pieces are left: {}", unsent.capacity());
            moves += usize::from(unsent.as_ptr() != address);
            address = unsent.as_ptr();
        }
        assert!(moves < PIECES / 2, "{moves} moves");
    }

    #[test]
    fn direct_and_handed_over_writes_never_mix_frames() {
        shuttle::check_random(|| assert_eq!(run(true), frames()), 3000);
    }

    #[test]
    fn without_the_count_frames_would_mix() {
        // This counter is not shuttle's type, since it counts across runs.
        static MIXED: Count = Count::new(0);
        shuttle::check_random(
            || {
                if run(false) != frames() {
                    MIXED.fetch_add(1, Ordering::Relaxed);
                }
            },
            3000,
        );
        assert!(MIXED.load(Ordering::Relaxed) > 0, "the model shows the race");
    }
}
