//! Unix: the path of a socket.

use std::{
    ffi::OsString,
    io,
    mem::offset_of,
    path::{Path, PathBuf},
};

use super::hash;
use crate::{naming, paths, peer::User, refusal};

/// The form of an endpoint, for error sentences.
pub(crate) const FORM: &str = "the path of a socket";
/// The endpoint of [`super::Endpoint::shared`].
pub(crate) const SHARED: &str = "/tmp/agent-relay.sock";
/// The size of the kernel's field for the path, less the final zero: 107 on Linux, 103 on macOS.
const PATH_BYTES_MAX: usize =
    size_of::<libc::sockaddr_un>() - offset_of!(libc::sockaddr_un, sun_path) - 1;

pub(crate) fn parse(text: &str) -> io::Result<String> {
    // The path is made absolute, because the other side may run in another directory.
    let path = paths::absolute(text).map_err(naming(format!("the endpoint {text}")))?;
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

pub(crate) fn fitting(directory: &Path, name: &str) -> io::Result<OsString> {
    let path = inside(directory, name);
    match path.len() > PATH_BYTES_MAX || path.to_str().is_none() {
        true => Ok(inside(&short_directory()?, &format!("{:016x}", hash(directory, name)))),
        false => Ok(path),
    }
}

pub(crate) fn of_agent(directory: &Path, name: &str) -> io::Result<OsString> {
    fitting(directory, name)
}

pub(crate) fn private(directory: &Path, _: Option<&str>) -> io::Result<OsString> {
    fitting(directory, "relay")
}

/// The directory for this user's sockets that would have too long a path in their own directories.
/// The same in every environment, so that commands in another one find the sockets.
pub(crate) fn short_directory() -> io::Result<PathBuf> {
    Ok(format!("/tmp/agent-relay-{}", User::me()?).into())
}

/// The text of [`super::Endpoint::of`].
pub(crate) fn of_user(user: &User) -> String {
    format!("/tmp/agent-relay-{user}.sock")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn endpoint_with_a_long_path_has_a_short_one_of_its_own() {
        let directory = Path::new("/no/such/long/directory/of/a/project/with/its/state/run");
        let path = |directory: &Path, name: &str| {
            let path = fitting(directory, name).unwrap().into_string().unwrap();
            assert!(parse(&path).is_ok(), "{path}");
            path
        };
        assert_eq!(path(directory, "Ann"), format!("{}/Ann.sock", directory.display()));
        let longer = directory.join("x".repeat(200));
        let names = ["x".repeat(64), format!("{}y", "x".repeat(63))];
        let short = [
            path(directory, &names[0]),
            path(directory, &names[1]),
            path(&longer, "Ann"),
            path(&longer, "Bob"),
        ];
        let user = User::me().unwrap();
        assert_eq!(short[0], format!("/tmp/agent-relay-{user}/27ee14c4be23dd9f.sock"));
        let different: std::collections::BTreeSet<_> = short.iter().collect();
        assert_eq!(different.len(), short.len());
    }
}
