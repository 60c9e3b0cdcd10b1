//! Batches: several frames of a lane in one message of the stream.
//!
//! Frames that come while a publish is in flight share the next one, so that the throughput of a
//! lane does not depend on the time of one publish.
//!
//! A batch begins with the sending bridge's instance and the lowest number that the bridge still
//! sends (8 bytes each). Then come frames: number (8 bytes), length (4 bytes) and that many bytes.
//! All are big-endian.

use bytes::{Buf, BufMut, Bytes};
use std::fmt;

/// The greatest number of frames in a batch.
pub const FRAMES_MAX: usize = 256;

/// The size that a batch is filled up to. A single frame may be larger.
pub const BYTES_WANTED: usize = 256 * 1024;

/// The bytes of a batch without frames.
const HEAD_BYTES: usize = 16;

const FRAME_HEAD_BYTES: usize = 12;

/// A batch that was read. The frames may be anything.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Batch {
    /// The bridge's instance.
    pub instance: u64,
    /// The bridge no longer sends frames of the lane with lower numbers.
    pub base: u64,
    /// The frames, with their numbers.
    pub frames: Vec<(u64, Bytes)>,
}

/// The reason why bytes are not a batch.
#[derive(Debug, PartialEq, Eq)]
pub enum BatchError {
    /// The bytes end within the head or a frame.
    Truncated,
    /// The batch has no frame.
    Empty,
    /// There are more than [`FRAMES_MAX`] frames.
    TooMany,
}

impl fmt::Display for BatchError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Truncated => f.write_str("it ends too early"),
            Self::Empty => f.write_str("it has no frame"),
            Self::TooMany => write!(f, "it has more than {FRAMES_MAX} frames"),
        }
    }
}

/// The size of a frame in a batch.
#[must_use]
pub fn size_of(frame: &[u8]) -> usize {
    FRAME_HEAD_BYTES + frame.len()
}

/// The size of a batch of one frame.
#[must_use]
pub fn one(frame: &[u8]) -> usize {
    HEAD_BYTES + size_of(frame)
}

/// The beginning of a batch.
#[must_use]
pub fn begin(instance: u64, base: u64) -> Vec<u8> {
    let mut batch = Vec::with_capacity(HEAD_BYTES);
    batch.put_u64(instance);
    batch.put_u64(base);
    batch
}

/// Appends a frame to a batch.
///
/// # Panics
/// If the frame has 4 GiB or more.
pub fn append(batch: &mut Vec<u8>, number: u64, frame: &[u8]) {
    batch.put_u64(number);
    batch.put_u32(u32::try_from(frame.len()).expect("a frame has less than 4 GiB"));
    batch.extend_from_slice(frame);
}

/// Reads a batch.
///
/// # Errors
/// If the bytes are none.
pub fn read(mut bytes: Bytes) -> Result<Batch, BatchError> {
    if bytes.len() < HEAD_BYTES {
        return Err(BatchError::Truncated);
    }
    let (instance, base, mut frames) = (bytes.get_u64(), bytes.get_u64(), Vec::new());
    while !bytes.is_empty() {
        if bytes.len() < FRAME_HEAD_BYTES {
            return Err(BatchError::Truncated);
        }
        let (number, length) = (bytes.get_u64(), bytes.get_u32() as usize);
        if bytes.len() < length {
            return Err(BatchError::Truncated);
        }
        if frames.len() == FRAMES_MAX {
            return Err(BatchError::TooMany);
        }
        frames.push((number, bytes.split_to(length)));
    }
    if frames.is_empty() {
        return Err(BatchError::Empty);
    }
    Ok(Batch { instance, base, frames })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn batch_returns_its_frames() {
        let mut bytes = begin(7, 3);
        append(&mut bytes, 3, b"one");
        append(&mut bytes, 5, b"");
        assert_eq!(bytes.len(), HEAD_BYTES + size_of(b"one") + size_of(b""));
        let frames = vec![(3, Bytes::from("one")), (5, Bytes::new())];
        assert_eq!(read(bytes.into()), Ok(Batch { instance: 7, base: 3, frames }));
    }

    #[test]
    fn bytes_that_are_no_batch_are_refused() {
        let read = |more: &[u8]| read([begin(1, 1).as_slice(), more].concat().into());
        assert_eq!(read(b""), Err(BatchError::Empty));
        assert_eq!(super::read(Bytes::from("short")), Err(BatchError::Truncated));
        assert_eq!(read(b"\0\0\0"), Err(BatchError::Truncated));
        assert_eq!(read(b"\0\0\0\0\0\0\0\x01\xff\xff\xff\xffa"), Err(BatchError::Truncated));
        let many = [0; (FRAMES_MAX + 1) * FRAME_HEAD_BYTES];
        assert_eq!(read(&many), Err(BatchError::TooMany));
    }
}
