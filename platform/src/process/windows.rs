//! Windows: no console, and no part of a job that would end it.

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

/// What a program's file name may have after the command's.
pub(super) const PROGRAM_ENDINGS: [&str; 4] = [".exe", ".cmd", ".bat", ""];

/// How long the path of a process's directory is at most, whatever its manifest says of other paths: 260 with a
/// backslash and a zero at the end. (Here bytes are counted, which are more.)
const WORKING_DIRECTORY_MAX: usize = 258;

/// Programs have 0x280 where they don't ask, and those with more end first.
const SHUTDOWN_LEVEL: u32 = 0x300;

pub(super) fn may_run_in(directory: &Path) -> bool {
    directory.as_os_str().len() <= WORKING_DIRECTORY_MAX
}

pub(crate) fn spawn(command: &mut Command) -> io::Result<Child> {
    keep_standard_streams();
    let alone = DETACHED_PROCESS | CREATE_NEW_PROCESS_GROUP;
    match command.creation_flags(alone | CREATE_BREAKAWAY_FROM_JOB).spawn() {
        // The job that we are in lets nobody out.
        Err(error) if error.raw_os_error() == Some(ERROR_ACCESS_DENIED as i32) => {
            command.creation_flags(alone).spawn()
        }
        result => result,
    }
}

/// Pipes are bounded by memory alone.
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

/// A child gets every handle that can be inherited, wanted or not, and whoever reads our output would
/// wait for the child's end too. Rust makes copies for children that are to have these.
fn keep_standard_streams() {
    for stream in [STD_INPUT_HANDLE, STD_OUTPUT_HANDLE, STD_ERROR_HANDLE] {
        // SAFETY: no pointers. A stream that is not there, or a console's, needs nothing.
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
