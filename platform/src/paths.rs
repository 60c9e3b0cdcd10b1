//! Private files and directories: the paths of a program's data, and their protection from others.

#[cfg(unix)]
#[path = "paths/unix.rs"]
mod imp;
#[cfg(windows)]
#[path = "paths/windows.rs"]
mod imp;

use std::{
    env,
    fs::{self, File},
    io::{self, Write as _},
    path::{self, Path, PathBuf},
    process,
    sync::atomic::{AtomicU64, Ordering},
};

use crate::{naming, peer::User, refusal};

/// The directory for the data that Agent Relay keeps between runs, by each system's convention:
/// `$XDG_STATE_HOME/agent-relay` or `~/.local/state/agent-relay`; `~/Library/Application
/// Support/agent-relay`; `%LOCALAPPDATA%\agent-relay`. It may not exist yet.
///
/// # Errors
/// If the system does not report this user's home directory.
pub fn home() -> io::Result<PathBuf> {
    Ok(imp::data_directory()?.join("agent-relay"))
}

/// This process's working directory.
///
/// # Errors
/// If it was removed, or the system does not report it.
pub fn current_directory() -> io::Result<PathBuf> {
    env::current_dir().map_err(without_directory)
}

/// Makes a path absolute, based on this process's working directory. Links are not followed.
///
/// # Errors
/// As [`current_directory`], if the path is relative; and if it is empty.
pub fn absolute(path: impl AsRef<Path>) -> io::Result<PathBuf> {
    path::absolute(path).map_err(without_directory)
}

fn without_directory(error: io::Error) -> io::Error {
    match error.kind() {
        io::ErrorKind::NotFound => {
            let sentence = "the current directory was removed; change to one that exists";
            refusal(io::ErrorKind::NotFound, sentence)
        }
        io::ErrorKind::InvalidInput => error,
        _ => naming("look for the current directory")(error),
    }
}

/// The [`home`] of another user.
///
/// # Errors
/// `Unsupported` where only that user can make the directory; and if the system does not report the
/// directory.
pub fn home_of(user: &User) -> io::Result<PathBuf> {
    if User::me()? == *user {
        return home();
    }
    Ok(imp::data_directory_of(user)?.join("agent-relay"))
}

/// Checks that this process, if it is root's, leaves no file in a directory of another user, who
/// could not change it: the files of `sudo` in a home. A missing directory would be made in the
/// nearest one above it. Other users' processes are not checked, nor are those of Windows.
///
/// # Errors
/// `PermissionDenied`, with a remedy.
pub fn check_not_anothers(directory: &Path) -> io::Result<()> {
    imp::check_not_anothers(directory)
}

/// Makes a directory (and its parents) that only this user can read or enter. An existing directory
/// is never changed, and is an error if it is not private.
///
/// # Errors
/// If it cannot be made; `PermissionDenied` as [`check_private`]; `Unsupported` if it is on another
/// machine (known on Windows only).
pub fn make_private_dir(path: &Path) -> io::Result<()> {
    imp::check_local(path)?;
    match fs::metadata(path) {
        Ok(metadata) if metadata.is_dir() => check_private(path),
        Ok(_) => Err(refusal(
            io::ErrorKind::NotADirectory,
            format!("{} is not a directory; choose another, or move it away", path.display()),
        )),
        Err(error) if error.kind() == io::ErrorKind::NotFound => {
            make_with_parents(path).map_err(naming(format!("make {}", path.display())))?;
            check_private(path)
        }
        Err(error) => Err(naming(path.display())(error)),
    }
}

/// Makes the private directory of another user, which an administrator can do.
///
/// # Errors
/// `Unsupported` where only that user can make the directory; else as [`make_private_dir`].
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

/// Makes a new file that only this user can read or write. The umask has no effect.
///
/// # Errors
/// `AlreadyExists` if the name is taken.
pub fn create_private_file(path: &Path) -> io::Result<File> {
    imp::create_file(path).map_err(naming(format!("make {}", path.display())))
}

/// Opens a private file for reading and writing. Makes the file if it is missing.
///
/// # Errors
/// If it cannot be made or opened.
pub fn open_private_file(path: &Path) -> io::Result<File> {
    imp::open_file(path).map_err(naming(format!("open {}", path.display())))
}

/// Opens a private file as [`open_private_file`] does. If the file is made now, `reader` may read
/// it, too.
///
/// # Errors
/// `Unsupported` if the reader is another user and this system has no such files; else as
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

/// Opens a regular file of untrusted origin for reading. Never blocks, as opening a named pipe
/// would.
///
/// # Errors
/// If it cannot be opened, or is not a regular file.
pub fn open_file_of_others(path: &Path) -> io::Result<File> {
    let file = imp::open_without_waiting(path).map_err(naming(path.display()))?;
    if file.metadata()?.is_file() {
        return Ok(file);
    }
    Err(refusal(io::ErrorKind::InvalidInput, format!("{} is not a regular file", path.display())))
}

/// Replaces the content of a private file atomically: a reader sees the old content or the new,
/// also after a crash.
///
/// # Errors
/// If the file cannot be written. It then has its old content.
pub fn write_private_file(path: &Path, bytes: &[u8]) -> io::Result<()> {
    write_with(path, bytes, create_private_file)
}

/// Replaces the content of a private file atomically, and lets `reader` read it, too.
///
/// # Errors
/// `Unsupported` if the reader is another user and this system has no such files; else as
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
            format!("{} does not end with the name of a file", path.display()),
        ));
    };
    let mut new = name.to_owned();
    new.push(format!(".{}-{}.new", process::id(), COUNTER.fetch_add(1, Ordering::Relaxed)));
    let new = path.with_file_name(new);
    let written = create(&new)
        .and_then(|mut file| file.write_all(bytes).and_then(|()| file.sync_all()))
        .and_then(|()| imp::replace(&new, path));
    if written.is_err() {
        // The first error is reported. A failure to remove the new file is ignored.
        let _ = fs::remove_file(&new);
    }
    written.map_err(naming(format!("write {}", path.display())))
}

/// Checks that a file or directory belongs to this user (or the system) and that no other user can
/// read or change it.
///
/// # Errors
/// `PermissionDenied`, with a remedy, if the check fails; and if the file or directory is missing.
pub fn check_private(path: &Path) -> io::Result<()> {
    check_private_among(path, &[])
}

/// Checks as [`check_private`] does, and also accepts `users` as owners and readers.
///
/// # Errors
/// As [`check_private`].
pub fn check_private_among(path: &Path, users: &[User]) -> io::Result<()> {
    imp::check_private(path, users)
}

/// Checks that a file belongs to this user (or the system) and that no other user can change it.
/// Others may read the file, on systems that separate reading from writing.
///
/// # Errors
/// As [`check_private`].
pub fn check_only_owner_writes(path: &Path) -> io::Result<()> {
    imp::check_only_owner_writes(path)
}

/// As [`check_only_owner_writes`], but permits a file of this user that the user's own group can
/// change, too: the group with the user's own id. Systems that give each user such a group let it
/// change new files. Any member of that group can change the file.
///
/// # Errors
/// As [`check_private`].
pub fn check_only_owner_or_own_group_writes(path: &Path) -> io::Result<()> {
    imp::check_only_owner_or_own_group_writes(path)
}

/// Makes the names of files in a directory survive a power failure, where the system supports that:
/// Windows does not.
///
/// # Errors
/// If the path is missing or is not a directory, or the disk fails.
pub fn sync_directory(directory: &Path) -> io::Result<()> {
    imp::sync_directory(directory).map_err(naming(directory.display()))
}

/// Checks that this user can make files in a directory, as far as that is known without making a
/// file.
///
/// # Errors
/// If the path is missing or is not a directory, or this user cannot make files in the directory.
pub fn check_writable(directory: &Path) -> io::Result<()> {
    let shown = directory.display();
    match fs::metadata(directory) {
        Ok(metadata) if metadata.is_dir() => {
            imp::check_writable(directory).map_err(naming(format!("make files in {shown}")))
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
        // Another process made the directory at the same time. The caller checks the directory.
        Err(error) if error.kind() == io::ErrorKind::AlreadyExists => Ok(()),
        made => made,
    }
}
