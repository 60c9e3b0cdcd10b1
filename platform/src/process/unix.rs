//! Unix: a session of its own.

use std::{
    io,
    os::unix::process::{CommandExt as _, ExitStatusExt as _},
    process::{Child, Command, ExitStatus},
};

pub(crate) fn spawn(command: &mut Command) -> io::Result<Child> {
    let leave_session = || {
        // SAFETY: setsid touches no memory, and may be called between fork and exec.
        if unsafe { libc::setsid() } == -1 { Err(io::Error::last_os_error()) } else { Ok(()) }
    };
    // SAFETY: the closure only makes that one call, and allocates nothing.
    unsafe { command.pre_exec(leave_session) };
    command.spawn()
}

pub(crate) fn code(status: ExitStatus) -> i32 {
    status.code().or(status.signal().map(|signal| 128 + signal)).unwrap_or(1)
}
