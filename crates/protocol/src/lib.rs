//! The wire protocol: frames, envelopes and their types, names, topics and codes.
//!
//! docs/PROTOCOL.md has the rules. Nothing here reads a clock, waits, or does I/O, and nothing
//! decides what becomes of a message: that is the router's.
//!
//! Begin with [`envelope`], whose `Kind` lists the message types. Reading goes from the outside in:
//! [`frame`] splits a stream of bytes into frames, [`envelope`] checks one frame's JSON and borrows
//! its header from it, [`payload`] has the types of an envelope's payload. Writing goes the other
//! way and appends whole frames to a buffer.
//!
//! Three modules are about other conversations in the same form: [`relay`] has the requests to
//! `@relay` and their answers, [`control`] the frames between a person's command and a wrapper,
//! [`record`] the values that router and store exchange: changes, records, and the image for a
//! start.

#![cfg_attr(
    test,
    allow(clippy::disallowed_methods, reason = "what tests start and hold is bounded by the test")
)]

pub mod activity;
pub mod calendar;
pub mod channel;
pub mod client_frame;
pub mod code;
pub mod control;
pub mod deliver;
pub mod delivery_id;
pub mod envelope;
pub mod frame;
pub mod glob;
pub mod hook;
mod json;
pub mod name;
pub mod payload;
pub mod record;
pub mod relay;
pub mod secret;
pub mod text;
pub mod topic;
pub mod typed;
mod wire_enum;

/// The version of the envelope, its `v`.
pub const VERSION: u64 = 1;

/// The version of the protocol, which WELCOME states in `server.protocol`.
pub const PROTOCOL: &str = "1.1";

/// A moment of a monotonic clock that counts suspended time, in milliseconds.
///
/// The clock's zero is arbitrary: only differences between moments have a meaning.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Moment(pub u64);

impl Moment {
    /// The moment `ms` milliseconds later.
    #[must_use]
    pub const fn plus(self, ms: u64) -> Self {
        Self(self.0.saturating_add(ms))
    }

    /// The milliseconds from `earlier` to this moment, or 0 if `earlier` is later.
    #[must_use]
    pub const fn since(self, earlier: Self) -> u64 {
        self.0.saturating_sub(earlier.0)
    }
}

/// Both clocks, read once by a driver and passed to a state machine.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Now {
    /// The monotonic clock, for deadlines.
    pub monotonic: Moment,
    /// The wall clock in milliseconds since 1970, for `ts` and for times that outlive a process.
    pub unix_ms: u64,
}
