//! The process and user at the other end of a stream, as the system states them.

#[cfg(unix)]
#[path = "peer/unix.rs"]
mod imp;
#[cfg(windows)]
#[path = "peer/windows.rs"]
mod imp;

use std::{fmt, io};

use crate::refusal;

/// A user of this machine: a user id on Unix, a SID on Windows.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct User(imp::UserId);

impl User {
    /// The user that this process acts as.
    ///
    /// # Errors
    /// If the system does not report the user (Windows only).
    pub fn me() -> io::Result<Self> {
        imp::me().map(Self)
    }

    /// Parses a user id (Unix) or a SID (Windows), as `Display` writes it.
    ///
    /// # Errors
    /// `InvalidInput` if the text is neither.
    pub fn parse(text: &str) -> io::Result<Self> {
        imp::parse(text).map(Self).ok_or_else(|| {
            refusal(io::ErrorKind::InvalidInput, format!("{text} is not {}", imp::FORM))
        })
    }

    /// Whether this process may trust a server that this user runs: the user is this process's own,
    /// the system, or an administrator, who can read all data of the process's user anyway.
    pub fn is_trusted_server(&self) -> bool {
        Self::me().is_ok_and(|me| *self == me) || imp::is_system(&self.0)
    }

    #[cfg(unix)]
    pub(crate) fn of_uid(uid: u32) -> Self {
        Self(uid)
    }

    #[cfg(windows)]
    pub(crate) fn of_sid(sid: String) -> Self {
        Self(sid)
    }
}

impl fmt::Display for User {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.fmt(f)
    }
}
