//! Windows only: what others may do to files and directories.

use std::{
    fs, io,
    os::windows::ffi::OsStrExt as _,
    path::{Path, PathBuf},
};

use windows_sys::Win32::{
    Foundation::{ERROR_FILENAME_EXCED_RANGE, ERROR_PATH_NOT_FOUND, GENERIC_ALL, GENERIC_WRITE},
    Storage::FileSystem::{
        CreateDirectoryW, DELETE, FILE_APPEND_DATA, FILE_DELETE_CHILD, FILE_WRITE_DATA, WRITE_DAC,
        WRITE_OWNER,
    },
};

use crate::{
    naming,
    peer::User,
    refusal,
    security::{self, ADMINISTRATORS, Access, Descriptor, SYSTEM, checked, wide},
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
        .map_err(measuring(path, DIRECTORY_UNITS_MAX))
}

/// What the system says of a path that is too long for it names neither that nor the way out.
pub(crate) fn measuring(path: &Path, most: usize) -> impl FnOnce(io::Error) -> io::Error {
    move |error| {
        let units = path.as_os_str().encode_wide().count();
        let is_so_refused = error.raw_os_error().is_some_and(|code| {
            [ERROR_PATH_NOT_FOUND, ERROR_FILENAME_EXCED_RANGE].contains(&code.cast_unsigned())
        });
        if units <= most || !is_so_refused {
            return error;
        }
        let words = format!(
            "{error}; it has {units} characters, and Windows takes {most} unless an administrator turns on long \
             paths (docs/WINDOWS.md)"
        );
        refusal(error.kind(), words)
    }
}

/// So long a path takes every Windows, of a directory, where there has to be room for a short name in it, and of a
/// file.
pub(crate) const DIRECTORY_UNITS_MAX: usize = 247;
pub(crate) const FILE_UNITS_MAX: usize = 259;

/// What to do about what is not as it should be.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Advice {
    /// A user's own: shut it to all others.
    Shut,
    /// What is to serve others as well, the system and administrators among them, is not shut.
    Elsewhere,
    /// What only administrators make: have it made anew.
    MakeAnew,
}

pub(crate) fn check_private(path: &Path, users: &[User]) -> io::Result<()> {
    // What is handed down from a directory counts as well.
    check(path, users, |_| true, "is open to others", Advice::Shut)
}

pub(crate) fn check_unchangeable(path: &Path) -> io::Result<()> {
    check(path, &[], |access| gives(access, CHANGING), "can be changed by others", Advice::Shut)
}

/// Checks that others can't put something else in a file's place: change it or its directory, or move that with
/// one that it is in. (Making something of their own in one of those is another matter: in `%ProgramData%`
/// everybody may.)
pub(crate) fn check_irreplaceable(file: &Path) -> io::Result<()> {
    check(
        file,
        &[],
        |access| gives(access, CHANGING),
        "can be changed by others",
        Advice::Elsewhere,
    )?;
    file.parent().map_or(Ok(()), |directory| check_unmovable(directory, Advice::Elsewhere))
}

/// Checks that others can't change a directory, or move it with one that it is in.
pub(crate) fn check_unmovable(directory: &Path, advice: Advice) -> io::Result<()> {
    let changes = |access: &Access| gives(access, CHANGING);
    check(directory, &[], changes, "can be changed by others", advice)?;
    above(directory).try_for_each(|(path, moving)| {
        let moves = |access: &Access| gives(access, moving);
        check(path, &[], moves, "can be moved or replaced by others", Advice::Elsewhere)
    })
}

/// The directory in which this user could put something else in a file's place, if there is one.
pub(crate) fn replaceable_by(user: &User, file: &Path) -> io::Result<Option<PathBuf>> {
    let sid = user.to_string();
    let is_free = |path: &Path, rights| -> io::Result<bool> {
        let (owner, allowed) = security::access(path).map_err(naming(path.display()))?;
        Ok(is_free_to(&sid, &owner, allowed.as_deref(), rights))
    };
    let Some(directory) = file.parent() else { return Ok(None) };
    if is_free(file, CHANGING)? || is_free(directory, CHANGING)? {
        return Ok(Some(directory.to_owned()));
    }
    for (path, moving) in above(directory) {
        if is_free(path, moving)? {
            return Ok(Some(path.to_owned()));
        }
    }
    Ok(None)
}

/// Whether a user has one of these rights, or may give it to himself. Those of groups are others', too.
fn is_free_to(user: &str, owner: &str, allowed: Option<&[Access]>, rights: u32) -> bool {
    let has = |access: &Access| access.sid == user && gives(access, rights);
    owner == user || allowed.is_none_or(|allowed| allowed.iter().any(has))
}

/// What a directory is in, and the rights with which it can be moved away there.
fn above(directory: &Path) -> impl Iterator<Item = (&Path, u32)> {
    // A volume's root stays where it is; on volumes for data everybody may write to it.
    let rights = |path: &Path| if path.parent().is_some() { MOVING } else { MOVING & !DELETE };
    directory.ancestors().skip(1).map(move |path| (path, rights(path)))
}

fn gives(access: &Access, rights: u32) -> bool {
    !access.is_for_heirs_only && access.rights & rights != 0
}

/// Whether the owner is trusted, and everybody to whom something is allowed that is `forbidden`. All of this is said
/// of what a link leads to, and not of the link (a junction is one), which others may lead elsewhere tomorrow: where
/// that would be their gain there may be none.
fn check(
    path: &Path,
    users: &[User],
    forbidden: impl Fn(&Access) -> bool,
    what: &str,
    advice: Advice,
) -> io::Result<()> {
    let denied = |sentence| Err(refusal(io::ErrorKind::PermissionDenied, sentence));
    if let Some(sentence) = advice.on_link(path) {
        let metadata = fs::symlink_metadata(path).map_err(naming(path.display()))?;
        if metadata.is_symlink() {
            return denied(sentence);
        }
    }
    let (owner, allowed) = security::access(path).map_err(naming(path.display()))?;
    let trusted = |sid: &str| {
        let user = User::of_sid(sid.to_owned());
        user.is_trusted_server() || users.contains(&user) || sid == TRUSTED_INSTALLER
    };
    if !trusted(&owner) {
        return denied(advice.on_owner(path, &named(owner)));
    }
    let stranger = allowed.map_or(Some("everybody".to_owned()), |allowed| {
        let mut strangers = allowed.into_iter().filter(&forbidden).map(|access| access.sid);
        strangers.find(|sid| !trusted(sid) && !OWNERS.contains(&sid.as_str()))
    });
    stranger.map_or(Ok(()), |stranger| denied(advice.on_stranger(path, what, &named(stranger))))
}

/// By his name, where he has one.
fn named(sid: String) -> String {
    security::name_of(&sid).unwrap_or(sid)
}

impl Advice {
    /// A sentence on a link, where there may be none. A user's own are his business.
    fn on_link(self, path: &Path) -> Option<String> {
        let next = match self {
            Self::Shut => return None,
            Self::Elsewhere => ELSEWHERE.to_owned(),
            Self::MakeAnew => format!(
                "remove it in an elevated terminal (rmdir \"{}\"), and have it made anew",
                path.display()
            ),
        };
        Some(format!("{} is a link, which others may lead elsewhere: {next}", path.display()))
    }

    /// A sentence on what belongs to somebody else.
    fn on_owner(self, path: &Path, owner: &str) -> String {
        let path = path.display();
        let next = match self {
            Self::Shut => "choose another".to_owned(),
            Self::Elsewhere => ELSEWHERE.to_owned(),
            Self::MakeAnew => format!(
                "remove it in an elevated terminal (rmdir /s \"{path}\"), and have it made anew"
            ),
        };
        format!("{path} belongs to the user {owner}: {next}")
    }

    /// A sentence on what lets others in.
    fn on_stranger(self, path: &Path, what: &str, stranger: &str) -> String {
        // What is in a directory lives by what that hands down.
        let all = if path.is_dir() { "(OI)(CI)(F)" } else { "(F)" };
        let path = path.display();
        let next = match self {
            Self::Shut => {
                let me = User::me().map_or_else(|_| "NAME".to_owned(), |me| format!("*{me}"));
                format!(
                    "run icacls \"{path}\" /inheritance:r /grant:r \"{me}:{all}\" \"*{SYSTEM}:{all}\" \
                     \"*{ADMINISTRATORS}:{all}\""
                )
            }
            Self::Elsewhere => ELSEWHERE.to_owned(),
            Self::MakeAnew => {
                format!("run icacls \"{path}\" /remove:g \"{stranger}\" in an elevated terminal")
            }
        };
        format!("{path} {what} ({stranger}): {next}")
    }
}

const ELSEWHERE: &str =
    "choose a place that only administrators can write to, such as %ProgramFiles%";

#[cfg(test)]
mod tests {
    use super::*;
    use windows_sys::Win32::Foundation::ERROR_ACCESS_DENIED;

    const ME: &str = "S-1-5-21-1-2-3-1001";

    fn access(sid: &str, rights: u32, is_for_heirs_only: bool) -> Access {
        Access { sid: sid.to_owned(), rights, is_for_heirs_only }
    }

    #[test]
    fn who_could_change_something_is_known() {
        let reading = access(ME, 0x12_0089, false);
        let writing = access(ME, FILE_WRITE_DATA, false);
        let for_heirs = access(ME, GENERIC_ALL, true);
        let others = access(ADMINISTRATORS, GENERIC_ALL, false);
        for (owner, allowed, is_free) in [
            (ADMINISTRATORS, &[][..], false),
            (ADMINISTRATORS, &[others, reading, for_heirs], false),
            (ADMINISTRATORS, &[writing], true),
            (ME, &[], true),
        ] {
            assert_eq!(is_free_to(ME, owner, Some(allowed), CHANGING), is_free, "{allowed:?}");
        }
        assert!(is_free_to(ME, ADMINISTRATORS, None, CHANGING));
        let writing = access(ME, FILE_WRITE_DATA, false);
        assert!(!is_free_to(ME, ADMINISTRATORS, Some(&[writing]), MOVING));
    }

    /// Who follows the advice still gets at what is in the directory, and it is as one that was made here.
    #[test]
    fn what_is_to_be_shut_stays_open_to_its_owner() {
        let me = User::me().unwrap();
        let (file, directory) = (std::env::current_exe().unwrap(), std::env::temp_dir());
        for (path, all) in [(&file, "(F)"), (&directory, "(OI)(CI)(F)")] {
            let said = Advice::Shut.on_stranger(path, "is open to others", "Everyone");
            let line = format!(
                "icacls \"{}\" /inheritance:r /grant:r \"*{me}:{all}\" \"*S-1-5-18:{all}\" \
                 \"*S-1-5-32-544:{all}\"",
                path.display()
            );
            assert!(said.ends_with(&format!("is open to others (Everyone): run {line}")), "{said}");
        }
    }

    #[test]
    fn a_path_that_is_too_long_is_told_with_the_way_out() {
        let path = |units: usize| PathBuf::from(format!(r"C:\{}", "x".repeat(units - 3)));
        for (units, code, is_told) in [
            (248, ERROR_FILENAME_EXCED_RANGE, true),
            (300, ERROR_PATH_NOT_FOUND, true),
            (247, ERROR_PATH_NOT_FOUND, false),
            (300, ERROR_ACCESS_DENIED, false),
        ] {
            let before = io::Error::from_raw_os_error(code.cast_signed());
            let kind = before.kind();
            let error = measuring(&path(units), DIRECTORY_UNITS_MAX)(before);
            assert_eq!(error.kind(), kind);
            let said = error.to_string();
            assert_eq!(said.contains(&format!("it has {units} characters")), is_told, "{said}");
            assert_eq!(said.contains("docs/WINDOWS.md"), is_told, "{said}");
        }
    }

    #[test]
    fn a_link_is_named_with_the_way_out_but_a_users_own() {
        let path = Path::new(r"C:\ProgramData\agent-relay");
        let said = Advice::MakeAnew.on_link(path).unwrap();
        assert!(
            said.contains(r"C:\ProgramData\agent-relay is a link, which others may lead"),
            "{said}"
        );
        // The link goes, and nothing of what it leads to.
        assert!(said.contains(r#"rmdir "C:\ProgramData\agent-relay""#), "{said}");
        assert!(Advice::Elsewhere.on_link(path).unwrap().ends_with("such as %ProgramFiles%"));
        assert_eq!(Advice::Shut.on_link(path), None);
    }

    #[test]
    fn what_somebody_else_has_made_before_is_named_with_its_owner_and_the_way_out() {
        let said = Advice::MakeAnew.on_owner(Path::new(r"C:\ProgramData\agent-relay"), r"PC\Eve");
        assert!(said.contains(r"belongs to the user PC\Eve: remove it in an elevated"), "{said}");
        assert!(said.contains(r#"rmdir /s "C:\ProgramData\agent-relay""#), "{said}");
    }
}
