//! `agents --here`: the agents that run in the current directory or below it.

use crate::cli::{failure::Failure, folder_name::folder_of};
use client::home::HomeOptions;
use platform::paths;
use protocol::control::AgentState;
use std::{
    fs,
    path::{Path, PathBuf},
};

/// The current directory.
#[derive(Debug)]
pub(super) struct Here {
    directory: PathBuf,
    home: PathBuf,
}

impl Here {
    pub(super) fn new(options: &HomeOptions) -> Result<Self, Failure> {
        let directory = paths::current_directory().map_err(Failure::because)?;
        Ok(Self { directory: resolved(&directory), home: options.home()? })
    }

    /// Whether an agent runs here: by what its wrapper says, or else because its name was made up
    /// for a folder here.
    pub(super) fn includes(&self, name: &str, wrapper: Option<&AgentState>) -> bool {
        let told = wrapper.and_then(|state| state.directory.as_ref()).map(PathBuf::from);
        let directory = told.or_else(|| folder_of(&self.home, name));
        directory.is_some_and(|directory| resolved(&directory).starts_with(&self.directory))
    }
}

/// Follows the links of a path. A directory that is gone has none.
fn resolved(path: &Path) -> PathBuf {
    fs::canonicalize(path).unwrap_or_else(|_| path.to_owned())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn directories_below_are_included() {
        let root = resolved(&std::env::temp_dir());
        let here = Here { directory: root.join("a"), home: root.join("no-home") };
        let includes = |directory: Option<PathBuf>| {
            let directory = directory.map(|path| path.to_string_lossy().into_owned());
            here.includes("Ann", Some(&AgentState { directory, ..AgentState::default() }))
        };
        assert!(includes(Some(root.join("a"))));
        assert!(includes(Some(root.join("a").join("b"))));
        assert!(!includes(Some(root.join("ab"))));
        assert!(!includes(Some(root)));
        assert!(!includes(None));
        assert!(!here.includes("Ann", None));
    }
}
