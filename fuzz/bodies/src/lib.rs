//! What the fuzz targets do with their bytes, for all targets that see other crates from outside.
//! The targets `router`, `screen`, `terminal` and `transcript` have their bodies in crates/router
//! and crates/terminal.
//!
//! `ci/fuzz` searches for inputs that fail. Each becomes a file of fuzz/corpus, which ordinary
//! tests run through the bodies as well.

#![allow(
    clippy::unwrap_used,
    clippy::missing_panics_doc,
    reason = "a body panics when what it checks is wrong"
)]
#![allow(
    clippy::disallowed_methods,
    reason = "what a body starts and holds is bounded by its input"
)]

pub mod control;
#[cfg(test)]
mod corpus;
pub mod envelope;
pub mod files;
pub mod frames;
pub mod hook;
pub mod mcp;
pub mod policy;
pub mod recipes;
pub mod rows;
