//! The address of a listener: the path of a Unix socket, or the name of a Windows pipe.

#[cfg(unix)]
#[path = "endpoint/unix.rs"]
mod imp;
#[cfg(windows)]
#[path = "endpoint/windows.rs"]
mod imp;

use std::{
    ffi::OsStr,
    fmt, io,
    path::{Path, PathBuf},
};

use crate::{peer::User, refusal};

#[cfg(windows)]
pub(crate) use imp::private_of;
#[cfg(unix)]
pub(crate) use imp::short_directory;

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

    /// As [`Endpoint::inside`], for any directory and any `name`: what would exceed the limit, or
    /// is not UTF-8, gets an endpoint that is named by a hash. On Unix, that one is a socket in a
    /// directory in `/tmp`, which a listener makes for its user only.
    ///
    /// # Errors
    /// If the system does not report this process's user (Windows only).
    pub fn fitting(directory: &Path, name: &str) -> io::Result<Self> {
        Self::parse(&imp::fitting(directory, name)?)
    }

    /// The endpoint of the agent `name` whose files are in `directory`, as [`Endpoint::fitting`]
    /// returns it. On Windows, the pipe's name contains the user instead of the directory, if the
    /// directory is in this user's [`paths::home`](crate::paths::home).
    ///
    /// # Errors
    /// As [`Endpoint::fitting`].
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
    /// If the system does not report this process's user.
    pub fn per_user() -> io::Result<Self> {
        Ok(Self::of(&User::me()?))
    }

    /// A user's own endpoint, as [`Endpoint::per_user`] returns it to that user.
    pub fn of(user: &User) -> Self {
        Self(imp::of_user(user))
    }

    /// An endpoint that no other user can take before a listener of this user has it: on Unix, a
    /// socket in `directory`, on Windows, a pipe with random digits in its name. Returns `last` if
    /// it is such a pipe of this user.
    ///
    /// # Errors
    /// As [`Endpoint::fitting`], and if the system gives no random bytes.
    pub fn private(directory: &Path, last: Option<&str>) -> io::Result<Self> {
        Self::parse(&imp::private(directory, last)?)
    }

    /// The address as text, which [`Endpoint::parse`] reads back.
    pub fn as_text(&self) -> &str {
        &self.0
    }
}

/// A hash of the endpoint `name` of a directory, the same by whichever links a path leads there.
/// FNV-1a, which must not change: a wrapper and a command of another version agree on it.
fn hash(directory: &Path, name: &str) -> u64 {
    let directory = without_links(directory);
    let bytes = directory.as_os_str().as_encoded_bytes().iter().chain(b"/").chain(name.as_bytes());
    bytes.fold(0xcbf2_9ce4_8422_2325, |hash, byte| {
        (hash ^ u64::from(*byte)).wrapping_mul(0x100_0000_01b3)
    })
}

/// Resolves the links of a path whose last parts may not exist yet.
fn without_links(path: &Path) -> PathBuf {
    let resolved = path.ancestors().find_map(|above| {
        let rest = path.strip_prefix(above).ok()?;
        Some(above.canonicalize().ok()?.join(rest))
    });
    resolved.unwrap_or_else(|| path.to_owned())
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
