//! Frames: a 4-byte big-endian length, then that many bytes of JSON (docs/PROTOCOL.md, section 3).

use super::code::{ErrorCode, Violation};

/// Bytes of a frame's length.
pub const PREFIX: usize = 4;

/// The default `max_frame_bytes`.
pub const FRAME_BYTES_MAX: usize = 1024 * 1024;

/// Room that a read asks the system to fill while much comes.
const READ_BYTES: usize = 64 * 1024;

/// The same while little comes: thousands of quiet connections are to cost little.
const QUIET_BYTES: usize = 4 * 1024;

/// Small reads in a row after which little comes.
const SMALL_READS: u8 = 32;

/// Appends one frame whose JSON `write` appends.
pub fn append(bytes: &mut Vec<u8>, write: impl FnOnce(&mut Vec<u8>)) {
    let start = bytes.len();
    bytes.extend_from_slice(&[0; PREFIX]);
    write(bytes);
    seal(bytes, start, 0);
}

/// Fills in the length of the frame that began at `start`, of which `more` bytes follow elsewhere.
///
/// # Panics
/// If the frame has 4 GiB or more; every writer's bound is far below.
pub fn seal(bytes: &mut [u8], start: usize, more: usize) {
    let length = u32::try_from(bytes.len() - start - PREFIX + more).expect("frames are bounded");
    bytes[start..start + PREFIX].copy_from_slice(&length.to_be_bytes());
}

/// Cuts a stream of bytes into frames; holds at most one that isn't whole.
///
/// A driver reads into [`space`](Self::space), says how much with [`filled`](Self::filled), and
/// takes what is whole with [`take`](Self::take) or [`batch`](Self::batch).
#[derive(Debug)]
pub struct Decoder {
    frame_bytes_max: usize,
    buffer: Vec<u8>,
    taken: usize,
    filled: usize,
    /// What a read may bring.
    room: usize,
    /// Reads in a row that brought little.
    small_reads: u8,
}

impl Decoder {
    /// A decoder that refuses frames of more than `frame_bytes_max` bytes.
    #[must_use]
    pub const fn new(frame_bytes_max: usize) -> Self {
        Self {
            frame_bytes_max,
            buffer: Vec::new(),
            taken: 0,
            filled: 0,
            room: QUIET_BYTES,
            small_reads: 0,
        }
    }

    /// Where the next bytes go. Never empty.
    pub fn space(&mut self) -> &mut [u8] {
        self.buffer.copy_within(self.taken..self.filled, 0);
        self.filled -= self.taken;
        self.taken = 0;
        self.fit();
        &mut self.buffer[self.filled..]
    }

    /// Says that the first `count` bytes of the space were filled.
    pub fn filled(&mut self, count: usize) {
        let is_full = self.filled + count == self.buffer.len();
        self.filled += count;
        debug_assert!(self.filled <= self.buffer.len());
        if is_full {
            self.room = READ_BYTES;
            self.small_reads = 0;
        } else if count > QUIET_BYTES / 2 {
            self.small_reads = 0;
        } else if self.room > QUIET_BYTES {
            self.small_reads += 1;
            if self.small_reads == SMALL_READS {
                self.room = QUIET_BYTES;
            }
        }
    }

    /// Bytes of a frame that isn't whole yet.
    #[must_use]
    pub const fn pending(&self) -> usize {
        self.filled - self.taken
    }

    /// Whether there is a whole frame, or a violation.
    #[must_use]
    pub fn has_next(&self) -> bool {
        self.whole() > 0 || self.check_next().is_err()
    }

    /// Takes every whole frame, in place. `Ok(None)` asks for more bytes.
    ///
    /// A violation comes after the good frames before it were taken, and then for ever.
    pub fn take(&mut self) -> Result<Option<Frames<'_>>, Violation> {
        let start = self.taken;
        let whole = self.whole();
        if whole == 0 {
            return self.check_next().map(|()| None);
        }
        self.taken += whole;
        Ok(Some(Frames { rest: &self.buffer[start..start + whole] }))
    }

    /// The same as a value of its own, to be handed to another thread.
    pub fn batch(&mut self) -> Result<Option<Batch>, Violation> {
        let taken = self.take()?;
        Ok(taken.map(|frames| Batch { bytes: frames.rest.to_vec() }))
    }

    /// Bytes of whole good frames at the front.
    fn whole(&self) -> usize {
        let bytes = &self.buffer[self.taken..self.filled];
        let mut end = 0;
        while let Some(length) = length_at(&bytes[end..]) {
            let after = end + PREFIX + length;
            if length == 0 || length > self.frame_bytes_max || after > bytes.len() {
                break;
            }
            end = after;
        }
        end
    }

    fn check_next(&self) -> Result<(), Violation> {
        match length_at(&self.buffer[self.taken..self.filled]) {
            Some(0) => Err(Violation::new(ErrorCode::BadFrame, "a frame has at least one byte")),
            Some(length) if length > self.frame_bytes_max => Err(Violation::new(
                ErrorCode::FrameTooLarge,
                format!(
                    "a frame of {length} bytes is over max_frame_bytes ({})",
                    self.frame_bytes_max
                ),
            )),
            _ => Ok(()),
        }
    }

    /// Makes room as bytes come, not as a length promises: a peer that only announces takes none.
    /// Gives it back once a large frame is gone.
    fn fit(&mut self) {
        let wanted = (self.filled * 2).clamp(self.room, PREFIX + self.frame_bytes_max + READ_BYTES);
        if self.buffer.len() - self.filled < self.room / 2 {
            self.buffer.resize(wanted.max(self.buffer.len()), 0);
        } else if self.buffer.len() > self.room && self.filled < self.room / 2 {
            self.buffer.truncate(self.room);
            self.buffer.shrink_to_fit();
        }
    }
}

fn length_at(bytes: &[u8]) -> Option<usize> {
    let prefix = bytes.first_chunk::<PREFIX>()?;
    Some(u32::from_be_bytes(*prefix) as usize)
}

/// Whole frames, in the order they came.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Batch {
    bytes: Vec<u8>,
}

impl Batch {
    /// Frames that were appended by this crate's own writers.
    #[must_use]
    pub const fn of(bytes: Vec<u8>) -> Self {
        Self { bytes }
    }

    /// The frames as they go over a stream.
    #[must_use]
    pub fn as_bytes(&self) -> &[u8] {
        &self.bytes
    }

    /// Bytes in all, prefixes counted.
    #[must_use]
    pub const fn bytes(&self) -> usize {
        self.bytes.len()
    }

    /// The frames' JSON, one by one.
    #[must_use]
    pub fn frames(&self) -> Frames<'_> {
        Frames { rest: &self.bytes }
    }
}

/// Goes through a [`Batch`].
#[derive(Clone, Debug)]
pub struct Frames<'a> {
    rest: &'a [u8],
}

impl<'a> Iterator for Frames<'a> {
    type Item = &'a [u8];

    fn next(&mut self) -> Option<&'a [u8]> {
        let length = length_at(self.rest)?;
        let (frame, rest) = self.rest[PREFIX..].split_at(length);
        self.rest = rest;
        Some(frame)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn frames(contents: &[&[u8]]) -> Vec<u8> {
        let mut bytes = Vec::new();
        for content in contents {
            append(&mut bytes, |frame| frame.extend_from_slice(content));
        }
        bytes
    }

    /// Feeds `pieces` and gives back every frame, or what was violated.
    fn decode(decoder: &mut Decoder, mut bytes: &[u8]) -> Result<Vec<Vec<u8>>, Violation> {
        let mut got = Vec::new();
        while !bytes.is_empty() {
            let space = decoder.space();
            let count = space.len().min(bytes.len());
            space[..count].copy_from_slice(&bytes[..count]);
            decoder.filled(count);
            bytes = &bytes[count..];
            while let Some(batch) = decoder.batch()? {
                got.extend(batch.frames().map(<[u8]>::to_vec));
            }
        }
        Ok(got)
    }

    #[test]
    fn every_cut_gives_the_same_frames() {
        let bytes = frames(&[b"{}", b"{\"a\":1}", &[b'x'; 300], b"z"]);
        let whole = decode(&mut Decoder::new(1000), &bytes).unwrap();
        assert_eq!(whole.len(), 4);
        for cut in 0..=bytes.len() {
            let mut decoder = Decoder::new(1000);
            let mut got = decode(&mut decoder, &bytes[..cut]).unwrap();
            got.extend(decode(&mut decoder, &bytes[cut..]).unwrap());
            assert_eq!(got, whole, "cut at {cut}");
            assert_eq!(decoder.pending(), 0);
        }
    }

    #[test]
    fn a_large_frame_arrives_whole_and_its_room_is_given_back() {
        let large = vec![b'x'; 700_000];
        let mut decoder = Decoder::new(1 << 20);
        let got = decode(&mut decoder, &frames(&[&large, b"{}"])).unwrap();
        assert_eq!(got, [large, b"{}".to_vec()]);
        assert_eq!(decoder.space().len(), READ_BYTES);
        for _ in 0..SMALL_READS {
            decode(&mut decoder, &frames(&[b"{}"])).unwrap();
        }
        assert_eq!(decoder.space().len(), QUIET_BYTES);
        assert_eq!(decoder.buffer.capacity(), QUIET_BYTES);
    }

    #[test]
    fn room_grows_with_the_first_read_that_fills_it() {
        let mut decoder = Decoder::new(1 << 20);
        let frame = frames(&[&[b'x'; 60]]);
        decode(&mut decoder, &frame.repeat(QUIET_BYTES / frame.len())).unwrap();
        assert_eq!(decoder.space().len(), READ_BYTES);
    }

    #[test]
    fn a_bad_length_is_told_after_the_frames_before_it() {
        let mut decoder = Decoder::new(10);
        let mut bytes = frames(&[b"{}"]);
        bytes.extend_from_slice(&11u32.to_be_bytes());
        let space = decoder.space();
        space[..bytes.len()].copy_from_slice(&bytes);
        decoder.filled(bytes.len());
        assert_eq!(decoder.batch().unwrap().unwrap().frames().count(), 1);
        assert_eq!(decoder.batch().unwrap_err().code, ErrorCode::FrameTooLarge);

        let nothing = decode(&mut Decoder::new(10), &[0, 0, 0, 0]);
        assert_eq!(nothing.unwrap_err().code, ErrorCode::BadFrame);
        let exactly = decode(&mut Decoder::new(10), &frames(&[&[b'x'; 10]]));
        assert_eq!(exactly.unwrap().len(), 1);
    }

    #[test]
    fn an_announced_length_takes_no_room_before_its_bytes_come() {
        let mut decoder = Decoder::new(1 << 20);
        decode(&mut decoder, &(1u32 << 20).to_be_bytes()).unwrap();
        assert_eq!(decoder.buffer.len(), QUIET_BYTES);
    }
}
