//! The rescue of an open database whose files were removed, renamed or replaced.
//!
//! The connection still has the whole content, but under no name: nobody could read it after the
//! daemon's end. So everything is written into a new file, which then gets the name.

use super::{
    error::StoreError,
    file::{self, with_suffix},
};
use platform::{
    foreground::FileId,
    paths::{make_private_dir, open_private_file, sync_directory},
};
use rusqlite::Connection;
use std::{
    fs,
    io::{self, ErrorKind},
    path::{Path, PathBuf},
};

/// The suffix of a file that is being written, and of a complete one that has no name yet.
const DRAFT: &str = ".saving";
const SAVED: &str = ".saved";

/// A database and its log: their paths, and the files that these named when they were opened.
#[derive(Debug)]
pub(super) struct Files([(PathBuf, FileId); 2]);

impl Files {
    /// The files that the paths of a database name. Opens nothing, since closing a file would drop
    /// SQLite's locks of it.
    pub(super) fn of(path: &Path) -> io::Result<Self> {
        let log = file::log_of(path);
        Ok(Self([(path.to_owned(), FileId::of(path)?), (log.clone(), FileId::of(&log)?)]))
    }

    /// Whether the paths still name these files.
    ///
    /// # Errors
    /// If the system does not tell, for another reason than a missing file.
    pub(super) fn are_in_place(&self) -> io::Result<bool> {
        for (path, id) in &self.0 {
            match FileId::of(path) {
                Ok(found) if found == *id => {}
                Err(error) if !is_absent(&error) => return Err(error),
                _ => return Ok(false),
            }
        }
        Ok(true)
    }

    /// Removes those that are in place.
    fn remove(&self) -> io::Result<()> {
        for (path, id) in &self.0 {
            if FileId::of(path).is_ok_and(|found| found == *id) {
                remove(path)?;
            }
        }
        Ok(())
    }
}

/// Writes the content of a connection into a new file next to `path`.
pub(super) fn save(connection: &Connection, path: &Path) -> Result<(), StoreError> {
    let draft = with_suffix(path, DRAFT);
    remove(&draft)?;
    file::copy(connection, &draft)?;
    open_private_file(&draft)?.sync_all()?;
    fs::rename(&draft, with_suffix(path, SAVED))?;
    Ok(sync_names(path)?)
}

/// Writes the content of a connection into a new directory next to the one of `path`, which another
/// process has. Returns the new file. A failure leaves nothing.
pub(super) fn keep_elsewhere(
    connection: &Connection,
    path: &Path,
    unix_ms: u64,
) -> Result<PathBuf, StoreError> {
    let home = path.parent().unwrap_or(path);
    let directory = file::unused_name(home, &format!(".kept-{}", file::stamp(unix_ms)));
    let kept = directory.join(path.file_name().unwrap_or_default());
    make_private_dir(&directory)?;
    let keep = || -> Result<(), StoreError> {
        save(connection, &kept)?;
        fs::rename(with_suffix(&kept, SAVED), &kept)?;
        sync_names(&kept)?;
        Ok(sync_names(home)?)
    };
    match keep() {
        Ok(()) => Ok(kept),
        Err(error) => {
            // That error says more than one of the removal.
            drop(fs::remove_dir_all(directory));
            Err(error)
        }
    }
}

/// Gives a saved file its name, if there is one. Whatever has the name is set aside, unless it is
/// one of `own`, whose content is saved. Returns the new path of what was set aside.
///
/// A crash in between leaves the saved file, and the next start goes on here.
pub(super) fn adopt(path: &Path, own: Option<&Files>, unix_ms: u64) -> io::Result<Option<PathBuf>> {
    let saved = with_suffix(path, SAVED);
    if !saved.exists() {
        return Ok(None);
    }
    if let Some(own) = own {
        own.remove()?;
    }
    let aside = file::set_aside(path, ".replaced", unix_ms)?;
    fs::rename(saved, path)?;
    sync_names(path)?;
    Ok(aside)
}

/// Removes a file, if it is there.
pub(super) fn remove(path: &Path) -> io::Result<()> {
    match fs::remove_file(path) {
        Err(error) if !is_absent(&error) => Err(error),
        _ => Ok(()),
    }
}

/// Whether a path, or a directory on its way, is missing.
fn is_absent(error: &io::Error) -> bool {
    matches!(error.kind(), ErrorKind::NotFound | ErrorKind::NotADirectory)
}

/// Makes the names of the files next to `path` survive a power failure.
pub(super) fn sync_names(path: &Path) -> io::Result<()> {
    sync_directory(path.parent().unwrap_or(path))
}
