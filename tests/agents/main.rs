//! The real CLIs of AI agents, in real terminals, against a model that says what the test wants.
//!
//! `ci/agents` installs them and runs this; plain `cargo test` does not.

#![allow(clippy::disallowed_methods, reason = "what tests start and hold is bounded by the test")]
#![allow(
    clippy::unwrap_used,
    clippy::print_stderr,
    reason = "all of this is tests, which clippy sees only where `#[test]` stands"
)]

mod again;
mod agent;
mod asking;
mod basics;
mod corpus;
mod echoes;
mod expand;
mod foreground;
mod grid;
mod latency;
#[path = "../model/mod.rs"]
mod model;
mod other;
mod others;
mod patience;
#[path = "../it/raw.rs"]
#[allow(dead_code, reason = "what only the other tests need")]
mod raw;
mod recognised;
mod recordings;
mod relay;
#[path = "../it/sandbox.rs"]
#[allow(dead_code, reason = "what only the other tests need")]
mod sandbox;
mod shown;
mod silence;
mod spawned;
mod talk;
#[path = "../it/terminal.rs"]
#[allow(dead_code, reason = "what only the other tests need")]
mod terminal;
mod transcript;
mod twins;
