//! Where things are: the home directory, the configuration, the daemon; and how a command gets to it.

use super::{
    Failure, VERSION,
    print::{foreign_line, say},
};
use crate::{
    client::{Client, ClientError, Ended, Mode, Settings},
    config::{
        Config, ENDPOINT_FILE, EndpointSources, LOCK_FILE, is_absent,
        service::{self, Service},
    },
    protocol::code::ErrorCode,
};
use platform::{endpoint::Endpoint, lock::Lock, paths, peer::User};
use std::{
    env, fs,
    path::{Path, PathBuf},
};

/// What the command line said before the command.
#[derive(Clone, Debug, Default)]
pub(super) struct Asked {
    pub(super) endpoint: Option<String>,
    pub(super) home: Option<String>,
}

impl Asked {
    /// The home directory, which may not exist yet.
    pub(super) fn home(&self) -> Result<PathBuf, Failure> {
        let set = self.home.clone().map(Into::into).or_else(|| env::var_os("AGENT_RELAY_HOME"));
        let home = match set.filter(|home| !home.is_empty()) {
            Some(home) => std::path::absolute(home),
            None => paths::home(),
        };
        home.map_err(|error| Failure::failed(format!("{error}: name a directory with --home")))
    }

    /// Everything, for a command that wants a daemon. A broken configuration is told, and is the next daemon's
    /// trouble: it must not part agents from the one that runs.
    pub(super) fn place(&self) -> Result<Place, Failure> {
        let home = self.home()?;
        let config = match Config::load(&home) {
            Err(wrong) if wrong.line.is_some() => {
                let wrong = foreign_line(&wrong.to_string());
                say(format_args!("{wrong}; no daemon starts until that is mended"));
                Config::default()
            }
            config => config.map_err(Failure::because)?,
        };
        self.place_with(home, config)
    }

    /// Everything, for a daemon, or for what has one started later: a broken configuration ends it here.
    pub(super) fn place_of_daemon(&self) -> Result<Place, Failure> {
        let home = self.home()?;
        let config = Config::load(&home).map_err(Failure::because)?;
        self.place_with(home, config)
    }

    fn place_with(&self, home: PathBuf, config: Config) -> Result<Place, Failure> {
        let sources = self.sources(&home, &config)?;
        Ok(Place { home, config, sources })
    }

    pub(super) fn sources(&self, home: &Path, config: &Config) -> Result<EndpointSources, Failure> {
        let option = self.endpoint.as_deref().map(checked).transpose()?;
        let environment = match env::var_os("AGENT_RELAY_ENDPOINT").filter(|it| !it.is_empty()) {
            Some(text) => Some(checked(text)?),
            None => None,
        };
        let config = config.endpoint.as_deref().map(checked).transpose()?;
        let service = service_in(home)?;
        let left = left_in(home)?;
        let mut defaults = Vec::new();
        if !Endpoint::shared().is_foreign().unwrap_or(true) {
            defaults.push(Endpoint::shared().as_text().to_owned());
        }
        // Where the system doesn't say who we are, the shared one has to do.
        defaults.extend(Endpoint::per_user().ok().map(|endpoint| endpoint.as_text().to_owned()));
        Ok(EndpointSources { option, environment, config, service, left, defaults })
    }
}

fn checked(text: impl AsRef<std::ffi::OsStr>) -> Result<String, Failure> {
    Endpoint::parse(text.as_ref())
        .map(|endpoint| endpoint.as_text().to_owned())
        .map_err(|error| Failure::usage(error.to_string()))
}

/// Believed only if nobody else could have written it: it says who may run the daemon.
fn service_in(home: &Path) -> Result<Option<Service>, Failure> {
    let Some(mut service) = Service::load(home).map_err(Failure::because)? else {
        return Ok(None);
    };
    paths::check_unchangeable(&home.join(service::FILE)).map_err(Failure::because)?;
    service.endpoint = checked(&service.endpoint)?;
    Ok(Some(service))
}

fn left_in(home: &Path) -> Result<Option<String>, Failure> {
    let path = home.join(ENDPOINT_FILE);
    match fs::read_to_string(&path) {
        Ok(text) => Ok(Some(text.trim().to_owned()).filter(|text| !text.is_empty())),
        Err(error) if is_absent(&error) => Ok(None),
        Err(error) => Err(Failure::failed(format!("{}: {error}", path.display()))),
    }
}

/// Where everything is.
#[derive(Clone, Debug)]
pub(super) struct Place {
    pub(super) home: PathBuf,
    pub(super) config: Config,
    pub(super) sources: EndpointSources,
}

impl Place {
    /// Joins the first daemon that is there.
    pub(super) fn try_join(&self, make: &dyn Fn(&str) -> Settings) -> Result<Client, ClientError> {
        let mut nobody = None;
        for endpoint in self.sources.candidates() {
            let settings = self.trusting(make(endpoint));
            let is_operator = settings.mode == Mode::Operator;
            match Client::join(settings) {
                // The key is of another home's daemon, or this one is too old to know what it is for.
                Err(ClientError::Ended(Ended::Fault(fault)))
                    if is_operator && fault.is(ErrorCode::Unauthorized) =>
                {
                    return Client::join(self.trusting(Settings::guest(endpoint)));
                }
                Err(error @ ClientError::NoDaemon { .. }) => nobody = nobody.or(Some(error)),
                other => return other,
            }
        }
        Err(nobody.expect("there is always an endpoint to try"))
    }

    /// What joins the service expects its account there.
    pub(super) fn trusting(&self, settings: Settings) -> Settings {
        Settings { server: self.server(&settings.endpoint), ..settings }
    }

    /// Who runs what is at an endpoint, where that is the service.
    pub(super) fn server(&self, endpoint: &str) -> Option<User> {
        let service = self.sources.service.as_ref().filter(|it| it.endpoint == endpoint)?;
        // No user is nobody to be trusted.
        User::parse(&service.account).ok()
    }

    /// The same as a command wants it: with a sentence where it fails.
    pub(super) fn join(&self, make: &dyn Fn(&str) -> Settings) -> Result<Client, Failure> {
        judged(self.try_join(make), make)
    }

    /// Whether a daemon runs with this home, wherever it listens.
    pub(super) fn is_locked(&self) -> Result<bool, Failure> {
        let lock = self.home.join(LOCK_FILE);
        Lock::is_held(&lock).map_err(Failure::because)
    }

    /// Reads again what a daemon that was started since has left.
    pub(super) fn look_again(&mut self) -> Result<(), Failure> {
        self.sources.left = left_in(&self.home)?;
        Ok(())
    }
}

/// What a command makes of a try.
pub(super) fn judged(
    joined: Result<Client, ClientError>,
    make: &dyn Fn(&str) -> Settings,
) -> Result<Client, Failure> {
    joined.map(greet).map_err(|error| refused(&make(""), error))
}

/// Says so where the daemon is another version's.
fn greet(client: Client) -> Client {
    let version = &client.welcome().server.version;
    if version != VERSION {
        let version = foreign_line(version);
        say(format_args!(
            "the daemon is version {version}, this is {VERSION}: `agent-relay up --replace` brings \
             them together"
        ));
    }
    client
}

/// A name that was refused is named.
pub(super) fn refused(settings: &Settings, error: ClientError) -> Failure {
    match (&error, &settings.mode) {
        (ClientError::Ended(Ended::Fault(fault)), Mode::Agent(name))
            if fault.is(ErrorCode::NameInUse) =>
        {
            Failure::failed(format!(
                "{name} is connected already: choose another name, or end that one first"
            ))
        }
        (ClientError::Ended(Ended::Fault(fault)), Mode::Agent(name))
            if fault.is(ErrorCode::Unauthorized) =>
        {
            Failure::failed(format!(
                "policy.toml has a key for {name}, which this command has not: it looks for it in keys/{name} in \
                 the home directory, or where --key-file says"
            ))
        }
        _ => error.into(),
    }
}
