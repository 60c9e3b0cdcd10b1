//! Unix: the file in the user's home that defines a service.

use std::{
    env, fs, io,
    path::{Path, PathBuf},
};

use crate::{naming, refusal};

/// The user's home directory.
pub(super) fn user_directory() -> io::Result<PathBuf> {
    env::home_dir().filter(|home| home.is_absolute()).ok_or_else(|| {
        refusal(io::ErrorKind::NotFound, "this user has no home directory; set HOME")
    })
}

/// The file's text, if it exists.
pub(super) fn read(path: &Path) -> io::Result<Option<String>> {
    match fs::read_to_string(path) {
        Ok(text) => Ok(Some(text)),
        Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(None),
        Err(error) => Err(naming(path.display())(error)),
    }
}

/// Makes the directory of a definition's file.
pub(super) fn make_room(path: &Path) -> io::Result<()> {
    path.parent().map_or(Ok(()), |directory| {
        fs::create_dir_all(directory).map_err(naming(format!("make {}", directory.display())))
    })
}

pub(super) fn write(path: &Path, text: &str) -> io::Result<()> {
    fs::write(path, text).map_err(naming(format!("write {}", path.display())))
}

pub(super) fn remove(path: &Path) -> io::Result<()> {
    fs::remove_file(path).map_err(naming(format!("remove {}", path.display())))
}
