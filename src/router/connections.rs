//! Connections: their stages, their windows, names in waiting, heartbeats and read pauses.

mod client;
mod deferred;
mod heartbeat;
mod table;
mod window;

#[cfg(test)]
pub(super) use client::Client;
pub(super) use client::{Applicant, Membership, Stage};
pub(super) use heartbeat::CLOSE_MS;
pub(super) use table::{Connections, Handling};
pub(super) use window::{Content, Notice};
