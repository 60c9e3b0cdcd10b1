//! Two clocks: a monotonic one that counts the time the machine was asleep, and the calendar's.
//!
//! With a clock that stops during sleep, a daemon would not notice after waking that its clients
//! have been silent for long.

#[cfg(unix)]
#[path = "clock/unix.rs"]
mod imp;
#[cfg(windows)]
#[path = "clock/windows.rs"]
mod imp;

use std::time::{SystemTime, UNIX_EPOCH};

/// Milliseconds since some moment before this process's first call. Never goes back, and counts
/// suspended time. Values of two processes cannot be compared.
pub fn monotonic_ms() -> u64 {
    imp::monotonic_ms()
}

/// Milliseconds since 1970 by the system's calendar, which a person may set forward or back.
pub fn unix_ms() -> u64 {
    // A calendar before 1970 is wrong anyway; 0 does no harm.
    SystemTime::now().duration_since(UNIX_EPOCH).map_or(0, |time| time.as_millis() as u64)
}
