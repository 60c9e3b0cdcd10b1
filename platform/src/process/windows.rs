//! Windows: a detached process has no console, inherits nothing but its streams, and is in no job
//! that would end it, if this process may leave its job.

use std::{
    fs::File,
    io,
    mem::zeroed,
    os::windows::io::{AsRawHandle as _, OwnedHandle},
    path::Path,
    process::Command,
    ptr::null_mut,
};

use windows_sys::Win32::{
    Foundation::{
        ERROR_ACCESS_DENIED, HANDLE_FLAG_INHERIT, SetHandleInformation, WAIT_OBJECT_0, WAIT_TIMEOUT,
    },
    System::{
        JobObjects::{
            IsProcessInJob, JOB_OBJECT_LIMIT_KILL_ON_JOB_CLOSE,
            JOBOBJECT_EXTENDED_LIMIT_INFORMATION, JobObjectExtendedLimitInformation,
            QueryInformationJobObject,
        },
        Threading::{
            CREATE_BREAKAWAY_FROM_JOB, CREATE_NEW_PROCESS_GROUP, DETACHED_PROCESS,
            GetCurrentProcess, GetExitCodeProcess, GetProcessId, SetProcessShutdownParameters,
            WaitForSingleObject,
        },
    },
};

use crate::{
    create_process::{Inheritance, Program},
    security::checked,
};

/// The suffixes that a program's file name may have after the command's name.
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

#[derive(Debug)]
pub(super) struct Child {
    process: OwnedHandle,
    ends_with_others: bool,
}

impl Child {
    pub(super) fn id(&self) -> u32 {
        // SAFETY: the handle is open.
        unsafe { GetProcessId(self.process.as_raw_handle()) }
    }

    pub(super) fn exited(&mut self) -> io::Result<Option<i32>> {
        exit_code_of(&self.process, 0)
    }

    pub(super) fn ends_with_others(&self) -> bool {
        self.ends_with_others
    }
}

pub(super) fn spawn(command: &mut Command, output: File) -> io::Result<Child> {
    let input = File::open("NUL")?;
    // The same file twice, since no handle may be listed twice.
    let (output, errors) = (output.try_clone()?, output);
    let streams = [input.as_raw_handle(), output.as_raw_handle(), errors.as_raw_handle()];
    for stream in streams {
        // SAFETY: the handle is open.
        checked(unsafe { SetHandleInformation(stream, HANDLE_FLAG_INHERIT, HANDLE_FLAG_INHERIT) })?;
    }
    let mut inheritance = Inheritance::of_streams(&streams)?;
    let mut program = Program::inheriting(Path::new(command.get_program()), command)?;
    let alone = DETACHED_PROCESS | CREATE_NEW_PROCESS_GROUP;
    let mut start = |flags| program.start(&mut inheritance, alone | flags);
    match start(CREATE_BREAKAWAY_FROM_JOB) {
        // The job of this process does not let its processes leave the job.
        Err(error) if error.raw_os_error() == Some(ERROR_ACCESS_DENIED as i32) => {
            let (process, _) = start(0)?;
            // If the system does not report this, it may.
            Ok(Child { process, ends_with_others: ends_with_others().unwrap_or(true) })
        }
        started => started.map(|(process, _)| Child { process, ends_with_others: false }),
    }
}

pub(super) fn ends_with_others() -> io::Result<bool> {
    let mut is_in_job = 0;
    // SAFETY: the process is our own, null means any job, and the pointer is to a number of ours.
    checked(unsafe { IsProcessInJob(GetCurrentProcess(), null_mut(), &mut is_in_job) })?;
    if is_in_job == 0 {
        return Ok(false);
    }
    // SAFETY: all-zero is a valid value of the type.
    let mut limits: JOBOBJECT_EXTENDED_LIMIT_INFORMATION = unsafe { zeroed() };
    // SAFETY: null means the job of this process; the pointer and the length are those of one
    // value, and null asks for no length.
    checked(unsafe {
        QueryInformationJobObject(
            null_mut(),
            JobObjectExtendedLimitInformation,
            (&raw mut limits).cast(),
            size_of_val(&limits) as u32,
            null_mut(),
        )
    })?;
    Ok(limits.BasicLimitInformation.LimitFlags & JOB_OBJECT_LIMIT_KILL_ON_JOB_CLOSE != 0)
}

/// Waits for the end of a process, and returns its exit code; `None` after the timeout.
pub(crate) fn exit_code_of(process: &OwnedHandle, ms: u32) -> io::Result<Option<i32>> {
    let process = process.as_raw_handle();
    // SAFETY: the handle is open.
    match unsafe { WaitForSingleObject(process, ms) } {
        WAIT_OBJECT_0 => {
            let mut code = 0;
            // SAFETY: as above, and the pointer is to a number of ours.
            checked(unsafe { GetExitCodeProcess(process, &mut code) })?;
            Ok(Some(code as i32))
        }
        WAIT_TIMEOUT => Ok(None),
        _ => Err(io::Error::last_os_error()),
    }
}

/// Changes nothing: the process's heap has no arenas.
pub(crate) const fn keep_little_memory() {}

/// Changes nothing: the heap returns what is free by itself.
pub(crate) const fn return_free_memory() {}

/// Changes nothing: on Windows, only memory limits the number of pipes.
pub(crate) fn allow_open_files(_wanted: u64) -> io::Result<u64> {
    Ok(u64::MAX)
}

pub(crate) fn end_before_others() -> io::Result<()> {
    // SAFETY: no pointers.
    checked(unsafe { SetProcessShutdownParameters(SHUTDOWN_LEVEL, 0) })
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
