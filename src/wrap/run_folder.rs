//! The folder for the files of one run: the data that the agent's hooks need to find the wrapper,
//! and the CLI's settings for this run. It exists until the wrapper ends.

use platform::{paths, random};
use protocol::secret::Secret;
use serde::{Deserialize, Serialize};
use std::{
    fs, io,
    path::{Path, PathBuf},
};

/// The file that hooks get.
const WRAPPER_FILE: &str = "wrapper.json";

/// The number of digits behind the agent's name in the folder's name.
const DIGITS: usize = 8;

/// The address of a wrapper, and the key of its hooks.
#[derive(Serialize, Deserialize)]
pub(crate) struct WrapperAddress {
    /// The directory of the wrapper's endpoint.
    pub(crate) run_directory: PathBuf,
    /// The agent's name.
    pub(crate) name: String,
    /// The key of the agent's commands.
    pub(crate) key: Secret,
    /// Whether its hooks report the files that the agent edited to the wrappers.
    #[serde(default)]
    pub(crate) tells_edits: bool,
}

impl WrapperAddress {
    /// Reads the file that a hook got.
    ///
    /// # Errors
    /// If others may read the file, or it has another content.
    pub(crate) fn read(file: &Path) -> io::Result<Self> {
        paths::check_private(file)?;
        Ok(serde_json::from_slice(&fs::read(file)?)?)
    }
}

/// A folder, removed on drop.
#[derive(Debug)]
pub(super) struct RunFolder {
    pub(super) path: PathBuf,
}

impl RunFolder {
    /// Makes the folder of an agent, and removes the folders that earlier wrappers of this name
    /// have left.
    pub(super) fn create(address: &WrapperAddress) -> io::Result<Self> {
        let WrapperAddress { run_directory, name, .. } = address;
        remove_left_folders(run_directory, name);
        let digits = Secret::from_random(random::bytes()?);
        let path = run_directory.join(format!("{name}-{}", &digits.reveal()[..DIGITS]));
        paths::make_private_dir(&path)?;
        let folder = Self { path };
        folder.write(WRAPPER_FILE, &serde_json::to_string(address)?)?;
        Ok(folder)
    }

    pub(super) fn write(&self, name: &str, text: &str) -> io::Result<()> {
        paths::write_private_file(&self.path.join(name), text.as_bytes())
    }

    /// The file with the [`WrapperAddress`].
    pub(super) fn wrapper_file(&self) -> PathBuf {
        self.path.join(WRAPPER_FILE)
    }
}

impl Drop for RunFolder {
    fn drop(&mut self) {
        remove(&self.path);
    }
}

fn remove_left_folders(run_directory: &Path, name: &str) {
    // A directory that cannot be read has nothing to remove.
    for entry in fs::read_dir(run_directory).into_iter().flatten().flatten() {
        let file = entry.file_name();
        // Names are the same in upper and lower case.
        let parts = file.to_str().and_then(|file| file.split_at_checked(name.len()));
        let rest = parts.filter(|(of, _)| of.eq_ignore_ascii_case(name)).map(|(_, rest)| rest);
        let digits = rest.and_then(|rest| rest.strip_prefix('-'));
        let is_left = |digits: &str| {
            digits.len() == DIGITS && digits.bytes().all(|digit| digit.is_ascii_hexdigit())
        };
        if digits.is_some_and(is_left) && entry.file_type().is_ok_and(|kind| kind.is_dir()) {
            remove(&entry.path());
        }
    }
}

fn remove(folder: &Path) {
    if let Err(error) = fs::remove_dir_all(folder) {
        tracing::warn!("{} cannot be removed: {error}", folder.display());
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::{env, process};

    #[test]
    fn folder_is_private_and_the_only_one_of_its_agent() {
        let directory = env::temp_dir().join(format!("ar-run-folder-{}", process::id()));
        paths::make_private_dir(&directory).unwrap();
        let key = Secret::from_random([1; 32]);
        let address = |name: &str| WrapperAddress {
            run_directory: directory.clone(),
            name: name.to_owned(),
            key: key.clone(),
            tells_edits: true,
        };
        let of_other = RunFolder::create(&address("Ann-0011aabb")).unwrap();
        let left = RunFolder::create(&address("Ann")).unwrap();
        let left_path = left.path.clone();
        std::mem::forget(left);
        let folder = RunFolder::create(&address("Ann")).unwrap();
        assert!(!left_path.exists() && of_other.path.exists());
        paths::check_private(&folder.path).unwrap();
        let address = WrapperAddress::read(&folder.wrapper_file()).unwrap();
        assert_eq!((address.name.as_str(), address.key), ("Ann", key));
        assert_eq!(address.run_directory, directory);
        drop((folder, of_other));
        fs::remove_dir(&directory).unwrap();
    }
}
