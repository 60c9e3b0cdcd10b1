//! Making the operator's key, at the first start of a daemon in its home.

use client::home::operator_key::{FILE, read_among};
use platform::{paths, peer::User, random};
use protocol::secret::Secret;
use std::{io, path::Path, slice};

/// Reads the key of the home whose lock is held. A missing or invalid key is replaced by a new one.
pub(super) fn read_or_make(home: &Path, owner: &User) -> io::Result<Secret> {
    match read_among(home, slice::from_ref(owner)) {
        Ok(key) => return Ok(key),
        Err(error) if error.kind() == io::ErrorKind::NotFound => {}
        Err(error) => tracing::warn!("the operator's key is invalid and is replaced: {error}"),
    }
    let key = Secret::from_random(random::bytes()?);
    write(home, &key, owner)?;
    Ok(key)
}

/// Writes the key into the home, readable for the owner.
pub(super) fn write(home: &Path, key: &Secret, owner: &User) -> io::Result<()> {
    let line = format!("{}\n", key.reveal());
    paths::write_private_file_for(&home.join(FILE), line.as_bytes(), owner)
}

#[cfg(test)]
mod tests {
    use super::*;
    use client::home::operator_key::read;
    use std::{
        env, fs,
        io::Write,
        path::PathBuf,
        process,
        sync::atomic::{AtomicU32, Ordering},
    };

    fn read_or_make(home: &Path) -> io::Result<Secret> {
        super::read_or_make(home, &User::me()?)
    }

    /// A temporary home directory.
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
    fn key_is_created_once() {
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
    fn key_written_by_hand_is_kept() {
        for end in ["", "\n", "\r\n"] {
            let home = Home::new();
            let text = format!("{}{end}", "0123456789abcdef".repeat(4));
            paths::write_private_file(&home.file(), text.as_bytes()).unwrap();
            assert_eq!(read_or_make(&home.0).unwrap().reveal(), text.trim_end());
            assert_eq!(fs::read_to_string(home.file()).unwrap(), text);
        }
    }

    #[test]
    fn invalid_key_is_replaced_and_not_repeated_in_the_error() {
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
