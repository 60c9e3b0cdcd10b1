//! The operator's key of a home, and the agent that this process runs in.

use super::{Context, operator_key, service::Service};
use platform::peer::User;
use protocol::secret::Secret;
use std::{env, ffi::OsString, io, path::PathBuf};

/// The name of the agent around this process. Its commands act as that agent. It is set for a
/// wrapped command.
pub const AGENT: &str = "AGENT_RELAY_AGENT";

/// The file with the key that the agent's commands send. It is set for a wrapped command.
pub const KEY_FILE: &str = "AGENT_RELAY_KEY_FILE";

/// The paths of the operator's key, which the daemon makes at its first start.
#[derive(Clone, Debug)]
pub struct Keys {
    home: PathBuf,
    service: Option<Service>,
}

impl Keys {
    /// The keys of a context's home.
    #[must_use]
    pub fn of(context: &Context) -> Self {
        Self { home: context.home.clone(), service: context.sources.service.clone() }
    }

    /// Reads the key of the daemon at an endpoint.
    ///
    /// # Errors
    /// As [`operator_key::read`]'s.
    pub fn of_daemon_at(&self, endpoint: &str) -> io::Result<Secret> {
        match self.service.as_ref().filter(|service| service.endpoint == endpoint) {
            None => operator_key::read(&self.home),
            Some(service) => {
                operator_key::read_among(&service.home, &[User::parse(&service.account)?])
            }
        }
    }
}

/// The wrapped agent that this process runs in.
#[must_use]
pub fn agent_around() -> Option<String> {
    let agent = env::var_os(AGENT).map(OsString::into_string)?;
    let agent = agent.unwrap_or_else(|agent| agent.to_string_lossy().into_owned());
    Some(agent).filter(|agent| !agent.is_empty())
}
