//! What the tests of several crates share: sandboxes with a daemon, raw clients, terminals, a
//! scripted model for the agent CLIs, a stand-in for one, the store that is kept in memory, and waiting for events.

#![allow(clippy::disallowed_methods, reason = "a test bounds what it starts and holds")]
#![allow(
    clippy::unwrap_used,
    clippy::print_stderr,
    clippy::missing_panics_doc,
    clippy::new_without_default,
    missing_docs,
    reason = "all of this is part of tests, which panic when they fail"
)]

pub mod bodies;
pub mod claude;
pub mod corpus;
pub mod managed;
pub mod model;
pub mod programs;
pub mod raw;
pub mod records;
pub mod sandbox;
pub mod terminal;
pub mod waiting;
