//! Two clocks: one that only goes forward and counts the time the machine was asleep, and the
//! calendar's.
//!
//! A clock that stands still while the machine sleeps would let a daemon believe, after a nap, that
//! no time has passed since its clients were last heard of.

#[cfg(unix)]
#[path = "clock/unix.rs"]
mod imp;
#[cfg(windows)]
#[path = "clock/windows.rs"]
mod imp;

use std::time::{SystemTime, UNIX_EPOCH};

/// Milliseconds since some moment before this process's first call; never goes back, and counts
/// suspended time. Two processes must not compare their values.
pub fn monotonic_ms() -> u64 {
    imp::monotonic_ms()
}

/// Milliseconds since 1970, as the system's calendar has it; a person may set it forward or back.
pub fn unix_ms() -> u64 {
    // Before 1970 is a broken clock; a time of 0 is as good as any other then.
    SystemTime::now().duration_since(UNIX_EPOCH).map_or(0, |time| time.as_millis() as u64)
}
