//! The key file that an agent's own commands authenticate with. The file exists until the wrapper
//! ends.

use platform::paths;
use protocol::{name::Name, secret::Secret};
use std::{
    fs, io,
    path::{Path, PathBuf},
};

/// A key file, removed on drop.
#[derive(Debug)]
pub(super) struct KeyFile {
    pub(super) path: PathBuf,
    pub(super) key: Secret,
}

impl KeyFile {
    /// Writes an agent's key file, replacing one left by an earlier wrapper.
    pub(super) fn create(directory: &Path, name: &Name, key: &Secret) -> io::Result<Self> {
        paths::make_private_dir(directory)?;
        let path = directory.join(format!("{name}.key"));
        let line = format!("{}\n", key.reveal());
        paths::write_private_file(&path, line.as_bytes())?;
        Ok(Self { path, key: key.clone() })
    }
}

impl Drop for KeyFile {
    fn drop(&mut self) {
        // Another wrapper may hold the name by now, and have replaced the file.
        let there = fs::read_to_string(&self.path);
        let is_own = there.is_ok_and(|text| text.trim_end() == self.key.reveal());
        if is_own && let Err(error) = fs::remove_file(&self.path) {
            tracing::warn!("{} cannot be removed: {error}", self.path.display());
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::{env, process};

    #[test]
    fn key_file_is_private_and_removed_unless_replaced() {
        let directory = env::temp_dir().join(format!("ar-key-file-{}", process::id()));
        let name = Name::parse("Ann").unwrap();
        let make = |bits| KeyFile::create(&directory, &name, &Secret::from_random(bits)).unwrap();
        let first = make([1; 32]);
        let path = first.path.clone();
        paths::check_private(&path).unwrap();
        assert_eq!(fs::read_to_string(&path).unwrap().trim_end(), "01".repeat(32));
        let second = make([2; 32]);
        drop(first);
        assert_eq!(fs::read_to_string(&path).unwrap().trim_end(), "02".repeat(32));
        drop(second);
        assert!(!path.exists());
        fs::remove_dir(&directory).unwrap();
    }
}
