//! Fuzzing of the decoder of frames. A stream of bytes must give the same frames and the same
//! violation, however it is cut into pieces.

use protocol::{
    code::{ErrorCode, Violation},
    frame::{Decoder, PREFIX},
};

/// The maximum length of a stream that an input describes, in bytes.
const STREAM_BYTES_MAX: usize = 1 << 20;

/// The frames of a stream, the violation after them, and the number of bytes left over.
type Outcome = (Vec<Vec<u8>>, Option<ErrorCode>, usize);

/// Makes a stream of the input, decodes it at once and in pieces, and compares the results with a
/// model.
pub fn run(bytes: &[u8]) {
    let Some((&[cuts, limit], plan)) = bytes.split_first_chunk() else { return };
    let bytes_max = [1, 10, 300, 70_000][usize::from(limit % 4)];
    let stream = stream(plan);
    let expected = model(&stream, bytes_max);
    let at_once = decode(&stream, bytes_max, |left| left);
    assert_eq!(at_once, expected, "at once");
    let mut state = u64::from(cuts) + 1;
    let in_pieces = decode(&stream, bytes_max, |left| {
        state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1);
        // The larger the rest of the stream is, the larger are the pieces.
        let piece = (state >> 33) as usize % (1 + left / 64 + usize::from(cuts % 16));
        piece.clamp(1, left)
    });
    assert_eq!(in_pieces, expected, "in pieces");
}

/// Returns a stream of frames, wrong lengths, and arbitrary bytes.
fn stream(mut plan: &[u8]) -> Vec<u8> {
    let mut stream = Vec::new();
    while let Some((&[kind, a, b], rest)) = plan.split_first_chunk() {
        plan = rest;
        let number = usize::from(u16::from_be_bytes([a, b]));
        match kind % 4 {
            0 => {
                let taken = (number % 64).min(plan.len());
                stream.extend_from_slice(&plan[..taken]);
                plan = &plan[taken..];
            }
            1 | 2 => {
                // Lengths from zero to a little more than the largest limit.
                let length = if kind % 4 == 1 { number % 310 } else { number + number / 8 };
                stream.extend_from_slice(&(length as u32).to_be_bytes());
                stream.resize(stream.len() + length, kind);
            }
            _ => stream.extend_from_slice(&(u32::from_be_bytes([a, b, kind, a])).to_be_bytes()),
        }
        if stream.len() > STREAM_BYTES_MAX {
            break;
        }
    }
    stream.extend_from_slice(plan);
    stream
}

/// Splits a stream into frames as PROTOCOL.md says.
fn model(mut stream: &[u8], bytes_max: usize) -> Outcome {
    let mut frames = Vec::new();
    while let Some((prefix, rest)) = stream.split_first_chunk::<PREFIX>() {
        let length = u32::from_be_bytes(*prefix) as usize;
        if length == 0 {
            return (frames, Some(ErrorCode::BadFrame), 0);
        }
        if length > bytes_max {
            return (frames, Some(ErrorCode::FrameTooLarge), 0);
        }
        if rest.len() < length {
            break;
        }
        frames.push(rest[..length].to_vec());
        stream = &rest[length..];
    }
    (frames, None, stream.len())
}

/// Passes a stream to the decoder. `piece` returns the length of the next piece, given the number
/// of remaining bytes.
fn decode(mut stream: &[u8], bytes_max: usize, mut piece: impl FnMut(usize) -> usize) -> Outcome {
    let (mut decoder, mut frames) = (Decoder::new(bytes_max), Vec::new());
    while !stream.is_empty() {
        let wanted = piece(stream.len());
        let space = decoder.space();
        assert!(!space.is_empty() && space.len() <= 2 * (PREFIX + bytes_max) + (128 << 10));
        let count = wanted.min(space.len());
        space[..count].copy_from_slice(&stream[..count]);
        decoder.filled(count);
        stream = &stream[count..];
        match drain(&mut decoder, &mut frames) {
            Ok(()) => assert!(!decoder.has_next() && decoder.pending() < PREFIX + bytes_max),
            Err(violation) => {
                assert!(decoder.has_next(), "a violation stays");
                assert_eq!(decoder.batch(), Err(violation.clone()), "for ever");
                return (frames, Some(violation.code), 0);
            }
        }
    }
    (frames, None, decoder.pending())
}

/// Takes all complete frames from the decoder, alternately borrowed and owned.
fn drain(decoder: &mut Decoder, frames: &mut Vec<Vec<u8>>) -> Result<(), Violation> {
    loop {
        let before = frames.len();
        if before.is_multiple_of(2) {
            frames.extend(decoder.take()?.into_iter().flatten().map(<[u8]>::to_vec));
        } else if let Some(batch) = decoder.batch()? {
            frames.extend(batch.frames().map(<[u8]>::to_vec));
        }
        if frames.len() == before {
            return Ok(());
        }
    }
}
