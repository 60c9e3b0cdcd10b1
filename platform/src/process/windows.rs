//! Windows: a detached process has no console, and is in no job that would end it.

use std::{
    io,
    os::windows::process::CommandExt as _,
    path::Path,
    process::{Child, Command, ExitStatus},
};

use windows_sys::Win32::{
    Foundation::{ERROR_ACCESS_DENIED, HANDLE_FLAG_INHERIT, SetHandleInformation},
    System::{
        Console::{GetStdHandle, STD_ERROR_HANDLE, STD_INPUT_HANDLE, STD_OUTPUT_HANDLE},
        Threading::{
            CREATE_BREAKAWAY_FROM_JOB, CREATE_NEW_PROCESS_GROUP, DETACHED_PROCESS,
            SetProcessShutdownParameters,
        },
    },
};

use crate::security::checked;

/// The suffixes that a program's file name may have beside the command's name.
pub(super) const PROGRAM_ENDINGS: [&str; 4] = [".exe", ".cmd", ".bat", ""];

/// The longest working directory of a process: 260 units less a backslash and a final zero. A
/// manifest raises the limit only for other paths. The check counts bytes, which are at least as
/// many as units.
const WORKING_DIRECTORY_MAX: usize = 258;

/// The priority at a shutdown. The default is 0x280, and processes with higher values end first.
const SHUTDOWN_LEVEL: u32 = 0x300;

pub(super) fn may_run_in(directory: &Path) -> bool {
    directory.as_os_str().len() <= WORKING_DIRECTORY_MAX
}

pub(crate) fn spawn(command: &mut Command) -> io::Result<Child> {
    keep_standard_streams();
    let alone = DETACHED_PROCESS | CREATE_NEW_PROCESS_GROUP;
    match command.creation_flags(alone | CREATE_BREAKAWAY_FROM_JOB).spawn() {
        // The job of this process does not let its processes leave the job.
        Err(error) if error.raw_os_error() == Some(ERROR_ACCESS_DENIED as i32) => {
            command.creation_flags(alone).spawn()
        }
        result => result,
    }
}

/// Changes nothing: on Windows, only memory limits the number of pipes.
pub(crate) fn allow_open_files(_wanted: u64) -> io::Result<u64> {
    Ok(u64::MAX)
}

pub(crate) fn end_before_others() -> io::Result<()> {
    // SAFETY: no pointers.
    checked(unsafe { SetProcessShutdownParameters(SHUTDOWN_LEVEL, 0) })
}

pub(crate) fn exit_code(status: ExitStatus) -> i32 {
    status.code().unwrap_or(1)
}

/// Makes the standard streams uninheritable. A child gets every inheritable handle, so a reader of
/// this process's output would otherwise also wait for the child's end. For children that need the
/// streams, Rust makes inheritable copies.
fn keep_standard_streams() {
    for stream in [STD_INPUT_HANDLE, STD_OUTPUT_HANDLE, STD_ERROR_HANDLE] {
        // SAFETY: no pointers. Fails for a missing stream or a console's, which need no change.
        unsafe { SetHandleInformation(GetStdHandle(stream), HANDLE_FLAG_INHERIT, 0) };
    }
}

pub(super) fn children(_: u32) -> Vec<u32> {
    Vec::new()
}

pub(super) fn is_alone(_: u32, _: &[u32]) -> bool {
    false
}

pub(super) fn written_files(_: u32) -> Option<Vec<std::path::PathBuf>> {
    None
}
