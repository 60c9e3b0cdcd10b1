//! Unix: owner and mode.

use std::{
    ffi::CString,
    fs::{self, DirBuilder, File, OpenOptions, Permissions},
    io, mem,
    os::unix::{
        ffi::OsStrExt as _,
        fs::{DirBuilderExt as _, MetadataExt as _, OpenOptionsExt as _, PermissionsExt as _},
    },
    path::{Path, PathBuf},
};

use crate::{naming, peer::User, refusal, shell::quoted};

pub(crate) fn data_directory() -> io::Result<PathBuf> {
    #[cfg(not(target_os = "macos"))]
    if let Some(state) = std::env::var_os("XDG_STATE_HOME").map(PathBuf::from)
        && state.is_absolute()
    {
        return Ok(state);
    }
    let home = std::env::home_dir()
        .filter(|home| home.is_absolute())
        .ok_or_else(|| refusal(io::ErrorKind::NotFound, "this user has no home directory"))?;
    #[cfg(target_os = "macos")]
    let below = "Library/Application Support";
    #[cfg(not(target_os = "macos"))]
    let below = ".local/state";
    Ok(home.join(below))
}

/// Accepts every directory: the lock in it fails where a file system has no locks.
pub(crate) fn check_local(_: &Path) -> io::Result<()> {
    Ok(())
}

pub(crate) fn data_directory_of(_: &User) -> io::Result<PathBuf> {
    Err(unsupported_for_another_user())
}

pub(crate) fn make_dir(path: &Path) -> io::Result<()> {
    DirBuilder::new().mode(0o700).create(path)?;
    // The umask may have removed bits that the owner needs.
    fs::set_permissions(path, Permissions::from_mode(0o700))
}

pub(crate) fn make_dir_of(_: &Path, _: &User) -> io::Result<()> {
    Err(unsupported_for_another_user())
}

pub(crate) fn replace(new: &Path, old: &Path) -> io::Result<()> {
    fs::rename(new, old)
}

pub(crate) fn create_file(path: &Path) -> io::Result<File> {
    let file = options().create_new(true).open(path)?;
    // The umask may have removed bits here as well.
    file.set_permissions(Permissions::from_mode(0o600))?;
    Ok(file)
}

pub(crate) fn create_file_for(_: &Path, _: &User) -> io::Result<File> {
    Err(unsupported_for_another_user())
}

pub(crate) fn open_file(path: &Path) -> io::Result<File> {
    match create_file(path) {
        Err(error) if error.kind() == io::ErrorKind::AlreadyExists => options().open(path),
        made => made,
    }
}

pub(crate) fn open_without_waiting(path: &Path) -> io::Result<File> {
    OpenOptions::new().read(true).custom_flags(libc::O_NONBLOCK | libc::O_NOCTTY).open(path)
}

pub(crate) fn check_not_anothers(directory: &Path) -> io::Result<()> {
    let me = User::me()?;
    let Some((found, metadata)) =
        directory.ancestors().find_map(|path| Some((path, path.metadata().ok()?)))
    else {
        return Ok(());
    };
    let owner = User::of_uid(metadata.uid());
    if me != User::of_uid(0) || owner == me {
        return Ok(());
    }
    Err(refusal(
        io::ErrorKind::PermissionDenied,
        format!(
            "{} belongs to the user with id {owner}, and this is root; run this as that user, \
             without sudo, or set HOME to a directory of root's",
            found.display()
        ),
    ))
}

pub(crate) fn check_private(path: &Path, users: &[User]) -> io::Result<()> {
    check(path, users, 0o077, "is open to other users", "go=")
}

pub(crate) fn check_only_owner_writes(path: &Path) -> io::Result<()> {
    check(path, &[], 0o022, "can be changed by other users", "go-w")
}

pub(crate) fn check_only_owner_or_own_group_writes(path: &Path) -> io::Result<()> {
    let metadata = path.metadata().map_err(naming(path.display()))?;
    // SAFETY: the call has no preconditions.
    let user = unsafe { libc::geteuid() };
    let (forbidden, remedy) = match is_own_group(metadata.uid(), metadata.gid(), user) {
        true => (0o002, "o-w"),
        false => (0o022, "go-w"),
    };
    check(path, &[], forbidden, "can be changed by other users", remedy)
}

/// Whether a file of this owner and group is the user's, in the group with the user's id.
fn is_own_group(owner: u32, group: u32, user: u32) -> bool {
    owner == user && group == user
}

pub(crate) fn sync_directory(directory: &Path) -> io::Result<()> {
    File::open(directory)?.sync_all()
}

/// Checks the access with a system call, which considers read-only file systems. Also checks for
/// free space, since file systems such as /proc allow the access but have none.
pub(crate) fn check_writable(directory: &Path) -> io::Result<()> {
    let name = CString::new(directory.as_os_str().as_bytes())?;
    let wanted = libc::W_OK | libc::X_OK;
    // SAFETY: the name ends with a zero.
    if unsafe { libc::faccessat(libc::AT_FDCWD, name.as_ptr(), wanted, libc::AT_EACCESS) } != 0 {
        return Err(io::Error::last_os_error());
    }
    // SAFETY: all-zero is a valid value of the type, which consists of numbers.
    let mut system: libc::statvfs = unsafe { mem::zeroed() };
    // SAFETY: as above; the other pointer is to a value of ours that outlives the call.
    if unsafe { libc::statvfs(name.as_ptr(), &mut system) } != 0 {
        return Err(io::Error::last_os_error());
    }
    // SAFETY: the call has no preconditions.
    let is_root = unsafe { libc::geteuid() } == 0;
    // Some of the room may be for the system alone.
    if (if is_root { system.f_bfree } else { system.f_bavail }) == 0 {
        return Err(refusal(io::ErrorKind::StorageFull, "its file system has no room"));
    }
    Ok(())
}

/// Checks that the owner is trusted and that the mode has none of the bits of `forbidden`. The
/// error describes the file as `what`, and advises to run `chmod` with the argument `remedy`.
fn check(path: &Path, users: &[User], forbidden: u32, what: &str, remedy: &str) -> io::Result<()> {
    let metadata = path.metadata().map_err(naming(path.display()))?;
    let owner = User::of_uid(metadata.uid());
    if !owner.is_trusted_server() && !users.contains(&owner) {
        return Err(refusal(
            io::ErrorKind::PermissionDenied,
            format!("{} belongs to the user with id {owner}; choose another", path.display()),
        ));
    }
    if metadata.mode() & forbidden != 0 {
        return Err(refusal(
            io::ErrorKind::PermissionDenied,
            format!(
                "{} {what} (mode {:o}); run chmod {remedy} {}",
                path.display(),
                metadata.mode() & 0o7777,
                quoted(path)
            ),
        ));
    }
    Ok(())
}

fn unsupported_for_another_user() -> io::Error {
    refusal(
        io::ErrorKind::Unsupported,
        "this system does not support making files for another user",
    )
}

fn options() -> OpenOptions {
    let mut options = OpenOptions::new();
    options.read(true).write(true).mode(0o600).custom_flags(libc::O_NOFOLLOW);
    options
}

#[cfg(test)]
mod tests {
    use super::is_own_group;
    use crate::paths::{
        check_only_owner_or_own_group_writes, check_only_owner_writes, open_file_of_others,
    };
    use std::{
        ffi::CString,
        fs::{self, Permissions},
        io::Read as _,
        os::unix::{
            ffi::OsStrExt as _,
            fs::{MetadataExt as _, PermissionsExt as _},
        },
    };

    #[test]
    fn own_group_may_write_but_not_everybody() {
        let directory = std::env::temp_dir().join(format!("ar-group-{}", std::process::id()));
        fs::create_dir(&directory).unwrap();
        let file = directory.join("file");
        fs::write(&file, "words").unwrap();
        let metadata = fs::metadata(&file).unwrap();
        let has_own_group = metadata.gid() == metadata.uid();
        for (mode, is_permitted) in [(0o644, true), (0o664, has_own_group), (0o666, false)] {
            fs::set_permissions(&file, Permissions::from_mode(mode)).unwrap();
            let checked = check_only_owner_or_own_group_writes(&file);
            assert_eq!(checked.is_ok(), is_permitted, "mode {mode:o}: {checked:?}");
            let remedy = if has_own_group { "run chmod o-w" } else { "run chmod go-w" };
            let refused = checked.map_err(|error| error.to_string());
            assert!(!refused.is_err_and(|error| !error.contains(remedy)), "mode {mode:o}");
            assert_eq!(check_only_owner_writes(&file).is_ok(), mode == 0o644, "mode {mode:o}");
        }
        fs::remove_dir_all(&directory).unwrap();
    }

    /// A group of root's has other members than the user's own group.
    #[test]
    fn group_of_another_owner_is_not_the_users_own() {
        for (owner, group, is_own) in [(7, 7, true), (7, 8, false), (0, 0, false), (8, 8, false)] {
            assert_eq!(is_own_group(owner, group, 7), is_own, "{owner}:{group}");
        }
    }

    #[test]
    fn named_pipe_is_refused_without_blocking() {
        let directory = std::env::temp_dir().join(format!("ar-pipe-{}", std::process::id()));
        fs::create_dir(&directory).unwrap();
        let (pipe, file) = (directory.join("pipe"), directory.join("file"));
        let name = CString::new(pipe.as_os_str().as_bytes()).unwrap();
        // SAFETY: the name ends with a zero.
        assert_eq!(unsafe { libc::mkfifo(name.as_ptr(), 0o600) }, 0);
        fs::write(&file, "words").unwrap();
        let refused = open_file_of_others(&pipe).unwrap_err().to_string();
        assert_eq!(refused, format!("{} is not a regular file", pipe.display()));
        let mut words = String::new();
        open_file_of_others(&file).unwrap().read_to_string(&mut words).unwrap();
        assert_eq!(words, "words");
        fs::remove_dir_all(&directory).unwrap();
    }
}
