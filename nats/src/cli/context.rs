//! The local daemon: its home, its endpoint and its key.

use super::Failure;
use agent_relay::{
    config::{Config, ENDPOINT_FILE, EndpointSources, is_absent, service::Service},
    daemon::operator_key,
    machines::local::Daemon,
};
use platform::{endpoint::Endpoint, paths, peer::User};
use std::{
    env, fs, io,
    path::{Path, PathBuf},
};

/// The options that name the daemon.
#[derive(Debug)]
pub(super) struct Context {
    pub(super) endpoint: Option<String>,
    pub(super) home: Option<PathBuf>,
}

impl Context {
    /// The daemon that the options, the environment and the home name, as for `agent-relay`.
    pub(super) fn daemon(self) -> Result<Daemon, Failure> {
        let home = self.home()?;
        let failed = |error: &dyn std::fmt::Display| Failure::failed(error.to_string());
        let config = Config::load(&home).map_err(|error| failed(&error))?;
        let service = Service::load(&home).map_err(|error| failed(&error))?;
        if service.is_some() {
            let file = home.join(agent_relay::config::service::FILE);
            paths::check_only_owner_writes(&file).map_err(|error| failed(&error))?;
        }
        let environment = env::var("AGENT_RELAY_ENDPOINT").ok().filter(|text| !text.is_empty());
        let sources = EndpointSources {
            option: self.endpoint,
            environment,
            config: config.endpoint,
            service,
            left: endpoint_left_in(&home).map_err(|error| failed(&error))?,
            defaults: vec![Endpoint::shared().as_text().to_owned()],
        };
        let endpoint = sources.candidates()[0].to_owned();
        Endpoint::parse(endpoint.as_ref()).map_err(|error| Failure::usage(error.to_string()))?;
        let user =
            |service: &Service| User::parse(&service.account).map_err(|error| failed(&error));
        let service = sources.service.as_ref().filter(|service| service.endpoint == endpoint);
        let server = service.map(user).transpose()?;
        let key = match service.zip(server.clone()) {
            Some((service, user)) => operator_key::read_among(&service.home, &[user]),
            None => operator_key::read(&home),
        };
        let key = key.map_err(|error| match error.kind() {
            io::ErrorKind::NotFound => Failure::failed(format!(
                "no daemon has run with the home {}; run `agent-relay up`, or use --home DIR",
                home.display()
            )),
            _ => failed(&error),
        })?;
        Ok(Daemon { endpoint, server, key, when_absent: None })
    }

    fn home(&self) -> Result<PathBuf, Failure> {
        let named = self.home.clone().or_else(|| env::var_os("AGENT_RELAY_HOME").map(Into::into));
        let home = match named.filter(|home| !home.as_os_str().is_empty()) {
            Some(home) => std::path::absolute(home),
            None => paths::home(),
        };
        home.map_err(|error| Failure::failed(format!("{error}; set HOME or use --home DIR")))
    }
}

/// Reads the endpoint that the last daemon left in its home.
fn endpoint_left_in(home: &Path) -> io::Result<Option<String>> {
    match fs::read_to_string(home.join(ENDPOINT_FILE)) {
        Ok(text) => Ok(Some(text.trim().to_owned()).filter(|text| !text.is_empty())),
        Err(error) if is_absent(&error) => Ok(None),
        Err(error) => Err(error),
    }
}
