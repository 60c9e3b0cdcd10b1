//! Origins of names.

use crate::interface::PeerProcess;
use protocol::name::Name;
use std::fmt;

/// Who brought a name, and is charged for it.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub(crate) enum Origin {
    /// A process of this machine. All that the system does not tell are one.
    Process(Option<PeerProcess>),
    /// The other machine that the agent is of, in lower case.
    Machine(Box<str>),
    /// All guests.
    Guests,
}

impl Origin {
    /// Returns the origin of a name that a process brings. The operators' name has none.
    pub(crate) fn of(name: &Name, process: Option<PeerProcess>) -> Option<Self> {
        let is_agents = !name.is_daemons() && name.host().is_none();
        if is_agents { Some(Self::Process(process)) } else { Self::of_recorded(name) }
    }

    /// Returns the origin of a recorded name, if the name alone tells it.
    pub(super) fn of_recorded(name: &Name) -> Option<Self> {
        let machine = |host: &str| Self::Machine(host.to_ascii_lowercase().into());
        if name.is_guests() { Some(Self::Guests) } else { name.host().map(machine) }
    }
}

impl fmt::Display for Origin {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Process(Some(process)) => write!(f, "process {}", process.pid),
            Self::Process(None) => f.write_str("processes that the system does not tell"),
            Self::Machine(host) => write!(f, "machine {host}"),
            Self::Guests => f.write_str("guests"),
        }
    }
}
