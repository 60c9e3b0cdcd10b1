//! The processes attached to a console, queried by a server process. A process can only query the
//! console that it is attached to, and this process has to stay attached to its own.
//!
//! The server is attached only while it answers. At other times it does not keep the console open,
//! and programs do not find it there. Ctrl-C, Ctrl-Break and a closing console reach the server
//! only while it answers: it ignores the keys, and if a closing console ends it, the next query
//! starts another server. The server has no console of its own, is in no job of the command's, and
//! ends with its input.
//!
//! A request is the id of a process of the console, as a u32. The answer is an error number or 0,
//! the number of members, and the members without the server itself. All numbers are little-endian.

use std::{
    ffi::OsString,
    fs::File,
    io::{self, Read as _, Write as _},
    mem::take,
    os::windows::{
        io::{AsHandle as _, AsRawHandle as _},
        process::CommandExt as _,
    },
    process::{Child, ChildStdout, Command, Stdio},
    ptr::null_mut,
    thread,
    time::{Duration, Instant},
};

use windows_sys::{
    Win32::{
        Foundation::ERROR_MORE_DATA,
        System::{
            Console::{
                AttachConsole, CTRL_BREAK_EVENT, CTRL_C_EVENT, FreeConsole, GetConsoleProcessList,
                SetConsoleCtrlHandler,
            },
            Pipes::PeekNamedPipe,
            Threading::DETACHED_PROCESS,
        },
    },
    core::BOOL,
};

use crate::{naming, refusal, security::checked};

/// The timeout of an answer, which usually takes a fraction of a millisecond.
const ANSWER_TIMEOUT: Duration = Duration::from_secs(1);
/// The timeout of a new server's first answer, which includes its start. A virus scanner may delay
/// the start.
const SERVER_START_TIMEOUT: Duration = Duration::from_secs(5);
/// The pause between two checks for an answer.
const POLL_INTERVAL: Duration = Duration::from_millis(1);
/// The most starts of the server within [`STARTS_WITHIN`].
const STARTS_MAX: usize = 4;
const STARTS_WITHIN: Duration = Duration::from_secs(60);
/// Room for the server and for one member above the limit, so that exceeding it is noticed.
const MEMBERS_MAX: usize = super::PROCESSES_MAX + 2;

/// The member server, while it runs.
#[derive(Debug)]
pub(super) struct Server {
    command: Option<Vec<OsString>>,
    running: Option<Running>,
    starts: Vec<Instant>,
}

#[derive(Debug)]
struct Running {
    process: Child,
    has_answered: bool,
}

impl Server {
    pub(super) fn new(command: Option<Vec<OsString>>) -> Self {
        Self { command, running: None, starts: Vec::new() }
    }

    /// The processes attached to the console of `pid`.
    pub(super) fn members(&mut self, pid: u32) -> io::Result<Vec<u32>> {
        let mut running = match take(&mut self.running) {
            Some(running) => running,
            None => self.start()?,
        };
        let answer = running.ask(pid).map_err(naming("ask the console's member server"))?;
        self.running = Some(running);
        answer.map_err(naming("attach to the console"))
    }

    fn start(&mut self) -> io::Result<Running> {
        let Some([program, arguments @ ..]) = self.command.as_deref() else {
            let why = "there is no member server to ask the console for its processes";
            return Err(refusal(io::ErrorKind::Unsupported, why));
        };
        let now = Instant::now();
        self.starts.retain(|start| now.duration_since(*start) < STARTS_WITHIN);
        if self.starts.len() >= STARTS_MAX {
            let why = "the console's member server failed repeatedly; retry in a minute";
            return Err(refusal(io::ErrorKind::WouldBlock, why));
        }
        self.starts.push(now);
        let mut command = Command::new(program);
        command.args(arguments).stdin(Stdio::piped()).stdout(Stdio::piped());
        command.stderr(Stdio::null()).creation_flags(DETACHED_PROCESS);
        let started = command.spawn().map_err(naming("start the console's member server"));
        started.map(|process| Running { process, has_answered: false })
    }
}

impl Running {
    /// Requests the members of the console of process `pid`. The outer error means that the server
    /// has failed, the inner error that the server cannot query the console.
    fn ask(&mut self, pid: u32) -> io::Result<io::Result<Vec<u32>>> {
        let within = if self.has_answered { ANSWER_TIMEOUT } else { SERVER_START_TIMEOUT };
        let by = Instant::now() + within;
        let (Some(input), Some(output)) = (&mut self.process.stdin, &mut self.process.stdout)
        else {
            return Err(io::ErrorKind::BrokenPipe.into());
        };
        input.write_all(&pid.to_le_bytes()).map_err(|_| server_ended())?;
        let [error, count] = numbers(output, 2, by)?[..] else { return Err(invalid_answer()) };
        if count as usize > MEMBERS_MAX {
            return Err(invalid_answer());
        }
        let members = numbers(output, count as usize, by)?;
        self.has_answered = true;
        Ok(match error {
            0 => Ok(members),
            error => Err(io::Error::from_raw_os_error(error as i32)),
        })
    }
}

impl Drop for Running {
    fn drop(&mut self) {
        // Killing fails only if the server has already ended.
        let _ = self.process.kill();
    }
}

/// Reads `count` numbers, or fails at the deadline. A blocking read would have no timeout.
fn numbers(output: &mut ChildStdout, count: usize, by: Instant) -> io::Result<Vec<u32>> {
    let mut bytes = vec![0; count * size_of::<u32>()];
    while available_bytes(output)? < bytes.len() {
        if Instant::now() >= by {
            return Err(refusal(io::ErrorKind::TimedOut, "it does not answer"));
        }
        thread::sleep(POLL_INTERVAL);
    }
    output.read_exact(&mut bytes).map_err(|_| server_ended())?;
    let number = |bytes: &[u8]| bytes.try_into().map_or(0, u32::from_le_bytes);
    Ok(bytes.chunks_exact(size_of::<u32>()).map(number).collect())
}

fn available_bytes(output: &ChildStdout) -> io::Result<usize> {
    let mut bytes = 0;
    // SAFETY: the handle is open; the pointer is to a number of ours, and null is for what is not
    // asked.
    let peeked = unsafe {
        PeekNamedPipe(output.as_raw_handle(), null_mut(), 0, null_mut(), &mut bytes, null_mut())
    };
    checked(peeked).map_err(|_| server_ended())?;
    Ok(bytes as usize)
}

fn server_ended() -> io::Error {
    refusal(io::ErrorKind::BrokenPipe, "it has ended")
}

fn invalid_answer() -> io::Error {
    refusal(io::ErrorKind::InvalidData, "its answer cannot be understood")
}

/// The body of the server process.
pub(super) fn serve() -> io::Result<()> {
    // Copies, since attaching to a console may replace the standard streams.
    let mut input = File::from(io::stdin().as_handle().try_clone_to_owned()?);
    let mut output = File::from(io::stdout().as_handle().try_clone_to_owned()?);
    // SAFETY: the function has the required signature, and is never removed.
    checked(unsafe { SetConsoleCtrlHandler(Some(ignore), 1) })?;
    // SAFETY: no pointers. A failure means that there is no console to leave.
    unsafe { FreeConsole() };
    let mut request = [0; size_of::<u32>()];
    while input.read(&mut request[..1])? == 1 {
        input.read_exact(&mut request[1..])?;
        let (error, members) = match members_of(u32::from_le_bytes(request)) {
            Ok(members) => (0, members),
            Err(error) => (error.raw_os_error().unwrap_or(-1) as u32, Vec::new()),
        };
        let numbers = [error, members.len() as u32].into_iter().chain(members);
        let answer: Vec<u8> = numbers.flat_map(u32::to_le_bytes).collect();
        output.write_all(&answer)?;
    }
    Ok(())
}

unsafe extern "system" fn ignore(event: u32) -> BOOL {
    i32::from(matches!(event, CTRL_C_EVENT | CTRL_BREAK_EVENT))
}

fn members_of(pid: u32) -> io::Result<Vec<u32>> {
    // SAFETY: no pointers.
    checked(unsafe { AttachConsole(pid) })?;
    let mut members = vec![0; MEMBERS_MAX];
    // SAFETY: the pointer and the length are those of one array.
    let count = unsafe { GetConsoleProcessList(members.as_mut_ptr(), MEMBERS_MAX as u32) };
    let error = io::Error::last_os_error();
    // SAFETY: no pointers. The call fails only if the console is gone, which ends the attachment.
    unsafe { FreeConsole() };
    match count as usize {
        0 => Err(error),
        1..=MEMBERS_MAX => {
            members.truncate(count as usize);
            members.retain(|&member| member != std::process::id());
            Ok(members)
        }
        _ => Err(io::Error::from_raw_os_error(ERROR_MORE_DATA as i32)),
    }
}
