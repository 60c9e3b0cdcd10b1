//! What is said: frames, envelopes and the fifteen kinds of message, names, topics and codes.
//!
//! Pure: nothing here reads a clock, waits, or knows where bytes come from. The rules are those of
//! docs/PROTOCOL.md. Reading goes from the outside in: [`frame`] cuts a stream of bytes into frames,
//! [`envelope`] judges one frame's JSON and borrows its header from it, [`payload`] types what an
//! envelope carries. Writing goes the other way and appends whole frames to a buffer.

pub mod calendar;
pub mod code;
pub mod control;
pub mod deliver;
pub mod envelope;
pub mod frame;
mod json;
pub mod name;
pub mod payload;
pub mod relay;
pub mod secret;
pub mod text;
pub mod topic;
pub mod typed;
mod words;

/// The version of the envelope: its `v`.
pub const VERSION: u64 = 1;

/// The protocol that WELCOME states in `server.protocol`.
pub const PROTOCOL: &str = "1.1";

/// A point on a clock that never goes back and counts suspended time, in milliseconds.
///
/// Its zero means nothing; only differences do.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Moment(pub u64);

impl Moment {
    /// The moment `ms` milliseconds later.
    #[must_use]
    pub const fn plus(self, ms: u64) -> Self {
        Self(self.0.saturating_add(ms))
    }

    /// Milliseconds from `earlier` to this moment; 0 if that one is not earlier.
    #[must_use]
    pub const fn since(self, earlier: Self) -> u64 {
        self.0.saturating_sub(earlier.0)
    }
}

/// Both clocks, read once by a driver and handed to a machine.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Now {
    /// For deadlines.
    pub monotonic: Moment,
    /// Milliseconds since 1970, for `ts` and for what outlives a process.
    pub unix_ms: u64,
}
