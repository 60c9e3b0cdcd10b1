//! The context of a command: the home directory, the configuration, and the daemon's endpoint; and
//! the connection to the daemon.

use super::{escape::escaped, failure::Failure, print::eprint_line, program::VERSION};
use crate::{
    client::{Client, ClientError, Ended, Mode, Settings},
    config::{
        Config, ENDPOINT_FILE, EndpointSources, LOCK_FILE, is_absent,
        service::{self, Service},
    },
    protocol::code::ErrorCode,
};
use platform::{clock, endpoint::Endpoint, lock::Lock, paths, peer::User, transport::Listener};
use std::{
    env, fs,
    path::{Path, PathBuf},
    thread,
    time::Duration,
};

/// The longest wait until a daemon that is about to end has closed its endpoint.
const END_MS: u64 = 15_000;

/// The pause between two attempts to join.
const POLL_INTERVAL: Duration = Duration::from_millis(10);

/// The options before the command.
#[derive(Clone, Debug, Default)]
pub(super) struct GlobalOptions {
    pub(super) endpoint: Option<String>,
    pub(super) home: Option<String>,
}

impl GlobalOptions {
    /// Returns the home directory, which may not exist yet.
    pub(super) fn home(&self) -> Result<PathBuf, Failure> {
        let named = self.home.clone().map(Into::into).or_else(|| env::var_os("AGENT_RELAY_HOME"));
        let home = match named.filter(|home| !home.is_empty()) {
            Some(home) => std::path::absolute(home),
            None => paths::home(),
        };
        home.map_err(|error| Failure::failed(error.to_string()).hint("set HOME or use --home DIR"))
    }

    /// Returns the context of a command that joins a daemon. A broken config.toml is only reported,
    /// so that agents can still reach the running daemon.
    pub(super) fn context(&self) -> Result<Context, Failure> {
        let home = self.home()?;
        let config = match Config::load(&home) {
            Err(wrong) if wrong.line.is_some() => {
                let wrong = escaped(&wrong.to_string());
                eprint_line(format_args!("{wrong}; no daemon starts until that is corrected"));
                Config::default()
            }
            config => config.map_err(Failure::because)?,
        };
        self.context_with(home, config)
    }

    /// Returns the context of a daemon, or of a command that causes a later start of a daemon. A
    /// broken config.toml is an error.
    pub(super) fn context_of_daemon(&self) -> Result<Context, Failure> {
        let home = self.home()?;
        let config = Config::load(&home).map_err(Failure::because)?;
        self.context_with(home, config)
    }

    fn context_with(&self, home: PathBuf, config: Config) -> Result<Context, Failure> {
        let sources = self.sources(&home, &config)?;
        Ok(Context { home, config, sources })
    }

    /// Collects the sources of the endpoint.
    pub(super) fn sources(&self, home: &Path, config: &Config) -> Result<EndpointSources, Failure> {
        let option = self.endpoint.as_deref().map(checked).transpose()?;
        let environment = match env::var_os("AGENT_RELAY_ENDPOINT").filter(|text| !text.is_empty())
        {
            Some(text) => Some(checked(text)?),
            None => None,
        };
        let config = config.endpoint.as_deref().map(checked).transpose()?;
        let service = service_in(home)?;
        let left = endpoint_left_in(home)?;
        let mut defaults = Vec::new();
        if !Listener::is_foreign(&Endpoint::shared()).unwrap_or(true) {
            defaults.push(Endpoint::shared().as_text().to_owned());
        }
        // If the system does not tell the user, the shared endpoint is the only default.
        defaults.extend(Endpoint::per_user().ok().map(|endpoint| endpoint.as_text().to_owned()));
        Ok(EndpointSources { option, environment, config, service, left, defaults })
    }
}

fn checked(text: impl AsRef<std::ffi::OsStr>) -> Result<String, Failure> {
    Endpoint::parse(text.as_ref())
        .map(|endpoint| endpoint.as_text().to_owned())
        .map_err(|error| Failure::usage(error.to_string()))
}

/// Reads service.toml. The file names the account that is trusted to run the daemon, so only the
/// file's owner may be able to write it.
fn service_in(home: &Path) -> Result<Option<Service>, Failure> {
    let Some(mut service) = Service::load(home).map_err(Failure::because)? else {
        return Ok(None);
    };
    paths::check_only_owner_writes(&home.join(service::FILE)).map_err(Failure::because)?;
    service.endpoint = checked(&service.endpoint)?;
    Ok(Some(service))
}

/// Reads the endpoint that the last daemon left in its home.
fn endpoint_left_in(home: &Path) -> Result<Option<String>, Failure> {
    let path = home.join(ENDPOINT_FILE);
    match fs::read_to_string(&path) {
        Ok(text) => Ok(Some(text.trim().to_owned()).filter(|text| !text.is_empty())),
        Err(error) if is_absent(&error) => Ok(None),
        Err(error) => Err(Failure::failed(format!("{}: {error}", path.display()))),
    }
}

/// The home directory, the configuration, and the sources of the endpoint.
#[derive(Clone, Debug)]
pub(super) struct Context {
    pub(super) home: PathBuf,
    pub(super) config: Config,
    pub(super) sources: EndpointSources,
}

impl Context {
    /// Joins the first daemon that listens at one of the endpoints.
    pub(super) fn try_join(
        &self,
        settings: &dyn Fn(&str) -> Settings,
    ) -> Result<Client, ClientError> {
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
    pub(super) fn with_server(&self, settings: Settings) -> Settings {
        Settings { server: self.server(&settings.endpoint), ..settings }
    }

    /// The user who runs the daemon at an endpoint, if the endpoint is the service's.
    pub(super) fn server(&self, endpoint: &str) -> Option<User> {
        let service =
            self.sources.service.as_ref().filter(|service| service.endpoint == endpoint)?;
        // No user is trusted if the account in service.toml cannot be parsed.
        User::parse(&service.account).ok()
    }

    /// Joins as [`Self::try_join`] does. If the daemon is about to end, waits until it has ended,
    /// and returns that no daemon is up.
    pub(super) fn try_join_lasting(
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

    /// Joins as [`Self::try_join`] does, and turns the result into a command's, as [`report`] does.
    pub(super) fn join(&self, settings: &dyn Fn(&str) -> Settings) -> Result<Client, Failure> {
        report(self.try_join(settings), settings)
    }

    /// Reports whether a daemon holds the lock of this home, at whichever endpoint it listens.
    pub(super) fn is_locked(&self) -> Result<bool, Failure> {
        let lock = self.home.join(LOCK_FILE);
        Lock::is_held(&lock).map_err(Failure::because)
    }

    /// Reads again the endpoint in the home, where a daemon may have written it since.
    pub(super) fn reread_endpoint(&mut self) -> Result<(), Failure> {
        self.sources.left = endpoint_left_in(&self.home)?;
        Ok(())
    }
}

/// Turns the result of [`Context::try_join`] into a command's: a notice about another version, or a
/// failure with a remedy.
pub(super) fn report(
    joined: Result<Client, ClientError>,
    settings: &dyn Fn(&str) -> Settings,
) -> Result<Client, Failure> {
    joined.map(notice_version).map_err(|error| join_failure(&settings(""), error))
}

/// Prints a notice if the daemon is of another version.
fn notice_version(client: Client) -> Client {
    let version = &client.welcome().server.version;
    if version != VERSION {
        let version = escaped(version);
        eprint_line(format_args!(
            "the daemon is version {version}, this is {VERSION}: `agent-relay up --replace` starts \
             this version"
        ));
    }
    client
}

/// Returns the failure to join, with the name that the daemon refused.
pub(super) fn join_failure(settings: &Settings, error: ClientError) -> Failure {
    match (&error, &settings.mode) {
        (ClientError::Ended(Ended::Error(fault)), Mode::Agent(name))
            if fault.has_code(ErrorCode::NameInUse) =>
        {
            Failure::failed(format!("{name} is connected already"))
                .hint("choose another name, or end the other agent first")
        }
        (ClientError::Ended(Ended::Error(fault)), Mode::Agent(name))
            if fault.has_code(ErrorCode::Unauthorized) =>
        {
            let message = format!("policy.toml requires a key for {name}, and there is none here");
            let hint = format!("put it into keys/{name} in the home, or use --key-file FILE");
            Failure::failed(message).hint(hint)
        }
        _ => error.into(),
    }
}
