//! Agent Relay: a local daemon that lets AI coding agents talk to each other.

pub mod bridge;
pub mod cli;
pub mod client;
pub mod config;
pub mod daemon;

pub mod link;
pub mod protocol;
pub mod router;
pub mod wrap;
