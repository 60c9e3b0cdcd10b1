//! A known agent.

use super::session::Session;
use crate::{
    protocol::{Moment, name::Name},
    router::interface::ClientId,
};

/// A known name with its connection, session and streams.
#[derive(Debug)]
pub(in crate::router) struct Agent {
    /// The agent's number in records.
    pub(in crate::router) number: u64,
    /// The name as it was last spelled.
    pub(in crate::router) name: Name,
    /// The agent's connection, while it is here.
    pub(in crate::router) client: Option<ClientId>,
    /// The session. A guest has none.
    pub(in crate::router) session: Option<Box<Session>>,
    /// Since when the agent is here, or away.
    pub(in crate::router) since_unix_ms: u64,
    /// Whether the agent was connected when the last daemon ended, and has not come back.
    pub(in crate::router) is_expected: bool,
    /// When the name is to be forgotten, while the agent is away.
    pub(in crate::router) forget_at: Option<Moment>,
}

impl Agent {
    /// Whether the name is forgotten when the agent leaves.
    pub(in crate::router) fn is_guest(&self) -> bool {
        self.name.is_guests()
    }
}
