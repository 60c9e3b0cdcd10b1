//! Settings of a daemon.

use client::home::Config;
use platform::{endpoint::Endpoint, peer::User};
use router::Limits;
use std::path::PathBuf;

const DAY_MS: u64 = 86_400_000;

/// Settings of a daemon.
#[derive(Clone, Debug)]
pub(crate) struct Settings {
    /// The directory of the daemon's lock, log and data.
    pub(crate) home: PathBuf,
    /// The user whom the daemon serves. This is the user whom the daemon runs as, unless the daemon
    /// is a service.
    pub(crate) owner: User,
    /// The endpoint to listen at, or the default one.
    pub(crate) endpoint: Option<Endpoint>,
    /// The router's limits and times.
    pub(crate) limits: Limits,
    /// The days for which ended deliveries are kept.
    pub(crate) history_days: u64,
    /// The size limit of the store's file.
    pub(crate) store_bytes_max: u64,
    /// Whether the system ends the daemon together with the program that started it.
    pub(crate) ends_with_starter: bool,
}

/// The part of the store that messages for their recipients may fill. Rows, pages that are not
/// full, and a reserve need the rest.
const MAIL_PARTS: (u64, u64) = (5, 8);

/// The router's limits by config.toml. A limit that has no key there has its default.
#[must_use]
pub fn limits(config: &Config) -> Limits {
    let size = |bytes: u64| usize::try_from(bytes).unwrap_or(usize::MAX);
    Limits {
        frame_bytes_max: size(config.max_frame_bytes),
        heartbeat_ms: config.heartbeat_ms,
        handshake_ms: config.handshake_timeout_ms,
        resume_window_ms: config.resume_window_ms,
        ttl_ms: config.default_ttl_ms,
        remote_ttl_ms: config.remote_ttl_ms,
        queue_messages_max: size(config.queue_max_messages),
        queue_bytes_max: size(config.queue_max_bytes),
        replay_messages_max: size(config.replay_messages),
        memory_bytes_max: size(config.memory_max_bytes),
        mail_bytes_max: size(config.store_max_bytes / MAIL_PARTS.1 * MAIL_PARTS.0),
        clients_max: size(config.max_clients),
        mailbox_days: config.mailbox_days,
        operator_mail_ms: config.history_days.saturating_mul(DAY_MS).max(config.default_ttl_ms),
        durability: config.durability,
        ..Limits::default()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn default_limits_are_the_routers_own() {
        let own = Limits::default();
        assert_eq!(format!("{:?}", limits(&Config::default())), format!("{own:?}"));
    }
}
