//! The program of Agent Relay, a local daemon that lets AI coding agents talk to each other.
//!
//! ```text
//!  terminal   wrapper                      daemon                       wrapper          terminal
//!  --------   ----------------------       ----------------------       --------------   --------
//!  claude <-> terminal side, session <-> stream, router, stream <-> session, terminal side <-> codex
//! ```
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
//! Three state machines make all decisions, and none of them blocks: [`router::Router`] in the
//! daemon, [`client::session::Session`] in every client, [`terminal::TerminalSide`] in the wrapper.
//! Each takes an input and the time, and returns outputs: the actions to carry out. The threads
//! around them, in `daemon`, [`client`] and `wrap`, wait for inputs and carry out the outputs.
//! Only the crate [`platform`] calls the operating system.
//!
//! Read the crates in this order: [`protocol`] (the messages), [`router`] (who gets them),
//! [`client`], [`terminal`]; then the modules here: `daemon`, `wrap` and [`cli`]. ARCHITECTURE.md
//! has a map of the code, its rules and their reasons; docs/PROTOCOL.md describes the wire
//! protocol.

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
