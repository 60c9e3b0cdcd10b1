//! The waits between attempts.

/// The first wait before a reconnect, which doubles with every further attempt.
pub(super) const BACKOFF_MS: u64 = 100;

/// The longest wait, before jitter.
pub(super) const BACKOFF_MS_MAX: u64 = 30_000;

/// The wait that starts at `first_ms` and has doubled `times` times, at most `max_ms`.
pub(super) fn doubled(first_ms: u64, times: u32, max_ms: u64) -> u64 {
    first_ms.saturating_mul(1 << times.min(20)).min(max_ms)
}
