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
use std::{
    io::{self, Write},
    mem,
};

/// Room that a lane keeps for its next frames.
const KEEP_BYTES: usize = 2 * STACK_BYTES;

/// Bytes that the writer thread is given at a time: what a slow reader takes is seen in such steps.
const HAND_OVER_BYTES: usize = 256 * 1024;

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

/// One client's way out of the daemon. Dropping it closes the writer's channel, so that the writer ends
/// when it has written what it holds.
#[derive(Debug)]
pub struct Lane<W> {
    wire: W,
    waiting: Vec<u8>,
    /// The first of these bytes, which were sent off. Never all of them.
    gone: usize,
    /// Bytes that the writer thread was given and has not reported.
    in_hand: usize,
}

impl<W: Wire> Lane<W> {
    /// A lane with nothing to write.
    pub const fn new(wire: W) -> Self {
        Self { wire, waiting: Vec::new(), gone: 0, in_hand: 0 }
    }

    /// Where the next frames are appended; [`flush`](Self::flush) sends them off.
    pub const fn waiting(&mut self) -> &mut Vec<u8> {
        &mut self.waiting
    }

    /// Sends off what waits. Gives back the bytes that the system took at once.
    pub fn flush(&mut self) -> io::Result<usize> {
        let mut through = 0;
        if self.in_hand == 0 && !self.waiting.is_empty() {
            through = self.wire.write_now(&self.waiting[self.gone..])?;
            self.send_off(through);
        }
        if self.waiting.is_empty() {
            self.waiting.shrink_to(KEEP_BYTES);
        } else {
            self.hand_over();
        }
        Ok(through)
    }

    /// Gives the writer thread as much as it is given at a time, if it has room.
    fn hand_over(&mut self) {
        let count = (self.waiting.len() - self.gone).min(HAND_OVER_BYTES);
        let is_all = count == self.waiting.len();
        let bytes = if is_all {
            mem::take(&mut self.waiting)
        } else {
            self.waiting[self.gone..][..count].to_vec()
        };
        self.in_hand += count;
        match self.wire.hand_over(bytes) {
            Ok(()) if is_all => {}
            Ok(()) => self.send_off(count),
            Err(bytes) => {
                self.in_hand -= count;
                if is_all {
                    self.waiting = bytes;
                }
            }
        }
    }

    /// So many more are gone. What is left moves up once it is the smaller part, so that much that waits isn't
    /// moved for each piece of it.
    fn send_off(&mut self, count: usize) {
        self.gone += count;
        if 2 * self.gone >= self.waiting.len() {
            self.waiting.drain(..self.gone);
            self.gone = 0;
        }
    }

    /// Takes the writer's report, and its buffer for the next frames.
    pub fn written(&mut self, mut buffer: Vec<u8>) {
        self.in_hand -= buffer.len();
        if self.waiting.capacity() == 0 && buffer.capacity() <= KEEP_BYTES {
            buffer.clear();
            self.waiting = buffer;
        }
    }
}

/// The writer thread: writes each batch and reports it, until the lane is gone or nothing more can be
/// written. Then the stream is hung up; also where it panics, which costs its client and nobody else.
pub fn write_batches(stream: &Stream, batches: &Receiver<Vec<u8>>, report: impl Fn(Vec<u8>)) {
    let _end = HangUp(stream);
    while let Ok(bytes) = batches.recv() {
        if (&*stream).write_all(&bytes).is_err() {
            // The reader finds the same end and reports it.
            return;
        }
        report(bytes);
    }
}

struct HangUp<'a>(&'a Stream);

impl Drop for HangUp<'_> {
    fn drop(&mut self) {
        self.0.hang_up();
    }
}

#[cfg(test)]
mod tests {
    //! The hand-over under shuttle: the real [`Lane`] between a model of the router's thread and a
    //! model of the writer's, on shuttle's own channels, with a socket that has little room.

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

    /// A socket: what was written and not yet read, and all that was read.
    #[derive(Default)]
    struct Socket {
        state: Mutex<(Vec<u8>, Vec<u8>)>,
        changed: Condvar,
    }

    impl Socket {
        /// Takes some of the bytes, if there is room for any.
        fn take(&self, bytes: &[u8]) -> usize {
            let mut state = self.state.lock().unwrap();
            let room = (ROOM - state.0.len()).min(bytes.len());
            let count = if room > 0 { thread_rng().gen_range(1..=room) } else { 0 };
            state.0.extend_from_slice(&bytes[..count]);
            self.changed.notify_all();
            count
        }

        /// Blocks until all is taken; others may write in between, which is what must not happen.
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

        /// The peer: reads until it has everything.
        fn read_until(&self, total: usize) {
            let mut state = self.state.lock().unwrap();
            while state.1.len() < total {
                while state.0.is_empty() {
                    state = self.changed.wait(state).unwrap();
                }
                let (there, read) = &mut *state;
                read.append(there);
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

        fn hand_over(&self, bytes: Vec<u8>) -> Result<(), Vec<u8>> {
            self.writer.try_send(bytes).map_err(|error| match error {
                TrySendError::Full(bytes) | TrySendError::Disconnected(bytes) => bytes,
            })
        }
    }

    fn frames() -> Vec<u8> {
        (0..FRAMES).flat_map(|frame| [frame; FRAME_BYTES]).collect()
    }

    fn is_idle<W>(lane: &Lane<W>) -> bool {
        lane.waiting.is_empty() && lane.in_hand == 0
    }

    /// Flushes as it should, or as if nothing had been handed over.
    fn flush(lane: &mut Lane<ModelWire>, counts: bool) {
        let in_hand = lane.in_hand;
        if !counts {
            lane.in_hand = 0;
        }
        lane.flush().unwrap();
        if !counts {
            lane.in_hand += in_hand;
        }
    }

    /// One run: frames are appended and flushed one by one while writer and reader go at their own
    /// pace. Gives back what the reader read.
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
            lane.waiting().extend_from_slice(frame);
            flush(&mut lane, counts);
            while let Ok(buffer) = reports.try_recv() {
                lane.written(buffer);
            }
        }
        while !is_idle(&lane) {
            flush(&mut lane, counts);
            if lane.in_hand > 0 {
                lane.written(reports.recv().unwrap());
            }
            thread::yield_now();
        }
        drop(lane);
        writer_thread.join().unwrap();
        reader_thread.join().unwrap();
        let state = socket.state.lock().unwrap();
        state.1.clone()
    }

    /// A socket that takes nothing at once, and a writer whose channel has room for one batch.
    #[derive(Default)]
    struct Stuck(std::cell::RefCell<Option<Vec<u8>>>);

    impl Wire for Stuck {
        fn write_now(&self, _: &[u8]) -> io::Result<usize> {
            Ok(0)
        }

        fn hand_over(&self, bytes: Vec<u8>) -> Result<(), Vec<u8>> {
            let mut place = self.0.borrow_mut();
            if place.is_some() {
                return Err(bytes);
            }
            *place = Some(bytes);
            Ok(())
        }
    }

    #[test]
    fn much_is_handed_over_in_pieces_and_in_order() {
        let mut lane = Lane::new(Stuck::default());
        let all: Vec<u8> = (0..2 * HAND_OVER_BYTES + 5).map(|at| (at / 1000) as u8).collect();
        lane.waiting().extend_from_slice(&all);
        let mut written = Vec::new();
        for bytes in [HAND_OVER_BYTES, HAND_OVER_BYTES, 5] {
            lane.flush().unwrap();
            lane.flush().unwrap();
            assert_eq!(lane.in_hand, bytes);
            let batch = lane.wire.0.take().unwrap();
            written.extend_from_slice(&batch);
            lane.written(batch);
        }
        assert!(is_idle(&lane) && written == all);
    }

    #[test]
    fn what_is_left_stays_where_it_is_while_pieces_go() {
        let mut lane = Lane::new(Stuck::default());
        lane.waiting().extend_from_slice(&vec![7; 8 * HAND_OVER_BYTES]);
        let place = lane.waiting().as_ptr();
        for left in (0..8).rev() {
            lane.flush().unwrap();
            // One more finds no room.
            lane.flush().unwrap();
            let batch = lane.wire.0.take().unwrap();
            assert_eq!(batch.len(), HAND_OVER_BYTES);
            lane.written(batch);
            assert!(left == 0 || lane.waiting().as_ptr() == place, "copied with {left} left");
        }
        assert!(is_idle(&lane));
    }

    #[test]
    fn two_writers_never_mix_frames() {
        shuttle::check_random(|| assert_eq!(run(true), frames()), 3000);
    }

    #[test]
    fn without_the_count_they_would() {
        // Not shuttle's: it counts across its runs.
        static MIXED: Count = Count::new(0);
        shuttle::check_random(
            || {
                if run(false) != frames() {
                    MIXED.fetch_add(1, Ordering::Relaxed);
                }
            },
            3000,
        );
        assert!(MIXED.load(Ordering::Relaxed) > 0, "the model must show it");
    }
}
