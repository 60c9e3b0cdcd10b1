//! Windows: the performance counter, which is documented to count sleep and hibernation, and which
//! is what `Instant` reads there. Unlike GetTickCount64 it is finer than a tick of 16 ms.

use std::{sync::OnceLock, time::Instant};

pub(crate) fn monotonic_ms() -> u64 {
    static START: OnceLock<Instant> = OnceLock::new();
    START.get_or_init(Instant::now).elapsed().as_millis() as u64
}
