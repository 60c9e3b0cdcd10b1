//! The operator's key, in the file `operator.key`. The daemon creates it; anyone who can read the
//! home directory can use it. Keys of agents are read in the same way.

use crate::home::text;
use platform::{paths, peer::User};
use protocol::secret::Secret;
use std::{
    fs::{self, File},
    io::{self, Read},
    path::Path,
};

/// The file's name in the home directory.
pub const FILE: &str = "operator.key";

/// The longest file that can be a key.
const FILE_BYTES_MAX: u64 = 256;

/// Reads the key of a home.
///
/// # Errors
/// `NotFound` if there is no key yet; another error if the file cannot be read, is accessible to
/// other users, or holds no key. The error names the file and never repeats its content.
pub fn read(home: &Path) -> io::Result<Secret> {
    read_among(home, &[])
}

/// Reads the key of a home that some other users may access: the service's account, or its owner.
///
/// # Errors
/// As [`read`]'s.
pub fn read_among(home: &Path, users: &[User]) -> io::Result<Secret> {
    read_checked(&home.join(FILE), users)
}

/// Reads a key from any file.
///
/// # Errors
/// As [`read`]'s.
pub fn read_file(path: &Path) -> io::Result<Secret> {
    read_checked(path, &[])
}

fn read_checked(path: &Path, users: &[User]) -> io::Result<Secret> {
    let named = |error: io::Error| {
        io::Error::new(error.kind(), format!("read {}: {error}", path.display()))
    };
    // Opening a pipe would wait for its other end.
    if !fs::metadata(path).map_err(named)?.is_file() {
        return Err(named(io::Error::other("it is not a file")));
    }
    paths::check_private_among(path, users)?;
    let mut bytes = Vec::new();
    let file = File::open(path).map_err(named)?;
    file.take(FILE_BYTES_MAX).read_to_end(&mut bytes).map_err(named)?;
    let text = text::decode(bytes).unwrap_or_default();
    let text = text.trim_end_matches(['\r', '\n']);
    Secret::parse(text).ok_or_else(|| named(io::Error::other("it holds no key")))
}
