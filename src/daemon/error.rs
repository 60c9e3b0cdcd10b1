//! Errors of a daemon.

use client::home::ConfigError;
use platform::endpoint::Endpoint;
use std::{fmt, io, path::PathBuf};
use store::OpenError;

/// The reason why a daemon does not start or ends.
#[derive(Debug)]
pub(crate) enum DaemonError {
    /// A daemon with this home is running already.
    HomeInUse(PathBuf),
    /// A daemon is running at this endpoint already.
    EndpointInUse(Endpoint),
    /// An error of the system's, which names its object.
    System(io::Error),
    /// The policy file cannot be read.
    Policy(ConfigError),
    /// The store cannot be opened.
    Store(OpenError),
    /// The thread with this name panicked.
    Panicked(&'static str),
}

impl fmt::Display for DaemonError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::HomeInUse(home) => {
                let home = home.display();
                write!(
                    f,
                    "a daemon with the home {home} is already running: `agent-relay down` stops it"
                )
            }
            Self::EndpointInUse(endpoint) => {
                write!(
                    f,
                    "a daemon is already running at {endpoint}; choose another endpoint, or stop it"
                )
            }
            Self::System(error) => write!(f, "{error}"),
            Self::Policy(error) => write!(f, "{error}"),
            Self::Store(error) => write!(f, "{error}"),
            Self::Panicked(thread) => {
                write!(f, "the {thread} thread panicked; the daemon has to end")
            }
        }
    }
}

impl std::error::Error for DaemonError {}

impl From<OpenError> for DaemonError {
    fn from(error: OpenError) -> Self {
        Self::Store(error)
    }
}

impl From<io::Error> for DaemonError {
    fn from(error: io::Error) -> Self {
        Self::System(error)
    }
}
