//! Windows: owner and access list.

use std::{
    fs::File,
    io,
    os::windows::io::FromRawHandle as _,
    path::{Path, PathBuf},
    ptr::null_mut,
};

use windows_sys::Win32::{
    Foundation::{GENERIC_ALL, GENERIC_READ, GENERIC_WRITE, INVALID_HANDLE_VALUE},
    Storage::FileSystem::{
        CREATE_NEW, CreateDirectoryW, CreateFileW, DELETE, FILE_APPEND_DATA, FILE_ATTRIBUTE_NORMAL,
        FILE_CREATION_DISPOSITION, FILE_DELETE_CHILD, FILE_SHARE_DELETE, FILE_SHARE_READ,
        FILE_SHARE_WRITE, FILE_WRITE_DATA, OPEN_ALWAYS, WRITE_DAC, WRITE_OWNER,
    },
};

use crate::{
    naming,
    peer::User,
    refusal, registry,
    security::{self, Access, Descriptor, checked, wide},
};

/// A file that somebody reads is tried to be replaced so often, with so much time between.
const REPLACE_ATTEMPTS: u32 = 50;
const REPLACE_PAUSE: std::time::Duration = std::time::Duration::from_millis(10);

/// Stand-ins in an access list for whoever the owner is.
const OWNERS: [&str; 2] = ["S-1-3-0", "S-1-3-4"];

/// Whom the system itself lets change its programs; administrators could become it.
const TRUSTED_INSTALLER: &str = "S-1-5-80-956008885-3418522649-1831038044-1853292631-2271478464";

/// What administrators keep for somebody else; who that is comes after it.
const KEPT_FOR_OTHERS: &str = "O:BAD:P(A;OICI;GA;;;BA)(A;OICI;GA;;;SY)";

/// Where the registry has the users' profiles.
const PROFILES: &str = r"SOFTWARE\Microsoft\Windows NT\CurrentVersion\ProfileList";

/// The rights with which a file or directory can be moved away, or its access list changed.
const MOVING: u32 = FILE_DELETE_CHILD | DELETE | WRITE_DAC | WRITE_OWNER | GENERIC_ALL;

/// The rights with which it can be changed.
const CHANGING: u32 = MOVING | FILE_WRITE_DATA | FILE_APPEND_DATA | GENERIC_WRITE;

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

/// Where it is unless the user has moved it, which only his own logon tells.
pub(crate) fn data_directory_of(user: &User) -> io::Result<PathBuf> {
    let key = format!(r"{PROFILES}\{user}");
    let profile = registry::text(&key, "ProfileImagePath").map_err(naming(format!(
        "look for the profile of {user}, who has to log on once before"
    )))?;
    Ok(PathBuf::from(profile).join(r"AppData\Local"))
}

pub(crate) fn make_dir(path: &Path) -> io::Result<()> {
    make_dir_with(path, &Descriptor::private()?)
}

pub(crate) fn make_dir_of(path: &Path, user: &User) -> io::Result<()> {
    make_dir_with(path, &Descriptor::of(&format!("{KEPT_FOR_OTHERS}(A;OICI;GA;;;{user})"))?)
}

pub(crate) fn make_dir_with(path: &Path, descriptor: &Descriptor) -> io::Result<()> {
    let name = wide(path);
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
    open(path, CREATE_NEW, &Descriptor::private()?)
}

/// A service looks after its files itself, as administrators do after what they make for others.
pub(crate) fn create_file_for(path: &Path, reader: &User) -> io::Result<File> {
    let kept = if security::am_service()? {
        let me = security::my_sid()?;
        format!("O:{me}D:P(A;;GA;;;{me})(A;;GA;;;SY)(A;;GA;;;BA)")
    } else {
        KEPT_FOR_OTHERS.to_owned()
    };
    open(path, CREATE_NEW, &Descriptor::of(&format!("{kept}(A;;GR;;;{reader})"))?)
}

pub(crate) fn open_file(path: &Path) -> io::Result<File> {
    open(path, OPEN_ALWAYS, &Descriptor::private()?)
}

pub(crate) fn check_private(path: &Path, users: &[User]) -> io::Result<()> {
    // What is handed down from a directory counts as well.
    check(path, users, |_| true, "is open to others")
}

pub(crate) fn check_unchangeable(path: &Path) -> io::Result<()> {
    let changes = |access: &Access| !access.is_for_heirs_only && access.rights & CHANGING != 0;
    check(path, &[], changes, "can be changed by others")
}

/// Checks that others can't put something else in a file's place: change it or its directory.
pub(crate) fn check_irreplaceable(file: &Path) -> io::Result<()> {
    check_unchangeable(file)?;
    file.parent().map_or(Ok(()), check_unchangeable_and_above)
}

/// Checks that others can't change a directory, or move it with one that it is in. (Making something of
/// their own in one of those is another matter: in `%ProgramData%` everybody may.)
pub(crate) fn check_unchangeable_and_above(directory: &Path) -> io::Result<()> {
    check_unchangeable(directory)?;
    let moves = |access: &Access| !access.is_for_heirs_only && access.rights & MOVING != 0;
    let mut above = directory.ancestors().skip(1);
    above.try_for_each(|path| check(path, &[], moves, "can be moved or replaced by others"))
}

/// Whether the owner is trusted, and everybody to whom something is allowed that is `forbidden`.
fn check(
    path: &Path,
    users: &[User],
    forbidden: impl Fn(&Access) -> bool,
    what: &str,
) -> io::Result<()> {
    let (owner, allowed) = security::access(path).map_err(naming(path.display()))?;
    let denied = |sentence| Err(refusal(io::ErrorKind::PermissionDenied, sentence));
    let trusted = |sid: &str| {
        let user = User::of_sid(sid.to_owned());
        user.is_trusted_server() || users.contains(&user) || sid == TRUSTED_INSTALLER
    };
    if !trusted(&owner) {
        return denied(format!("{} belongs to the user {owner}: choose another", path.display()));
    }
    let stranger = allowed.map_or(Some("everybody".to_owned()), |allowed| {
        let mut strangers = allowed.into_iter().filter(&forbidden).map(|access| access.sid);
        strangers.find(|sid| !trusted(sid) && !OWNERS.contains(&sid.as_str()))
    });
    let Some(stranger) = stranger else { return Ok(()) };
    let stranger = security::name_of(&stranger).unwrap_or(stranger);
    denied(format!(
        "{0} {what} ({stranger}): run icacls \"{0}\" /inheritance:r /grant:r \"%USERNAME%\":(F)",
        path.display()
    ))
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
        return Err(io::Error::last_os_error());
    }
    // SAFETY: the call has succeeded, so that the handle is open and ours.
    Ok(unsafe { File::from_raw_handle(file) })
}
