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

use support::{host, nats::Nats, process::Process};

/// Runs `setup` for these hosts, with further arguments.
fn set_up(nats: &Nats, hosts: &[&str], more: &[&str]) {
    try_set_up(nats, hosts, more).unwrap();
}

/// Runs `setup`. The error has its lines: servers that have just met place no replicas yet.
fn try_set_up(nats: &Nats, hosts: &[&str], more: &[&str]) -> Result<(), Vec<String>> {
    let urls = nats.urls();
    let hosts = hosts.iter().flat_map(|host| ["--host", host]);
    let arguments = ["setup", "--server", &urls].into_iter().chain(hosts);
    let mut setup = Process::start(host::bridge(), arguments.chain(more.iter().copied()), &[]);
    if setup.wait().success() { Ok(()) } else { Err(setup.lines()) }
}
