//! Settings of a daemon.

use crate::router::Limits;
use platform::{endpoint::Endpoint, peer::User};
use std::path::PathBuf;

/// Settings of a daemon.
#[derive(Clone, Debug)]
pub struct Settings {
    /// The directory of the daemon's lock, log and data.
    pub home: PathBuf,
    /// The user whom the daemon serves. This is the user whom the daemon runs as, unless the daemon
    /// is a service.
    pub owner: User,
    /// The endpoint to listen at, or the default one.
    pub endpoint: Option<Endpoint>,
    /// The router's limits and times.
    pub limits: Limits,
    /// The days for which ended deliveries are kept.
    pub history_days: u64,
    /// The size limit of the store's file.
    pub store_bytes_max: u64,
    /// Whether the system ends the daemon together with the program that started it.
    pub ends_with_starter: bool,
}
