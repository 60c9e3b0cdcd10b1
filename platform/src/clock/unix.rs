//! Unix: the kernel's clock that counts sleep.

/// Linux's clock that counts sleep; its CLOCK_MONOTONIC does not.
#[cfg(target_os = "linux")]
const CLOCK: libc::clockid_t = libc::CLOCK_BOOTTIME;
/// On macOS, the same counter as `mach_continuous_time`.
#[cfg(target_os = "macos")]
const CLOCK: libc::clockid_t = libc::CLOCK_MONOTONIC_RAW;

pub(crate) fn monotonic_ms() -> u64 {
    let mut time = libc::timespec { tv_sec: 0, tv_nsec: 0 };
    // SAFETY: the pointer is to a timespec of ours, which the call only fills in.
    let result = unsafe { libc::clock_gettime(CLOCK, &mut time) };
    assert!(result == 0, "clock_gettime fails only for a clock that does not exist");
    time.tv_sec as u64 * 1000 + time.tv_nsec as u64 / 1_000_000
}
