//! The address of a listener: the path of a Unix socket, or the name of a Windows pipe.

#[cfg(unix)]
#[path = "endpoint/unix.rs"]
mod imp;
#[cfg(windows)]
#[path = "endpoint/windows.rs"]
mod imp;

use std::{ffi::OsStr, fmt, io, path::Path};

use crate::{peer::User, refusal};

/// A valid address of a listener.
///
/// Two endpoints are equal if their texts are equal after parsing, which makes a relative path
/// absolute. Links are not followed.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Endpoint(String);

impl Endpoint {
    /// Checks an address that a person gave: a socket's path on Unix, `\\.\pipe\NAME` on Windows.
    ///
    /// # Errors
    /// `InvalidInput` if the address is empty, longer than the system's limit (which the error
    /// names), not UTF-8, or not of the system's form.
    pub fn parse(text: &OsStr) -> io::Result<Self> {
        let invalid = |sentence| refusal(io::ErrorKind::InvalidInput, sentence);
        let text = text.to_str().ok_or_else(|| {
            invalid(format!("the endpoint {} is not UTF-8; choose another", text.display()))
        })?;
        if text.is_empty() || text.contains('\0') {
            return Err(invalid(format!(
                "{text:?} is not an endpoint: an endpoint is {}",
                imp::FORM
            )));
        }
        imp::parse(text).map(Self)
    }

    /// An endpoint that belongs to `directory`: a socket in it, or a pipe whose name contains the
    /// directory's path.
    ///
    /// # Errors
    /// As [`Endpoint::parse`]: a long directory can exceed the limit of a socket's path.
    pub fn inside(directory: &Path, name: &str) -> io::Result<Self> {
        Self::parse(&imp::inside(directory, name))
    }

    /// The endpoint of the agent `name` whose files are in `directory`: a socket in it. On Windows,
    /// a pipe: its name contains the user if `directory` is in this user's
    /// [`paths::home`](crate::paths::home), and is otherwise that of [`Endpoint::inside`].
    ///
    /// # Errors
    /// As [`Endpoint::parse`]; and if the system does not tell this process's user.
    pub fn of_agent(directory: &Path, name: &str) -> io::Result<Self> {
        Self::parse(&imp::of_agent(directory, name)?)
    }

    /// The default endpoint, which is the same for all users of the machine.
    pub fn shared() -> Self {
        Self(imp::SHARED.to_owned())
    }

    /// This user's own endpoint, for use while another user listens at [`Endpoint::shared`].
    ///
    /// # Errors
    /// If the system does not tell this process's user.
    pub fn per_user() -> io::Result<Self> {
        Ok(Self::of(&User::me()?))
    }

    /// A user's own endpoint, as [`Endpoint::per_user`] returns it to that user.
    pub fn of(user: &User) -> Self {
        Self(imp::of_user(user))
    }

    /// The address as text, which [`Endpoint::parse`] reads back.
    pub fn as_text(&self) -> &str {
        &self.0
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
