//! daemon.stopped: the mark that a home's daemon was stopped on purpose. While it is there, only a
//! person's command starts a daemon.
//!
//! The daemon sets it when it is told to stop, while it holds the home's lock, and every daemon
//! that starts clears it. A daemon that is killed, fails, or makes room for another sets none.

use crate::config::is_absent;
use platform::paths;
use std::{fs, io, path::Path};

/// The file's name in the home directory. It is empty.
pub const FILE: &str = "daemon.stopped";

/// The reason of a stop after which no daemon follows.
pub(super) const ON_PURPOSE: &str = "stop";

/// Sets the mark; success where it is set.
///
/// # Errors
/// If the file can't be made.
pub fn mark(home: &Path) -> io::Result<()> {
    paths::open_private_file(&home.join(FILE)).map(drop)
}

/// Clears the mark; success where there is none.
///
/// # Errors
/// If the file can't be removed; the sentence names it.
pub fn clear(home: &Path) -> io::Result<()> {
    let path = home.join(FILE);
    match fs::remove_file(&path) {
        Err(error) if !is_absent(&error) => {
            Err(io::Error::new(error.kind(), format!("remove {}: {error}", path.display())))
        }
        _ => Ok(()),
    }
}

/// Whether the mark is set.
///
/// # Errors
/// If the home can't be looked into.
pub fn is_marked(home: &Path) -> io::Result<bool> {
    fs::exists(home.join(FILE))
}
