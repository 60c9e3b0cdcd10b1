//! Windows: `Instant`, which reads the performance counter. According to its documentation, the
//! counter also runs during sleep and hibernation. It is finer than GetTickCount64's tick of 16 ms.

use std::{sync::OnceLock, time::Instant};

pub(crate) fn monotonic_ms() -> u64 {
    static START: OnceLock<Instant> = OnceLock::new();
    START.get_or_init(Instant::now).elapsed().as_millis() as u64
}
