//! The start of a program in a pseudo console and in a job. The program is in the job from its
//! first instruction on.

use std::{
    ffi::{OsStr, OsString, c_void},
    io,
    marker::PhantomData,
    mem::zeroed,
    os::windows::{
        ffi::{OsStrExt as _, OsStringExt as _},
        io::{AsRawHandle as _, FromRawHandle as _, OwnedHandle, RawHandle},
    },
    path::{Path, PathBuf},
    process::Command,
    ptr::{null, null_mut},
};

use windows_sys::Win32::{
    Foundation::{ERROR_ACCESS_DENIED, INVALID_HANDLE_VALUE, MAX_PATH},
    System::{
        Console::SetConsoleCtrlHandler,
        JobObjects::AssignProcessToJobObject,
        SystemInformation::GetSystemDirectoryW,
        Threading::{
            CREATE_SUSPENDED, CREATE_UNICODE_ENVIRONMENT, CreateProcessW,
            DeleteProcThreadAttributeList, EXTENDED_STARTUPINFO_PRESENT,
            InitializeProcThreadAttributeList, LPPROC_THREAD_ATTRIBUTE_LIST,
            PROC_THREAD_ATTRIBUTE_JOB_LIST, PROC_THREAD_ATTRIBUTE_PSEUDOCONSOLE,
            PROCESS_INFORMATION, ResumeThread, STARTF_USESTDHANDLES, STARTUPINFOEXW,
            TerminateProcess, UpdateProcThreadAttribute,
        },
    },
};

use super::{Console, KILLED};
use crate::{pty::command_line, refusal, security::checked};

/// The longest line that cmd.exe reads.
const SHELL_UNITS_MAX: usize = 8191;

/// Starts the process of a command whose file is `program`.
pub(super) fn start(
    program: &Path,
    command: &Command,
    console: &Console,
    job: &OwnedHandle,
) -> io::Result<OwnedHandle> {
    let mut plan = Plan::new(program, command)?;
    match plan.start_in(console, job) {
        // A program from the Microsoft Store has a job of its own. The system may refuse to start
        // it in another job.
        Err(error) if error.raw_os_error() == Some(ERROR_ACCESS_DENIED as i32) => {
            plan.start_beside(console, job)
        }
        result => result,
    }
}

/// The parameters of CreateProcessW. All texts end with a zero, the environment with two.
struct Plan {
    program: Vec<u16>,
    line: Vec<u16>,
    environment: Vec<u16>,
    directory: Option<Vec<u16>>,
}

impl Plan {
    fn new(program: &Path, command: &Command) -> io::Result<Self> {
        let (program, line) = lines(program, command)?;
        let directory = command.get_current_dir().map(zero_ended).transpose()?;
        Ok(Self { program, line, environment: environment(command)?, directory })
    }

    /// Starts the process in the job.
    fn start_in(&mut self, console: &Console, job: &OwnedHandle) -> io::Result<OwnedHandle> {
        let jobs = [job.as_raw_handle()];
        self.create(Attributes::new(console, &jobs)?, 0).map(|(process, _)| process)
    }

    /// Starts the process suspended, and puts it into the job if the system allows that.
    fn start_beside(&mut self, console: &Console, job: &OwnedHandle) -> io::Result<OwnedHandle> {
        let attributes = Attributes::new(console, &[])?;
        let (process, thread) = self.create(attributes, CREATE_SUSPENDED)?;
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

    /// Creates the process; returns it and its first thread.
    fn create(
        &mut self,
        mut attributes: Attributes<'_>,
        flags: u32,
    ) -> io::Result<(OwnedHandle, OwnedHandle)> {
        // SAFETY: all-zero is a valid value of the type.
        let mut startup: STARTUPINFOEXW = unsafe { zeroed() };
        startup.StartupInfo.cb = size_of::<STARTUPINFOEXW>() as u32;
        // Without these values, the program could get this process's streams, not the console's.
        startup.StartupInfo.dwFlags = STARTF_USESTDHANDLES;
        startup.StartupInfo.hStdInput = INVALID_HANDLE_VALUE;
        startup.StartupInfo.hStdOutput = INVALID_HANDLE_VALUE;
        startup.StartupInfo.hStdError = INVALID_HANDLE_VALUE;
        startup.lpAttributeList = attributes.list();
        // SAFETY: all-zero is a valid value of the type.
        let mut started: PROCESS_INFORMATION = unsafe { zeroed() };
        // A detached process ignores Ctrl-C, and the program would inherit that.
        // SAFETY: no function is registered.
        checked(unsafe { SetConsoleCtrlHandler(None, 0) })?;
        // SAFETY: the texts end as the system requires; the attributes, and what they point to,
        // live longer than the call, and so do the two values of ours.
        checked(unsafe {
            CreateProcessW(
                self.program.as_ptr(),
                self.line.as_mut_ptr(),
                null(),
                null(),
                0,
                EXTENDED_STARTUPINFO_PRESENT | CREATE_UNICODE_ENVIRONMENT | flags,
                self.environment.as_ptr().cast(),
                self.directory.as_ref().map_or(null(), |directory| directory.as_ptr()),
                (&raw const startup).cast(),
                &mut started,
            )
        })?;
        // SAFETY: the call has succeeded, so that both handles are open and ours.
        Ok(unsafe {
            (
                OwnedHandle::from_raw_handle(started.hProcess),
                OwnedHandle::from_raw_handle(started.hThread),
            )
        })
    }
}

/// The file to run and its command line: the system's shell runs a batch file.
fn lines(program: &Path, command: &Command) -> io::Result<(Vec<u16>, Vec<u16>)> {
    let arguments = command.get_args().map(units).collect::<io::Result<Vec<_>>>()?;
    let own = units(program.as_os_str())?;
    let (program, mut line) = if command_line::is_batch_file(&program.to_string_lossy()) {
        let line = command_line::of_batch_file(&own, &arguments);
        let line = line.map_err(|number| no_batch_argument(program, command, number))?;
        if line.len() > SHELL_UNITS_MAX {
            return Err(too_long_for_batch(program));
        }
        (shell()?, line)
    } else {
        (program.to_owned(), command_line::of_program(&own, &arguments))
    };
    line.push(0);
    Ok((zero_ended(program)?, line))
}

fn too_long_for_batch(program: &Path) -> io::Error {
    refusal(
        io::ErrorKind::InvalidInput,
        format!(
            "the command line of the batch file {} is longer than the {SHELL_UNITS_MAX} characters that the system's \
             shell reads: run its .exe, or its script with node",
            program.display()
        ),
    )
}

fn no_batch_argument(program: &Path, command: &Command, number: usize) -> io::Error {
    let argument = command.get_args().nth(number).unwrap_or_default();
    refusal(
        io::ErrorKind::InvalidInput,
        format!(
            "the batch file {} cannot take {argument:?}, which has a line break: run its .exe, or its \
             script with node",
            program.display()
        ),
    )
}

/// The path of the system's cmd.exe, which is independent of the environment.
fn shell() -> io::Result<PathBuf> {
    let mut directory = [0; MAX_PATH as usize];
    // SAFETY: the pointer and the length are those of one array.
    let length = unsafe { GetSystemDirectoryW(directory.as_mut_ptr(), MAX_PATH) };
    match directory.get(..length as usize) {
        Some(directory @ [_, ..]) => {
            Ok(PathBuf::from(OsString::from_wide(directory)).join("cmd.exe"))
        }
        _ => Err(io::Error::last_os_error()),
    }
}

/// The environment block. The command keeps its variables in the order that the system requires.
fn environment(command: &Command) -> io::Result<Vec<u16>> {
    let mut block = Vec::new();
    for (name, value) in command.get_envs() {
        let Some(value) = value else { continue };
        block.extend(units(name)?);
        block.push(u16::from(b'='));
        block.extend(units(value)?);
        block.push(0);
    }
    if block.is_empty() {
        block.push(0);
    }
    block.push(0);
    Ok(block)
}

fn zero_ended(text: impl AsRef<OsStr>) -> io::Result<Vec<u16>> {
    let mut units = units(text.as_ref())?;
    units.push(0);
    Ok(units)
}

fn units(text: &OsStr) -> io::Result<Vec<u16>> {
    let units: Vec<u16> = text.encode_wide().collect();
    if units.contains(&0) {
        let why = format!("{text:?} contains a zero character: remove it");
        return Err(refusal(io::ErrorKind::InvalidInput, why));
    }
    Ok(units)
}

/// The attribute list of a new process; `'a` is the lifetime of the values it points to.
struct Attributes<'a> {
    /// The list's bytes, aligned as pointers are.
    list: Vec<u64>,
    of: PhantomData<(&'a Console, &'a [RawHandle])>,
}

impl<'a> Attributes<'a> {
    fn new(console: &'a Console, jobs: &'a [RawHandle]) -> io::Result<Self> {
        let mut bytes = 0;
        // SAFETY: without a list, the call only writes the needed length into our number.
        unsafe { InitializeProcThreadAttributeList(null_mut(), 2, 0, &mut bytes) };
        let mut list = vec![0_u64; bytes.div_ceil(size_of::<u64>())];
        // SAFETY: the list is as long as the number says.
        checked(unsafe {
            InitializeProcThreadAttributeList(list.as_mut_ptr().cast(), 2, 0, &mut bytes)
        })?;
        let mut attributes = Self { list, of: PhantomData };
        let console = console.handle() as *const c_void;
        attributes.set(PROC_THREAD_ATTRIBUTE_PSEUDOCONSOLE, console, size_of_val(&console))?;
        if !jobs.is_empty() {
            attributes.set(
                PROC_THREAD_ATTRIBUTE_JOB_LIST,
                jobs.as_ptr().cast(),
                size_of_val(jobs),
            )?;
        }
        Ok(attributes)
    }

    fn set(&mut self, which: u32, value: *const c_void, bytes: usize) -> io::Result<()> {
        // SAFETY: the list has room for two; the value lives as long as this does.
        checked(unsafe {
            UpdateProcThreadAttribute(
                self.list(),
                0,
                which as usize,
                value,
                bytes,
                null_mut(),
                null(),
            )
        })
    }

    fn list(&mut self) -> LPPROC_THREAD_ATTRIBUTE_LIST {
        self.list.as_mut_ptr().cast()
    }
}

impl Drop for Attributes<'_> {
    fn drop(&mut self) {
        // SAFETY: it was initialized, and is not used any more.
        unsafe { DeleteProcThreadAttributeList(self.list()) };
    }
}

#[cfg(test)]
mod tests {
    use super::{
        super::{find, is_in, job},
        *,
    };
    use crate::pty::Size;

    #[test]
    fn command_refused_in_its_job_at_start_joins_it() {
        let mut command = Command::new("cmd");
        command.args(["/c", "exit"]).envs(std::env::vars_os());
        let program = find(&command, Path::new(r"C:\")).unwrap();
        let (console, _typing) = Console::open(Size { rows: 24, cols: 80 }).unwrap();
        let job = job().unwrap();
        let process = Plan::new(&program, &command).unwrap().start_beside(&console, &job).unwrap();
        assert!(is_in(&process, &job));
    }
}
