//! Errors of a daemon.

use client::home::{ConfigError, ENDPOINT_FILE};
use platform::endpoint::Endpoint;
use std::{
    fmt, fs, io,
    path::{Path, PathBuf},
};
use store::OpenError;

/// The reason why a daemon does not start or ends.
#[derive(Debug)]
pub(crate) enum DaemonError {
    /// A daemon with this home is running already, and listens there if it listens.
    HomeInUse { home: PathBuf, endpoint: Option<String> },
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
            Self::HomeInUse { home, endpoint } => {
                let at = endpoint.as_ref().map(|at| format!(" at {at}")).unwrap_or_default();
                let home = home.display();
                write!(
                    f,
                    "a daemon with the home {home} is already running{at}: `agent-relay down` stops \
                     it"
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

impl DaemonError {
    /// The error of a home that another daemon has.
    pub(super) fn home_in_use(home: &Path) -> Self {
        // A daemon that just starts has written none yet.
        let endpoint = fs::read_to_string(home.join(ENDPOINT_FILE)).ok();
        let endpoint = endpoint.map(|endpoint| endpoint.trim().to_owned());
        Self::HomeInUse { home: home.to_owned(), endpoint }
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
