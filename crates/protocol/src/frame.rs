//! Frames: a 4-byte big-endian length, then that many bytes of JSON (docs/PROTOCOL.md, section 3).

use super::code::{ErrorCode, Violation};

/// The length of a frame's length prefix, in bytes.
pub const PREFIX: usize = 4;

/// The default `max_frame_bytes`.
pub const FRAME_BYTES_MAX: usize = 1024 * 1024;

/// The most bytes requested from a read, while traffic is dense.
const READ_BYTES: usize = 64 * 1024;

/// The bytes requested from a read on a quiet connection. There may be thousands of them.
const QUIET_BYTES: usize = 4 * 1024;

/// The number of consecutive small reads that makes a connection quiet.
const SMALL_READS: u8 = 32;

/// Appends one frame whose JSON `write` appends.
pub fn append(bytes: &mut Vec<u8>, write: impl FnOnce(&mut Vec<u8>)) {
    let start = bytes.len();
    bytes.extend_from_slice(&[0; PREFIX]);
    write(bytes);
    seal(bytes, start, 0);
}

/// Fills in the length of the frame that begins at `start`. Further `more` bytes of the frame are
/// held elsewhere.
///
/// # Panics
/// If the frame has 4 GiB or more, which all limits exclude.
pub fn seal(bytes: &mut [u8], start: usize, more: usize) {
    let length = u32::try_from(bytes.len() - start - PREFIX + more).expect("frames are bounded");
    bytes[start..start + PREFIX].copy_from_slice(&length.to_be_bytes());
}

/// A decoder from a stream of bytes to frames. The decoder buffers at most one incomplete frame.
///
/// A driver reads into [`space`](Self::space), reports the count with [`filled`](Self::filled), and
/// takes whole frames with [`take`](Self::take) or [`batch`](Self::batch).
#[derive(Debug)]
pub struct Decoder {
    frame_bytes_max: usize,
    buffer: Vec<u8>,
    /// The range of bytes in `buffer` that are not decoded yet.
    start: usize,
    end: usize,
    /// The bytes requested from a read.
    read_bytes: usize,
    /// The number of consecutive small reads.
    small_reads: u8,
}

impl Decoder {
    /// A decoder that refuses frames of more than `frame_bytes_max` bytes.
    #[must_use]
    pub const fn new(frame_bytes_max: usize) -> Self {
        Self {
            frame_bytes_max,
            buffer: Vec::new(),
            start: 0,
            end: 0,
            read_bytes: QUIET_BYTES,
            small_reads: 0,
        }
    }

    /// Returns the buffer for the next read, which is never empty.
    pub fn space(&mut self) -> &mut [u8] {
        self.trim();
        self.grow();
        &mut self.buffer[self.end..]
    }

    /// Shrinks the buffer if most of it is unused, as after a large frame. Meant for use before a
    /// wait; [`space`](Self::space) would also grow the buffer.
    pub fn trim(&mut self) {
        self.buffer.copy_within(self.start..self.end, 0);
        (self.start, self.end) = (0, self.pending());
        let used = self.end.max(self.read_bytes);
        if self.buffer.len() >= 2 * used {
            self.shrink(used);
        }
    }

    /// Returns the bytes of memory that the decoder holds.
    #[must_use]
    pub const fn held(&self) -> usize {
        self.buffer.capacity()
    }

    /// Reports that the first `count` bytes of [`space`](Self::space) were filled.
    pub fn filled(&mut self, count: usize) {
        let is_full = self.end + count == self.buffer.len();
        self.end += count;
        debug_assert!(self.end <= self.buffer.len());
        if is_full {
            self.read_bytes = (self.read_bytes * 4).min(READ_BYTES);
            self.small_reads = 0;
        } else if count > QUIET_BYTES / 2 {
            self.small_reads = 0;
        } else if self.read_bytes > QUIET_BYTES {
            self.small_reads += 1;
            if self.small_reads == SMALL_READS {
                self.read_bytes = QUIET_BYTES;
            }
        }
    }

    /// Whether [`rest`](Self::rest) would shrink the buffer, because it is larger than the
    /// incomplete frame of a quiet connection needs.
    #[must_use]
    pub fn can_rest(&self) -> bool {
        self.buffer.len() > self.pending().max(QUIET_BYTES)
    }

    /// Shrinks the buffer to the size for a quiet connection.
    pub fn rest(&mut self) {
        self.read_bytes = QUIET_BYTES;
        self.trim();
        self.shrink(self.end.max(QUIET_BYTES));
    }

    /// Returns the number of bytes of the incomplete frame.
    #[must_use]
    pub const fn pending(&self) -> usize {
        self.end - self.start
    }

    /// Whether a whole frame, or a violation, can be taken.
    #[must_use]
    pub fn has_next(&self) -> bool {
        self.whole() > 0 || self.check_next().is_err()
    }

    /// Takes all whole frames, borrowed from the buffer. `None` if there are none yet.
    ///
    /// # Errors
    /// A violation, once all frames before it are taken; it is returned again by every further
    /// call.
    pub fn take(&mut self) -> Result<Option<Frames<'_>>, Violation> {
        let start = self.start;
        let whole = self.whole();
        if whole == 0 {
            return self.check_next().map(|()| None);
        }
        self.start += whole;
        Ok(Some(Frames { rest: &self.buffer[start..start + whole] }))
    }

    /// Takes all whole frames as an owned batch, for another thread.
    pub fn batch(&mut self) -> Result<Option<Batch>, Violation> {
        Ok(self.take()?.map(|frames| frames.to_batch()))
    }

    /// Returns the length of the whole valid frames at the front.
    fn whole(&self) -> usize {
        let bytes = &self.buffer[self.start..self.end];
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
        match length_at(&self.buffer[self.start..self.end]) {
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

    /// Grows the buffer as bytes arrive, so that an announced length alone takes no memory. It
    /// grows by a quarter, since thousands of connections may each have most of a frame.
    fn grow(&mut self) {
        let step = self.end.max(self.read_bytes) / 4;
        let is_scarce = self.buffer.len() - self.end < (step / 2).min(self.missing());
        if is_scarce || self.buffer.len() < self.read_bytes {
            let wanted = (self.end + step).min(PREFIX + self.frame_bytes_max + READ_BYTES);
            let wanted = wanted.max(self.read_bytes);
            self.buffer.reserve_exact(wanted.saturating_sub(self.buffer.len()));
            self.buffer.resize(wanted, 0);
        }
    }

    /// The bytes that the incomplete frame needs.
    fn missing(&self) -> usize {
        let length = length_at(&self.buffer[self.start..self.end]).unwrap_or(usize::MAX - PREFIX);
        (PREFIX + length).saturating_sub(self.pending())
    }

    fn shrink(&mut self, bytes: usize) {
        self.buffer.truncate(bytes);
        self.buffer.shrink_to_fit();
    }
}

pub(crate) fn length_at(bytes: &[u8]) -> Option<usize> {
    let prefix = bytes.first_chunk::<PREFIX>()?;
    Some(u32::from_be_bytes(*prefix) as usize)
}

/// Whole frames, in order of arrival.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Batch {
    bytes: Vec<u8>,
}

impl Batch {
    /// A batch of frames that this crate's writers appended.
    #[must_use]
    pub const fn of(bytes: Vec<u8>) -> Self {
        Self { bytes }
    }

    /// The frames with their prefixes, as on a stream.
    #[must_use]
    pub fn as_bytes(&self) -> &[u8] {
        &self.bytes
    }

    /// The number of bytes, including prefixes.
    #[must_use]
    pub const fn bytes(&self) -> usize {
        self.bytes.len()
    }

    /// An iterator over the frames' JSON.
    #[must_use]
    pub fn frames(&self) -> Frames<'_> {
        Frames { rest: &self.bytes }
    }
}

/// An iterator over whole frames.
#[derive(Clone, Debug)]
pub struct Frames<'a> {
    rest: &'a [u8],
}

impl Frames<'_> {
    /// Removes and returns the frames in the first `count` bytes.
    pub(crate) const fn split_to(&mut self, count: usize) -> Self {
        let (front, rest) = self.rest.split_at(count);
        self.rest = rest;
        Self { rest: front }
    }

    /// The number of bytes that are left, including prefixes.
    #[must_use]
    pub const fn bytes(&self) -> usize {
        self.rest.len()
    }

    /// Copies the frames that are left, for another thread.
    #[must_use]
    pub fn to_batch(&self) -> Batch {
        Batch { bytes: self.rest.to_vec() }
    }
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

    /// Decodes bytes into frames.
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
    fn frames_do_not_depend_on_the_reads() {
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
    fn buffer_shrinks_after_a_large_frame() {
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
    fn buffer_shrinks_at_rest() {
        let mut decoder = Decoder::new(1 << 20);
        let frame = frames(&[&[b'x'; QUIET_BYTES]]);
        decode(&mut decoder, &frame.repeat(8)).unwrap();
        assert_eq!(decoder.space().len(), READ_BYTES);
        assert!(decoder.can_rest());
        decoder.rest();
        assert_eq!(decoder.space().len(), QUIET_BYTES);
        assert!(!decoder.can_rest());
    }

    #[test]
    fn buffer_shrinks_after_a_long_frame_while_the_next_arrives() {
        for begun in [1, QUIET_BYTES - 1] {
            let mut decoder = Decoder::new(1 << 20);
            let mut bytes = frames(&[&[b'x'; 1 << 20]]);
            bytes.extend(frames(&[&[b'y'; QUIET_BYTES]]).iter().take(begun));
            decode(&mut decoder, &bytes).unwrap();
            assert_eq!(decoder.pending(), begun);
            decoder.rest();
            assert!(decoder.held() <= QUIET_BYTES, "{}", decoder.held());
        }
    }

    #[test]
    fn buffer_grows_with_each_read_that_fills_it() {
        let mut decoder = Decoder::new(1 << 20);
        let frame = frames(&[&[b'x'; 60]]);
        for space in [QUIET_BYTES, 4 * QUIET_BYTES, READ_BYTES, READ_BYTES] {
            assert_eq!(decoder.space().len(), space);
            decode(&mut decoder, &frame.repeat(space / frame.len())).unwrap();
        }
    }

    #[test]
    fn buffer_of_an_incomplete_frame_is_little_longer_than_the_frame() {
        for announced in [59_000, 1 << 20] {
            let mut decoder = Decoder::new(1 << 20);
            let bytes = frames(&[&vec![b'x'; announced]]);
            let mut read = 0;
            for bytes in bytes.chunks(1_000) {
                decode(&mut decoder, bytes).unwrap();
                read += bytes.len();
                assert!(
                    decoder.held() <= read.max(READ_BYTES) * 5 / 4,
                    "{} for {read}",
                    decoder.held()
                );
                decoder.rest();
                assert_eq!(decoder.held(), decoder.pending().max(QUIET_BYTES));
            }
            assert_eq!(decoder.pending(), 0);
        }
    }

    #[test]
    fn invalid_length_is_reported_after_the_frames_before_it() {
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
    fn announced_length_takes_no_memory() {
        let mut decoder = Decoder::new(1 << 20);
        decode(&mut decoder, &(1u32 << 20).to_be_bytes()).unwrap();
        assert_eq!(decoder.buffer.len(), QUIET_BYTES);
    }
}
