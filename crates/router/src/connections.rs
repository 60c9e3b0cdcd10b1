//! Connections: their stages and windows, clients that wait for a name, heartbeats and pauses.

mod client;
mod heartbeat;
mod send_window;
mod table;

#[cfg(test)]
pub(super) use client::Client;
pub(super) use client::{About, Applicant, Doing, Membership, Stage};
pub(super) use heartbeat::CLOSE_MS;
pub(super) use send_window::Content;
pub(super) use table::Connections;
