//! Integration tests: real processes, real sockets, real terminals. Each test has its own sandbox.

#![allow(clippy::disallowed_methods, reason = "threads and channels end with their test")]
#![allow(
    clippy::unwrap_used,
    clippy::print_stderr,
    reason = "clippy exempts only functions with `#[test]`"
)]

mod activity;
mod attention;
mod backlog;
mod brief;
mod channels;
mod churn;
mod collisions;
mod commands;
mod completion;
mod crash;
mod day;
mod descriptors;
mod detach;
mod document;
mod echoes;
mod events;
mod every_system;
mod executables;
mod fallible_client;
mod faults;
mod gaps;
mod grid;
mod hooks;
mod hostile;
mod independent;
mod keyboard;
mod killed;
mod library;
mod lists;
mod machines;
mod mcp;
mod memory;
mod outage;
mod person;
mod policy;
mod power;
mod queries;
mod questions;
mod restore;
mod resume;
mod roles;
mod shells;
mod soak;
mod stress;
mod taken_endpoint;
mod team;
mod tidy;
mod tmux;
mod top;
mod unread_log;
mod upgrade;
mod using;
mod vanished;
mod wire;
mod wrap;
