//! The endpoint of the daemon, by the option, the environment and the files of the home directory.

use crate::home::service::Service;
use platform::{endpoint::Endpoint, paths, transport::Listener};
use std::path::Path;

/// The file in the home directory that contains the daemon's endpoint.
pub const ENDPOINT_FILE: &str = "endpoint";

/// The sources of the daemon's endpoint, in order of precedence.
#[derive(Clone, Debug, Default)]
pub struct EndpointSources {
    /// The option `--endpoint`.
    pub option: Option<String>,
    /// The environment variable `AGENT_RELAY_ENDPOINT`.
    pub environment: Option<String>,
    /// The key `endpoint` in config.toml.
    pub config: Option<String>,
    /// service.toml, if a service is installed for this user.
    pub service: Option<Service>,
    /// The content of `<home>/endpoint`, written by the home's daemon.
    pub left: Option<String>,
    /// The home's default endpoints, in the order of attempts.
    pub defaults: Vec<String>,
}

/// Returns the endpoints to try for a home's daemon if nothing names another one, in that order:
/// for the default home the system's, unless another user has them, else one of the home's own.
#[must_use]
pub fn default_endpoints(home: &Path) -> Vec<Endpoint> {
    if !is_default(home) {
        return Endpoint::fitting(home, "relay").into_iter().collect();
    }
    let shared = Some(Endpoint::shared());
    let shared = shared.filter(|shared| !Listener::is_foreign(shared).unwrap_or(true));
    // If the system does not report the user, the shared endpoint is the only one.
    shared.into_iter().chain(Endpoint::per_user().ok()).collect()
}

fn is_default(home: &Path) -> bool {
    let Ok(default) = paths::home() else { return false };
    let is_same = |(home, default)| home == default;
    home == default
        || home.canonicalize().ok().zip(default.canonicalize().ok()).is_some_and(is_same)
}

impl EndpointSources {
    /// The endpoint that the user asked for. If there is one, no other endpoint is tried.
    #[must_use]
    pub fn requested(&self) -> Option<&str> {
        [&self.option, &self.environment, &self.config].into_iter().find_map(Option::as_deref)
    }

    /// The service, if its endpoint is the first that a command tries.
    #[must_use]
    pub fn service_used(&self) -> Option<&Service> {
        let service = self.service.as_ref()?;
        self.requested().is_none_or(|requested| requested == service.endpoint).then_some(service)
    }

    /// The endpoints that a command tries, in order.
    #[must_use]
    pub fn candidates(&self) -> Vec<&str> {
        if let Some(endpoint) = self.requested() {
            return vec![endpoint];
        }
        let mut candidates = Vec::new();
        let service = self.service.as_ref().map(|service| &service.endpoint);
        for endpoint in service.into_iter().chain(&self.left).chain(&self.defaults) {
            if !candidates.contains(&endpoint.as_str()) {
                candidates.push(endpoint);
            }
        }
        candidates
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn requested_endpoint_is_the_only_candidate() {
        let mut sources = EndpointSources {
            left: Some("/left".to_owned()),
            defaults: vec!["/shared".to_owned(), "/left".to_owned()],
            ..EndpointSources::default()
        };
        assert_eq!(sources.candidates(), ["/left", "/shared"]);
        let endpoint = "/service".to_owned();
        sources.service = Some(Service { endpoint, ..Service::default() });
        assert_eq!(sources.candidates(), ["/service", "/left", "/shared"]);
        assert_eq!(sources.service_used(), sources.service.as_ref());
        sources.config = Some("/config".to_owned());
        assert_eq!(sources.candidates(), ["/config"]);
        assert_eq!(sources.service_used(), None);
        sources.environment = Some("/environment".to_owned());
        assert_eq!(sources.candidates(), ["/environment"]);
        sources.option = Some("/option".to_owned());
        assert_eq!(sources.candidates(), ["/option"]);
        sources.option = Some("/service".to_owned());
        assert!(sources.service_used().is_some());
    }
}
