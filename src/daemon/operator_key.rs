//! operator.key: what proves that somebody may run the place. The daemon makes it; whoever can read the
//! home directory can say it.

use super::seed;
use crate::{config::text, protocol::secret::Secret};
use platform::{paths, peer::User};
use std::{
    fs::{self, File},
    io::{self, Read},
    path::Path,
    slice,
};

/// The file's name in the home directory.
pub const FILE: &str = "operator.key";

/// More than that is no key.
const FILE_BYTES_MAX: u64 = 256;

/// The key in the file.
///
/// # Errors
/// `NotFound` if there is none yet; else if it can't be read, is open to other users, or is no key. The
/// sentence names the file, and never says what is in it.
pub fn read(home: &Path) -> io::Result<Secret> {
    read_among(home, &[])
}

/// The same in a home in which some users are as good as this one: the account of the service whose it is,
/// or the owner whom that serves.
///
/// # Errors
/// As [`read`]'s.
pub fn read_among(home: &Path, users: &[User]) -> io::Result<Secret> {
    read_checked(&home.join(FILE), users)
}

/// The same of any file with a key.
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
    // Whoever opens a pipe waits for its other end.
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

/// The same for the daemon that holds the home's lock: a key is made where there is none, and in the
/// place of one that is no good.
pub(super) fn read_or_make(home: &Path, owner: &User) -> io::Result<Secret> {
    match read_among(home, slice::from_ref(owner)) {
        Ok(key) => return Ok(key),
        Err(error) if error.kind() == io::ErrorKind::NotFound => {}
        Err(error) => tracing::warn!("the operator's key is no good, and replaced: {error}"),
    }
    let key = Secret::from_random(seed()?);
    write(home, &key, owner)?;
    Ok(key)
}

/// Puts the daemon's key into its home, for the owner to read.
pub(super) fn write(home: &Path, key: &Secret, owner: &User) -> io::Result<()> {
    let line = format!("{}\n", key.reveal());
    paths::write_private_file_for(&home.join(FILE), line.as_bytes(), owner)
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::{
        env,
        io::Write,
        path::PathBuf,
        process,
        sync::atomic::{AtomicU32, Ordering},
    };

    fn read_or_make(home: &Path) -> io::Result<Secret> {
        super::read_or_make(home, &User::me()?)
    }

    /// A home directory of a test's own.
    struct Home(PathBuf);

    impl Home {
        fn new() -> Self {
            static NUMBER: AtomicU32 = AtomicU32::new(0);
            let number = NUMBER.fetch_add(1, Ordering::Relaxed);
            let home = env::temp_dir().join(format!("ar-key-{}-{number}", process::id()));
            paths::make_private_dir(&home).unwrap();
            Self(home)
        }

        fn file(&self) -> PathBuf {
            self.0.join(FILE)
        }
    }

    impl Drop for Home {
        fn drop(&mut self) {
            fs::remove_dir_all(&self.0).ok();
        }
    }

    #[test]
    fn a_key_is_made_once_and_kept() {
        let home = Home::new();
        assert_eq!(read(&home.0).unwrap_err().kind(), io::ErrorKind::NotFound);
        let made = read_or_make(&home.0).unwrap();
        paths::check_private(&home.file()).unwrap();
        for key in [read(&home.0), read_or_make(&home.0), read(&home.0)] {
            assert_eq!(key.unwrap().reveal(), made.reveal());
        }
        let other = Home::new();
        assert_ne!(read_or_make(&other.0).unwrap().reveal(), made.reveal());
    }

    #[test]
    fn a_key_that_somebody_wrote_by_hand_is_kept() {
        for end in ["", "\n", "\r\n"] {
            let home = Home::new();
            let text = format!("{}{end}", "0123456789abcdef".repeat(4));
            paths::write_private_file(&home.file(), text.as_bytes()).unwrap();
            assert_eq!(read_or_make(&home.0).unwrap().reveal(), text.trim_end());
            assert_eq!(fs::read_to_string(home.file()).unwrap(), text);
        }
    }

    #[test]
    fn what_is_no_key_is_replaced_and_not_repeated() {
        let long = "a".repeat(10_000);
        for wrong in [&b""[..], b"\n", b"planted", &[0xff; 64], long.as_bytes()] {
            let home = Home::new();
            paths::create_private_file(&home.file()).unwrap().write_all(wrong).unwrap();
            let said = read(&home.0).unwrap_err().to_string();
            assert!(said.ends_with("operator.key: it holds no key"), "{said}");
            let made = read_or_make(&home.0).unwrap();
            assert_eq!(read(&home.0).unwrap().reveal(), made.reveal());
        }
    }

    #[test]
    fn a_directory_in_its_place_is_left_and_named() {
        let home = Home::new();
        fs::create_dir(home.file()).unwrap();
        for refused in [read(&home.0), read_or_make(&home.0)] {
            let said = refused.unwrap_err().to_string();
            assert!(said.contains("operator.key"), "{said}");
        }
        assert!(home.file().is_dir());
    }
}
