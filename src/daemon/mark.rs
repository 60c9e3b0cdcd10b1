//! Marks: empty files in a home that tell the next process something about the last daemon.

use client::home::is_absent;
use platform::paths;
use std::{
    fs, io,
    path::Path,
    time::{Duration, SystemTime},
};

/// The rules of a policy.toml are in force. While this mark exists, a missing policy.toml is an
/// error, since it would lift every rule. The daemon sets the mark before it applies a policy.toml;
/// only `policy clear` clears it.
pub(crate) const POLICY_IN_FORCE: Mark = Mark("policy.in-force");

/// The restart of a failed service was cancelled. The next start by the system soon after that is
/// that restart, and ends at once.
pub(crate) const RESTART_CANCELLED: Mark = Mark("restart.cancelled");

/// An empty file of this name in a home directory.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Mark(pub(super) &'static str);

impl Mark {
    /// Sets the mark, from now on.
    ///
    /// # Errors
    /// If the file cannot be created or changed.
    pub(crate) fn set(self, home: &Path) -> io::Result<()> {
        paths::open_private_file(&home.join(self.0))?.set_modified(SystemTime::now())
    }

    /// Clears the mark. Returns whether it was set.
    ///
    /// # Errors
    /// If the file cannot be removed; the error names it.
    pub(crate) fn clear(self, home: &Path) -> io::Result<bool> {
        let path = home.join(self.0);
        match fs::remove_file(&path) {
            Ok(()) => Ok(true),
            Err(error) if is_absent(&error) => Ok(false),
            Err(error) => {
                Err(io::Error::new(error.kind(), format!("remove {}: {error}", path.display())))
            }
        }
    }

    /// Returns how long the mark has been set, if it is; zero if it is set in the future.
    ///
    /// # Errors
    /// If the system does not tell.
    pub(crate) fn age(self, home: &Path) -> io::Result<Option<Duration>> {
        match fs::metadata(home.join(self.0)).and_then(|mark| mark.modified()) {
            Ok(since) => Ok(Some(since.elapsed().unwrap_or_default())),
            Err(error) if is_absent(&error) => Ok(None),
            Err(error) => Err(error),
        }
    }

    /// Whether the mark is set.
    ///
    /// # Errors
    /// If the home cannot be read.
    pub(crate) fn is_set(self, home: &Path) -> io::Result<bool> {
        fs::exists(home.join(self.0))
    }
}
