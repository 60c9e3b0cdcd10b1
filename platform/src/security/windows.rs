//! Windows only: SIDs as text, owners, and security descriptors from their text form. Used for
//! pipes, peers and private files.

use std::{
    ffi::{OsStr, c_void},
    io,
    os::windows::{
        ffi::OsStrExt as _,
        io::{AsRawHandle as _, FromRawHandle as _, OwnedHandle, RawHandle},
    },
    path::Path,
    ptr::{null, null_mut},
    slice,
    sync::OnceLock,
};

use crate::refusal;
use windows_sys::Win32::{
    Foundation::{ERROR_SUCCESS, LocalFree},
    Security::{
        ACE_HEADER, ACE_INHERITED_OBJECT_TYPE_PRESENT, ACE_OBJECT_TYPE_PRESENT, ACL,
        Authorization::{
            ConvertSecurityDescriptorToStringSecurityDescriptorW, ConvertSidToStringSidW,
            ConvertStringSecurityDescriptorToSecurityDescriptorW, ConvertStringSidToSidW,
            GetNamedSecurityInfoW, GetSecurityInfo, SDDL_REVISION_1, SE_FILE_OBJECT,
            SE_KERNEL_OBJECT,
        },
        DACL_SECURITY_INFORMATION, GetAce, GetTokenInformation, INHERIT_ONLY_ACE,
        LABEL_SECURITY_INFORMATION, LookupAccountNameW, LookupAccountSidW,
        OWNER_SECURITY_INFORMATION, PSID, RevertToSelf, SECURITY_ATTRIBUTES, SID_NAME_USE,
        SidTypeUser, TOKEN_INFORMATION_CLASS, TOKEN_MANDATORY_LABEL, TOKEN_QUERY, TOKEN_USER,
        TokenIntegrityLevel, TokenUser,
    },
    System::{
        Pipes::ImpersonateNamedPipeClient,
        SystemServices::{
            ACCESS_ALLOWED_ACE_TYPE, ACCESS_ALLOWED_CALLBACK_ACE_TYPE,
            ACCESS_ALLOWED_CALLBACK_OBJECT_ACE_TYPE, ACCESS_ALLOWED_COMPOUND_ACE_TYPE,
            ACCESS_ALLOWED_OBJECT_ACE_TYPE, SYSTEM_ACCESS_FILTER_ACE_TYPE,
        },
        Threading::{GetCurrentProcess, GetCurrentThread, OpenProcessToken, OpenThreadToken},
    },
};

/// The local system account.
pub(crate) const SYSTEM: &str = "S-1-5-18";
/// The administrators' group, which owns the objects that an administrator makes.
pub(crate) const ADMINISTRATORS: &str = "S-1-5-32-544";

/// A text for the system's calls: UTF-16 with a final zero.
pub(crate) fn wide(text: impl AsRef<OsStr>) -> Vec<u16> {
    text.as_ref().encode_wide().chain([0]).collect()
}

/// The SID of the user that this process acts as.
pub(crate) fn my_sid() -> io::Result<String> {
    static SID: OnceLock<String> = OnceLock::new();
    if let Some(sid) = SID.get() {
        return Ok(sid.clone());
    }
    let sid = user_of(&my_token()?)?;
    Ok(SID.get_or_init(|| sid).clone())
}

/// The integrity level of this process.
pub(crate) fn my_integrity() -> io::Result<u32> {
    let label = token_information(&my_token()?, TokenIntegrityLevel)?;
    assert!(
        size_of_val(&label[..]) >= size_of::<TOKEN_MANDATORY_LABEL>(),
        "the answer is incomplete"
    );
    // SAFETY: the vector is aligned, holds a TOKEN_MANDATORY_LABEL, and lives on.
    let sid = sid_text(unsafe { (*label.as_ptr().cast::<TOKEN_MANDATORY_LABEL>()).Label.Sid })?;
    // The text is S-1-16 and the level.
    let level = sid.rsplit('-').next().and_then(|level| level.parse().ok());
    level.ok_or_else(|| refusal(io::ErrorKind::InvalidData, format!("{sid} is no level")))
}

fn my_token() -> io::Result<OwnedHandle> {
    let mut token = null_mut();
    // SAFETY: the process is our own, and the pointer is to a handle of ours.
    checked(unsafe { OpenProcessToken(GetCurrentProcess(), TOKEN_QUERY, &mut token) })?;
    // SAFETY: the call has succeeded, so that the handle is open and ours.
    Ok(unsafe { OwnedHandle::from_raw_handle(token) })
}

/// Whether this process runs under a service's own account.
pub(crate) fn am_service() -> io::Result<bool> {
    Ok(my_sid()?.starts_with("S-1-5-80-"))
}

/// The SID of the user with this name.
pub(crate) fn sid_of(name: &str) -> io::Result<String> {
    let name = wide(name);
    let (mut sid, mut sid_bytes) = (vec![0_u64; 16], 128);
    let (mut domain, mut domain_units) = (vec![0; 512], 512);
    let mut kind = 0;
    // SAFETY: the name ends with a zero; the pointers and lengths are those of vectors of ours.
    checked(unsafe {
        LookupAccountNameW(
            null(),
            name.as_ptr(),
            sid.as_mut_ptr().cast(),
            &mut sid_bytes,
            domain.as_mut_ptr(),
            &mut domain_units,
            &mut kind,
        )
    })?;
    if kind != SidTypeUser {
        return Err(refusal(io::ErrorKind::NotFound, "that account is not a user"));
    }
    sid_text(sid.as_mut_ptr().cast())
}

/// Checks that a SID is a user's, not a group's or one of the system's.
pub(crate) fn check_user(sid: &str) -> io::Result<()> {
    match account(sid) {
        Ok((_, kind)) if kind == SidTypeUser => Ok(()),
        Ok((name, _)) => Err(refusal(
            io::ErrorKind::NotFound,
            format!("{sid} ({name}) is not a user; name the service's user"),
        )),
        Err(error) => Err(refusal(
            io::ErrorKind::NotFound,
            format!(
                "{sid} is not a user of this system ({error}); name one who has logged on here"
            ),
        )),
    }
}

/// The display name of an account, where the system has one.
pub(crate) fn name_of(sid: &str) -> Option<String> {
    account(sid).ok().map(|(name, _)| name)
}

/// The name and the kind of an account.
fn account(sid: &str) -> io::Result<(String, SID_NAME_USE)> {
    let sid = wide(sid);
    let mut found = null_mut();
    // SAFETY: the text ends with a zero, and the pointer is to a pointer of ours.
    checked(unsafe { ConvertStringSidToSidW(sid.as_ptr(), &mut found) })?;
    let (mut name, mut name_units) = (vec![0; 512], 512);
    let (mut domain, mut domain_units) = (vec![0; 512], 512);
    let mut kind = 0;
    // SAFETY: the SID is valid; the pointers and lengths are those of vectors of ours.
    let looked_up = checked(unsafe {
        LookupAccountSidW(
            null(),
            found,
            name.as_mut_ptr(),
            &mut name_units,
            domain.as_mut_ptr(),
            &mut domain_units,
            &mut kind,
        )
    });
    // SAFETY: the system requires this way of freeing it, and nothing refers to it any more.
    unsafe { LocalFree(found) };
    looked_up?;
    let text = |units: &[u16], count: u32| {
        String::from_utf16_lossy(units.get(..count as usize).unwrap_or(units))
    };
    let (name, domain) = (text(&name, name_units), text(&domain, domain_units));
    Ok((if domain.is_empty() { name } else { format!("{domain}\\{name}") }, kind))
}

/// The SID of the client of a pipe, given the server's end. Windows tells the SID only after the
/// server has read something from that client.
pub(crate) fn client_sid(pipe: RawHandle) -> io::Result<String> {
    let mut token = null_mut();
    // SAFETY: the handle is open while the caller's reference lives.
    checked(unsafe { ImpersonateNamedPipeClient(pipe) })?;
    // SAFETY: the thread is our own, and the pointer is to a handle of ours. The token is opened
    // with the rights of this process, since the client may have no right to open it.
    let opened =
        checked(unsafe { OpenThreadToken(GetCurrentThread(), TOKEN_QUERY, 1, &mut token) });
    // SAFETY: no arguments.
    let reverted = unsafe { RevertToSelf() } != 0;
    assert!(reverted, "this thread still impersonates the client");
    opened?;
    // SAFETY: the call has succeeded, so that the handle is open and ours.
    user_of(&unsafe { OwnedHandle::from_raw_handle(token) })
}

/// The SID of a pipe's owner, who is the user that runs the server.
pub(crate) fn owner_sid(pipe: RawHandle) -> io::Result<String> {
    let (mut owner, mut descriptor) = (null_mut(), null_mut());
    // SAFETY: the handle is open while the caller's reference lives; the pointers are to pointers
    // of ours, or null for what is not asked for.
    let error = unsafe {
        GetSecurityInfo(
            pipe,
            SE_KERNEL_OBJECT,
            OWNER_SECURITY_INFORMATION,
            &mut owner,
            null_mut(),
            null_mut(),
            null_mut(),
            &mut descriptor,
        )
    };
    let _descriptor = Descriptor(descriptor);
    checked_code(error)?;
    sid_text(owner)
}

/// The owner, the access list and the label of a pipe, in SDDL, the security descriptor definition
/// language.
pub(crate) fn sddl(pipe: RawHandle) -> io::Result<String> {
    const ASKED: u32 =
        OWNER_SECURITY_INFORMATION | DACL_SECURITY_INFORMATION | LABEL_SECURITY_INFORMATION;
    let mut descriptor = null_mut();
    // SAFETY: the handle is open while the caller's reference lives; the last pointer is to a
    // pointer of ours, and the others are null, which asks for nothing more.
    let error = unsafe {
        GetSecurityInfo(
            pipe,
            SE_KERNEL_OBJECT,
            ASKED,
            null_mut(),
            null_mut(),
            null_mut(),
            null_mut(),
            &mut descriptor,
        )
    };
    let descriptor = Descriptor(descriptor);
    checked_code(error)?;
    let mut text = null_mut();
    // SAFETY: the descriptor is valid, and the pointer is to a pointer of ours; null asks for no
    // length.
    checked(unsafe {
        ConvertSecurityDescriptorToStringSecurityDescriptorW(
            descriptor.0,
            SDDL_REVISION_1,
            ASKED,
            &mut text,
            null_mut(),
        )
    })?;
    Ok(take_text(text))
}

/// An entry of an access list that grants rights.
#[derive(Debug)]
pub(crate) struct Access {
    pub(crate) sid: String,
    pub(crate) rights: u32,
    /// Whether the entry applies only to objects made in the directory, not to the directory
    /// itself.
    pub(crate) is_inherit_only: bool,
}

/// The owner of a file or directory, and the granted rights; `None` if everybody has all rights.
pub(crate) fn access(path: &Path) -> io::Result<(String, Option<Vec<Access>>)> {
    let path = wide(path);
    let (mut owner, mut list, mut descriptor) = (null_mut(), null_mut(), null_mut());
    // SAFETY: the path ends with a zero; the pointers are to pointers of ours, or null for what is
    // not asked for.
    let error = unsafe {
        GetNamedSecurityInfoW(
            path.as_ptr(),
            SE_FILE_OBJECT,
            OWNER_SECURITY_INFORMATION | DACL_SECURITY_INFORMATION,
            &mut owner,
            null_mut(),
            &mut list,
            null_mut(),
            &mut descriptor,
        )
    };
    let _descriptor = Descriptor(descriptor);
    checked_code(error)?;
    let owner = sid_text(owner)?;
    if list.is_null() {
        return Ok((owner, None));
    }
    Ok((owner, Some(allowed(list)?)))
}

/// A security descriptor, freed at the end.
#[derive(Debug)]
pub(crate) struct Descriptor(*mut c_void);

impl Descriptor {
    /// The access of private files and directories: the owner is this user, and only the user, the
    /// system and administrators have rights. Files made in such a directory inherit them.
    ///
    /// Administrators could take the rights anyway, and need them to install a service for this
    /// user. Of an administrator's programs, only elevated ones have these rights.
    pub(crate) fn private() -> io::Result<Self> {
        let me = my_sid()?;
        Self::of(&format!("O:{me}D:P(A;OICI;GA;;;{me})(A;OICI;GA;;;SY)(A;OICI;GA;;;BA)"))
    }

    /// The descriptor of a text in the security descriptor definition language.
    pub(crate) fn of(text: &str) -> io::Result<Self> {
        let text = wide(text);
        let mut descriptor = null_mut();
        // SAFETY: the text ends with a zero, and the pointer is to a pointer of ours.
        checked(unsafe {
            ConvertStringSecurityDescriptorToSecurityDescriptorW(
                text.as_ptr(),
                SDDL_REVISION_1,
                &mut descriptor,
                null_mut(),
            )
        })?;
        Ok(Self(descriptor))
    }

    pub(crate) fn as_ptr(&self) -> *const c_void {
        self.0
    }

    /// The granted rights.
    #[cfg(test)]
    pub(crate) fn allowed(&self) -> Vec<Access> {
        use windows_sys::Win32::Security::GetSecurityDescriptorDacl;

        let (mut is_there, mut is_default, mut list) = (0, 0, null_mut());
        // SAFETY: the descriptor is valid, and the pointers are to values of ours.
        checked(unsafe {
            GetSecurityDescriptorDacl(self.0, &mut is_there, &mut list, &mut is_default)
        })
        .unwrap();
        assert!(is_there != 0 && !list.is_null(), "no access list");
        allowed(list).unwrap()
    }

    /// The attributes for a call that makes an object; valid while `self` lives.
    pub(crate) fn attributes(&self) -> SECURITY_ATTRIBUTES {
        SECURITY_ATTRIBUTES {
            nLength: size_of::<SECURITY_ATTRIBUTES>() as u32,
            lpSecurityDescriptor: self.0,
            bInheritHandle: 0,
        }
    }
}

impl Drop for Descriptor {
    fn drop(&mut self) {
        // SAFETY: the system requires this way of freeing it. Null does nothing.
        unsafe { LocalFree(self.0) };
    }
}

/// Converts the result of a call that returns zero on failure.
pub(crate) fn checked(result: i32) -> io::Result<()> {
    if result == 0 { Err(io::Error::last_os_error()) } else { Ok(()) }
}

/// Converts the result of a call that returns an error code.
fn checked_code(error: u32) -> io::Result<()> {
    if error == ERROR_SUCCESS { Ok(()) } else { Err(io::Error::from_raw_os_error(error as i32)) }
}

fn user_of(token: &OwnedHandle) -> io::Result<String> {
    let user = token_information(token, TokenUser)?;
    assert!(size_of_val(&user[..]) >= size_of::<TOKEN_USER>(), "the answer is incomplete");
    // SAFETY: the vector is aligned, holds a TOKEN_USER, and lives on.
    sid_text(unsafe { (*user.as_ptr().cast::<TOKEN_USER>()).User.Sid })
}

/// One item of information about a token, with the alignment that all items need.
fn token_information(token: &OwnedHandle, what: TOKEN_INFORMATION_CLASS) -> io::Result<Vec<u64>> {
    let token = token.as_raw_handle();
    let mut bytes = 0;
    // SAFETY: the buffer is empty, and the pointer is to a number of ours.
    unsafe { GetTokenInformation(token, what, null_mut(), 0, &mut bytes) };
    let mut answer = vec![0_u64; (bytes as usize).div_ceil(8)];
    let room = size_of_val(&answer[..]) as u32;
    // SAFETY: the pointer and the length are those of one vector.
    checked(unsafe {
        GetTokenInformation(token, what, answer.as_mut_ptr().cast(), room, &mut bytes)
    })?;
    Ok(answer)
}

/// The text of a SID. Every caller got `sid` from the system, so it is valid.
fn sid_text(sid: PSID) -> io::Result<String> {
    let mut text = null_mut();
    // SAFETY: the SID is valid, and the pointer is to a pointer of ours.
    checked(unsafe { ConvertSidToStringSidW(sid, &mut text) })?;
    Ok(take_text(text))
}

/// Copies and frees a text that the system has just allocated.
fn take_text(text: *mut u16) -> String {
    // SAFETY: the system's string ends with a zero.
    let units =
        unsafe { slice::from_raw_parts(text, (0..).take_while(|n| *text.add(*n) != 0).count()) };
    let take_text = String::from_utf16_lossy(units);
    // SAFETY: the system requires this way of freeing it, and nothing refers to it any more.
    unsafe { LocalFree(text.cast()) };
    take_text
}

/// The entries that grant rights. The system returned `list`, so it is valid.
fn allowed(list: *const ACL) -> io::Result<Vec<Access>> {
    // SAFETY: the list is valid.
    let count = unsafe { (*list).AceCount };
    let mut found = Vec::new();
    for index in 0..u32::from(count) {
        let mut entry = null_mut();
        // SAFETY: the list is valid, the index in it, and the pointer is to a pointer of ours.
        checked(unsafe { GetAce(list, index, &mut entry) })?;
        // SAFETY: every entry begins with this header, which says how long it is.
        let bytes = unsafe {
            let length = (*entry.cast::<ACE_HEADER>()).AceSize;
            slice::from_raw_parts(entry.cast::<u8>(), length.into())
        };
        if let Some(AllowingEntry { sid, rights, is_inherit_only }) = parse_allowing(bytes)? {
            let sid = sid_text(sid.as_ptr().cast_mut().cast())?;
            found.push(Access { sid, rights, is_inherit_only });
        }
    }
    Ok(found)
}

/// An access list's entry that grants rights.
#[derive(Debug, PartialEq, Eq)]
struct AllowingEntry<'a> {
    /// The complete SID, and possibly further bytes.
    sid: &'a [u8],
    rights: u32,
    is_inherit_only: bool,
}

/// Parses an entry of an access list; `None` if the entry grants nothing. A condition counts as
/// met. An entry for parts of an object counts as an entry for the whole object, since files have
/// no parts.
fn parse_allowing(entry: &[u8]) -> io::Result<Option<AllowingEntry<'_>>> {
    /// The bytes of the header and the rights.
    const HEAD: usize = 8;
    const GUID: usize = 16;
    let wrong = |why: &str| refusal(io::ErrorKind::InvalidData, format!("its access list {why}"));
    let broken = || wrong("is broken");
    let [kind, flags, _, _, rights @ ..] = entry else { return Err(broken()) };
    let number = |bytes: &[u8]| bytes.first_chunk().copied().map(u32::from_le_bytes);
    let before_sid = match u32::from(*kind) {
        ACCESS_ALLOWED_ACE_TYPE | ACCESS_ALLOWED_CALLBACK_ACE_TYPE => HEAD,
        ACCESS_ALLOWED_OBJECT_ACE_TYPE | ACCESS_ALLOWED_CALLBACK_OBJECT_ACE_TYPE => {
            let parts = entry.get(HEAD..).and_then(number).ok_or_else(broken)?;
            let parts = parts & (ACE_OBJECT_TYPE_PRESENT | ACE_INHERITED_OBJECT_TYPE_PRESENT);
            HEAD + size_of::<u32>() + GUID * parts.count_ones() as usize
        }
        // Such an entry may grant rights that cannot be read here, so the list is refused.
        kind if kind == ACCESS_ALLOWED_COMPOUND_ACE_TYPE
            || kind > SYSTEM_ACCESS_FILTER_ACE_TYPE =>
        {
            return Err(wrong(&format!("has an entry of an unknown kind, {kind}")));
        }
        // All other kinds deny rights or audit.
        _ => return Ok(None),
    };
    let sid = entry.get(before_sid..).ok_or_else(broken)?;
    // A SID is a revision, the count of numbers, six bytes of authority, and the numbers.
    let numbers = usize::from(*sid.get(1).ok_or_else(broken)?);
    if sid.len() < 8 + 4 * numbers {
        return Err(broken());
    }
    Ok(Some(AllowingEntry {
        sid,
        rights: number(rights).ok_or_else(broken)?,
        is_inherit_only: u32::from(*flags) & INHERIT_ONLY_ACE != 0,
    }))
}

/// The null pointer, for calls that take optional attributes.
pub(crate) const NO_ATTRIBUTES: *const SECURITY_ATTRIBUTES = null();

#[cfg(test)]
mod tests {
    use super::*;
    use windows_sys::Win32::Foundation::GENERIC_ALL;

    /// The SID S-1-1-0, everybody.
    const EVERYBODY: [u8; 12] = [1, 1, 0, 0, 0, 0, 0, 1, 0, 0, 0, 0];
    const RIGHTS: u32 = 0x1301bf;

    /// An entry with `between` between its rights and its SID.
    fn entry(kind: u32, flags: u32, between: &[u8]) -> Vec<u8> {
        let length = 8 + between.len() + EVERYBODY.len();
        let mut entry = vec![kind as u8, flags as u8, length as u8, 0];
        entry.extend(RIGHTS.to_le_bytes());
        entry.extend([between, &EVERYBODY].concat());
        entry
    }

    #[test]
    fn every_allowing_entry_is_parsed() {
        let parts =
            |flags: u32, guids: usize| [&flags.to_le_bytes()[..], &vec![7; 16 * guids]].concat();
        for entry in [
            entry(ACCESS_ALLOWED_ACE_TYPE, 0, &[]),
            [entry(ACCESS_ALLOWED_CALLBACK_ACE_TYPE, 0, &[]), b"artx a condition".to_vec()]
                .concat(),
            entry(ACCESS_ALLOWED_OBJECT_ACE_TYPE, 0, &parts(0, 0)),
            entry(ACCESS_ALLOWED_OBJECT_ACE_TYPE, 0, &parts(2, 1)),
            entry(ACCESS_ALLOWED_CALLBACK_OBJECT_ACE_TYPE, 0, &parts(3, 2)),
        ] {
            let found = parse_allowing(&entry).unwrap().unwrap();
            assert_eq!((found.rights, found.is_inherit_only), (RIGHTS, false), "{entry:?}");
            let sid = sid_text(found.sid.as_ptr().cast_mut().cast()).unwrap();
            assert_eq!(sid, "S-1-1-0", "{entry:?}");
            // A truncated entry is an error.
            for length in 0..entry.len().min(20) {
                assert!(parse_allowing(&entry[..length]).is_err(), "{length} of {entry:?}");
            }
        }
        let for_heirs = entry(ACCESS_ALLOWED_ACE_TYPE, INHERIT_ONLY_ACE, &[]);
        assert!(parse_allowing(&for_heirs).unwrap().unwrap().is_inherit_only);
    }

    #[test]
    fn denying_entry_is_skipped_and_unknown_one_refused() {
        for kind in [1, 2, 6, 10, 12, 17] {
            assert_eq!(parse_allowing(&entry(kind, 0, &[])).unwrap(), None, "{kind}");
        }
        for kind in [4, 22, 255] {
            let said = parse_allowing(&entry(kind, 0, &[])).unwrap_err().to_string();
            assert!(said.contains(&format!("of an unknown kind, {kind}")), "{said}");
        }
    }

    /// Required to install a service for a user who has a home already.
    #[test]
    fn private_access_is_owner_system_and_administrators() {
        let allowed = Descriptor::private().unwrap().allowed();
        let all = allowed.iter().map(|access| {
            assert!(!access.is_inherit_only && access.rights & GENERIC_ALL != 0, "{access:?}");
            access.sid.as_str()
        });
        assert_eq!(all.collect::<Vec<_>>(), [&my_sid().unwrap()[..], SYSTEM, ADMINISTRATORS]);
    }

    #[test]
    fn only_users_pass_the_check() {
        check_user(&my_sid().unwrap()).unwrap();
        // Everybody, administrators, the system, a service, and an unknown account.
        for sid in ["S-1-1-0", ADMINISTRATORS, SYSTEM, "S-1-5-80-1-2-3-4-5", "S-1-5-21-1-2-3-4"] {
            let said = check_user(sid).unwrap_err().to_string();
            assert!(said.contains("is not a user"), "{said}");
        }
    }
}
