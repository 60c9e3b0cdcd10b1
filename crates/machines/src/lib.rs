//! Agents of other machines: what joins their daemons with the local one.
//!
//! A transport carries frames between machines: a pipe such as that of ssh, or a broker. The
//! [`border`] decides which messages cross, and [`local`] joins the local daemon under the names of
//! the other machines' agents. [`exports`] follows the agents that this machine shows to others,
//! [`link`] speaks with the other side through a pipe, [`settings`] reads `nats.toml` and
//! `bridges.toml`, and [`report`] keeps the file from which commands know the state of a bridge.
//!
//! The crate does not run ssh and does not know NATS: `agent-relay bridge` and the package `nats/`
//! do. Begin with [`border`], which is pure, then [`local`], the loop around it.

#![cfg_attr(
    test,
    allow(clippy::disallowed_methods, reason = "what tests start and hold is bounded by the test")
)]

pub mod border;
pub mod details;
pub mod exports;
pub mod link;
pub mod local;
pub mod report;
pub mod selector;
pub mod settings;
pub mod topics;
pub mod window;
