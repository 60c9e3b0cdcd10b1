//! Whether an agent of a team runs.

use crate::{
    cli::{
        failure::Failure,
        wrapped::{ANSWER, RUN_DIRECTORY, explain},
    },
    wrap::control::client::{ControlClient, ControlError},
};
use protocol::control::Request;
use std::{
    fs,
    path::{Path, PathBuf},
};

/// Where an agent runs.
pub(super) enum Presence {
    Absent,
    /// In the directory that the team has for it.
    Here(ControlClient),
    /// In this other directory: it is no agent of the team.
    Elsewhere(String),
}

impl Presence {
    /// Asks the wrapper of an agent.
    pub(super) fn of(home: &Path, name: &str, directory: &Path) -> Result<Self, Failure> {
        let wrapper = match ControlClient::connect(&home.join(RUN_DIRECTORY), name) {
            Ok(wrapper) => wrapper,
            Err(ControlError::NotRunning) => return Ok(Self::Absent),
            Err(error) => return Err(explain(name, &error)),
        };
        let state = wrapper.request_state(&Request::State, ANSWER);
        match state.map_err(|error| explain(name, &error))?.directory {
            Some(other) if !is_same(Path::new(&other), directory) => Ok(Self::Elsewhere(other)),
            _ => Ok(Self::Here(wrapper)),
        }
    }

    pub(super) const fn is_here(&self) -> bool {
        matches!(self, Self::Here(_))
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
