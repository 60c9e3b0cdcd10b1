//! A known agent.

use super::{origin::Origin, session::Session};
use crate::interface::{ClientId, PeerProcess};
use protocol::{
    Moment,
    name::Name,
    secret::{Hash, hashes_equal},
};

/// A known name with its connection and session.
#[derive(Debug)]
pub(crate) struct Agent {
    /// The agent's number in records.
    pub(crate) number: u64,
    /// The name in its latest spelling.
    pub(crate) name: Name,
    /// The names that the agent had before, the latest last.
    pub(crate) earlier: Vec<Name>,
    /// The origin that is charged for the name. `None` for the operators' name, and for a name of
    /// this machine whose agent has not been here since the daemon started.
    pub(crate) origin: Option<Origin>,
    /// The process of the agent's last connection, if there was one since the daemon started and
    /// the system tells it.
    pub(crate) process: Option<PeerProcess>,
    /// The agent's connection, while the agent is connected.
    pub(crate) client: Option<ClientId>,
    /// The agent's session. A guest has none.
    pub(crate) session: Option<Box<Session>>,
    /// The time since which the agent is connected or away, in milliseconds since 1970.
    pub(crate) since_unix_ms: u64,
    /// Whether the agent was connected when the last daemon ended, and has not come back.
    pub(crate) is_expected: bool,
    /// The moment at which the name is forgotten, while the agent is away.
    pub(crate) forget_at: Option<Moment>,
    pub(crate) companion_key: CompanionKey,
    /// The hash of the key that identifies a guest when it returns.
    pub(crate) guest_key: Option<Hash>,
    /// Whether the store has the agent. It has a guest only if that sent a message at least once.
    pub(crate) is_recorded: bool,
}

/// The companion key that an agent stated when it joined last.
#[derive(Clone, Copy, Debug)]
pub(crate) enum CompanionKey {
    /// It has not been here since the daemon started.
    Unknown,
    /// The hash of their key, if it has any. RESUME as the first frame states none.
    Stated(Option<Hash>),
}

impl CompanionKey {
    /// Whether the agent has stated this key.
    pub(crate) fn is(&self, key: &Hash) -> bool {
        matches!(self, Self::Stated(Some(stated)) if hashes_equal(stated, key))
    }
}

impl Agent {
    /// Whether the agent is a guest, whose name is forgotten when it leaves.
    pub(crate) fn is_guest(&self) -> bool {
        self.name.is_guests()
    }
}
