//! Real processes for tests: NATS servers, and hosts, each with a daemon and a bridge.

#![allow(dead_code, reason = "each test binary uses a part")]

pub(crate) mod folder;
pub(crate) mod host;
pub(crate) mod nats;
pub(crate) mod process;
pub(crate) mod random;
pub(crate) mod traffic;

use std::{
    thread,
    time::{Duration, Instant},
};

/// The timeout of a wait for one event, so that a test does not hang. No test measures speed by it.
pub(crate) const WATCHDOG: Duration = Duration::from_secs(120);

/// The pause between two polls of a condition without events.
const LOOK: Duration = Duration::from_millis(20);

/// Waits until `look` returns a value.
///
/// # Panics
/// If that takes longer than [`WATCHDOG`].
pub(crate) fn until<T>(what: &str, mut look: impl FnMut() -> Option<T>) -> T {
    let begun = Instant::now();
    loop {
        if let Some(value) = look() {
            return value;
        }
        assert!(begun.elapsed() < WATCHDOG, "{what} has not happened");
        thread::sleep(LOOK);
    }
}
