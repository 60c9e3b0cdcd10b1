//! The costs of what the router does, in units of about a nanosecond.
//!
//! A client's frames cause counted work, by which the [`Schedule`](super::schedule::Schedule) gives
//! each client its share. The costs are constants, not measurements, so that every run is the same.

/// The work of any frame.
pub(super) const FRAME_WORK: u64 = 200;

/// The work of a check whether a recipient may get a message.
pub(super) const CHECK_WORK: u64 = 60;

/// The work of comparing a message with a rule of the policy.
pub(super) const RULE_WORK: u64 = 30;

/// The work of a stream's position in a RESUME and its SYNC.
pub(super) const POSITION_WORK: u64 = 300;

/// The work of a message for one recipient, from the SEND to the last answer about it.
pub(super) const DELIVERY_WORK: u64 = 400;

/// The additional work of a message that waits for the store and for its recipient's ACK.
pub(super) const STORED_WORK: u64 = 2_000;

/// The work of a delivery that fails, and of telling its sender.
pub(super) const FAILURE_WORK: u64 = 3_000;

/// The work of a row in an answer of `@relay`.
pub(super) const ROW_WORK: u64 = 2_000;

/// The work of a node of the patterns' trie, or of an entry of a table that is searched.
pub(super) const NODE_WORK: u64 = 20;

/// The work of reading a byte of JSON that a client has written, of the slowest kind.
const READ_BYTE_WORK: u64 = 4;

/// The work of skipping a byte of such JSON.
const SKIP_BYTE_WORK: u64 = 1;

/// Bytes that are copied in a unit of work.
const BYTES_PER_UNIT: usize = 8;

/// Bytes of JSON that are made in a unit of work.
const JSON_BYTES_PER_UNIT: usize = 2;

/// Returns the work of copying this number of bytes.
pub(super) const fn of_bytes(bytes: usize) -> u64 {
    (bytes / BYTES_PER_UNIT) as u64
}

/// Returns the work of making this number of bytes of JSON.
pub(super) const fn of_json(bytes: usize) -> u64 {
    (bytes / JSON_BYTES_PER_UNIT) as u64
}

/// Returns the work of skipping this number of bytes of JSON that a client has written.
pub(super) const fn of_skipping(bytes: usize) -> u64 {
    bytes as u64 * SKIP_BYTE_WORK
}

/// Returns the work of reading this number of bytes of JSON that a client has written.
pub(super) const fn of_reading(bytes: usize) -> u64 {
    bytes as u64 * READ_BYTE_WORK
}
