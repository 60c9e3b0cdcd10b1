//! Bridges between real daemons over real NATS servers.

#![allow(
    clippy::unwrap_used,
    clippy::print_stdout,
    reason = "clippy recognizes only functions with `#[test]` as tests"
)]
#![allow(clippy::disallowed_methods, reason = "a test bounds what it starts and holds")]

#[path = "../support/mod.rs"]
mod support;

mod carry;
mod conditions;
mod hostile;
mod operate;
mod permissions;

use support::nats::Nats;

/// Runs `setup` for these hosts, with further arguments.
fn set_up(nats: &Nats, hosts: &[&str], more: &[&str]) {
    nats.try_set_up(hosts, more).unwrap();
}
