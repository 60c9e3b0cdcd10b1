//! Named pipes on Windows: the access to a pipe, and the state of its instances.
//!
//! An instance of a pipe lives until both of its ends are closed, and a suspended process (in a
//! debugger, or in a console with a selection) closes neither. While an instance lives, its name is
//! taken, and a pipe cannot be made again under it. [`join`] adds an instance to such a pipe if
//! only this user can have made the pipe.

use std::{
    io,
    os::windows::io::{AsRawHandle as _, FromRawHandle as _, OwnedHandle, RawHandle},
    process, thread,
    time::{Duration, Instant},
};

use windows_sys::Win32::{
    Foundation::{ERROR_FILE_NOT_FOUND, INVALID_HANDLE_VALUE},
    Storage::FileSystem::{
        FILE_APPEND_DATA, FILE_FLAG_FIRST_PIPE_INSTANCE, FILE_FLAG_OVERLAPPED, FILE_GENERIC_READ,
        FILE_GENERIC_WRITE, PIPE_ACCESS_DUPLEX,
    },
    System::Pipes::{
        CreateNamedPipeW, NMPWAIT_NOWAIT, PIPE_READMODE_BYTE, PIPE_REJECT_REMOTE_CLIENTS,
        PIPE_TYPE_BYTE, PIPE_UNLIMITED_INSTANCES, WaitNamedPipeW,
    },
};

use crate::{
    endpoint::Endpoint,
    peer::User,
    refusal,
    security::{self, Descriptor, wide},
};

/// The size of the system's buffer for a side that does not read.
const BUFFER_BYTES: u32 = 64 << 10;
/// The rights to read and write. FILE_APPEND_DATA is left out: for a pipe, the same bit is
/// FILE_CREATE_PIPE_INSTANCE.
pub(super) const CONNECT: u32 = (FILE_GENERIC_READ | FILE_GENERIC_WRITE) & !FILE_APPEND_DATA;
/// The integrity levels of ordinary programs and of elevated ones.
const MEDIUM: u32 = 0x2000;
const HIGH: u32 = 0x3000;
/// The longest wait until the clients of an ended listener have closed its pipe.
const RELEASE_TIMEOUT: Duration = Duration::from_secs(1);
const POLL_INTERVAL: Duration = Duration::from_millis(10);

/// The owner and the access list of a pipe, in SDDL. If a service runs for `user`, the user may
/// connect but not make instances, since its processes could then pose as the service. Processes at
/// a low integrity level may not connect.
pub(super) fn access(user: &User) -> io::Result<String> {
    let me = User::me()?;
    let users = if *user == me { String::new() } else { format!("(A;;{CONNECT:#x};;;{user})") };
    Ok(format!("O:{me}D:P(A;;GA;;;{me})(A;;GA;;;SY){users}{}", label(MEDIUM)))
}

/// The owner and the access list, in SDDL, of a pipe for this user alone, and if this process is
/// elevated, for elevated processes alone.
pub(super) fn guarded_access() -> io::Result<String> {
    let me = User::me()?;
    Ok(format!("O:{me}D:P(A;;GA;;;{me})(A;;GA;;;SY){}", label(security::my_integrity()?)))
}

/// The label that denies writing, and so connecting, to processes at a lower integrity level.
fn label(integrity: u32) -> &'static str {
    if integrity >= HIGH { "S:(ML;;NW;;;HI)" } else { "S:(ML;;NW;;;ME)" }
}

/// Checks the integrity level of a pipe that a client has opened; `server` is the id of its
/// server's process. A process at a low level, such as a browser's, runs as this user and could
/// make the pipe before the daemon does.
pub(super) fn check_integrity(pipe: RawHandle, server: Option<u32>) -> io::Result<()> {
    if integrity(&security::sddl(pipe)?) >= MEDIUM {
        return Ok(());
    }
    let process = server.map_or_else(String::new, |pid| format!(" (process {pid})"));
    Err(refusal(
        io::ErrorKind::PermissionDenied,
        format!(
            "a program with few rights{process}, such as a sandboxed one, listens there: end it"
        ),
    ))
}

/// The integrity level of a pipe, as its description in SDDL states it. Without a label, the level
/// is that of ordinary programs.
fn integrity(sddl: &str) -> u32 {
    let Some((_, label)) = sddl.split_once("(ML;") else { return MEDIUM };
    let entry = label.split(')').next().unwrap_or_default();
    match entry.rsplit(';').next().unwrap_or_default() {
        "ME" | "MP" => MEDIUM,
        "HI" | "SI" => HIGH,
        // Low, or a level by its number.
        other => other.strip_prefix("S-1-16-").and_then(|level| level.parse().ok()).unwrap_or(0),
    }
}

/// The state of the instances under a pipe's name.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum PipeState {
    Absent,
    /// An instance waits for a client.
    Listening,
    /// Instances exist, and none of them waits for a client.
    Unattended,
}

/// Waits until the pipe has no instance or one that waits for a client, at most for
/// [`RELEASE_TIMEOUT`]. Returns the last state.
pub(super) fn settled_state(endpoint: &Endpoint) -> PipeState {
    let give_up = Instant::now() + RELEASE_TIMEOUT;
    loop {
        let found = look(endpoint);
        if found != PipeState::Unattended || Instant::now() > give_up {
            return found;
        }
        thread::sleep(POLL_INTERVAL);
    }
}

/// Examines the instances of a pipe without connecting.
fn look(endpoint: &Endpoint) -> PipeState {
    let path = wide(endpoint.as_text());
    // SAFETY: the path ends with a zero.
    if unsafe { WaitNamedPipeW(path.as_ptr(), NMPWAIT_NOWAIT) } != 0 {
        return PipeState::Listening;
    }
    match io::Error::last_os_error().raw_os_error() {
        Some(code) if code == ERROR_FILE_NOT_FOUND as i32 => PipeState::Absent,
        _ => PipeState::Unattended,
    }
}

/// Whether the instances belong to another user. None of them waits for a client.
pub(super) fn is_foreign(endpoint: &Endpoint) -> io::Result<bool> {
    let mine = Descriptor::of(&access(&User::me()?)?)?;
    match join(endpoint, &mine) {
        Ok(_) => Ok(false),
        Err(error) if error.kind() == io::ErrorKind::AddrInUse => Ok(true),
        Err(error) if error.kind() == io::ErrorKind::PermissionDenied => Ok(true),
        Err(error) => Err(error),
    }
}

/// Makes another instance of a pipe without a listener, if this user has made the pipe with the
/// same access. Any other pipe is refused, since its owner could serve this listener's clients.
pub(super) fn join(endpoint: &Endpoint, access: &Descriptor) -> io::Result<OwnedHandle> {
    let pipe = instance(endpoint.as_text(), access, 0)?;
    // The pipe is this user's if its owner and access are those of a pipe that is made now.
    let name = format!(r"\\.\pipe\{}-{:?}", process::id(), thread::current().id());
    let model = instance(&name, access, FILE_FLAG_FIRST_PIPE_INSTANCE)?;
    if security::sddl(pipe.as_raw_handle())? == security::sddl(model.as_raw_handle())? {
        return Ok(pipe);
    }
    Err(refusal(
        io::ErrorKind::AddrInUse,
        format!(
            "{endpoint} belongs to another user, or to another version; choose another endpoint"
        ),
    ))
}

pub(super) fn instance(name: &str, access: &Descriptor, flag: u32) -> io::Result<OwnedHandle> {
    let name = wide(name);
    // SAFETY: the name ends with a zero, and the attributes live until after the call.
    let pipe = unsafe {
        CreateNamedPipeW(
            name.as_ptr(),
            PIPE_ACCESS_DUPLEX | FILE_FLAG_OVERLAPPED | flag,
            PIPE_TYPE_BYTE | PIPE_READMODE_BYTE | PIPE_REJECT_REMOTE_CLIENTS,
            PIPE_UNLIMITED_INSTANCES,
            BUFFER_BYTES,
            BUFFER_BYTES,
            0,
            &access.attributes(),
        )
    };
    if pipe == INVALID_HANDLE_VALUE {
        return Err(io::Error::last_os_error());
    }
    // SAFETY: the call has succeeded, so that the handle is open and ours.
    Ok(unsafe { OwnedHandle::from_raw_handle(pipe) })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn integrity_is_that_of_the_label() {
        for (label, expected) in [
            ("", MEDIUM),
            (label(MEDIUM), MEDIUM),
            (label(HIGH), HIGH),
            ("S:(ML;;NW;;;LW)", 0),
            ("S:AI(ML;;NWNR;;;MP)", MEDIUM),
            ("S:AI(ML;;NWNR;;;S-1-16-8448)", 0x2100),
            ("S:(ML;;NW;;;S-1-16-0)", 0),
            ("S:(ML;;NW;;;", 0),
        ] {
            assert_eq!(integrity(&format!("O:BAD:P(A;;GA;;;SY){label}")), expected, "{label}");
        }
    }

    #[test]
    fn elevated_listener_admits_only_elevated_clients() {
        // The lowest level, low, medium, a bit above medium, elevated, the system.
        let labels = [0, 0x1000, MEDIUM, 0x2100, HIGH, 0x4000].map(label);
        let [low @ .., elevated, system] = labels;
        assert_eq!(low, ["S:(ML;;NW;;;ME)"; 4]);
        assert_eq!([elevated, system], ["S:(ML;;NW;;;HI)"; 2]);
        let mine = label(security::my_integrity().unwrap());
        let guarded = guarded_access().unwrap();
        assert!(guarded.ends_with(mine), "{guarded}");
        // An ordinary terminal can reach an elevated daemon.
        assert!(access(&User::me().unwrap()).unwrap().ends_with("S:(ML;;NW;;;ME)"));
    }
}
