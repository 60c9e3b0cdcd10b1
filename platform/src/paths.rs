//! Where a program keeps its data, and how it keeps them from other users.

#[cfg(unix)]
#[path = "paths/unix.rs"]
mod imp;
#[cfg(windows)]
#[path = "paths/windows.rs"]
mod imp;

use std::{
    fs::{self, File},
    io::{self, Write as _},
    path::{Path, PathBuf},
    process,
    sync::atomic::{AtomicU64, Ordering},
};

use crate::{naming, peer::User, refusal};

/// The directory for what Agent Relay keeps between runs, by each system's convention:
/// `$XDG_STATE_HOME/agent-relay` or `~/.local/state/agent-relay`;
/// `~/Library/Application Support/agent-relay`; `%LOCALAPPDATA%\agent-relay`. It may not exist yet.
///
/// # Errors
/// If the system does not say where this user's home is.
pub fn home() -> io::Result<PathBuf> {
    Ok(imp::data_directory()?.join("agent-relay"))
}

/// The same directory of another user's.
///
/// # Errors
/// `Unsupported` where a user's files are his own to make; and if the system does not say where they are.
pub fn home_of(user: &User) -> io::Result<PathBuf> {
    if User::me()? == *user {
        return home();
    }
    Ok(imp::data_directory_of(user)?.join("agent-relay"))
}

/// Makes a directory (and its parents) that only this user can read or enter. One that is there
/// already is accepted only if it is so, and never changed: it may be somebody's own.
///
/// # Errors
/// If it cannot be made; `PermissionDenied` as [`check_private`].
pub fn make_private_dir(path: &Path) -> io::Result<()> {
    match fs::metadata(path) {
        Ok(metadata) if metadata.is_dir() => check_private(path),
        Ok(_) => Err(refusal(
            io::ErrorKind::NotADirectory,
            format!("{} is not a directory: choose another, or move it away", path.display()),
        )),
        Err(error) if error.kind() == io::ErrorKind::NotFound => {
            make_with_parents(path).map_err(naming(format!("make {}", path.display())))?;
            check_private(path)
        }
        Err(error) => Err(naming(path.display())(error)),
    }
}

/// The same for another user's directory, which an administrator may make for him.
///
/// # Errors
/// `Unsupported` where nobody makes another user's directories; else as [`make_private_dir`].
pub fn make_private_dir_of(path: &Path, user: &User) -> io::Result<()> {
    if User::me()? == *user {
        return make_private_dir(path);
    }
    match imp::make_dir_of(path, user) {
        Err(error) if error.kind() == io::ErrorKind::AlreadyExists => {}
        made => made.map_err(naming(format!("make {}", path.display())))?,
    }
    check_private_among(path, std::slice::from_ref(user))
}

/// Makes a new file that only this user can read or write, whatever the umask.
///
/// # Errors
/// `AlreadyExists` if something of that name is there.
pub fn create_private_file(path: &Path) -> io::Result<File> {
    imp::create_file(path).map_err(naming(format!("make {}", path.display())))
}

/// Opens a file of this user's for reading and writing, making it if it is not there.
///
/// # Errors
/// If it cannot be made or opened.
pub fn open_private_file(path: &Path) -> io::Result<File> {
    imp::open_file(path).map_err(naming(format!("open {}", path.display())))
}

/// The same, of a file that one more user may read, if it is made now.
///
/// # Errors
/// `Unsupported` if this system has no such files and the reader is not this user; else as
/// [`open_private_file`].
pub fn open_private_file_for(path: &Path, reader: &User) -> io::Result<File> {
    if User::me()? == *reader {
        return open_private_file(path);
    }
    match imp::create_file_for(path, reader) {
        Err(error) if error.kind() == io::ErrorKind::AlreadyExists => open_private_file(path),
        made => made.map_err(naming(format!("make {}", path.display()))),
    }
}

/// Opens a file for reading that somebody else may have put there, and nothing that is none: who opens a
/// pipe waits for its other end.
///
/// # Errors
/// If it can't be opened, or is no file.
pub fn open_file_of_others(path: &Path) -> io::Result<File> {
    let file = imp::open_without_waiting(path).map_err(naming(path.display()))?;
    if file.metadata()?.is_file() {
        return Ok(file);
    }
    Err(refusal(io::ErrorKind::InvalidInput, format!("{} is no file", path.display())))
}

/// Puts `bytes` into a file that only this user can read or write, all or nothing: a reader sees the
/// old content or the new, and so does whoever looks after a crash.
///
/// # Errors
/// If it cannot be written; the old content is there then.
pub fn write_private_file(path: &Path, bytes: &[u8]) -> io::Result<()> {
    write_with(path, bytes, create_private_file)
}

/// The same, of a file that one more user may read.
///
/// # Errors
/// `Unsupported` if this system has no such files and the reader is not this user; else as
/// [`write_private_file`].
pub fn write_private_file_for(path: &Path, bytes: &[u8], reader: &User) -> io::Result<()> {
    if User::me()? == *reader {
        return write_private_file(path, bytes);
    }
    write_with(path, bytes, |new| {
        imp::create_file_for(new, reader).map_err(naming(format!("make {}", new.display())))
    })
}

fn write_with(
    path: &Path,
    bytes: &[u8],
    create: impl FnOnce(&Path) -> io::Result<File>,
) -> io::Result<()> {
    static COUNTER: AtomicU64 = AtomicU64::new(0);
    let Some(name) = path.file_name() else {
        return Err(refusal(
            io::ErrorKind::InvalidInput,
            format!("{} is not the name of a file", path.display()),
        ));
    };
    let mut new = name.to_owned();
    new.push(format!(".{}-{}.new", process::id(), COUNTER.fetch_add(1, Ordering::Relaxed)));
    let new = path.with_file_name(new);
    let written = create(&new)
        .and_then(|mut file| file.write_all(bytes).and_then(|()| file.sync_all()))
        .and_then(|()| imp::replace(&new, path));
    if written.is_err() {
        // The first error is the one to tell; a leftover of ours is no reason for another.
        let _ = fs::remove_file(&new);
    }
    written.map_err(naming(format!("write {}", path.display())))
}

/// Checks that a file or directory belongs to this user (or the system) and that nobody else can
/// read or change it.
///
/// # Errors
/// `PermissionDenied` with a sentence that says how to make it so; or if it is not there.
pub fn check_private(path: &Path) -> io::Result<()> {
    check_private_among(path, &[])
}

/// The same where some users are as good as this one.
///
/// # Errors
/// As [`check_private`]'s.
pub fn check_private_among(path: &Path, users: &[User]) -> io::Result<()> {
    imp::check_private(path, users)
}

/// Checks that a file belongs to this user (or the system) and that nobody else can change it. Others may
/// read it, where a system tells the one from the other.
///
/// # Errors
/// As [`check_private`]'s.
pub fn check_unchangeable(path: &Path) -> io::Result<()> {
    imp::check_unchangeable(path)
}

/// Checks that this user can make files in a directory, as far as that shows without making one.
///
/// # Errors
/// With a sentence, if it is not there, is no directory, or takes no files of this user's.
pub fn check_writable(directory: &Path) -> io::Result<()> {
    let shown = directory.display();
    match fs::metadata(directory) {
        Ok(metadata) if metadata.is_dir() => {
            imp::check_writable(directory).map_err(naming(format!("{shown} can't be written to")))
        }
        Ok(_) => Err(refusal(io::ErrorKind::NotADirectory, format!("{shown} is not a directory"))),
        Err(error) if error.kind() == io::ErrorKind::NotFound => {
            Err(refusal(io::ErrorKind::NotFound, format!("there is no directory {shown}")))
        }
        Err(error) => Err(naming(shown)(error)),
    }
}

fn make_with_parents(path: &Path) -> io::Result<()> {
    if let Some(parent) = path.parent()
        && !parent.as_os_str().is_empty()
        && !parent.exists()
    {
        make_with_parents(parent)?;
    }
    match imp::make_dir(path) {
        // Another made it meanwhile, which is as good; the caller checks it.
        Err(error) if error.kind() == io::ErrorKind::AlreadyExists => Ok(()),
        made => made,
    }
}
