//! Whether the agents of a team run.

use crate::{
    cli::{
        failure::Failure,
        wrapped::{ANSWER, RUN_DIRECTORY, explain},
    },
    wrap::control::client::{ControlClient, ControlError},
};
use protocol::control::Request;
use std::{
    collections::HashMap,
    fs,
    path::{Path, PathBuf},
};

/// An agent that runs, in this directory. An older wrapper does not state it.
pub(super) struct Running(Option<String>);

impl Running {
    /// Asks the wrapper of an agent. `None` if the agent does not run.
    pub(super) fn of(home: &Path, name: &str) -> Result<Option<(Self, ControlClient)>, Failure> {
        let wrapper = match ControlClient::connect(&home.join(RUN_DIRECTORY), name) {
            Ok(wrapper) => wrapper,
            Err(ControlError::NotRunning) => return Ok(None),
            Err(error) => return Err(explain(name, &error)),
        };
        let state = wrapper.request_state(&Request::State, ANSWER);
        let state = state.map_err(|error| explain(name, &error))?;
        Ok(Some((Self(state.directory), wrapper)))
    }

    /// The agent's directory, if it differs from the team's directory for the agent. The agent is
    /// not in the team then.
    pub(super) fn elsewhere(&self, directory: &Path) -> Option<&str> {
        self.0.as_deref().filter(|other| !is_same(Path::new(other), directory))
    }
}

/// The agents of some names, each asked once.
pub(super) struct Presences(HashMap<String, Result<Option<Running>, Failure>>);

impl Presences {
    pub(super) fn ask<'n>(home: &Path, names: impl Iterator<Item = &'n String>) -> Self {
        let mut asked = HashMap::new();
        for name in names {
            let ask = || Running::of(home, name).map(|it| it.map(|(running, _)| running));
            asked.entry(name.to_ascii_lowercase()).or_insert_with(ask);
        }
        Self(asked)
    }

    /// The presence of a queried agent, if it runs. A failure if its wrapper did not answer.
    pub(super) fn of(&self, name: &str) -> Result<Option<&Running>, Failure> {
        match self.0.get(&name.to_ascii_lowercase()) {
            Some(answer) => answer.as_ref().map(Option::as_ref).map_err(Failure::clone),
            None => Ok(None),
        }
    }

    /// Whether an agent runs in a directory.
    pub(super) fn runs_in(&self, name: &str, directory: &Path) -> bool {
        self.of(name).is_ok_and(|it| it.is_some_and(|it| it.elsewhere(directory).is_none()))
    }
}

/// Whether two paths lead to one directory.
pub(super) fn is_same(one: &Path, other: &Path) -> bool {
    resolved(one) == resolved(other)
}

/// Follows the links of a path. A directory that is gone has none.
pub(super) fn resolved(path: &Path) -> PathBuf {
    fs::canonicalize(path).unwrap_or_else(|_| path.to_owned())
}
