//! The mark `daemon.stopped` in a home, which says that its daemon was stopped on purpose. While
//! the mark exists, only a person's command starts a daemon.
//!
//! The daemon sets the mark when it is told to stop, while it holds the home's lock, and every
//! daemon that starts clears it. A daemon that is killed, fails, or is replaced by another does not
//! set the mark.

use crate::config::is_absent;
use platform::paths;
use std::{fs, io, path::Path};

/// The name of the mark, an empty file in the home directory.
pub const FILE: &str = "daemon.stopped";

/// The reason of a stop on purpose, after which no wrapper starts the daemon again.
pub(super) const ON_PURPOSE: &str = "stop";

/// Sets the mark, if it is not set already.
///
/// # Errors
/// If the file cannot be created.
pub fn mark(home: &Path) -> io::Result<()> {
    paths::open_private_file(&home.join(FILE)).map(drop)
}

/// Clears the mark, if it is set.
///
/// # Errors
/// If the file cannot be removed; the error names it.
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
/// If the home cannot be read.
pub fn is_marked(home: &Path) -> io::Result<bool> {
    fs::exists(home.join(FILE))
}
