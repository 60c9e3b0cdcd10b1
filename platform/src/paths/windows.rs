//! Windows: owner and access list.

use std::{
    fs::{File, OpenOptions},
    io,
    os::windows::{fs::OpenOptionsExt as _, io::FromRawHandle as _},
    path::{Component, Path, PathBuf, Prefix, absolute},
    ptr::null_mut,
};

use windows_sys::Win32::{
    Foundation::{GENERIC_READ, GENERIC_WRITE, INVALID_HANDLE_VALUE},
    Storage::FileSystem::{
        CREATE_NEW, CreateFileW, FILE_ADD_FILE, FILE_ADD_SUBDIRECTORY, FILE_ATTRIBUTE_NORMAL,
        FILE_CREATION_DISPOSITION, FILE_FLAG_BACKUP_SEMANTICS, FILE_SHARE_DELETE, FILE_SHARE_READ,
        FILE_SHARE_WRITE, GetDriveTypeW, OPEN_ALWAYS,
    },
    System::WindowsProgramming::DRIVE_REMOTE,
};

use crate::{
    access, naming,
    peer::User,
    refusal, registry,
    security::{self, Descriptor, wide},
};

/// The attempts to replace a file that is open elsewhere, and the pause between them.
const REPLACE_ATTEMPTS: u32 = 50;
const REPLACE_PAUSE: std::time::Duration = std::time::Duration::from_millis(10);

/// The access of directories that administrators make for another user, in SDDL. An entry for that
/// user is appended.
const KEPT_FOR_OTHERS: &str = "O:BAD:P(A;OICI;GA;;;BA)(A;OICI;GA;;;SY)";

/// The registry key of the users' profiles.
const PROFILES: &str = r"SOFTWARE\Microsoft\Windows NT\CurrentVersion\ProfileList";

pub(crate) fn data_directory() -> io::Result<PathBuf> {
    std::env::var_os("LOCALAPPDATA")
        .map(PathBuf::from)
        .filter(|path| path.is_absolute())
        .ok_or_else(|| refusal(io::ErrorKind::NotFound, "this user has no directory for data"))
}

/// Refuses a directory on another machine. There, locks and the store's shared memory do not
/// exclude other machines, and SQLite's files may be damaged.
pub(crate) fn check_local(path: &Path) -> io::Result<()> {
    let path = absolute(path).map_err(naming(path.display()))?;
    // Links to another machine are seen in what exists of the path.
    let real = || path.ancestors().find_map(|existing| existing.canonicalize().ok());
    if !is_remote(&path) && !real().is_some_and(|real| is_remote(&real)) {
        return Ok(());
    }
    Err(refusal(
        io::ErrorKind::Unsupported,
        format!(
            "{} is on another machine, where files cannot be locked reliably; choose a directory on a local \
             disk",
            path.display()
        ),
    ))
}

fn is_remote(path: &Path) -> bool {
    let Some(Component::Prefix(prefix)) = path.components().next() else { return false };
    match prefix.kind() {
        Prefix::UNC(..) | Prefix::VerbatimUNC(..) => true,
        Prefix::Disk(letter) | Prefix::VerbatimDisk(letter) => {
            let root = wide(format!("{}:\\", char::from(letter)));
            // SAFETY: the text ends with a zero.
            unsafe { GetDriveTypeW(root.as_ptr()) == DRIVE_REMOTE }
        }
        _ => false,
    }
}

/// The default path of a user's data directory. The path may have been changed, which the system
/// would tell only within that user's own logon.
pub(crate) fn data_directory_of(user: &User) -> io::Result<PathBuf> {
    let key = format!(r"{PROFILES}\{user}");
    let profile = registry::text(&key, "ProfileImagePath").map_err(naming(format!(
        "look for the profile of {user}, who has to log on once before"
    )))?;
    Ok(PathBuf::from(profile).join(r"AppData\Local"))
}

pub(crate) fn make_dir(path: &Path) -> io::Result<()> {
    access::make_dir_with(path, &Descriptor::private()?)
}

pub(crate) fn make_dir_of(path: &Path, user: &User) -> io::Result<()> {
    access::make_dir_with(path, &Descriptor::of(&format!("{KEPT_FOR_OTHERS}(A;OICI;GA;;;{user})"))?)
}

/// Replaces a file. A file that is open, for example for a virus scan, cannot be replaced, so the
/// attempt is repeated.
pub(crate) fn replace(new: &Path, old: &Path) -> io::Result<()> {
    for _ in 1..REPLACE_ATTEMPTS {
        match std::fs::rename(new, old) {
            Err(error) if error.kind() == io::ErrorKind::PermissionDenied => {
                std::thread::sleep(REPLACE_PAUSE);
            }
            result => return result,
        }
    }
    std::fs::rename(new, old)
}

pub(crate) fn create_file(path: &Path) -> io::Result<File> {
    open(path, CREATE_NEW, &Descriptor::private()?)
}

/// Makes a file that another user can read, as a service or an administrator can do.
pub(crate) fn create_file_for(path: &Path, reader: &User) -> io::Result<File> {
    let base = if security::am_service()? {
        let me = security::my_sid()?;
        format!("O:{me}D:P(A;;GA;;;{me})(A;;GA;;;SY)(A;;GA;;;BA)")
    } else {
        KEPT_FOR_OTHERS.to_owned()
    };
    open(path, CREATE_NEW, &Descriptor::of(&format!("{base}(A;;GR;;;{reader})"))?)
}

pub(crate) fn open_file(path: &Path) -> io::Result<File> {
    open(path, OPEN_ALWAYS, &Descriptor::private()?)
}

/// Windows has no call for this.
pub(crate) const fn sync_directory(_: &Path) -> io::Result<()> {
    Ok(())
}

/// Requests a handle with the rights to make files and directories. FILE_FLAG_BACKUP_SEMANTICS is
/// needed to open a directory.
pub(crate) fn check_writable(directory: &Path) -> io::Result<()> {
    let mut options = OpenOptions::new();
    options.access_mode(FILE_ADD_FILE | FILE_ADD_SUBDIRECTORY);
    options.custom_flags(FILE_FLAG_BACKUP_SEMANTICS).open(directory).map(drop)
}

/// Opens a file. On Windows, named pipes are not in directories, so opening a path does not block.
pub(crate) fn open_without_waiting(path: &Path) -> io::Result<File> {
    File::open(path)
}

/// Checks nothing: what an administrator makes in another user's directory is that user's, too.
pub(crate) const fn check_not_anothers(_: &Path) -> io::Result<()> {
    Ok(())
}

pub(crate) fn check_private(path: &Path, users: &[User]) -> io::Result<()> {
    access::check_private(path, users)
}

pub(crate) fn check_only_owner_writes(path: &Path) -> io::Result<()> {
    access::check_only_owner_writes(path)
}

/// Windows has no groups of one user.
pub(crate) fn check_only_owner_or_own_group_writes(path: &Path) -> io::Result<()> {
    access::check_only_owner_writes(path)
}

fn open(path: &Path, how: FILE_CREATION_DISPOSITION, descriptor: &Descriptor) -> io::Result<File> {
    let name = wide(path);
    // SAFETY: the name ends with a zero, and the attributes live until after the call.
    let file = unsafe {
        CreateFileW(
            name.as_ptr(),
            GENERIC_READ | GENERIC_WRITE,
            FILE_SHARE_READ | FILE_SHARE_WRITE | FILE_SHARE_DELETE,
            &descriptor.attributes(),
            how,
            FILE_ATTRIBUTE_NORMAL,
            null_mut(),
        )
    };
    if file == INVALID_HANDLE_VALUE {
        return Err(access::naming_limit(path, access::FILE_UNITS_MAX)(io::Error::last_os_error()));
    }
    // SAFETY: the call has succeeded, so that the handle is open and ours.
    Ok(unsafe { File::from_raw_handle(file) })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn directory_on_another_machine_is_refused_without_a_look_at_it() {
        for path in [r"\\server\share\home", r"\\?\UNC\server\share\home"] {
            let error = check_local(Path::new(path)).unwrap_err();
            assert_eq!(error.kind(), io::ErrorKind::Unsupported);
            for word in [path, "local disk"] {
                assert!(error.to_string().contains(word), "{error}");
            }
        }
        check_local(&std::env::temp_dir().join("not here")).unwrap();
    }
}
