//! Who is at the other end of a stream, by the system's own word.

#[cfg(unix)]
#[path = "peer/unix.rs"]
mod imp;
#[cfg(windows)]
#[path = "peer/windows.rs"]
mod imp;

use std::{fmt, io};

use crate::refusal;

/// The identity of the process at the other end.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Peer {
    /// Whose process it is. This decides; it is the identity at the moment of connecting.
    pub user: User,
    /// The process, where the system says. For display only: a pid may belong to another process
    /// by the time one reads it.
    pub pid: Option<u32>,
}

/// A user of this machine: a user id on Unix, a SID on Windows.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct User(imp::Id);

impl User {
    /// The user this process acts as.
    ///
    /// # Errors
    /// If the system does not say (Windows only).
    pub fn me() -> io::Result<Self> {
        imp::me().map(Self)
    }

    /// The user whom such a text names: a user id on Unix, a SID on Windows; `Display` writes it.
    ///
    /// # Errors
    /// `InvalidInput` if it is none.
    pub fn parse(text: &str) -> io::Result<Self> {
        imp::parse(text).map(Self).ok_or_else(|| {
            refusal(io::ErrorKind::InvalidInput, format!("{text} is not {}", imp::FORM))
        })
    }

    /// Whether a server run by this user may be trusted with what this process says: it is this
    /// user, the system, or an administrator, who could read it all anyway.
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
