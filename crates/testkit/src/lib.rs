//! Tools that the tests of several crates share: sandboxes with a daemon, raw clients, terminals,
//! waits for events, and a store in memory. For the agent CLIs it has a scripted model, and a
//! program that plays Claude Code.
//!
//! Begin with [`sandbox`], a home of its own with a daemon that ends with the test. [`raw`] is a
//! client that writes what it is told, [`terminal`] runs a program in a pseudo-terminal, and
//! [`waiting`] has the watchdogs: tests wait for events, never for time. No program uses this
//! crate.

#![allow(clippy::disallowed_methods, reason = "a test bounds what it starts and holds")]
#![allow(
    clippy::unwrap_used,
    clippy::print_stderr,
    clippy::missing_panics_doc,
    clippy::new_without_default,
    missing_docs,
    reason = "all of this is part of tests, which panic when they fail"
)]

pub mod asking;
pub mod bodies;
pub mod claude;
pub mod corpus;
pub mod exposition;
pub mod foreign_words;
pub mod managed;
pub mod model;
pub mod programs;
pub mod raw;
pub mod records;
pub mod sandbox;
pub mod terminal;
pub mod waiting;
