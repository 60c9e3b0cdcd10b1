//! Unix: the path of a socket.

use std::{ffi::OsString, io, mem::offset_of, path::Path};

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

/// A name that makes the path too long is replaced by its hash. The `~` keeps it apart from names.
pub(crate) fn of_agent(directory: &Path, name: &str) -> io::Result<OsString> {
    let path = inside(directory, name);
    match path.len() > PATH_BYTES_MAX {
        true => Ok(inside(directory, &format!("~{:016x}", hash(name)))),
        false => Ok(path),
    }
}

/// FNV-1a: the same in every version of this program.
fn hash(text: &str) -> u64 {
    text.bytes().fold(0xcbf2_9ce4_8422_2325, |hash, byte| {
        (hash ^ u64::from(byte)).wrapping_mul(0x100_0000_01b3)
    })
}

/// The text of [`super::Endpoint::of`].
pub(crate) fn of_user(user: &User) -> String {
    format!("/tmp/agent-relay-{user}.sock")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn agent_with_a_long_name_has_a_short_path_of_its_own() {
        let directory = Path::new("/home/somebody/a/long/directory/of/a/project/state/run");
        let path = |name: &str| of_agent(directory, name).unwrap().into_string().unwrap();
        assert_eq!(path("Ann"), format!("{}/Ann.sock", directory.display()));
        let long = ["x".repeat(64), format!("{}y", "x".repeat(63))];
        let [one, other] = long.each_ref().map(|name| path(name));
        assert_ne!(one, other);
        assert_eq!(one, format!("{}/~b96a5acbb56db825.sock", directory.display()));
        assert!(parse(&one).is_ok() && parse(&other).is_ok());
    }
}
