//! Windows only: checks of what other users may do to a file or directory, by its access list.

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
    shell::quoted,
};

/// SIDs that stand for the owner in an access list: CREATOR OWNER and OWNER RIGHTS.
const OWNER_STAND_INS: [&str; 2] = ["S-1-3-0", "S-1-3-4"];

/// The account of Windows itself. Administrators can act as this account.
const TRUSTED_INSTALLER: &str = "S-1-5-80-956008885-3418522649-1831038044-1853292631-2271478464";

/// The rights that allow moving a file or directory, or changing its access list.
const MOVING: u32 = FILE_DELETE_CHILD | DELETE | WRITE_DAC | WRITE_OWNER | GENERIC_ALL;

/// The rights that allow changing the content of a file or directory.
const CHANGING: u32 = MOVING | FILE_WRITE_DATA | FILE_APPEND_DATA | GENERIC_WRITE;

/// Makes a directory with this security descriptor.
pub(crate) fn make_dir_with(path: &Path, descriptor: &Descriptor) -> io::Result<()> {
    let name = wide(path);
    // SAFETY: the name ends with a zero, and the attributes live until after the call.
    checked(unsafe { CreateDirectoryW(name.as_ptr(), &descriptor.attributes()) })
        .map_err(naming_limit(path, DIRECTORY_UNITS_MAX))
}

/// Adds a limit and a remedy to the system's error, which names neither, if `path` is longer than
/// the limit `most`.
pub(crate) fn naming_limit(path: &Path, most: usize) -> impl FnOnce(io::Error) -> io::Error {
    move |error| {
        let units = path.as_os_str().encode_wide().count();
        let is_so_refused = error.raw_os_error().is_some_and(|code| {
            [ERROR_PATH_NOT_FOUND, ERROR_FILENAME_EXCED_RANGE].contains(&code.cast_unsigned())
        });
        if units <= most || !is_so_refused {
            return error;
        }
        let words = format!(
            "{error}; the path has {units} characters, and Windows allows {most} unless an administrator turns on long \
             paths (docs/WINDOWS.md)"
        );
        refusal(error.kind(), words)
    }
}

/// The longest path of a directory in UTF-16 units on any Windows: MAX_PATH less room for a short
/// file name. [`FILE_UNITS_MAX`] is the limit for a file.
pub(crate) const DIRECTORY_UNITS_MAX: usize = 247;
pub(crate) const FILE_UNITS_MAX: usize = 259;

/// The remedy that an error names.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Advice {
    /// Deny others access: for a user's own file or directory.
    Restrict,
    /// Choose another path: the present one has to stay open to others, such as the system.
    Elsewhere,
    /// Delete the directory and have it made again, as only administrators can.
    Recreate,
}

pub(crate) fn check_private(path: &Path, users: &[User]) -> io::Result<()> {
    // Inherit-only entries count as well, since files in the directory get their rights.
    check(path, users, |_| true, "is open to others", Advice::Restrict)
}

pub(crate) fn check_only_owner_writes(path: &Path) -> io::Result<()> {
    check(path, &[], |access| gives(access, CHANGING), "can be changed by others", Advice::Restrict)
}

/// Checks that others cannot replace a file: neither change the file or its directory, nor move
/// one of the directories above. Others may be able to add files to the directories above, as
/// everybody can in `%ProgramData%`.
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

/// Checks that others cannot change a directory, or move it or one of the directories above.
pub(crate) fn check_unmovable(directory: &Path, advice: Advice) -> io::Result<()> {
    let changes = |access: &Access| gives(access, CHANGING);
    check(directory, &[], changes, "can be changed by others", advice)?;
    directories_above(directory).try_for_each(|(path, moving)| {
        let moves = |access: &Access| gives(access, moving);
        check(path, &[], moves, "can be moved or replaced by others", Advice::Elsewhere)
    })
}

/// Returns the directory where this user could replace a file, if there is one.
pub(crate) fn replaceable_by(user: &User, file: &Path) -> io::Result<Option<PathBuf>> {
    let sid = user.to_string();
    let is_free = |path: &Path, rights| -> io::Result<bool> {
        let (owner, allowed) = security::access(path).map_err(naming(path.display()))?;
        Ok(has_right(&sid, &owner, allowed.as_deref(), rights))
    };
    let Some(directory) = file.parent() else { return Ok(None) };
    if is_free(file, CHANGING)? || is_free(directory, CHANGING)? {
        return Ok(Some(directory.to_owned()));
    }
    for (path, moving) in directories_above(directory) {
        if is_free(path, moving)? {
            return Ok(Some(path.to_owned()));
        }
    }
    Ok(None)
}

/// Whether a user has one of these rights, or may acquire it as the owner. Rights of the user's
/// groups do not count.
fn has_right(user: &str, owner: &str, allowed: Option<&[Access]>, rights: u32) -> bool {
    let has = |access: &Access| access.sid == user && gives(access, rights);
    owner == user || allowed.is_none_or(|allowed| allowed.iter().any(has))
}

/// The directories above `directory`, with the rights that allow moving each of them.
fn directories_above(directory: &Path) -> impl Iterator<Item = (&Path, u32)> {
    // A volume's root cannot be moved; on data volumes everybody may write to it.
    let rights = |path: &Path| if path.parent().is_some() { MOVING } else { MOVING & !DELETE };
    directory.ancestors().skip(1).map(move |path| (path, rights(path)))
}

fn gives(access: &Access, rights: u32) -> bool {
    !access.is_inherit_only && access.rights & rights != 0
}

/// Checks that the owner is trusted, and that no untrusted account has a right that is `forbidden`.
///
/// The target of a link (or junction) is checked, not the link. Others could redirect the link
/// later, so `advice` decides whether a link is refused.
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
    let other = allowed.map_or(Some("everybody".to_owned()), |allowed| {
        let mut others = allowed.into_iter().filter(&forbidden).map(|access| access.sid);
        others.find(|sid| !trusted(sid) && !OWNER_STAND_INS.contains(&sid.as_str()))
    });
    other.map_or(Ok(()), |other| denied(advice.on_access(path, what, &named(other))))
}

/// The account's name, or the SID if it has none.
fn named(sid: String) -> String {
    security::name_of(&sid).unwrap_or(sid)
}

impl Advice {
    /// Returns the refusal of a link. `None` for a user's own files, where links are allowed.
    fn on_link(self, path: &Path) -> Option<String> {
        let next = match self {
            Self::Restrict => return None,
            Self::Elsewhere => ELSEWHERE.to_owned(),
            Self::Recreate => format!(
                "remove it in an elevated terminal (rmdir \"{}\"), and let it be made again",
                path.display()
            ),
        };
        Some(format!("{} is a link, which others may redirect; {next}", path.display()))
    }

    /// Returns the refusal of another user's file.
    fn on_owner(self, path: &Path, owner: &str) -> String {
        let path = path.display();
        let next = match self {
            Self::Restrict => "choose another".to_owned(),
            Self::Elsewhere => ELSEWHERE.to_owned(),
            Self::Recreate => format!(
                "remove it in an elevated terminal (rmdir /s \"{path}\"), and let it be made again"
            ),
        };
        format!("{path} belongs to the user {owner}; {next}")
    }

    /// Returns the refusal of access for others.
    fn on_access(self, path: &Path, what: &str, other: &str) -> String {
        // For a directory, the granted access is to be inherited by its files.
        let all = if path.is_dir() { "(OI)(CI)(F)" } else { "(F)" };
        let (quoted, path) = (quoted(path), path.display());
        let next = match self {
            Self::Restrict => {
                let me = User::me().map_or_else(|_| "NAME".to_owned(), |me| format!("*{me}"));
                format!(
                    "run icacls {quoted} /inheritance:r /grant:r \"{me}:{all}\" \"*{SYSTEM}:{all}\" \
                     \"*{ADMINISTRATORS}:{all}\""
                )
            }
            Self::Elsewhere => ELSEWHERE.to_owned(),
            Self::Recreate => {
                format!("run icacls {quoted} /remove:g \"{other}\" in an elevated terminal")
            }
        };
        format!("{path} {what} ({other}); {next}")
    }
}

const ELSEWHERE: &str =
    "choose a directory that only administrators can write to, such as %ProgramFiles%";

#[cfg(test)]
mod tests {
    use super::*;
    use windows_sys::Win32::Foundation::ERROR_ACCESS_DENIED;

    const ME: &str = "S-1-5-21-1-2-3-1001";

    fn access(sid: &str, rights: u32, is_inherit_only: bool) -> Access {
        Access { sid: sid.to_owned(), rights, is_inherit_only }
    }

    #[test]
    fn users_who_could_change_a_file_are_found() {
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
            assert_eq!(has_right(ME, owner, Some(allowed), CHANGING), is_free, "{allowed:?}");
        }
        assert!(has_right(ME, ADMINISTRATORS, None, CHANGING));
        let writing = access(ME, FILE_WRITE_DATA, false);
        assert!(!has_right(ME, ADMINISTRATORS, Some(&[writing]), MOVING));
    }

    /// The advised command leaves the owner access to the directory and to its files.
    #[test]
    fn advised_command_keeps_the_owners_access() {
        let me = User::me().unwrap();
        let (file, directory) = (std::env::current_exe().unwrap(), std::env::temp_dir());
        for (path, all) in [(&file, "(F)"), (&directory, "(OI)(CI)(F)")] {
            let said = Advice::Restrict.on_access(path, "is open to others", "Everyone");
            let line = format!(
                "icacls {} /inheritance:r /grant:r \"*{me}:{all}\" \"*S-1-5-18:{all}\" \
                 \"*S-1-5-32-544:{all}\"",
                quoted(path)
            );
            assert!(said.ends_with(&format!("is open to others (Everyone); run {line}")), "{said}");
        }
    }

    #[test]
    fn too_long_path_error_names_limit_and_remedy() {
        let path = |units: usize| PathBuf::from(format!(r"C:\{}", "x".repeat(units - 3)));
        for (units, code, is_explained) in [
            (248, ERROR_FILENAME_EXCED_RANGE, true),
            (300, ERROR_PATH_NOT_FOUND, true),
            (247, ERROR_PATH_NOT_FOUND, false),
            (300, ERROR_ACCESS_DENIED, false),
        ] {
            let before = io::Error::from_raw_os_error(code.cast_signed());
            let kind = before.kind();
            let error = naming_limit(&path(units), DIRECTORY_UNITS_MAX)(before);
            assert_eq!(error.kind(), kind);
            let said = error.to_string();
            assert_eq!(
                said.contains(&format!("the path has {units} characters")),
                is_explained,
                "{said}"
            );
            assert_eq!(said.contains("docs/WINDOWS.md"), is_explained, "{said}");
        }
    }

    #[test]
    fn link_is_refused_with_remedy_except_a_users_own() {
        let path = Path::new(r"C:\ProgramData\agent-relay");
        let said = Advice::Recreate.on_link(path).unwrap();
        assert!(
            said.contains(r"C:\ProgramData\agent-relay is a link, which others may redirect"),
            "{said}"
        );
        // `rmdir` removes the link and leaves its target.
        assert!(said.contains(r#"rmdir "C:\ProgramData\agent-relay""#), "{said}");
        assert!(Advice::Elsewhere.on_link(path).unwrap().ends_with("such as %ProgramFiles%"));
        assert_eq!(Advice::Restrict.on_link(path), None);
    }

    #[test]
    fn foreign_directory_error_names_owner_and_remedy() {
        let said = Advice::Recreate.on_owner(Path::new(r"C:\ProgramData\agent-relay"), r"PC\Eve");
        assert!(said.contains(r"belongs to the user PC\Eve; remove it in an elevated"), "{said}");
        assert!(said.contains(r#"rmdir /s "C:\ProgramData\agent-relay""#), "{said}");
    }
}
