//! The directory: known names, connected agents, and their sessions, tokens and subscriptions.

mod agent;
mod origin;
mod pattern_trie;
mod session;
mod sessions;
mod subscriptions;
mod table;

pub(super) use agent::{Agent, CompanionKey};
pub(super) use origin::Origin;
pub(super) use subscriptions::bytes_of;
pub(super) use table::Directory;
