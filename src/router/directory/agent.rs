//! A known agent.

use super::session::Session;
use crate::{
    protocol::{Moment, name::Name},
    router::interface::ClientId,
};

/// A known name with its connection and session.
#[derive(Debug)]
pub(in crate::router) struct Agent {
    /// The agent's number in records.
    pub(in crate::router) number: u64,
    /// The name in its latest spelling.
    pub(in crate::router) name: Name,
    /// The agent's connection, while the agent is connected.
    pub(in crate::router) client: Option<ClientId>,
    /// The agent's session. A guest has none.
    pub(in crate::router) session: Option<Box<Session>>,
    /// The time since which the agent is connected or away, in milliseconds since 1970.
    pub(in crate::router) since_unix_ms: u64,
    /// Whether the agent was connected when the last daemon ended, and has not come back.
    pub(in crate::router) is_expected: bool,
    /// The moment at which the name is forgotten, while the agent is away.
    pub(in crate::router) forget_at: Option<Moment>,
}

impl Agent {
    /// Whether the agent is a guest, whose name is forgotten when it leaves.
    pub(in crate::router) fn is_guest(&self) -> bool {
        self.name.is_guests()
    }
}
