//! Unix: the path of a socket.

use std::{
    ffi::OsString,
    io,
    mem::offset_of,
    path::{self, Path},
};

use crate::{naming, peer::User, refusal};

/// The form of an endpoint, for error sentences.
pub(crate) const FORM: &str = "the path of a socket";
/// The endpoint of [`super::Endpoint::shared`].
pub(crate) const SHARED: &str = "/tmp/agent-relay.sock";
/// The size of the kernel's field for the path, less the final zero: 107 on Linux, 103 on macOS.
const PATH_BYTES_MAX: usize =
    size_of::<libc::sockaddr_un>() - offset_of!(libc::sockaddr_un, sun_path) - 1;

pub(crate) fn parse(text: &str) -> io::Result<String> {
    // The path is made absolute, because the other side may run in another directory.
    let path = path::absolute(text).map_err(naming(format!("the endpoint {text}")))?;
    let path = path.to_str().map(str::to_owned).ok_or_else(|| {
        refusal(io::ErrorKind::InvalidInput, format!("the endpoint {text} is in a directory whose name is not UTF-8; give an absolute path"))
    })?;
    if path.len() > PATH_BYTES_MAX {
        return Err(refusal(
            io::ErrorKind::InvalidInput,
            format!(
                "the endpoint {path} has {} bytes, and this system's limit for a socket's path is {PATH_BYTES_MAX}; choose a shorter one",
                path.len()
            ),
        ));
    }
    Ok(path)
}

pub(crate) fn inside(directory: &Path, name: &str) -> OsString {
    directory.join(format!("{name}.sock")).into_os_string()
}

pub(crate) fn of_agent(directory: &Path, name: &str) -> io::Result<OsString> {
    Ok(inside(directory, name))
}

/// The text of [`super::Endpoint::of`].
pub(crate) fn of_user(user: &User) -> String {
    format!("/tmp/agent-relay-{user}.sock")
}
