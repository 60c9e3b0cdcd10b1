//! Tests with the real CLIs of AI agents, in real terminals, against a scripted model.
//!
//! `ci/agents --all` installs the CLIs and runs these tests; plain `cargo test` does not.

#![allow(clippy::disallowed_methods, reason = "a test bounds what it starts and holds")]
#![allow(
    clippy::unwrap_used,
    clippy::print_stderr,
    reason = "clippy recognizes only functions with `#[test]` as tests"
)]

mod basics;
mod cli;
mod collisions;
mod conversations;
mod copilot;
mod dialogs;
mod dialogue;
mod echoes;
mod expansion;
mod foreground;
mod foreign_words;
mod grid;
mod hooks;
mod latency;
mod loops;
mod mcp;
mod moments;
mod opencode;
mod peer;
mod processes;
mod questions;
mod quoting;
mod qwen;
mod recognised;
mod recordings;
mod relay;
mod rendering;
mod routes;
mod scene;
mod spawned;
mod state;
mod teamwork;
mod transcript;
mod twins;
mod waiting;
