//! The start of a program in a pseudo console and in a job. The program is in the job from its
//! first instruction on.

use std::{
    io,
    os::windows::io::{AsRawHandle as _, OwnedHandle},
    path::Path,
    process::Command,
};

use windows_sys::Win32::{
    Foundation::ERROR_ACCESS_DENIED,
    System::{
        Console::SetConsoleCtrlHandler,
        JobObjects::AssignProcessToJobObject,
        Threading::{CREATE_SUSPENDED, ResumeThread, TerminateProcess},
    },
};

use super::{Console, KILLED};
use crate::{
    create_process::{Inheritance, Program},
    security::checked,
};

/// Starts the process of a command with the executable `file`.
pub(super) fn start(
    file: &Path,
    command: &Command,
    console: &Console,
    job: &OwnedHandle,
) -> io::Result<OwnedHandle> {
    // A detached process ignores Ctrl-C, and the program would inherit that.
    // SAFETY: no function is registered.
    checked(unsafe { SetConsoleCtrlHandler(None, 0) })?;
    let mut program = Program::of(file, command)?;
    match start_in(&mut program, console, job) {
        // A program from the Microsoft Store has a job of its own. The system may refuse to start
        // it in another job.
        Err(error) if error.raw_os_error() == Some(ERROR_ACCESS_DENIED as i32) => {
            start_beside(&mut program, console, job)
        }
        result => result,
    }
}

/// Starts the process in the job.
fn start_in(
    program: &mut Program,
    console: &Console,
    job: &OwnedHandle,
) -> io::Result<OwnedHandle> {
    let jobs = [job.as_raw_handle()];
    let mut inheritance = Inheritance::of_console(console.handle(), &jobs)?;
    program.start(&mut inheritance, 0).map(|(process, _)| process)
}

/// Starts the process suspended, and puts it into the job if the system allows that.
fn start_beside(
    program: &mut Program,
    console: &Console,
    job: &OwnedHandle,
) -> io::Result<OwnedHandle> {
    let mut inheritance = Inheritance::of_console(console.handle(), &[])?;
    let (process, thread) = program.start(&mut inheritance, CREATE_SUSPENDED)?;
    // If this fails, the program runs outside the job, and its descendants may outlive it.
    // SAFETY: both handles are open.
    unsafe { AssignProcessToJobObject(job.as_raw_handle(), process.as_raw_handle()) };
    // SAFETY: the handle is open.
    if unsafe { ResumeThread(thread.as_raw_handle()) } == u32::MAX {
        let error = io::Error::last_os_error();
        // SAFETY: the handle is open.
        unsafe { TerminateProcess(process.as_raw_handle(), KILLED) };
        return Err(error);
    }
    Ok(process)
}

#[cfg(test)]
mod tests {
    use super::{
        super::{find, is_in, job},
        *,
    };
    use crate::pty::Size;
    use windows_sys::Win32::System::JobObjects::JOB_OBJECT_LIMIT_KILL_ON_JOB_CLOSE;

    #[test]
    fn command_refused_in_its_job_at_start_joins_it() {
        let mut command = Command::new("cmd");
        command.args(["/c", "exit"]).envs(std::env::vars_os());
        let file = find(&command, Path::new(r"C:\")).unwrap();
        let (console, _typing) = Console::open(Size { rows: 24, cols: 80 }).unwrap();
        let job = job(JOB_OBJECT_LIMIT_KILL_ON_JOB_CLOSE).unwrap();
        let process =
            start_beside(&mut Program::of(&file, &command).unwrap(), &console, &job).unwrap();
        assert!(is_in(&process, &job));
    }
}
