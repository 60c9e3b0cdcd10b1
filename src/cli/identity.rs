//! The identity of a command without a stated name: the operator, or a companion of the wrapped
//! agent around the command.

use super::failure::{Failure, USAGE};
use crate::wrap::agents::AGENTS;
use client::{
    Settings,
    home::{AGENT, Context, KEY_FILE, Keys, agent_around, is_absent, operator_key},
};
use protocol::{name::Name, secret::Secret, text::escaped};
use std::{
    env, fs, io,
    path::{Path, PathBuf},
};

/// The directory in the home directory for keys of agents, each in a file with the agent's name.
const KEYS_DIR: &str = "keys";

/// The identity of a command's user.
#[derive(Clone, Debug)]
pub(super) enum Identity {
    /// A person, or a program of a person.
    Person(Keys),
    /// A command of this agent, with its key.
    Companion(String, Secret),
}

impl Identity {
    /// The identity of a person, even if this process runs in an agent.
    pub(super) fn of_person(context: &Context) -> Self {
        Self::Person(Keys::of(context))
    }

    /// The identity of this process.
    pub(super) fn of_process(context: &Context) -> Result<Self, Failure> {
        let Some(agent) = agent_around() else { return Ok(Self::of_person(context)) };
        Name::parse(&agent).map_err(|error| {
            Failure::failed(format!("{AGENT} says {}: {error}", escaped(&agent)))
        })?;
        let file = env::var_os(KEY_FILE).filter(|file| !file.is_empty()).ok_or_else(|| {
            Failure::failed(format!(
                "{} has no key for its commands: {KEY_FILE} is not set",
                escaped(&agent)
            ))
        })?;
        let key = operator_key::read_file(Path::new(&file)).map_err(|error| {
            Failure::failed(format!(
                "the wrapper of {} has ended, or its key is gone: {}",
                escaped(&agent),
                escaped(&error.to_string())
            ))
        })?;
        Ok(Self::Companion(agent, key))
    }

    /// Refuses to act as the person if a variable of an agent CLI shows that an agent runs this
    /// command. Such an agent has no wrapper, or hides the wrapper's variables from its commands.
    pub(super) fn check_is_person(&self) -> Result<(), Failure> {
        let Self::Person(_) = self else { return Ok(()) };
        let Some(variable) = variable_of_agent() else { return Ok(()) };
        let message = format!("an agent without a name ({variable} is set) would act as you");
        let hint = "start the agent with `agent-relay run NAME -- COMMAND`, or use --as NAME";
        Err(Failure::usage(message).hint(hint))
    }

    /// The operator's key, from a person's home.
    pub(super) fn operator_key(&self, endpoint: &str) -> Result<Secret, Failure> {
        match self {
            Self::Person(keys) => keys.of_daemon_at(endpoint).map_err(Failure::because),
            Self::Companion(agent, _) => {
                let message = format!("{} is an agent, and not the owner", escaped(agent));
                Err(Failure::failed(message))
            }
        }
    }

    /// The settings to join with. A person without the operator's key joins as a guest.
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

/// Whether an agent runs this command, wrapped or not.
pub(super) fn is_in_agent() -> bool {
    agent_around().is_some() || variable_of_agent().is_some()
}

/// Returns the variable that an agent CLI sets for its commands, if it is set.
fn variable_of_agent() -> Option<&'static str> {
    let is_set = |name: &&str| env::var_os(name).is_some_and(|value| !value.is_empty());
    AGENTS.iter().filter_map(|agent| agent.command_variable).find(is_set)
}

/// The settings of a client that only looks whether a daemon is up: an operator, since a full
/// daemon has room for one, or in an agent a guest.
pub(super) fn looking(context: &Context) -> impl Fn(&str) -> Settings + use<> {
    let person = agent_around().is_none().then(|| Identity::of_person(context));
    move |endpoint| match &person {
        Some(person) => person.settings(endpoint),
        None => Settings::guest(endpoint),
    }
}

/// Reads the key of a name: from the file that was named, or else from the home's file for that
/// name, if there is one.
pub(super) fn key_of(
    home: &Path,
    name: &str,
    file: Option<&str>,
) -> Result<Option<Secret>, Failure> {
    let failed = |error: io::Error| Failure::failed(escaped(&error.to_string()));
    if let Some(file) = file {
        return operator_key::read_file(Path::new(file)).map(Some).map_err(failed);
    }
    match operator_key::read_file(&key_file(home, name)) {
        Ok(key) => Ok(Some(key)),
        Err(error) if is_absent(&error) => Ok(None),
        Err(error) => Err(failed(error)),
    }
}

/// Returns the key to join with under a name: the name's own, or else a person's, the operator's.
/// With the operator's key, the daemon does not reserve the name after a start for a client that
/// could resume its session.
pub(super) fn joining_key(own: Option<&Secret>, keys: &Keys, endpoint: &str) -> Option<Secret> {
    let operators = || keys.of_daemon_at(endpoint).ok().filter(|_| agent_around().is_none());
    own.cloned().or_else(operators)
}

/// The file with the key of a name. The file's name may differ from it in case.
pub(super) fn key_file(home: &Path, name: &str) -> PathBuf {
    let keys = home.join(KEYS_DIR);
    let file = keys.join(name);
    if file.exists() {
        return file;
    }
    // If the directory cannot be listed, reading the file of the typed name reports the error.
    let files = fs::read_dir(keys).into_iter().flatten().flatten();
    let found = files
        .map(|file| file.path())
        .find(|file| file.file_name().is_some_and(|other| other.eq_ignore_ascii_case(name)));
    found.unwrap_or(file)
}

/// The wrapper of the agent that this process runs in.
pub(super) struct Wrapper {
    /// The directory of its endpoint.
    pub(super) run_directory: PathBuf,
    pub(super) agent: String,
    /// The key of the agent's commands.
    pub(super) key: Secret,
}

/// Returns the wrapper of the agent that this process runs in, if it runs in one.
pub(super) fn wrapper_around() -> Option<Wrapper> {
    let file = PathBuf::from(env::var_os(KEY_FILE).filter(|file| !file.is_empty())?);
    let key = operator_key::read_file(&file).ok()?;
    Some(Wrapper { run_directory: file.parent()?.to_owned(), agent: agent_around()?, key })
}

/// Adds to a failure inside a wrapped agent that printing a message still works, since an agent in
/// a sandbox without sockets or files can still print.
pub(super) fn or_print(failure: Failure) -> Failure {
    match failure {
        Failure { code, message: Some(_), .. } if code != USAGE && agent_around().is_some() => {
            let remedy = "printing `->relay:NAME <<<`, the text and `>>>` still works";
            let hint = failure.hint.as_deref().map(|hint| format!("{hint}; {remedy}"));
            failure.hint(hint.unwrap_or_else(|| remedy.to_owned()))
        }
        failure => failure,
    }
}

/// Refuses, inside a wrapped agent, every sender's name but the agent's own.
pub(super) fn check_sender_name(name: &str) -> Result<(), Failure> {
    match agent_around() {
        Some(agent) if !agent.eq_ignore_ascii_case(name) => {
            let message = format!("a command in {} can only send as that agent", escaped(&agent));
            Err(Failure::usage(message).hint(format!("leave out `--as {name}`")))
        }
        _ => Ok(()),
    }
}
