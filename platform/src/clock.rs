//! Two clocks: a monotonic clock that also runs while the machine sleeps, and the calendar.
//!
//! With a clock that stops during sleep, a daemon would not notice after the machine wakes that its
//! clients have been silent for long.

#[cfg(unix)]
#[path = "clock/unix.rs"]
mod imp;
#[cfg(windows)]
#[path = "clock/windows.rs"]
mod imp;

use std::time::{SystemTime, UNIX_EPOCH};

/// Milliseconds since an unspecified moment before this process's first call. Never goes back, and
/// counts suspended time. Values of two processes cannot be compared.
pub fn monotonic_ms() -> u64 {
    imp::monotonic_ms()
}

/// Milliseconds since 1970 by the system's calendar, which a person may set forward or back.
pub fn unix_ms() -> u64 {
    // A calendar before 1970 is set wrongly. Callers can handle 0.
    SystemTime::now().duration_since(UNIX_EPOCH).map_or(0, |time| time.as_millis() as u64)
}
