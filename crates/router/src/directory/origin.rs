//! Origins of names.

use crate::interface::PeerProcess;
use protocol::name::Name;
use std::fmt;

/// Who brought a name, and is charged for it.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub(crate) enum Origin {
    /// The process of the agent's last connection since the daemon started.
    Process(PeerProcess),
    /// The other machine that the agent is of, in lower case.
    Machine(Box<str>),
}

impl Origin {
    /// Returns the origin of a name that a process brings. Guests' and operators' names have none.
    pub(crate) fn of(name: &Name, process: PeerProcess) -> Option<Self> {
        let is_own = !name.is_daemons() && name.host().is_none();
        if is_own { Some(Self::Process(process)) } else { Self::of_remote(name) }
    }

    /// Returns the origin of an agent of another machine.
    pub(super) fn of_remote(name: &Name) -> Option<Self> {
        name.host().map(|host| Self::Machine(host.to_ascii_lowercase().into()))
    }
}

impl fmt::Display for Origin {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Process(process) => write!(f, "process {}", process.pid),
            Self::Machine(host) => write!(f, "machine {host}"),
        }
    }
}
