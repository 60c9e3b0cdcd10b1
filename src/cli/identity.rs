//! As whom a command joins that states no name: as the operator; inside a wrapped agent as its companion.

use super::{Failure, USAGE, place::Place, print::foreign_line};
use crate::{
    client::Settings,
    config::{is_absent, service::Service},
    daemon::operator_key,
    protocol::{name::Name, secret::Secret},
};
use platform::peer::User;
use std::{
    env,
    ffi::OsString,
    fs, io,
    path::{Path, PathBuf},
};

/// The agent around this process.
const AGENT: &str = "AGENT_RELAY_AGENT";

/// The file that has its companions' key.
const KEY_FILE: &str = "AGENT_RELAY_KEY_FILE";

/// What Claude Code, Codex and Gemini CLI set for the commands that their agents run.
const MARKS: [&str; 3] = ["CLAUDECODE", "CODEX_THREAD_ID", "GEMINI_CLI"];

/// The directory in the home for keys of agents, each in a file with the agent's name.
const KEYS: &str = "keys";

/// Who a command is.
#[derive(Clone, Debug)]
pub(super) enum Identity {
    /// Somebody at a terminal of his own, or a program of his.
    Person(Keys),
    /// A command of this agent's.
    Companion(String, Secret),
}

/// Where a person's key is, as soon as a daemon has made it.
#[derive(Clone, Debug)]
pub(super) struct Keys {
    home: PathBuf,
    service: Option<Service>,
}

impl Keys {
    fn of_daemon_at(&self, endpoint: &str) -> io::Result<Secret> {
        match self.service.as_ref().filter(|service| service.endpoint == endpoint) {
            None => operator_key::read(&self.home),
            Some(service) => {
                operator_key::read_among(&service.home, &[User::parse(&service.account)?])
            }
        }
    }
}

impl Identity {
    /// A person, whatever is around this process.
    pub(super) fn of_person(place: &Place) -> Self {
        Self::Person(Keys { home: place.home.clone(), service: place.sources.service.clone() })
    }

    /// Who this process is.
    pub(super) fn of_process(place: &Place) -> Result<Self, Failure> {
        let Some(agent) = agent_around() else { return Ok(Self::of_person(place)) };
        Name::parse(&agent).map_err(|error| {
            Failure::failed(format!("{AGENT} says {}: {error}", foreign_line(&agent)))
        })?;
        let file = env::var_os(KEY_FILE).filter(|file| !file.is_empty()).ok_or_else(|| {
            Failure::failed(format!(
                "{} has no key for its commands: {KEY_FILE} is not set",
                foreign_line(&agent)
            ))
        })?;
        let key = operator_key::read_file(Path::new(&file)).map_err(|error| {
            Failure::failed(format!(
                "this is not {}'s terminal any more, or not all of it is left: {}",
                foreign_line(&agent),
                foreign_line(&error.to_string())
            ))
        })?;
        Ok(Self::Companion(agent, key))
    }

    /// Nobody speaks as the person but the person: not an agent that no wrapper has given a name, or that runs its
    /// commands where the wrapper's word does not reach.
    pub(super) fn check_speaks(&self) -> Result<(), Failure> {
        let Self::Person(_) = self else { return Ok(()) };
        let is_set = |mark: &&&str| env::var_os(mark).is_some_and(|value| !value.is_empty());
        let Some(mark) = MARKS.iter().find(is_set) else { return Ok(()) };
        Err(Failure::usage(format!(
            "this is a command of an agent's ({mark} is set) that has no name here, and would speak as you: \
             start the agent with `agent-relay run -n NAME -- ...`, or say --as NAME"
        )))
    }

    /// How it joins. Without the key that runs the place it is a guest, and may do what guests may.
    pub(super) fn settings(&self, endpoint: &str) -> Settings {
        match self {
            Self::Companion(agent, key) => Settings::companion(endpoint, agent, key.clone()),
            Self::Person(keys) => match keys.of_daemon_at(endpoint) {
                Ok(key) => Settings::operator(endpoint, key),
                Err(_) => Settings::guest(endpoint),
            },
        }
    }
}

/// What proves a name that has a key: what is in the file that was named, or else in the home's own for
/// that name, if there is one.
pub(super) fn key_of(
    home: &Path,
    name: &str,
    file: Option<&str>,
) -> Result<Option<Secret>, Failure> {
    let failed = |error: io::Error| Failure::failed(foreign_line(&error.to_string()));
    if let Some(file) = file {
        return operator_key::read_file(Path::new(file)).map(Some).map_err(failed);
    }
    match operator_key::read_file(&key_file(home, name)) {
        Ok(key) => Ok(Some(key)),
        Err(error) if is_absent(&error) => Ok(None),
        Err(error) => Err(failed(error)),
    }
}

/// Where commands look for the key of a name, in which case doesn't count.
pub(super) fn key_file(home: &Path, name: &str) -> PathBuf {
    let keys = home.join(KEYS);
    let file = keys.join(name);
    if file.exists() {
        return file;
    }
    // What can't be listed is read under the name as it was typed, which says why it can't be.
    let files = fs::read_dir(keys).into_iter().flatten().flatten();
    let found = files
        .map(|file| file.path())
        .find(|it| it.file_name().is_some_and(|other| other.eq_ignore_ascii_case(name)));
    found.unwrap_or(file)
}

/// The wrapped agent that this process is a part of.
pub(super) fn agent_around() -> Option<String> {
    let agent = env::var_os(AGENT).map(OsString::into_string)?;
    let agent = agent.unwrap_or_else(|agent| agent.to_string_lossy().into_owned());
    Some(agent).filter(|agent| !agent.is_empty())
}

/// Why a command can't join; inside a wrapped agent, with what works all the same: a sandbox that refuses
/// sockets or files still lets an agent print.
pub(super) fn or_print(failure: Failure) -> Failure {
    match failure {
        Failure { code, words: Some(words) } if code != USAGE && agent_around().is_some() => {
            let way = "printing `->relay:NAME <<<`, the text and `>>>` still works";
            Failure::new(code, format!("{words}; {way}"))
        }
        failure => failure,
    }
}

/// Inside a wrapped agent nobody takes another name.
pub(super) fn check_name(name: &str) -> Result<(), Failure> {
    match agent_around() {
        Some(agent) if !agent.eq_ignore_ascii_case(name) => Err(Failure::usage(format!(
            "inside {} commands speak for it alone: leave `--as {name}` out",
            foreign_line(&agent)
        ))),
        _ => Ok(()),
    }
}
