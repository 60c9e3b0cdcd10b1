//! The daemon that options, environment and home name, and joining it.

use super::{
    Config, ENDPOINT_FILE, EndpointSources, HomeError, LOCK_FILE, default_endpoints, is_absent,
    service::{self, Service},
};
use crate::{Client, ClientError, Ended, Mode, Settings};
use platform::{clock, endpoint::Endpoint, lock::Lock, paths, peer::User};
use protocol::{code::ErrorCode, text::escaped};
use std::{
    env, fs,
    path::{Path, PathBuf},
    thread,
    time::Duration,
};

/// The home, unless the option `--home` names one.
const HOME: &str = "AGENT_RELAY_HOME";

/// The daemon's endpoint, unless the option `--endpoint` names one. It is set for a wrapped
/// command.
pub const ENDPOINT: &str = "AGENT_RELAY_ENDPOINT";

/// The longest wait until a daemon that is about to end has closed its endpoint.
const END_MS: u64 = 15_000;

/// The pause between two attempts to join.
const POLL_INTERVAL: Duration = Duration::from_millis(10);

/// The options that name a home and a daemon.
#[derive(Clone, Debug, Default)]
pub struct HomeOptions {
    /// The option `--endpoint`.
    pub endpoint: Option<String>,
    /// The option `--home`.
    pub home: Option<String>,
}

impl HomeOptions {
    /// Returns the home directory, which may not exist yet.
    ///
    /// # Errors
    /// If neither the options nor the environment name one; and if it is another user's, for root.
    pub fn home(&self) -> Result<PathBuf, HomeError> {
        let named = self.home.clone().map(Into::into).or_else(|| env::var_os(HOME));
        let named = named.filter(|home| !home.is_empty());
        let is_named = named.is_some();
        let home = match named {
            Some(home) => paths::absolute(home).map_err(HomeError::because)?,
            None => paths::home()
                .map_err(|error| HomeError::because(error).hint("set HOME or use --home DIR"))?,
        };
        // Root may make a directory of its own wherever it names one.
        if !is_named || home.exists() {
            paths::check_not_anothers(&home).map_err(HomeError::because)?;
        }
        Ok(home)
    }

    /// Returns the environment variable that names the home, if it does.
    #[must_use]
    pub fn home_variable(&self) -> Option<&'static str> {
        let is_named = env::var_os(HOME).is_some_and(|home| !home.is_empty());
        (self.home.is_none() && is_named).then_some(HOME)
    }

    /// Returns the context of a program that joins a daemon. With a broken config.toml, it has the
    /// default settings, so that agents can still reach the running daemon.
    ///
    /// # Errors
    /// If an endpoint is malformed, or a file of the home cannot be read.
    pub fn context(&self) -> Result<Context, HomeError> {
        let home = self.home()?;
        let (config, warning) = match Config::load(&home) {
            Ok(config) => (config, None),
            Err(wrong) if wrong.line.is_some() => {
                let wrong = escaped(&wrong.to_string());
                let warning = format!("{wrong}; no daemon starts until that is corrected");
                (Config::default(), Some(warning))
            }
            Err(wrong) => return Err(HomeError::because(wrong)),
        };
        self.context_with(home, config, warning)
    }

    /// Returns the context of a daemon, or of a command that has a daemon started later.
    ///
    /// # Errors
    /// As [`context`](Self::context)'s; and if config.toml is broken.
    pub fn context_of_daemon(&self) -> Result<Context, HomeError> {
        let home = self.home()?;
        let config = Config::load(&home).map_err(HomeError::because)?;
        self.context_with(home, config, None)
    }

    fn context_with(
        &self,
        home: PathBuf,
        config: Config,
        warning: Option<String>,
    ) -> Result<Context, HomeError> {
        let sources = self.sources(&home, &config)?;
        Ok(Context { home, config, warning, sources })
    }

    /// Collects the sources of the endpoint.
    ///
    /// # Errors
    /// If an endpoint is malformed, or a file of the home cannot be read.
    pub fn sources(&self, home: &Path, config: &Config) -> Result<EndpointSources, HomeError> {
        let option = self.endpoint.as_deref().map(checked).transpose()?;
        let environment = match env::var_os(ENDPOINT).filter(|text| !text.is_empty()) {
            Some(text) => Some(checked(text)?),
            None => None,
        };
        let config = config.endpoint.as_deref().map(checked).transpose()?;
        let service = service_in(home)?;
        let left = endpoint_left_in(home)?;
        let defaults = default_endpoints(home).iter().map(|at| at.as_text().to_owned()).collect();
        Ok(EndpointSources { option, environment, config, service, left, defaults })
    }
}

fn checked(text: impl AsRef<std::ffi::OsStr>) -> Result<String, HomeError> {
    Endpoint::parse(text.as_ref())
        .map(|endpoint| endpoint.as_text().to_owned())
        .map_err(|error| HomeError::usage(error.to_string()))
}

/// Reads service.toml. The file names the account that is trusted to run the daemon, so only the
/// file's owner may be able to write it.
fn service_in(home: &Path) -> Result<Option<Service>, HomeError> {
    let Some(mut service) = Service::load(home).map_err(HomeError::because)? else {
        return Ok(None);
    };
    paths::check_only_owner_writes(&home.join(service::FILE)).map_err(HomeError::because)?;
    service.endpoint = checked(&service.endpoint)?;
    Ok(Some(service))
}

/// Reads the endpoint of the daemon that has the home. After that daemon's end, a daemon of another
/// home may use the endpoint.
fn endpoint_left_in(home: &Path) -> Result<Option<String>, HomeError> {
    let path = home.join(ENDPOINT_FILE);
    let text = match fs::read_to_string(&path) {
        Ok(text) => text,
        Err(error) if is_absent(&error) => return Ok(None),
        Err(error) => return Err(HomeError::new(format!("{}: {error}", path.display()))),
    };
    // In a sandbox, an agent's command may be able to read the home's files only.
    let has_daemon = is_locked(home).unwrap_or(true);
    Ok(Some(text.trim().to_owned()).filter(|text| has_daemon && !text.is_empty()))
}

fn is_locked(home: &Path) -> Result<bool, HomeError> {
    Lock::is_held(&home.join(LOCK_FILE)).map_err(HomeError::because)
}

/// The home directory, the configuration, and the sources of the endpoint.
#[derive(Clone, Debug)]
pub struct Context {
    /// The home directory.
    pub home: PathBuf,
    /// The settings in config.toml.
    pub config: Config,
    /// A line to show if `config` has the default settings because config.toml is broken.
    pub warning: Option<String>,
    /// The sources of the endpoint.
    pub sources: EndpointSources,
}

impl Context {
    /// Joins the first daemon that listens at one of the endpoints.
    ///
    /// # Errors
    /// If no daemon listens, or it refuses the client.
    pub fn try_join(&self, settings: &dyn Fn(&str) -> Settings) -> Result<Client, ClientError> {
        let mut absent = None;
        for endpoint in self.sources.candidates() {
            let settings = self.with_server(settings(endpoint));
            let is_operator = settings.mode == Mode::Operator;
            match Client::join(settings) {
                // This daemon has another home and another key, or is too old to know keys.
                Err(ClientError::Ended(Ended::Error(fault)))
                    if is_operator && fault.has_code(ErrorCode::Unauthorized) =>
                {
                    return Client::join(self.with_server(Settings::guest(endpoint)));
                }
                Err(error @ ClientError::NoDaemon { .. }) => absent = absent.or(Some(error)),
                other => return other,
            }
        }
        Err(absent.expect("there is always an endpoint to try"))
    }

    /// Adds the account that is expected at the service's endpoint.
    #[must_use]
    pub fn with_server(&self, settings: Settings) -> Settings {
        Settings { server: self.server(&settings.endpoint), ..settings }
    }

    /// The user who runs the daemon at an endpoint, if the endpoint is the service's.
    #[must_use]
    pub fn server(&self, endpoint: &str) -> Option<User> {
        let service =
            self.sources.service.as_ref().filter(|service| service.endpoint == endpoint)?;
        // No user is trusted if the account in service.toml cannot be parsed.
        User::parse(&service.account).ok()
    }

    /// Joins as [`Self::try_join`] does. If the daemon is about to end, waits until it has ended,
    /// and returns that no daemon is up.
    ///
    /// # Errors
    /// As [`Self::try_join`]'s.
    pub fn try_join_lasting(
        &self,
        settings: &dyn Fn(&str) -> Settings,
    ) -> Result<Client, ClientError> {
        let deadline = clock::monotonic_ms() + END_MS;
        loop {
            match self.try_join(settings) {
                Err(error) if error.is_of_ending_daemon() && clock::monotonic_ms() < deadline => {
                    thread::sleep(POLL_INTERVAL);
                }
                joined => return joined,
            }
        }
    }

    /// Reports whether a daemon holds the lock of this home, whatever its endpoint.
    ///
    /// # Errors
    /// If the lock cannot be read.
    pub fn is_locked(&self) -> Result<bool, HomeError> {
        is_locked(&self.home)
    }

    /// Reads the endpoint file of the home again, since a daemon may have written it.
    ///
    /// # Errors
    /// If the file cannot be read.
    pub fn reread_endpoint(&mut self) -> Result<(), HomeError> {
        self.sources.left = endpoint_left_in(&self.home)?;
        Ok(())
    }
}
