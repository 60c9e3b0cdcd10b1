//! Channels: clients that share an operator's connection (docs/PROTOCOL.md, section 18).
//!
//! A connection carries the frames of all its channels one after another. A control frame begins
//! with a byte that cannot begin JSON. It selects the channel of the frames that follow, grants the
//! other side more bytes in a channel, or ends a channel.

use super::frame::{self, Frames, PREFIX};

/// The maximum number of open channels on a connection.
pub const CHANNELS_MAX: usize = 4096;

/// The bytes that each side may send in a new channel.
pub const CREDIT_BYTES: usize = 64 * 1024;

/// The channel number that stands for the connection itself.
pub const OWN: u32 = 0;

const SELECT: u8 = 1;
const CREDIT: u8 = 2;
const END: u8 = 3;

/// A control frame. Each names a channel by its number.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Control {
    /// The frames that follow belong to this channel, or to the connection itself ([`OWN`]).
    Select(u32),
    /// The receiver of this frame may send this many more bytes in this channel.
    Credit(u32, u32),
    /// The sender of this frame sends nothing more in this channel.
    End(u32),
}

impl Control {
    /// Reads a frame's content; `None` if it is not a control frame.
    #[must_use]
    pub fn parse(content: &[u8]) -> Option<Self> {
        let (kind, rest) = content.split_first()?;
        let (number, rest) = rest.split_first_chunk()?;
        let number = u32::from_be_bytes(*number);
        match (*kind, rest) {
            (SELECT, []) => Some(Self::Select(number)),
            (CREDIT, rest) => {
                let bytes = u32::from_be_bytes(*rest.as_array()?);
                Some(Self::Credit(number, bytes))
            }
            (END, []) => Some(Self::End(number)),
            _ => None,
        }
    }

    /// Appends the frame.
    pub fn append(self, bytes: &mut Vec<u8>) {
        let (kind, number) = match self {
            Self::Select(number) => (SELECT, number),
            Self::Credit(number, _) => (CREDIT, number),
            Self::End(number) => (END, number),
        };
        frame::append(bytes, |content| {
            content.push(kind);
            content.extend_from_slice(&number.to_be_bytes());
            if let Self::Credit(_, more) = self {
                content.extend_from_slice(&more.to_be_bytes());
            }
        });
    }
}

/// A part of what arrived on a connection with channels.
#[derive(Debug)]
pub enum Part<'a> {
    /// A control frame.
    Control(Control),
    /// Frames up to the next control frame, at least one.
    Frames(Frames<'a>),
}

/// Takes the next part; `None` if no frames are left.
pub fn next_part<'a>(frames: &mut Frames<'a>) -> Option<Part<'a>> {
    let mut ahead = frames.clone();
    if let Some(control) = Control::parse(ahead.next()?) {
        *frames = ahead;
        return Some(Part::Control(control));
    }
    let end = loop {
        let left = ahead.bytes();
        if ahead.next().is_none_or(|content| Control::parse(content).is_some()) {
            break frames.bytes() - left;
        }
    };
    Some(Part::Frames(frames.split_to(end)))
}

/// The bytes that may still be sent in a channel. While any are left, a whole frame may be sent, so
/// that the longest frame is never stuck. The excess is deducted from later grants.
#[derive(Clone, Copy, Debug)]
pub struct SendCredit(i64);

impl Default for SendCredit {
    fn default() -> Self {
        Self(CREDIT_BYTES as i64)
    }
}

impl SendCredit {
    /// Adds what the other side has granted.
    pub const fn add(&mut self, bytes: u64) {
        self.0 = self.0.saturating_add_unsigned(bytes);
    }

    /// Spends credit for whole frames at the front of `unsent`, until their bytes reach `most`.
    /// Returns the bytes of these frames.
    pub fn spend(&mut self, unsent: &[u8], most: usize) -> usize {
        let mut end = 0;
        while self.0 > 0
            && end < most
            && let Some(length) = frame::length_at(&unsent[end..])
        {
            let bytes = PREFIX + length;
            self.0 -= bytes as i64;
            end += bytes;
        }
        end
    }
}

/// The bytes that the other side may still send in a channel.
#[derive(Clone, Copy, Debug)]
pub struct ReceiveCredit(i64);

impl Default for ReceiveCredit {
    fn default() -> Self {
        Self(CREDIT_BYTES as i64)
    }
}

impl ReceiveCredit {
    /// Counts a frame that arrived. Returns false if it came without credit.
    #[must_use]
    pub const fn spend(&mut self, content: &[u8]) -> bool {
        let has_credit = self.0 > 0;
        self.0 -= (PREFIX + content.len()) as i64;
        has_credit
    }

    /// Returns the bytes to grant so that the other side may send `room` bytes, if they are worth a
    /// control frame: half of [`CREDIT_BYTES`], or any if the other side may send none.
    pub fn grant(&mut self, room: usize) -> Option<u32> {
        let room = i64::try_from(room.min(CREDIT_BYTES)).unwrap_or_default();
        let more = room - self.0;
        let is_worth = more >= CREDIT_BYTES as i64 / 2 || (self.0 <= 0 && room > 0);
        let bytes = u32::try_from(more).ok().filter(|_| is_worth)?;
        self.0 = room;
        Some(bytes)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::frame::Batch;
    use proptest::prelude::*;

    fn append(bytes: &mut Vec<u8>, content: &[u8]) {
        frame::append(bytes, |frame| frame.extend_from_slice(content));
    }

    #[test]
    fn control_frame_is_read_as_written_and_no_json_is_one() {
        for control in [Control::Select(7), Control::Credit(1 << 31, 65_536), Control::End(3)] {
            let mut bytes = Vec::new();
            control.append(&mut bytes);
            assert_eq!(Control::parse(&bytes[PREFIX..]), Some(control));
            assert_eq!(Control::parse(&bytes[PREFIX..bytes.len() - 1]), None);
            bytes.push(0);
            assert_eq!(Control::parse(&bytes[PREFIX..]), None);
        }
        for content in ["{}", " {}", "\t{}", "\n{}", "\r{}", "\0\0\0\0\0", "\x04\0\0\0\0"] {
            assert_eq!(Control::parse(content.as_bytes()), None);
        }
    }

    #[test]
    fn frames_are_split_at_control_frames() {
        let mut bytes = Vec::new();
        append(&mut bytes, b"{1}");
        Control::Select(1).append(&mut bytes);
        Control::Credit(1, 9).append(&mut bytes);
        append(&mut bytes, b"{2}");
        append(&mut bytes, b"{3}");
        Control::End(1).append(&mut bytes);
        let batch = Batch::of(bytes);
        let (mut frames, mut parts) = (batch.frames(), Vec::new());
        while let Some(part) = next_part(&mut frames) {
            parts.push(match part {
                Part::Control(control) => format!("{control:?}"),
                Part::Frames(frames) => {
                    frames.map(|it| String::from_utf8_lossy(it).into_owned()).collect()
                }
            });
        }
        assert_eq!(parts, ["{1}", "Select(1)", "Credit(1, 9)", "{2}{3}", "End(1)"]);
    }

    #[test]
    fn frame_without_credit_is_noticed() {
        let mut credit = ReceiveCredit::default();
        assert!(credit.spend(&[b'x'; CREDIT_BYTES]));
        assert!(!credit.spend(b"x"));
    }

    proptest! {
        /// One side sends frames whenever it may, the other handles them in pieces.
        #[test]
        fn every_frame_passes_and_none_without_credit(
            lengths in prop::collection::vec(1_usize..200_000, 1..40),
            handled in prop::collection::vec(1_usize..100_000, 1..20),
            most in 1_usize..300_000,
        ) {
            let mut unsent = Vec::new();
            lengths.iter().for_each(|length| append(&mut unsent, &vec![b'x'; *length]));
            let (mut sender, mut receiver) = (SendCredit::default(), ReceiveCredit::default());
            let longest = PREFIX + lengths.iter().max().unwrap();
            let (mut sent, mut queued, mut handled) = (0, 0, handled.iter().cycle());
            while sent < unsent.len() || queued > 0 {
                let count = sender.spend(&unsent[sent..], most);
                prop_assert!(count < most + longest);
                let batch = Batch::of(unsent[sent..sent + count].to_vec());
                prop_assert!(batch.frames().all(|content| receiver.spend(content)));
                sent += count;
                queued += count;
                prop_assert!(queued < CREDIT_BYTES + longest, "{queued} bytes wait");
                queued = queued.saturating_sub(*handled.next().unwrap());
                if let Some(bytes) = receiver.grant(CREDIT_BYTES.saturating_sub(queued)) {
                    sender.add(bytes.into());
                }
            }
        }
    }
}
