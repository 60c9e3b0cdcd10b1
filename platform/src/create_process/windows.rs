//! Windows only: the start of a process with exactly the handles, the console and the job that it
//! is to get. The standard library can let a process inherit all inheritable handles only.

use std::{
    ffi::{OsStr, OsString, c_void},
    io,
    marker::PhantomData,
    mem::zeroed,
    os::windows::{
        ffi::{OsStrExt as _, OsStringExt as _},
        io::{FromRawHandle as _, OwnedHandle, RawHandle},
    },
    path::{Path, PathBuf},
    process::Command,
    ptr::{null, null_mut},
};

use windows_sys::Win32::{
    Foundation::{INVALID_HANDLE_VALUE, MAX_PATH},
    System::{
        Console::HPCON,
        SystemInformation::GetSystemDirectoryW,
        Threading::{
            CREATE_UNICODE_ENVIRONMENT, CreateProcessW, DeleteProcThreadAttributeList,
            EXTENDED_STARTUPINFO_PRESENT, InitializeProcThreadAttributeList,
            LPPROC_THREAD_ATTRIBUTE_LIST, PROC_THREAD_ATTRIBUTE_HANDLE_LIST,
            PROC_THREAD_ATTRIBUTE_JOB_LIST, PROC_THREAD_ATTRIBUTE_PSEUDOCONSOLE,
            PROCESS_INFORMATION, STARTF_USESTDHANDLES, STARTUPINFOEXW, UpdateProcThreadAttribute,
        },
    },
};

use super::command_line;
use crate::{refusal, security::checked};

/// The longest line that cmd.exe reads.
const SHELL_UNITS_MAX: usize = 8191;

/// A program to start with CreateProcessW. All texts end with a zero, the environment with two.
pub(crate) struct Program {
    file: Vec<u16>,
    line: Vec<u16>,
    /// `None` for the environment of this process.
    environment: Option<Vec<u16>>,
    directory: Option<Vec<u16>>,
}

impl Program {
    /// The program of a command with the executable `file`, with the command's own environment.
    pub(crate) fn of(file: &Path, command: &Command) -> io::Result<Self> {
        let environment = Some(environment(command)?);
        Ok(Self { environment, ..Self::inheriting(file, command)? })
    }

    /// As [`Program::of`], but with the environment of this process.
    pub(crate) fn inheriting(file: &Path, command: &Command) -> io::Result<Self> {
        let (file, line) = lines(file, command)?;
        let directory = command.get_current_dir().map(zero_ended).transpose()?;
        Ok(Self { file, line, environment: None, directory })
    }

    /// Creates the process; returns it and its first thread.
    pub(crate) fn start(
        &mut self,
        inheritance: &mut Inheritance<'_>,
        flags: u32,
    ) -> io::Result<(OwnedHandle, OwnedHandle)> {
        // SAFETY: all-zero is a valid value of the type.
        let mut startup: STARTUPINFOEXW = unsafe { zeroed() };
        startup.StartupInfo.cb = size_of::<STARTUPINFOEXW>() as u32;
        // Without these values, the program could get this process's streams.
        startup.StartupInfo.dwFlags = STARTF_USESTDHANDLES;
        let [input, output, errors] = inheritance.streams;
        startup.StartupInfo.hStdInput = input;
        startup.StartupInfo.hStdOutput = output;
        startup.StartupInfo.hStdError = errors;
        startup.lpAttributeList = inheritance.list();
        // SAFETY: all-zero is a valid value of the type.
        let mut started: PROCESS_INFORMATION = unsafe { zeroed() };
        let environment = self.environment.as_ref().map_or(null(), |block| block.as_ptr());
        // SAFETY: the texts end as the system requires; the attributes, and what they point to,
        // live longer than the call, and so do the two values of ours.
        checked(unsafe {
            CreateProcessW(
                self.file.as_ptr(),
                self.line.as_mut_ptr(),
                null(),
                null(),
                i32::from(inheritance.inherits),
                EXTENDED_STARTUPINFO_PRESENT | CREATE_UNICODE_ENVIRONMENT | flags,
                environment.cast(),
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

/// The console, jobs and handles of a new process; `'a` is the lifetime of the values it points to.
pub(crate) struct Inheritance<'a> {
    /// The list's bytes, aligned as pointers are.
    list: Vec<u64>,
    streams: [RawHandle; 3],
    inherits: bool,
    of: PhantomData<&'a [RawHandle]>,
}

impl<'a> Inheritance<'a> {
    /// A console with its streams, and jobs from the first instruction on.
    pub(crate) fn of_console(console: HPCON, jobs: &'a [RawHandle]) -> io::Result<Self> {
        let mut inheritance = Self::empty()?;
        let console = console as *const c_void;
        inheritance.set(PROC_THREAD_ATTRIBUTE_PSEUDOCONSOLE, console, size_of_val(&console))?;
        if !jobs.is_empty() {
            let bytes = size_of_val(jobs);
            inheritance.set(PROC_THREAD_ATTRIBUTE_JOB_LIST, jobs.as_ptr().cast(), bytes)?;
        }
        Ok(inheritance)
    }

    /// Standard input, output and errors: inheritable handles, and no others.
    pub(crate) fn of_streams(streams: &'a [RawHandle; 3]) -> io::Result<Self> {
        let mut inheritance = Self::empty()?;
        (inheritance.streams, inheritance.inherits) = (*streams, true);
        // No handle may be listed twice, so output and errors are two handles of one file.
        let list = streams.as_ptr().cast();
        inheritance.set(PROC_THREAD_ATTRIBUTE_HANDLE_LIST, list, size_of_val(streams))?;
        Ok(inheritance)
    }

    fn empty() -> io::Result<Self> {
        let mut bytes = 0;
        // SAFETY: without a list, the call only writes the needed length into our number.
        unsafe { InitializeProcThreadAttributeList(null_mut(), 2, 0, &mut bytes) };
        let mut list = vec![0_u64; bytes.div_ceil(size_of::<u64>())];
        // SAFETY: the list is as long as the number says.
        checked(unsafe {
            InitializeProcThreadAttributeList(list.as_mut_ptr().cast(), 2, 0, &mut bytes)
        })?;
        Ok(Self { list, streams: [INVALID_HANDLE_VALUE; 3], inherits: false, of: PhantomData })
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

impl Drop for Inheritance<'_> {
    fn drop(&mut self) {
        // SAFETY: it was initialized, and is not used any more.
        unsafe { DeleteProcThreadAttributeList(self.list()) };
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
             shell reads; run its .exe, or its script with node",
            program.display()
        ),
    )
}

fn no_batch_argument(program: &Path, command: &Command, number: usize) -> io::Error {
    let argument = command.get_args().nth(number).unwrap_or_default();
    refusal(
        io::ErrorKind::InvalidInput,
        format!(
            "the batch file {} cannot take {argument:?}, which has a line break; run its .exe, or its \
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
        let why = format!("{text:?} contains a zero character; remove it");
        return Err(refusal(io::ErrorKind::InvalidInput, why));
    }
    Ok(units)
}
