//! Windows: owner and access list.

use std::{
    fs::{File, OpenOptions},
    io,
    os::windows::{fs::OpenOptionsExt as _, io::FromRawHandle as _},
    path::{Path, PathBuf},
    ptr::null_mut,
};

use windows_sys::Win32::{
    Foundation::{GENERIC_READ, GENERIC_WRITE, INVALID_HANDLE_VALUE},
    Storage::FileSystem::{
        CREATE_NEW, CreateDirectoryW, CreateFileW, FILE_ADD_FILE, FILE_ADD_SUBDIRECTORY,
        FILE_ATTRIBUTE_NORMAL, FILE_CREATION_DISPOSITION, FILE_FLAG_BACKUP_SEMANTICS,
        FILE_SHARE_DELETE, FILE_SHARE_READ, FILE_SHARE_WRITE, OPEN_ALWAYS,
    },
};

use crate::{
    naming,
    peer::User,
    refusal,
    security::{self, Descriptor, checked, wide},
};

/// A file that somebody reads is tried to be replaced so often, with so much time between.
const REPLACE_ATTEMPTS: u32 = 50;
const REPLACE_PAUSE: std::time::Duration = std::time::Duration::from_millis(10);

/// Stand-ins in an access list for whoever the owner is.
const OWNERS: [&str; 2] = ["S-1-3-0", "S-1-3-4"];

pub(crate) fn data_directory() -> io::Result<PathBuf> {
    std::env::var_os("LOCALAPPDATA")
        .map(PathBuf::from)
        .filter(|path| path.is_absolute())
        .ok_or_else(|| {
            refusal(
                io::ErrorKind::NotFound,
                "this user has no directory for data: set LOCALAPPDATA, or name a directory",
            )
        })
}

pub(crate) fn make_dir(path: &Path) -> io::Result<()> {
    let (name, descriptor) = (wide(path), Descriptor::private()?);
    // SAFETY: the name ends with a zero, and the attributes live until after the call.
    checked(unsafe { CreateDirectoryW(name.as_ptr(), &descriptor.attributes()) })
}

/// Who reads the old file at this moment, a scanner of viruses say, keeps it from being replaced.
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
    open(path, CREATE_NEW)
}

pub(crate) fn open_file(path: &Path) -> io::Result<File> {
    open(path, OPEN_ALWAYS)
}

/// A handle with the rights that it takes; that flag is what opens a directory.
pub(crate) fn check_writable(directory: &Path) -> io::Result<()> {
    let mut options = OpenOptions::new();
    options.access_mode(FILE_ADD_FILE | FILE_ADD_SUBDIRECTORY);
    options.custom_flags(FILE_FLAG_BACKUP_SEMANTICS).open(directory).map(drop)
}

/// Pipes have no names in directories.
pub(crate) fn open_without_waiting(path: &Path) -> io::Result<File> {
    File::open(path)
}

pub(crate) fn check_private(path: &Path) -> io::Result<()> {
    let (owner, allowed) = security::access(path).map_err(naming(path.display()))?;
    let denied = |sentence| Err(refusal(io::ErrorKind::PermissionDenied, sentence));
    let trusted = |sid: &str| User::of_sid(sid.to_owned()).is_trusted_server();
    if !trusted(&owner) {
        return denied(format!("{} belongs to the user {owner}: choose another", path.display()));
    }
    let stranger = allowed.map_or(Some("everybody".to_owned()), |allowed| {
        allowed.into_iter().find(|sid| !trusted(sid) && !OWNERS.contains(&sid.as_str()))
    });
    match stranger {
        None => Ok(()),
        Some(stranger) => denied(format!(
            "{0} is open to others ({stranger}): run icacls \"{0}\" /inheritance:r /grant:r \"%USERNAME%\":(F)",
            path.display()
        )),
    }
}

/// The same: an access list's entries are not looked into.
pub(crate) fn check_unchangeable(path: &Path) -> io::Result<()> {
    check_private(path)
}

fn open(path: &Path, how: FILE_CREATION_DISPOSITION) -> io::Result<File> {
    let (name, descriptor) = (wide(path), Descriptor::private()?);
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
        return Err(io::Error::last_os_error());
    }
    // SAFETY: the call has succeeded, so that the handle is open and ours.
    Ok(unsafe { File::from_raw_handle(file) })
}
