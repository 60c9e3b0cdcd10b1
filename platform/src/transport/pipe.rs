//! Windows: a pipe's name, who may use what is under it, and what is there.
//!
//! An instance of a pipe lives until both of its ends are closed, and a process that stands still (in a debugger, or
//! in a console in which somebody has selected text) closes none. Until it does, the name is taken: no new
//! instance is the first. What is left so is gone on with if it could be ours only.

use std::{
    io,
    os::windows::io::{AsRawHandle as _, FromRawHandle as _, OwnedHandle},
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

/// What the system may keep for a side that does not read yet.
pub(super) const BUFFER_BYTES: u32 = 64 << 10;
/// Reading and writing without FILE_CREATE_PIPE_INSTANCE, which GENERIC_WRITE would ask for as well.
pub(super) const CONNECT: u32 = (FILE_GENERIC_READ | FILE_GENERIC_WRITE) & !FILE_APPEND_DATA;
/// The levels of integrity of programs as a person starts them, and of those that he has elevated.
const MEDIUM: u32 = 0x2000;
const HIGH: u32 = 0x3000;
/// How long the clients of a listener that has just ended get to notice, and to let go of its pipe.
const LET_GO: Duration = Duration::from_secs(1);
const LOOK_AGAIN: Duration = Duration::from_millis(10);

/// Who may use the pipe, and who owns it. Whom a service serves may connect, but not make instances of his own,
/// in which others would meet him instead. What runs at a low level of integrity may only look on.
pub(super) fn access(user: &User) -> io::Result<String> {
    let me = User::me()?;
    let users = if *user == me { String::new() } else { format!("(A;;{CONNECT:#x};;;{user})") };
    Ok(format!("O:{me}D:P(A;;GA;;;{me})(A;;GA;;;SY){users}{}", label(MEDIUM)))
}

/// The same for this user alone, and where this process is elevated, for his elevated ones.
pub(super) fn guarded_access() -> io::Result<String> {
    let me = User::me()?;
    Ok(format!("O:{me}D:P(A;;GA;;;{me})(A;;GA;;;SY){}", label(security::my_integrity()?)))
}

/// Whoever runs at a lower level of integrity may not write, and so not connect.
fn label(integrity: u32) -> &'static str {
    if integrity >= HIGH { "S:(ML;;NW;;;HI)" } else { "S:(ML;;NW;;;ME)" }
}

/// What there is under a pipe's name.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Found {
    Nothing,
    /// An instance that waits for a client.
    Listening,
    /// Instances that all have had theirs.
    Unattended,
}

/// Looks until there is nothing, or something listens, or neither has come.
pub(crate) fn look_until_settled(endpoint: &Endpoint) -> Found {
    let give_up = Instant::now() + LET_GO;
    loop {
        let found = look(endpoint);
        if found != Found::Unattended || Instant::now() > give_up {
            return found;
        }
        thread::sleep(LOOK_AGAIN);
    }
}

/// Without connecting to it.
fn look(endpoint: &Endpoint) -> Found {
    let path = wide(endpoint.as_text());
    // SAFETY: the path ends with a zero.
    if unsafe { WaitNamedPipeW(path.as_ptr(), NMPWAIT_NOWAIT) } != 0 {
        return Found::Listening;
    }
    match io::Error::last_os_error().raw_os_error() {
        Some(code) if code == ERROR_FILE_NOT_FOUND as i32 => Found::Nothing,
        _ => Found::Unattended,
    }
}

/// Whether what is unattended there is another's than this user's.
pub(crate) fn is_foreign(endpoint: &Endpoint) -> io::Result<bool> {
    let mine = Descriptor::of(&access(&User::me()?)?)?;
    match go_on_with(endpoint, &mine) {
        Ok(_) => Ok(false),
        Err(error) if error.kind() == io::ErrorKind::AddrInUse => Ok(true),
        Err(error) if error.kind() == io::ErrorKind::PermissionDenied => Ok(true),
        Err(error) => Err(error),
    }
}

/// One more instance of a pipe that nobody attends to, which this user has made with the same access. Anything
/// else is refused: in a stranger's pipe, clients would meet the stranger.
pub(super) fn go_on_with(endpoint: &Endpoint, access: &Descriptor) -> io::Result<OwnedHandle> {
    let pipe = instance(endpoint.as_text(), access, 0)?;
    // What the system makes of that access, it says of a pipe that is certainly ours.
    let name = format!(r"\\.\pipe\{}-{:?}", process::id(), thread::current().id());
    let model = instance(&name, access, FILE_FLAG_FIRST_PIPE_INSTANCE)?;
    if security::description(pipe.as_raw_handle())? == security::description(model.as_raw_handle())?
    {
        return Ok(pipe);
    }
    Err(refusal(
        io::ErrorKind::AddrInUse,
        format!(
            "{endpoint} is somebody else's, or was made by another version: choose another endpoint"
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
    fn who_is_elevated_is_reached_by_his_like_alone() {
        // At the lowest level, a bit above what is usual, elevated, the system.
        let labels = [0, 0x1000, MEDIUM, 0x2100, HIGH, 0x4000].map(label);
        let [low @ .., elevated, system] = labels;
        assert_eq!(low, ["S:(ML;;NW;;;ME)"; 4]);
        assert_eq!([elevated, system], ["S:(ML;;NW;;;HI)"; 2]);
        let mine = label(security::my_integrity().unwrap());
        let guarded = guarded_access().unwrap();
        assert!(guarded.ends_with(mine), "{guarded}");
        // An ordinary terminal reaches an elevated daemon.
        assert!(access(&User::me().unwrap()).unwrap().ends_with("S:(ML;;NW;;;ME)"));
    }
}
