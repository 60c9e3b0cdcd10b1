//! A lock on a file, which excludes all other processes of the same kind.
//!
//! The system releases the lock when the holder ends, however it ends. So a held lock *means* that
//! the holder is alive, and there is nothing to clean up after a crash. The file is empty. Only
//! its holder may remove it: otherwise a second process could lock a second file of the same name.

#[cfg(unix)]
#[path = "lock/unix.rs"]
mod imp;
#[cfg(windows)]
#[path = "lock/windows.rs"]
mod imp;

use std::{
    fs::{self, File, TryLockError},
    io,
    path::{Path, PathBuf},
    thread,
    time::Duration,
};

use crate::{naming, paths};

/// The attempts to take the lock. [`Lock::is_held`] of another process locks the file for some
/// microseconds, which must not be mistaken for a holder.
const ATTEMPTS: u32 = 10;
const RETRY: Duration = Duration::from_millis(5);

/// A lock, held until this value is dropped or the process ends.
#[derive(Debug)]
pub struct Lock {
    file: File,
    path: PathBuf,
}

impl Lock {
    /// Takes the lock at `path`, making the file (readable by its owner only) if it is not there;
    /// the directory must exist. Returns `None` if the lock is held, perhaps by this same process.
    ///
    /// # Errors
    /// If the file cannot be made, opened or locked (some network file systems have no locks).
    pub fn take(path: &Path) -> io::Result<Option<Self>> {
        for _ in 0..ATTEMPTS {
            let file = paths::open_private_file(path)?;
            match file.try_lock() {
                Ok(()) => {
                    let lock = Self { file, path: path.to_owned() };
                    // The file may have been replaced after it was opened.
                    if lock.is_current()? {
                        return Ok(Some(lock));
                    }
                }
                Err(TryLockError::WouldBlock) => thread::sleep(RETRY),
                Err(TryLockError::Error(error)) => return Err(cannot_lock(path, error)),
            }
        }
        Ok(None)
    }

    /// Removes the lock's file, and releases the lock. Use it for a lock that no process will need
    /// again: a process that takes the lock at this moment may have to try twice.
    ///
    /// # Errors
    /// If the file cannot be removed.
    pub fn remove(self) -> io::Result<()> {
        fs::remove_file(&self.path).map_err(naming(format!("remove {}", self.path.display())))
    }

    /// Whether the lock at `path` is held. False if there is no file.
    ///
    /// # Errors
    /// If the file cannot be opened or locked.
    pub fn is_held(path: &Path) -> io::Result<bool> {
        let file = match File::options().read(true).write(true).open(path) {
            Ok(file) => file,
            Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(false),
            Err(error) => return Err(naming(format!("open {}", path.display()))(error)),
        };
        // With a shared lock, concurrent calls do not mistake each other for a holder.
        match file.try_lock_shared() {
            Ok(()) => Ok(false),
            Err(TryLockError::WouldBlock) => Ok(true),
            Err(TryLockError::Error(error)) => Err(cannot_lock(path, error)),
        }
    }

    /// Whether the locked file is still the file at the lock's path. If not, another process can
    /// take a lock at that path, and the holder should give up what the lock protects.
    ///
    /// # Errors
    /// If the system refuses to say.
    pub fn is_current(&self) -> io::Result<bool> {
        let current = match File::open(&self.path) {
            Ok(current) => current,
            Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(false),
            Err(error) => return Err(naming(format!("open {}", self.path.display()))(error)),
        };
        let same = imp::identity(&current)
            .and_then(|current| Ok(current == imp::identity(&self.file)?))
            .map_err(naming(format!("look at {}", self.path.display())))?;
        Ok(same)
    }
}

fn cannot_lock(path: &Path, error: io::Error) -> io::Error {
    let sentence = format!("lock {}: {error}; choose a directory on a local disk", path.display());
    io::Error::new(error.kind(), sentence)
}
