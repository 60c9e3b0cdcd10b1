//! The errors of a home directory.

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
    #[must_use]
    pub fn unreadable(path: &Path, error: &io::Error) -> Self {
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

/// The reason why a home does not determine its daemon, or how to join it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct HomeError {
    /// The reason.
    pub message: String,
    /// The remedy.
    pub hint: Option<String>,
    /// Whether an option, or the variable that replaces it, is malformed.
    pub is_usage: bool,
}

impl HomeError {
    /// An error of the home.
    #[must_use]
    pub fn new(message: String) -> Self {
        Self { message, hint: None, is_usage: false }
    }

    /// An error with the message of another error.
    #[must_use]
    pub fn because(error: impl fmt::Display) -> Self {
        Self::new(error.to_string())
    }

    /// An error of the command line.
    #[must_use]
    pub fn usage(message: String) -> Self {
        Self { is_usage: true, ..Self::new(message) }
    }

    /// Adds a remedy.
    #[must_use]
    pub fn hint(self, hint: &str) -> Self {
        Self { hint: Some(hint.to_owned()), ..self }
    }
}

impl fmt::Display for HomeError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.message)?;
        self.hint.as_ref().map_or(Ok(()), |hint| write!(f, "; {hint}"))
    }
}

impl std::error::Error for HomeError {}

/// Reports whether an error means that the file does not exist. The error that the home is not a
/// directory counts, too, since other code reports it.
#[must_use]
pub fn is_absent(error: &io::Error) -> bool {
    matches!(error.kind(), io::ErrorKind::NotFound | io::ErrorKind::NotADirectory)
}
