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

pub(crate) fn allow_open_files(wanted: u64) -> io::Result<u64> {
    let mut limit = libc::rlimit { rlim_cur: 0, rlim_max: 0 };
    // SAFETY: the call fills in the structure that it is given.
    if unsafe { libc::getrlimit(libc::RLIMIT_NOFILE, &raw mut limit) } == -1 {
        return Err(io::Error::last_os_error());
    }
    if limit.rlim_cur < wanted {
        let before = limit.rlim_cur;
        limit.rlim_cur = wanted.min(limit.rlim_max);
        // SAFETY: the call reads the structure that it is given.
        if unsafe { libc::setrlimit(libc::RLIMIT_NOFILE, &raw const limit) } == -1 {
            return Ok(before);
        }
    }
    Ok(limit.rlim_cur)
}

pub(crate) fn exit_code(status: ExitStatus) -> i32 {
    status.code().or(status.signal().map(|signal| 128 + signal)).unwrap_or(1)
}
