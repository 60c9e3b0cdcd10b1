//! Windows only: what others may do to files and directories.

use std::{io, path::Path};

use windows_sys::Win32::{
    Foundation::{GENERIC_ALL, GENERIC_WRITE},
    Storage::FileSystem::{
        CreateDirectoryW, DELETE, FILE_APPEND_DATA, FILE_DELETE_CHILD, FILE_WRITE_DATA, WRITE_DAC,
        WRITE_OWNER,
    },
};

use crate::{
    naming,
    peer::User,
    refusal,
    security::{self, Access, Descriptor, checked, wide},
};

/// Stand-ins in an access list for whoever the owner is.
const OWNERS: [&str; 2] = ["S-1-3-0", "S-1-3-4"];

/// Whom the system itself lets change its programs; administrators could become it.
const TRUSTED_INSTALLER: &str = "S-1-5-80-956008885-3418522649-1831038044-1853292631-2271478464";

/// The rights with which a file or directory can be moved away, or its access list changed.
const MOVING: u32 = FILE_DELETE_CHILD | DELETE | WRITE_DAC | WRITE_OWNER | GENERIC_ALL;

/// The rights with which it can be changed.
const CHANGING: u32 = MOVING | FILE_WRITE_DATA | FILE_APPEND_DATA | GENERIC_WRITE;

/// Makes a directory to which this gives access.
pub(crate) fn make_dir_with(path: &Path, descriptor: &Descriptor) -> io::Result<()> {
    let name = wide(path);
    // SAFETY: the name ends with a zero, and the attributes live until after the call.
    checked(unsafe { CreateDirectoryW(name.as_ptr(), &descriptor.attributes()) })
}

pub(crate) fn check_private(path: &Path, users: &[User]) -> io::Result<()> {
    // What is handed down from a directory counts as well.
    check(path, users, |_| true, "is open to others", closing)
}

pub(crate) fn check_unchangeable(path: &Path) -> io::Result<()> {
    check(path, &[], changes, "can be changed by others", closing)
}

/// How a file or directory is shut to all but its user.
fn closing(path: &Path) -> String {
    let me = User::me().map_or_else(|_| "NAME".to_owned(), |me| format!("*{me}"));
    format!("run icacls \"{}\" /inheritance:r /grant:r \"{me}:(F)\"", path.display())
}

/// What is to serve others as well, the system and administrators among them, is not shut.
fn elsewhere(_: &Path) -> String {
    "choose a place that only administrators can write to, such as %ProgramFiles%".to_owned()
}

fn changes(access: &Access) -> bool {
    !access.is_for_heirs_only && access.rights & CHANGING != 0
}

/// Checks that others can't put something else in a file's place: change it or its directory.
pub(crate) fn check_irreplaceable(file: &Path) -> io::Result<()> {
    check(file, &[], changes, "can be changed by others", elsewhere)?;
    file.parent().map_or(Ok(()), check_unchangeable_and_above)
}

/// Checks that others can't change a directory, or move it with one that it is in. (Making something of
/// their own in one of those is another matter: in `%ProgramData%` everybody may.)
pub(crate) fn check_unchangeable_and_above(directory: &Path) -> io::Result<()> {
    check(directory, &[], changes, "can be changed by others", elsewhere)?;
    let mut above = directory.ancestors().skip(1);
    above.try_for_each(|path| {
        // A volume's root stays where it is; on volumes for data everybody may write to it.
        let moving = if path.parent().is_some() { MOVING } else { MOVING & !DELETE };
        let moves = |access: &Access| !access.is_for_heirs_only && access.rights & moving != 0;
        check(path, &[], moves, "can be moved or replaced by others", elsewhere)
    })
}

/// Whether the owner is trusted, and everybody to whom something is allowed that is `forbidden`.
fn check(
    path: &Path,
    users: &[User],
    forbidden: impl Fn(&Access) -> bool,
    what: &str,
    advice: fn(&Path) -> String,
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
    denied(format!("{} {what} ({stranger}): {}", path.display(), advice(path)))
}
