//! Agent Relay: a local daemon that routes messages between AI coding agents, and a wrapper that
//! runs each agent's CLI in a pseudo-terminal.
//!
//! ```text
//! agent   wrapper                    daemon                     wrapper                    agent
//! -----   ----------------------     ----------------------     ----------------------     -----
//! Ann <-> terminal side, session <-> stream, router, stream <-> session, terminal side <-> Bob
//! ```
//!
//! This page is the entry to the code. README.md and docs/ are for users, and ARCHITECTURE.md shows
//! the whole in one picture and says where to add a command, a message type or an agent CLI.
//!
//! # Crates
//!
//! | crate | is | begin with |
//! |---|---|---|
//! | [`protocol`] | the wire: frames, envelopes, names, codes | [`protocol::envelope`] |
//! | [`router`] | who gets which message | [`router::Router`] |
//! | [`store`] | everything that outlives the daemon, on SQLite | [`store::Store`] |
//! | [`client`] | the client library | [`client::Client`], [`client::session`] |
//! | [`terminal`] | messages out of a terminal, and into it | [`terminal::TerminalSide`] |
//! | [`machines`] | bridges to other machines | [`machines::border`] |
//! | [`platform`] | the only code that differs between systems | [`platform::transport`] |
//! | this crate | the program: threads around the state machines, and commands | [`cli`] |
//! | `testkit` | daemons, clients and terminals for tests | `testkit::sandbox` |
//!
//! The packages `nats/` (bridges over NATS) and `fuzz/` are built on their own.
//!
//! # How it works
//!
//! Three state machines make all decisions, and none of them blocks: [`router::Router`] in the
//! daemon, [`client::session::Session`] in every client, [`terminal::TerminalSide`] in the wrapper.
//! Each takes an input and the time, and returns outputs: the actions to carry out. The threads
//! around them, in `daemon`, [`client`] and `wrap`, wait for inputs and carry out the outputs. A
//! comment `Waits for` above the start of each thread says what it waits for.
//!
//! Five terms describe the system:
//!
//! - an **agent** is a program with a name, running in a terminal;
//! - a **message** is what one agent says to another, to a topic's subscribers, or to everyone;
//! - an **envelope** is what goes over the wire: a message, or a request or answer between client
//!   and daemon;
//! - a **delivery** is a message on its way to one recipient, numbered in its stream;
//! - a **session** is one stay of an agent, from joining to leaving, across reconnects.
//!
//! # Order of reading
//!
//! [`protocol`], [`router`], [`client`], [`terminal`]; then the modules of this crate: `daemon`,
//! `wrap` and [`cli`].

#![cfg_attr(
    test,
    allow(clippy::disallowed_methods, reason = "what tests start and hold is bounded by the test")
)]

pub mod cli;
pub mod config;
mod daemon;
pub mod mcp;
mod wrap;

pub use daemon::limits;
