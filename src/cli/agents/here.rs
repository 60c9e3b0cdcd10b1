//! `agents --here`: the agents that run in the current directory or below it.

use crate::cli::{failure::Failure, folder_name::folder_of};
use client::home::HomeOptions;
use platform::paths;
use protocol::relay::AgentRow;
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

    /// Whether an agent runs here: by its own words, or else because its name was made up for a
    /// folder here. An agent of another machine does not.
    pub(super) fn includes(&self, agent: &AgentRow<'_>) -> bool {
        let told = agent.directory.as_deref().filter(|_| agent.host.is_none()).map(PathBuf::from);
        let directory = told.or_else(|| folder_of(&self.home, &agent.name));
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
        let ann = crate::cli::agents::tests::ann;
        let includes = |directory: Option<PathBuf>| {
            let directory = directory.map(|path| path.to_string_lossy().into_owned().into());
            here.includes(&AgentRow { directory, ..ann() })
        };
        assert!(includes(Some(root.join("a"))));
        assert!(includes(Some(root.join("a").join("b"))));
        assert!(!includes(Some(root.join("ab"))));
        assert!(!includes(Some(root)));
        assert!(!includes(None));
        let directory = Some(here.directory.to_string_lossy().into_owned().into());
        assert!(!here.includes(&AgentRow { directory, host: Some("pi".into()), ..ann() }));
    }
}
