//! The reading half: from the bytes of a stream to whole frames.

use parking_lot::{Condvar, Mutex, MutexGuard};
use platform::transport::Stream;
use protocol::{
    code::{ErrorCode, Violation},
    frame::{Decoder, Frames},
};
use std::{
    collections::{BTreeMap, BTreeSet},
    io::{self, Read},
    mem,
    ops::ControlFlow,
    sync::{
        Arc,
        atomic::{AtomicUsize, Ordering},
    },
    time::Duration,
};

/// The maximum length of a half-read frame that is always allowed, even if all readers hold much
/// memory.
pub const LONG_BYTES: usize = 16 * 1024;

/// The divisor of a client's share: outside the router, it may have this fraction of the free
/// bytes.
const SHARES: usize = 16;

/// The minimum size of a read, even if little memory is free.
const READ_BYTES_MIN: usize = 4 * 1024;

/// The time without input before a reader's buffer shrinks.
const REST_AFTER: Duration = Duration::from_secs(1);

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

/// A reader's quota: the bytes of its frames that are not handled yet. While the quota is used up,
/// nothing more is read from the peer.
#[derive(Debug)]
pub struct ReadQuota {
    state: Mutex<QuotaState>,
    changed: Condvar,
}

#[derive(Debug, Default)]
struct QuotaState {
    bytes_max: usize,
    used: usize,
    /// Whether the reader waits.
    is_waiting: bool,
    is_lifted: bool,
}

impl ReadQuota {
    /// A quota of this number of bytes.
    #[must_use]
    pub fn new(bytes_max: usize) -> Self {
        let state = QuotaState { bytes_max, ..QuotaState::default() };
        Self { state: Mutex::new(state), changed: Condvar::new() }
    }

    /// Raises the quota to `bytes_max`.
    pub fn raise(&self, bytes_max: usize) {
        let mut state = self.state.lock();
        state.bytes_max = state.bytes_max.max(bytes_max);
        self.changed.notify_one();
    }

    /// Waits until the quota has room for this number of bytes, and uses them. An unused quota has
    /// room for any number.
    pub fn acquire(&self, bytes: usize) {
        self.wait_while(|state| state.used + bytes > state.bytes_max).used += bytes;
    }

    /// Waits until all frames are handled, or the quota is more than `bytes_max`.
    pub fn drain(&self, bytes_max: usize) {
        drop(self.wait_while(|state| state.bytes_max <= bytes_max));
    }

    /// Waits until all frames are handled, or the unhandled ones hold at most a share of the free
    /// bytes.
    pub fn await_share(&self, buffered: &BufferedBytes) {
        drop(self.wait_while(|state| state.used > buffered.share()));
    }

    /// Waits while there are unhandled frames and `holds` is true.
    fn wait_while(&self, holds: impl Fn(&QuotaState) -> bool) -> MutexGuard<'_, QuotaState> {
        let mut state = self.state.lock();
        while !state.is_lifted && state.used > 0 && holds(&state) {
            state.is_waiting = true;
            self.changed.wait(&mut state);
        }
        state
    }

    /// Returns bytes, because their frames are handled.
    pub fn release(&self, bytes: usize) {
        let mut state = self.state.lock();
        state.used -= bytes;
        // A reader is woken only when it can read much, since a wake-up costs more than a frame.
        if state.is_waiting && state.used <= state.bytes_max / 2 {
            state.is_waiting = false;
            self.changed.notify_one();
        }
    }

    /// Lifts the quota, so that a waiting reader meets the end of its stream.
    pub fn lift(&self) {
        self.state.lock().is_lifted = true;
        self.changed.notify_one();
    }
}

/// A count of the bytes outside the router, in half-read frames and in frames that wait for their
/// client's turn. The higher it is, the less a client may have there before reading from it pauses.
#[derive(Clone, Debug)]
pub struct BufferedBytes {
    bytes: Arc<AtomicUsize>,
    bytes_max: usize,
}

impl Default for BufferedBytes {
    /// A count without a limit.
    fn default() -> Self {
        Self::new(usize::MAX)
    }
}

impl BufferedBytes {
    /// A count that is to stay below this number of bytes.
    #[must_use]
    pub fn new(bytes_max: usize) -> Self {
        Self { bytes: Arc::default(), bytes_max }
    }

    /// The number of bytes.
    #[must_use]
    pub fn bytes(&self) -> usize {
        self.bytes.load(Ordering::Relaxed)
    }

    /// The bytes that a client may have here before reading from it pauses. It is a fraction of the
    /// free bytes, so that some stay free for others however many clients use their share.
    #[must_use]
    pub fn share(&self) -> usize {
        self.bytes_max.saturating_sub(self.bytes()) / SHARES
    }

    /// Adds to the count.
    pub fn add(&self, bytes: usize) {
        self.bytes.fetch_add(bytes, Ordering::Relaxed);
    }

    /// Subtracts from the count.
    pub fn subtract(&self, bytes: usize) {
        self.bytes.fetch_sub(bytes, Ordering::Relaxed);
    }
}

/// The long half-read frames of all readers. If they hold too much memory together, the process
/// that holds most is found, and its reader that holds most has to end. Until it has ended, other
/// long frames wait. Readers with unknown peers have a separate limit.
#[derive(Clone, Debug)]
pub struct HalfRead {
    bytes_max: usize,
    strangers_bytes_max: usize,
    shared: Arc<SharedFrames>,
}

#[derive(Debug, Default)]
struct SharedFrames {
    parts: Mutex<Parts>,
    /// Wakes the readers that wait for others to end.
    changed: Condvar,
}

#[derive(Debug, Default)]
struct Parts {
    of_strangers: LongFrames,
    of_known: LongFrames,
    /// The readers with known peers.
    known: BTreeSet<u64>,
}

#[derive(Debug, Default)]
struct LongFrames {
    /// Each long half-read frame, by its reader.
    frames: BTreeMap<u64, LongFrame>,
    /// The bytes of all frames, and those of readers that have to end.
    sum: usize,
    ending: usize,
}

/// A long half-read frame.
#[derive(Clone, Copy, Debug, Default)]
struct LongFrame {
    /// The memory that it holds.
    bytes: usize,
    /// The process that sends it.
    pid: Option<u32>,
    /// Whether its reader has to end.
    is_ending: bool,
}

impl LongFrames {
    /// Removes a reader's frame, and returns it.
    fn remove(&mut self, reader: u64) -> LongFrame {
        let frame = self.frames.remove(&reader).unwrap_or_default();
        self.sum -= frame.bytes;
        self.ending -= if frame.is_ending { frame.bytes } else { 0 };
        frame
    }

    /// Adds a reader's frame, unless it holds nothing. Returns the reader that has to end, if any.
    fn add(&mut self, reader: u64, frame: LongFrame, bytes_max: usize) -> Option<u64> {
        if frame.bytes > 0 {
            self.frames.insert(reader, frame);
            self.sum += frame.bytes;
            self.ending += if frame.is_ending { frame.bytes } else { 0 };
        }
        if self.sum - self.ending <= bytes_max {
            return None;
        }
        let mut sums: BTreeMap<Option<u32>, usize> = BTreeMap::new();
        let staying = || self.frames.iter().filter(|(_, frame)| !frame.is_ending);
        for (_, frame) in staying() {
            *sums.entry(frame.pid).or_default() += frame.bytes;
        }
        let weight = |frame: &LongFrame| (sums[&frame.pid], frame.pid, frame.bytes);
        let victim = *staying().max_by_key(|(_, frame)| weight(frame))?.0;
        let frame = self.remove(victim);
        self.add(victim, LongFrame { is_ending: true, ..frame }, usize::MAX);
        Some(victim)
    }

    /// Whether a reader has to wait for others that have to end.
    fn waits(&self, reader: u64, bytes_max: usize) -> bool {
        let is_ending = self.frames.get(&reader).is_some_and(|frame| frame.is_ending);
        self.ending > 0 && self.sum > bytes_max && !is_ending
    }
}

impl Parts {
    /// Returns the group of frames that a reader belongs to.
    fn of(&mut self, reader: u64) -> &mut LongFrames {
        match self.known.contains(&reader) {
            true => &mut self.of_known,
            false => &mut self.of_strangers,
        }
    }
}

impl HalfRead {
    /// Makes a limit of `bytes_max`, and a separate one for readers with unknown peers.
    #[must_use]
    pub fn new(bytes_max: usize, strangers_bytes_max: usize) -> Self {
        Self { bytes_max, strangers_bytes_max, shared: Arc::default() }
    }

    /// Notes that a reader's peer is known from now on.
    pub fn admit(&self, reader: u64) {
        let mut parts = self.shared.parts.lock();
        let frame = parts.of(reader).remove(reader);
        parts.known.insert(reader);
        // If the known readers now hold too much, that is noticed at the next byte of one of them.
        parts.of(reader).add(reader, frame, usize::MAX);
        self.shared.changed.notify_all();
    }

    /// Sets the memory that a reader's long half-read frame holds, or 0 for a short one. Returns
    /// the reader that has to end, if any. If the memory has not grown, none has to.
    fn set(&self, reader: u64, pid: Option<u32>, bytes: usize) -> Option<u64> {
        let mut parts = self.shared.parts.lock();
        let bytes_max = self.bytes_max_of(reader, &parts);
        let frames = parts.of(reader);
        let LongFrame { bytes: before, is_ending, .. } = frames.remove(reader);
        let bytes_max = if bytes > before { bytes_max } else { usize::MAX };
        let victim = frames.add(reader, LongFrame { bytes, pid, is_ending }, bytes_max);
        self.shared.changed.notify_all();
        victim
    }

    /// Waits while others have to end and still hold too much.
    fn await_ended(&self, reader: u64) {
        let waits = |parts: &mut Parts| {
            let bytes_max = self.bytes_max_of(reader, parts);
            parts.of(reader).waits(reader, bytes_max)
        };
        self.shared.changed.wait_while(&mut self.shared.parts.lock(), waits);
    }

    /// Returns the limit of the group that a reader belongs to.
    fn bytes_max_of(&self, reader: u64, parts: &Parts) -> usize {
        if parts.known.contains(&reader) { self.bytes_max } else { self.strangers_bytes_max }
    }

    /// Forgets a reader that has ended.
    pub fn leave(&self, reader: u64) {
        self.shared.parts.lock().known.remove(&reader);
    }

    /// Returns the violation of a reader that was chosen to end.
    #[must_use]
    pub fn violation(&self, reader: u64) -> Violation {
        let parts = self.shared.parts.lock();
        let max = self.bytes_max_of(reader, &parts);
        let whose = match parts.known.contains(&reader) {
            true => "all clients",
            false => "all clients without a handshake",
        };
        let message = format!("the incomplete frames of {whose} together hold over {max} bytes");
        Violation::new(ErrorCode::TooManyClients, message)
    }
}

/// The options of a reader.
#[derive(Clone, Debug)]
pub struct Reading {
    /// The reader's number, unique among readers with the same `half_read`.
    pub reader: u64,
    /// The process at the other end, if the system reports it.
    pub pid: Option<u32>,
    /// The longest frame accepted.
    pub frame_bytes_max: usize,
    /// The counter for the bytes of half-read frames.
    pub buffered: BufferedBytes,
    /// The half-read frames of all readers.
    pub half_read: HalfRead,
}

impl Reading {
    /// Options of a reader with a separate count.
    #[must_use]
    pub fn new(frame_bytes_max: usize) -> Self {
        let (buffered, half_read) =
            (BufferedBytes::default(), HalfRead::new(usize::MAX, usize::MAX));
        Self { reader: 0, pid: None, frame_bytes_max, buffered, half_read }
    }
}

/// Reads until the stream ends, invalid frames arrive, or `take` breaks.
///
/// All whole frames of one read are passed to `take` together. `evict` is called with the number of
/// another reader that has to end because its half-read frame holds too much memory.
pub fn read_frames(
    stream: &Stream,
    reading: &Reading,
    mut take: impl FnMut(Frames<'_>) -> ControlFlow<End>,
    evict: impl Fn(u64),
) -> End {
    // The share counts the decoder's memory, so it ends after the decoder.
    let mut share = Share { reading, held: 0, is_long: false };
    let mut decoder = Decoder::new(reading.frame_bytes_max);
    let mut has_more = true;
    loop {
        if !has_more {
            decoder.trim();
            if let Err(violation) = share.count(&decoder, &evict) {
                return End::Violated(violation);
            }
            if let Err(error) = await_input(stream, &mut decoder, &mut share) {
                return End::Failed(error.to_string());
            }
        }
        decoder.space();
        if let Err(violation) = share.count(&decoder, &evict) {
            return End::Violated(violation);
        }
        if share.is_long {
            reading.half_read.await_ended(reading.reader);
        }
        let space = decoder.space();
        let most = space.len().min(reading.buffered.share().max(READ_BYTES_MIN));
        match (&*stream).read(&mut space[..most]) {
            Ok(0) => return End::Closed,
            Ok(count) => {
                has_more = count == most;
                decoder.filled(count);
            }
            Err(error) if error.kind() == io::ErrorKind::Interrupted => continue,
            Err(error) => return End::Failed(error.to_string()),
        }
        loop {
            match decoder.take() {
                Ok(Some(frames)) => {
                    if let ControlFlow::Break(end) = take(frames) {
                        return end;
                    }
                }
                Ok(None) => break,
                Err(violation) => return End::Violated(violation),
            }
        }
    }
}

/// Waits until there is something to read, and shrinks the decoder's buffer after some time. On
/// Windows, the read that follows waits.
fn await_input(stream: &Stream, decoder: &mut Decoder, share: &mut Share<'_>) -> io::Result<()> {
    loop {
        let time = decoder.can_rest().then_some(REST_AFTER);
        match stream.await_input(time) {
            Ok(true) => return Ok(()),
            Ok(false) => {
                decoder.rest();
                // Less memory never makes a reader end.
                let _ = share.set(decoder.held(), share.is_long);
            }
            Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
            Err(error) => return Err(error),
        }
    }
}

/// The counted memory of a reader's decoder. It is released when the reader ends, even by a panic.
struct Share<'a> {
    reading: &'a Reading,
    held: usize,
    /// Whether the decoder has a long half-read frame.
    is_long: bool,
}

impl Share<'_> {
    /// Counts a decoder's memory. If another reader has to end, calls `evict`.
    ///
    /// # Errors
    /// If this reader has to end.
    fn count(&mut self, decoder: &Decoder, evict: impl Fn(u64)) -> Result<(), Violation> {
        let Reading { reader, half_read, .. } = self.reading;
        match self.set(decoder.held(), decoder.pending() > LONG_BYTES) {
            Some(victim) if victim == *reader => return Err(half_read.violation(*reader)),
            Some(victim) => evict(victim),
            None => {}
        }
        Ok(())
    }

    /// Sets the memory. Returns the reader that has to end, if any.
    fn set(&mut self, held: usize, is_long: bool) -> Option<u64> {
        let Reading { reader, pid, buffered, half_read, .. } = self.reading;
        let before = mem::replace(&mut self.held, held);
        let was_long = mem::replace(&mut self.is_long, is_long);
        if held > before {
            buffered.add(held - before);
        } else if held < before {
            buffered.subtract(before - held);
        }
        let is_changed = is_long != was_long || (is_long && held != before);
        if is_changed { half_read.set(*reader, *pid, if is_long { held } else { 0 }) } else { None }
    }
}

impl Drop for Share<'_> {
    fn drop(&mut self) {
        // Less memory never makes a reader end.
        let _ = self.set(0, false);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Sets the bytes of a reader in a process of its own.
    fn set(half_read: &HalfRead, reader: u64, bytes: usize) -> Option<u64> {
        half_read.set(reader, Some(reader as u32), bytes)
    }

    #[test]
    fn process_with_most_half_read_bytes_has_to_end_a_reader() {
        let half_read = HalfRead::new(10 * LONG_BYTES, 0);
        (1..=5).for_each(|reader| half_read.admit(reader));
        let set = |reader, bytes, pid| half_read.set(reader, Some(pid), bytes);
        assert_eq!(set(1, 3 * LONG_BYTES, 7), None);
        assert_eq!(set(2, 2 * LONG_BYTES, 7), None);
        assert_eq!(set(3, 4 * LONG_BYTES, 8), None);
        assert_eq!(set(4, 2 * LONG_BYTES, 7), Some(1), "the longest of three");
        assert_eq!(set(5, 3 * LONG_BYTES, 9), Some(3), "now another has as much");
    }

    #[test]
    fn reader_with_the_longest_half_read_frame_has_to_end() {
        let half_read = HalfRead::new(10 * LONG_BYTES, 0);
        (1..=4).for_each(|reader| half_read.admit(reader));
        assert_eq!(set(&half_read, 1, 6 * LONG_BYTES), None);
        assert_eq!(set(&half_read, 3, 4 * LONG_BYTES), None);
        assert_eq!(set(&half_read, 4, 2 * LONG_BYTES), Some(1));
        assert_eq!(set(&half_read, 4, 6 * LONG_BYTES), None);
        assert_eq!(
            set(&half_read, 4, 7 * LONG_BYTES),
            Some(4),
            "the speaker, if it is the largest"
        );
        assert_eq!(set(&half_read, 4, 8 * LONG_BYTES), None, "it ends already");
        (1..=4).for_each(|reader| assert_eq!(set(&half_read, reader, 0), None));
        let frames = &half_read.shared.parts.lock().of_known;
        assert_eq!((frames.sum, frames.ending), (0, 0));
    }

    #[test]
    fn client_waits_for_its_share_of_free_memory() {
        let (quota, buffered) = (ReadQuota::new(1_000), BufferedBytes::new(100 * SHARES));
        for (used, is_free) in [(100, true), (101, false)] {
            quota.acquire(used);
            std::thread::scope(|scope| {
                let waiting = scope.spawn(|| quota.await_share(&buffered));
                if is_free {
                    waiting.join().unwrap();
                    quota.release(used);
                } else {
                    while !quota.state.lock().is_waiting {
                        std::thread::yield_now();
                    }
                    quota.release(used);
                    waiting.join().unwrap();
                }
            });
        }
        buffered.add(200 * SHARES);
        assert_eq!(buffered.share(), 0);
        quota.await_share(&buffered);
    }

    #[test]
    fn drained_quota_is_unused_or_raised() {
        for is_raised in [false, true] {
            let quota = ReadQuota::new(10);
            quota.acquire(30);
            std::thread::scope(|scope| {
                let draining = scope.spawn(|| quota.drain(10));
                quota.release(20);
                if is_raised {
                    quota.raise(11)
                } else {
                    quota.release(10)
                }
                draining.join().unwrap();
            });
            quota.drain(9);
        }
    }

    #[test]
    fn strangers_have_a_part_of_their_own() {
        let half_read = HalfRead::new(24 * LONG_BYTES, 3 * LONG_BYTES);
        half_read.admit(1);
        assert_eq!(set(&half_read, 1, 20 * LONG_BYTES), None);
        assert_eq!(set(&half_read, 2, 2 * LONG_BYTES), None);
        assert_eq!(set(&half_read, 3, 2 * LONG_BYTES), Some(3), "of those that hold most");
        half_read.admit(2);
        assert_eq!(set(&half_read, 3, 3 * LONG_BYTES), None);
        assert_eq!(set(&half_read, 2, 3 * LONG_BYTES), None);
        assert_eq!(set(&half_read, 2, 9 * LONG_BYTES), Some(1));
        (2..=3).for_each(|reader| assert_eq!(set(&half_read, reader, 0), None));
        half_read.leave(2);
        assert_eq!(set(&half_read, 3, 2 * LONG_BYTES), None);
        assert_eq!(set(&half_read, 2, 2 * LONG_BYTES), Some(3));
    }

    #[test]
    fn long_frames_wait_until_a_chosen_reader_has_ended() {
        let half_read = HalfRead::new(3 * LONG_BYTES, 0);
        (1..=2).for_each(|reader| half_read.admit(reader));
        assert_eq!(set(&half_read, 1, 2 * LONG_BYTES), None);
        assert_eq!(set(&half_read, 2, 2 * LONG_BYTES), Some(2));
        half_read.await_ended(2);
        let waits = || half_read.shared.parts.lock().of_known.waits(1, half_read.bytes_max);
        assert!(waits());
        std::thread::scope(|scope| {
            let waiting = scope.spawn(|| half_read.await_ended(1));
            assert_eq!(set(&half_read, 2, 0), None);
            waiting.join().unwrap();
        });
        assert!(!waits());
    }

    #[test]
    fn half_read_short_frames_are_always_allowed() {
        let half_read = HalfRead::new(0, 0);
        let reading = Reading { half_read, ..Reading::new(usize::MAX) };
        let mut share = Share { reading: &reading, held: 0, is_long: false };
        assert_eq!(share.set(LONG_BYTES, false), None);
        assert_eq!(reading.buffered.bytes(), LONG_BYTES, "they count nevertheless");
        assert_eq!(share.set(LONG_BYTES, true), Some(0));
        drop(share);
        assert_eq!(reading.buffered.bytes(), 0);
    }
}
