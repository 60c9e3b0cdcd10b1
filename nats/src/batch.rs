//! Batches: several frames in one message of the stream.
//!
//! Only one publish of each lane is in flight at a time, which keeps the lane's order whatever
//! fails. Frames that come meanwhile share the next message, so that the lane's throughput does
//! not depend on the time of one publish.
//!
//! A batch is a sequence of frames, each its length (4 bytes, big-endian) and that many bytes.

use std::fmt;

/// The greatest number of frames in a batch.
pub const FRAMES_MAX: usize = 256;

/// The size up to which a batch gets further frames. A single frame may be larger.
pub const BYTES_WANTED: usize = 256 * 1024;

const LENGTH_BYTES: usize = 4;

/// Why bytes are no batch.
#[derive(Debug, PartialEq, Eq)]
pub enum BatchError {
    /// The bytes end within a frame.
    Truncated,
    /// There is no frame.
    Empty,
    /// There are more than [`FRAMES_MAX`] frames.
    TooMany,
}

impl fmt::Display for BatchError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Truncated => f.write_str("it ends within a frame"),
            Self::Empty => f.write_str("it has no frame"),
            Self::TooMany => write!(f, "it has more than {FRAMES_MAX} frames"),
        }
    }
}

/// The size of a frame in a batch.
#[must_use]
pub fn size_of(frame: &[u8]) -> usize {
    LENGTH_BYTES + frame.len()
}

/// Appends a frame to a batch.
///
/// # Panics
/// If the frame has 4 GiB or more.
pub fn append(batch: &mut Vec<u8>, frame: &[u8]) {
    let length = u32::try_from(frame.len()).expect("a frame has less than 4 GiB");
    batch.extend_from_slice(&length.to_be_bytes());
    batch.extend_from_slice(frame);
}

/// The frames of a batch.
///
/// # Errors
/// If the bytes are no batch. Then none of the frames is returned.
pub fn frames(mut bytes: &[u8]) -> Result<Vec<&[u8]>, BatchError> {
    let mut frames = Vec::new();
    while !bytes.is_empty() {
        let (length, rest) = bytes.split_first_chunk().ok_or(BatchError::Truncated)?;
        let length = u32::from_be_bytes(*length) as usize;
        let (frame, rest) = rest.split_at_checked(length).ok_or(BatchError::Truncated)?;
        if frames.len() == FRAMES_MAX {
            return Err(BatchError::TooMany);
        }
        frames.push(frame);
        bytes = rest;
    }
    if frames.is_empty() { Err(BatchError::Empty) } else { Ok(frames) }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn batch_returns_its_frames() {
        let mut batch = Vec::new();
        append(&mut batch, b"one");
        append(&mut batch, b"");
        append(&mut batch, b"three");
        assert_eq!(frames(&batch).unwrap(), [&b"one"[..], b"", b"three"]);
        assert_eq!(batch.len(), size_of(b"one") + size_of(b"") + size_of(b"three"));
    }

    #[test]
    fn bytes_that_are_no_batch_are_refused() {
        assert_eq!(frames(b""), Err(BatchError::Empty));
        assert_eq!(frames(b"\0\0\0"), Err(BatchError::Truncated));
        assert_eq!(frames(b"\0\0\0\x02a"), Err(BatchError::Truncated));
        assert_eq!(frames(b"\xff\xff\xff\xffa"), Err(BatchError::Truncated));
        let many = [0; (FRAMES_MAX + 1) * LENGTH_BYTES];
        assert_eq!(frames(&many), Err(BatchError::TooMany));
    }
}
