//! Integration tests: real processes, real sockets, real terminals. Each test has its own sandbox.

#![allow(clippy::disallowed_methods, reason = "what tests start and hold is bounded by the test")]
#![allow(
    clippy::unwrap_used,
    clippy::print_stderr,
    reason = "all of this is tests, which clippy sees only where `#[test]` stands"
)]

mod asking;
mod backlog;
mod brief;
mod commands;
mod corpus;
mod crash;
mod document;
mod echoes;
mod elsewhere;
mod everywhere;
mod executables;
mod faults;
mod gaps;
mod grid;
mod hostile;
mod independent;
mod keyboard;
mod killed;
mod line;
#[path = "../model/mod.rs"]
mod model;
mod outage;
mod person;
mod policy;
mod power;
mod queries;
mod raw;
mod resume;
mod roles;
#[path = "../agents/corpus.rs"]
#[allow(dead_code, reason = "what only the real CLIs' tests need")]
mod said;
mod sandbox;
mod sessions;
mod shells;
mod soak;
mod stress;
#[allow(dead_code, reason = "what only the real CLIs' tests need")]
mod terminal;
mod tidy;
mod upgrade;
mod wire;
mod wrap;
