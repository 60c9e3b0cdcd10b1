//! Windows: a pseudo console, and a command in a job of its own. The job contains the command and
//! all its descendants from their first instruction on. portable-pty supports neither such a job
//! nor the command line of a batch file.

#[path = "windows/console.rs"]
mod console;
#[path = "windows/start.rs"]
mod start;

use std::{
    ffi::{OsStr, c_void},
    io::{self, PipeReader, PipeWriter, Read as _, Write as _},
    mem::zeroed,
    os::windows::io::{AsRawHandle as _, FromRawHandle as _, OwnedHandle},
    path::{Path, PathBuf},
    process::Command,
    ptr::null,
    sync::{Arc, Mutex},
    thread,
};

use windows_sys::Win32::System::{
    JobObjects::{
        CreateJobObjectW, JOB_OBJECT_LIMIT, JOB_OBJECT_LIMIT_BREAKAWAY_OK,
        JOB_OBJECT_LIMIT_KILL_ON_JOB_CLOSE, JOBOBJECT_EXTENDED_LIMIT_INFORMATION,
        JobObjectExtendedLimitInformation, SetInformationJobObject, TerminateJobObject,
    },
    Threading::{GetProcessId, INFINITE, TerminateProcess},
};

use super::{Size, handshake::Handshake, has_directory, not_found, variable};
use crate::{
    locked,
    process::exit_code_of,
    refusal,
    security::{self, checked},
};
use console::Console;

/// The attempts of [`super::Pty::end`] before force.
pub(crate) const GENTLE_ENDINGS: [fn(&Pty) -> io::Result<()>; 1] = [Pty::hang_up];
/// The answer to the question for the cursor's position: see [`super::BEGINS_AT_HOME`].
const ANSWER: &[u8] = b"\x1b[1;1R";
/// The exit code of processes that are ended by force.
const KILLED: u32 = 1;

/// The console and its command.
pub(crate) struct Pty {
    /// `None` once it is closed.
    console: Mutex<Option<Console>>,
    writer: SharedWriter,
    reader: Mutex<Option<Handshake>>,
    process: OwnedHandle,
    /// The job. Closing the handle ends its processes.
    job: OwnedHandle,
}

/// The pipe into the console, for typing and for the answer; `None` once it is closed.
type SharedWriter = Arc<Mutex<Option<PipeWriter>>>;

impl Pty {
    pub(crate) fn spawn(program: &Path, command: &Command, size: Size) -> io::Result<Self> {
        let (console, writer) = Console::open(size)?;
        let job = job(JOB_OBJECT_LIMIT_KILL_ON_JOB_CLOSE | JOB_OBJECT_LIMIT_BREAKAWAY_OK)?;
        let process = start::start(program, command, &console, &job)?;
        Ok(Self {
            console: Mutex::new(Some(console)),
            writer: Arc::new(Mutex::new(Some(writer))),
            reader: Mutex::new(Some(Handshake::default())),
            process,
            job,
        })
    }

    pub(crate) fn reader(&self) -> io::Result<Reader> {
        let console = locked(&self.console).as_ref().ok_or_else(closed)?.output()?;
        let handshake = locked(&self.reader).take();
        Ok(Reader { console, writer: self.writer.clone(), handshake })
    }

    pub(crate) fn writer(&self) -> io::Result<Writer> {
        Ok(Writer(self.writer.clone()))
    }

    pub(crate) fn resize(&self, size: Size) -> io::Result<()> {
        locked(&self.console).as_ref().ok_or_else(closed)?.resize(size)
    }

    pub(crate) fn pid(&self) -> u32 {
        // SAFETY: the handle is open.
        unsafe { GetProcessId(self.process.as_raw_handle()) }
    }

    /// A console's modes are known only to attached processes.
    pub(crate) fn gathers_lines(&self) -> Option<bool> {
        None
    }

    /// Does nothing: Windows has no job control.
    pub(crate) fn resume(&self) -> io::Result<()> {
        Ok(())
    }

    pub(crate) fn wait(&self) -> io::Result<i32> {
        let ended = self.wait_at_most(INFINITE)?;
        ended.ok_or_else(|| refusal(io::ErrorKind::Other, "an endless wait ended"))
    }

    pub(crate) fn try_wait(&self) -> io::Result<Option<i32>> {
        self.wait_at_most(0)
    }

    pub(crate) fn kill(&self) -> io::Result<()> {
        // The process may be in another job, so it is ended separately. The call fails if the
        // process has ended already.
        // SAFETY: the handle is open.
        unsafe { TerminateProcess(self.process.as_raw_handle(), KILLED) };
        // SAFETY: as above.
        checked(unsafe { TerminateJobObject(self.job.as_raw_handle(), KILLED) })
    }

    pub(crate) fn leave(&self) -> io::Result<()> {
        self.kill()
    }

    #[expect(clippy::unused_self, reason = "on Unix it depends on the terminal's modes")]
    pub(crate) fn end_of_input(&self) -> Option<Vec<u8>> {
        Some(b"\x1a\r".to_vec())
    }

    /// Closes the console, which ends attached processes and lets readers see the end. The call
    /// waits for neither: before Windows 11 24H2, the system's call can block until the rest of the
    /// output is read and the processes have ended, which may be never.
    pub(crate) fn close(&self) {
        let Some(console) = locked(&self.console).take() else { return };
        // A write that waits for the console holds the lock. Without the input, the console does
        // not wait for the answer to its first question.
        if let Ok(mut writer) = self.writer.try_lock() {
            *writer = None;
        }
        let writer = self.writer.clone();
        let close = move || {
            drop(console);
            *locked(&writer) = None;
        };
        // Waits for: the system, perhaps without end. Not joined: if it cannot be started, the
        // console is closed here.
        let _ = thread::Builder::new().name("console".into()).spawn(close);
    }

    fn hang_up(&self) -> io::Result<()> {
        self.close();
        Ok(())
    }

    fn wait_at_most(&self, ms: u32) -> io::Result<Option<i32>> {
        exit_code_of(&self.process, ms)
    }
}

impl Drop for Pty {
    fn drop(&mut self) {
        self.close();
    }
}

impl std::fmt::Debug for Pty {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Pty").field("pid", &self.pid()).finish_non_exhaustive()
    }
}

/// The console's output.
pub(crate) struct Reader {
    console: PipeReader,
    writer: SharedWriter,
    /// The handshake. Only the first reader has it, until the handshake is over.
    handshake: Option<Handshake>,
}

impl Reader {
    pub(crate) fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        loop {
            let Some(handshake) = &mut self.handshake else { return self.console.read(buffer) };
            let start = handshake.prepare(buffer);
            if start == buffer.len() {
                self.handshake = None;
                return Ok(start);
            }
            let read = self.console.read(&mut buffer[start..])?;
            let found = handshake.search(buffer, read);
            if handshake.is_over() {
                self.handshake = None;
            }
            if found.has_question
                && let Some(writer) = &mut *locked(&self.writer)
            {
                writer.write_all(ANSWER)?;
            }
            if found.output > 0 || read == 0 {
                return Ok(found.output);
            }
        }
    }
}

impl std::fmt::Debug for Reader {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Reader").field("handshake", &self.handshake).finish_non_exhaustive()
    }
}

/// The console's input.
pub(crate) struct Writer(SharedWriter);

impl Writer {
    pub(crate) fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        locked(&self.0).as_mut().ok_or_else(closed)?.write(bytes)
    }
}

impl std::fmt::Debug for Writer {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("Writer")
    }
}

/// Finds the command as a shell does: in PATH, and for a name without an extension, with those of
/// PATHEXT. A file without an extension does not count, since it may be a script for another shell.
pub(crate) fn find(command: &Command, cwd: &Path) -> io::Result<PathBuf> {
    let name = command.get_program();
    let path = variable(command, "PATH").unwrap_or_default();
    let directories: Vec<PathBuf> = if has_directory(name) {
        vec![cwd.to_owned()]
    } else {
        let named = std::env::split_paths(path).filter(|path| !path.as_os_str().is_empty());
        named.map(|directory| cwd.join(directory)).collect()
    };
    let extensions =
        variable(command, "PATHEXT").and_then(OsStr::to_str).unwrap_or(".EXE;.CMD;.BAT");
    let extensions: Vec<&str> =
        extensions.split(';').filter(|extension| !extension.is_empty()).collect();
    let own = Path::new(name).extension().and_then(OsStr::to_str).map(|own| format!(".{own}"));
    let is_program = |own: &String| extensions.iter().any(|known| known.eq_ignore_ascii_case(own));
    // A name such as `python3.11` has an extension, but not a program's.
    let endings = match own {
        Some(own) if is_program(&own) => vec![""],
        own => extensions.iter().copied().chain(own.map(|_| "")).collect(),
    };
    for directory in directories {
        for ending in &endings {
            let mut candidate = directory.join(name).into_os_string();
            candidate.push(ending);
            if Path::new(&candidate).is_file() {
                return Ok(candidate.into());
            }
        }
    }
    Err(not_found(name))
}

/// A job that ends all its processes when its last handle is closed, also by the end of this
/// process. Processes can be started outside the job on request, as a daemon is.
fn job(flags: JOB_OBJECT_LIMIT) -> io::Result<OwnedHandle> {
    // SAFETY: null means no attributes and no name.
    let job = unsafe { CreateJobObjectW(security::NO_ATTRIBUTES, null()) };
    if job.is_null() {
        return Err(io::Error::last_os_error());
    }
    // SAFETY: the call has succeeded, so that the handle is open and ours.
    let job = unsafe { OwnedHandle::from_raw_handle(job) };
    // SAFETY: all-zero is a valid value of it, which limits nothing.
    let mut limits: JOBOBJECT_EXTENDED_LIMIT_INFORMATION = unsafe { zeroed() };
    limits.BasicLimitInformation.LimitFlags = flags;
    // SAFETY: the handle is open; the pointer and the length are those of one value.
    checked(unsafe {
        SetInformationJobObject(
            job.as_raw_handle(),
            JobObjectExtendedLimitInformation,
            (&raw const limits).cast::<c_void>(),
            size_of_val(&limits) as u32,
        )
    })?;
    Ok(job)
}

fn closed() -> io::Error {
    refusal(io::ErrorKind::BrokenPipe, "the terminal is closed")
}

#[cfg(test)]
fn is_in(process: &OwnedHandle, job: &OwnedHandle) -> bool {
    let mut is_in = 0;
    // SAFETY: both handles are open, and the pointer is to a number of ours.
    checked(unsafe {
        windows_sys::Win32::System::JobObjects::IsProcessInJob(
            process.as_raw_handle(),
            job.as_raw_handle(),
            &mut is_in,
        )
    })
    .unwrap();
    is_in != 0
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::process::{ends_with_others, spawn_detached};
    use std::{
        env,
        ffi::OsString,
        fs,
        io::{BufRead as _, BufReader},
        process::{Stdio, exit, id},
        time::Duration,
    };
    use windows_sys::Win32::System::{
        JobObjects::AssignProcessToJobObject,
        Threading::{
            OpenProcess, PROCESS_QUERY_INFORMATION, PROCESS_SYNCHRONIZE, PROCESS_TERMINATE,
        },
    };

    /// Tells a process that it is one of those in the job, and where the detached one's log is.
    const IN_JOB: &str = "AGENT_RELAY_TEST_IN_JOB";
    const WATCHDOG: Duration = Duration::from_secs(60);

    #[test]
    fn command_starts_in_its_job() {
        let mut command = Command::new("cmd");
        command.args(["/c", "exit"]).envs(env::vars_os());
        let program = find(&command, Path::new(r"C:\")).unwrap();
        let pty = Pty::spawn(&program, &command, Size { rows: 24, cols: 80 }).unwrap();
        assert!(is_in(&pty.process, &pty.job));
        pty.kill().unwrap();
        pty.wait().unwrap();
    }

    /// Starts a process in a job that ends with its last handle; that process starts a detached
    /// one. Returns the job, the detached process, and the first one's result of
    /// [`ends_with_others`]. Both processes run the test `name`, which calls this again.
    fn start_in_job(name: &str, flags: JOB_OBJECT_LIMIT) -> (OwnedHandle, OwnedHandle, String) {
        let arguments = [name, "--nocapture"].map(OsString::from);
        let program = env::current_exe().unwrap();
        if let Some(log) = env::var_os(IN_JOB) {
            // Only the first process has an input.
            if io::stdin().lines().next().is_none() {
                thread::sleep(WATCHDOG);
            } else {
                let started = spawn_detached(&program, &arguments, Path::new(&log)).unwrap();
                println!("\n{IN_JOB} {} {}", ends_with_others().unwrap(), started.pid());
            }
            exit(0);
        }
        let log = env::temp_dir().join(format!("{name}-{}", id()));
        let mut first = Command::new(&program);
        first.args(&arguments).env(IN_JOB, &log).stdin(Stdio::piped()).stdout(Stdio::piped());
        let mut first = first.spawn().unwrap();
        let job = job(JOB_OBJECT_LIMIT_KILL_ON_JOB_CLOSE | flags).unwrap();
        // SAFETY: both handles are open.
        checked(unsafe { AssignProcessToJobObject(job.as_raw_handle(), first.as_raw_handle()) })
            .unwrap();
        writeln!(first.stdin.take().unwrap(), "it is in the job").unwrap();
        let mut said = BufReader::new(first.stdout.take().unwrap()).lines().map(Result::unwrap);
        let answer = said.find(|line| line.starts_with(IN_JOB)).unwrap();
        let [_, ends_with_others, pid] = answer.split(' ').collect::<Vec<_>>()[..] else {
            panic!("{answer}");
        };
        let access = PROCESS_SYNCHRONIZE | PROCESS_QUERY_INFORMATION | PROCESS_TERMINATE;
        // SAFETY: no pointers.
        let detached = unsafe { OpenProcess(access, 0, pid.parse().unwrap()) };
        assert!(!detached.is_null(), "{}", io::Error::last_os_error());
        fs::remove_file(log).ok();
        // SAFETY: the call has succeeded, so that the handle is open and ours.
        let detached = unsafe { OwnedHandle::from_raw_handle(detached) };
        (job, detached, ends_with_others.to_owned())
    }

    #[test]
    fn detached_process_leaves_a_job_that_allows_it() {
        let (job, detached, _) = start_in_job(
            "detached_process_leaves_a_job_that_allows_it",
            JOB_OBJECT_LIMIT_BREAKAWAY_OK,
        );
        assert!(!is_in(&detached, &job));
        // SAFETY: the handle is open.
        checked(unsafe { TerminateProcess(detached.as_raw_handle(), KILLED) }).unwrap();
    }

    #[test]
    fn detached_process_that_must_stay_in_a_job_ends_with_it() {
        let (job, detached, _) =
            start_in_job("detached_process_that_must_stay_in_a_job_ends_with_it", 0);
        assert!(is_in(&detached, &job));
        drop(job);
        let ended = exit_code_of(&detached, WATCHDOG.as_millis() as u32 / 2).unwrap();
        assert!(ended.is_some(), "the detached process runs on");
    }

    #[test]
    fn process_that_must_stay_in_a_job_knows_that_it_ends_with_others() {
        let (_job, _, ends_with_others) =
            start_in_job("process_that_must_stay_in_a_job_knows_that_it_ends_with_others", 0);
        assert_eq!(ends_with_others, "true");
    }
}
