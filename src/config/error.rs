//! The error of a file in the home directory: its path, the line at fault, and the reason.

use std::{
    fmt, io,
    path::{Path, PathBuf},
};

/// An error in a file in the home directory.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ConfigError {
    /// The file's path.
    pub path: PathBuf,
    /// The line at fault, from 1; `None` if the error is not in the file's text.
    pub line: Option<usize>,
    /// The reason, with a remedy.
    pub reason: String,
}

impl ConfigError {
    /// An error of a file that cannot be read.
    pub(super) fn unreadable(path: &Path, error: &io::Error) -> Self {
        Self { path: path.to_owned(), line: None, reason: error.to_string() }
    }
}

impl fmt::Display for ConfigError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}", self.path.display())?;
        if let Some(line) = self.line {
            write!(f, ":{line}")?;
        }
        write!(f, ": {}", self.reason)
    }
}

impl std::error::Error for ConfigError {}

/// Reports whether an error means that the file does not exist. The error that the home is not a
/// directory counts, too, since other code reports it.
#[must_use]
pub fn is_absent(error: &io::Error) -> bool {
    matches!(error.kind(), io::ErrorKind::NotFound | io::ErrorKind::NotADirectory)
}
