//! Where a listener is found: the path of a Unix socket, or the name of a Windows pipe.

#[cfg(unix)]
#[path = "endpoint/unix.rs"]
mod imp;
#[cfg(windows)]
#[path = "endpoint/windows.rs"]
mod imp;

use std::{ffi::OsStr, fmt, io, path::Path};

use crate::{peer::User, refusal};

/// The address of a listener, checked: one that was made can be bound or connected to.
///
/// Two endpoints are equal if they are written the same after parsing (a relative path has become
/// an absolute one); links are not followed.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Endpoint(String);

impl Endpoint {
    /// Checks an address that came from a person: a socket's path on Unix, `\\.\pipe\NAME` on
    /// Windows.
    ///
    /// # Errors
    /// `InvalidInput` with a sentence: empty, over the system's limit (which is named), not UTF-8,
    /// or not of the system's form.
    pub fn parse(text: &OsStr) -> io::Result<Self> {
        let invalid = |sentence| refusal(io::ErrorKind::InvalidInput, sentence);
        let text = text.to_str().ok_or_else(|| {
            invalid(format!("the endpoint {} is not UTF-8: choose another", text.display()))
        })?;
        if text.is_empty() || text.contains('\0') {
            return Err(invalid(format!("{text:?} is not an endpoint: it is {}", imp::FORM)));
        }
        imp::parse(text).map(Self)
    }

    /// An endpoint of its own for whoever owns `directory`: a socket in it, or a pipe whose name is made
    /// of the directory's.
    ///
    /// # Errors
    /// As [`Endpoint::parse`]: a long directory can be over the limit of a socket's path.
    pub fn inside(directory: &Path, name: &str) -> io::Result<Self> {
        Self::parse(&imp::inside(directory, name))
    }

    /// The endpoint of what runs under `name` with its files in `directory`: a socket there, or a pipe of
    /// this user's; where the directory is not in this user's [`paths::home`](crate::paths::home), one
    /// that is made of it, as [`Endpoint::inside`].
    ///
    /// # Errors
    /// As [`Endpoint::parse`]; and if the system does not say who this user is.
    pub fn of_agent(directory: &Path, name: &str) -> io::Result<Self> {
        Self::parse(&imp::of_agent(directory, name)?)
    }

    /// The endpoint that everybody on the machine would use who uses none of his own.
    pub fn shared() -> Self {
        Self(imp::SHARED.to_owned())
    }

    /// This user's own endpoint, for when [`Endpoint::shared`] is another user's.
    ///
    /// # Errors
    /// If the system does not say who this user is.
    pub fn per_user() -> io::Result<Self> {
        Ok(Self::of(&User::me()?))
    }

    /// The same endpoint of any user.
    pub fn of(user: &User) -> Self {
        Self(imp::per_user(user))
    }

    /// The address as text; [`Endpoint::parse`] reads it back.
    pub fn as_text(&self) -> &str {
        &self.0
    }

    /// Whether something of another user stands there, so that this user can neither listen nor
    /// trust who listens. Nothing there is not foreign.
    ///
    /// # Errors
    /// If the system does not let us look.
    pub fn is_foreign(&self) -> io::Result<bool> {
        imp::is_foreign(self)
    }
}

impl fmt::Display for Endpoint {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

impl AsRef<OsStr> for Endpoint {
    fn as_ref(&self) -> &OsStr {
        self.0.as_ref()
    }
}
