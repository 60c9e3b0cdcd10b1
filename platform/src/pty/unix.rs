//! Unix: portable-pty's terminal and child, with reading, writing and waiting of this crate.
//!
//! The terminal's descriptor is non-blocking; threads wait in poll, together with a descriptor that
//! reports [`Pty::close`]. portable-pty's own writer would type an end-of-file into the terminal
//! when it is dropped, and its reader cannot be ended.

use std::{
    fs::File,
    io::{self, Read as _, Write as _},
    os::{
        fd::{AsRawFd as _, BorrowedFd, OwnedFd},
        unix::fs::PermissionsExt as _,
    },
    path::{Path, PathBuf},
    process::{self, Command},
    sync::{Arc, Mutex},
};

use portable_pty::{Child, CommandBuilder, MasterPty, PtySize, native_pty_system};

use super::{Size, has_directory, not_found, variable};
use crate::{
    locked,
    poll::Stop,
    process::{exit_code, family, session_members, session_of},
    refusal,
};

/// The attempts of [`super::Pty::end`] before force.
pub(crate) const GENTLE_ENDINGS: [fn(&Pty) -> io::Result<()>; 2] = [Pty::hang_up, Pty::terminate];

/// The terminal and its command.
pub(crate) struct Pty {
    master: Mutex<Box<dyn MasterPty + Send>>,
    child: Mutex<State>,
    pid: libc::pid_t,
    closed: Arc<Stop>,
}

/// The state of the child. Its pid is valid only until it has been waited for.
enum State {
    Running {
        child: Box<process::Child>,
        /// The command and its descendants when [`super::Pty::end`] began, which end with it.
        ending: Option<Vec<u32>>,
    },
    Ended(i32),
}

impl Pty {
    pub(crate) fn spawn(program: &Path, command: &Command, size: Size) -> io::Result<Self> {
        let pair = native_pty_system().openpty(pty_size(size)).map_err(io_error)?;
        let closed = Arc::new(Stop::new()?);
        let child: Box<dyn Child> =
            pair.slave.spawn_command(builder(program, command)).map_err(io_error)?;
        let child = child.downcast::<process::Child>().map_err(|_| {
            io::Error::other(format!("{} is a child of an unknown kind", program.display()))
        })?;
        let pid = child.id() as libc::pid_t;
        let pty = Self {
            master: Mutex::new(pair.master),
            child: Mutex::new(State::Running { child, ending: None }),
            pid,
            closed,
        };
        let master = pty.master()?;
        // SAFETY: the descriptor is open, and the request has no pointers.
        if unsafe {
            libc::fcntl(master.as_raw_fd(), libc::F_SETFL, libc::O_RDWR | libc::O_NONBLOCK)
        } != 0
        {
            return Err(io::Error::last_os_error());
        }
        Ok(pty)
    }

    pub(crate) fn reader(&self) -> io::Result<Reader> {
        Ok(Reader { terminal: self.master()?, closed: self.closed.clone() })
    }

    pub(crate) fn writer(&self) -> io::Result<Writer> {
        Ok(Writer { terminal: self.master()?, closed: self.closed.clone() })
    }

    pub(crate) fn resize(&self, size: Size) -> io::Result<()> {
        locked(&self.master).resize(pty_size(size)).map_err(io_error)
    }

    pub(crate) fn pid(&self) -> u32 {
        self.pid.unsigned_abs()
    }

    pub(crate) fn foreground_group(&self) -> io::Result<Option<u32>> {
        let master = locked(&self.master);
        let Some(descriptor) = master.as_raw_fd() else { return Ok(None) };
        // SAFETY: no pointers; the master is open while it is locked.
        match unsafe { libc::tcgetpgrp(descriptor) } {
            -1 => Err(io::Error::last_os_error()),
            group => Ok(u32::try_from(group).ok().filter(|group| *group > 0)),
        }
    }

    pub(crate) fn gathers_lines(&self) -> Option<bool> {
        let modes = locked(&self.master).get_termios()?;
        Some(modes.local_flags.bits() & libc::ICANON != 0)
    }

    pub(crate) fn resume(&self) -> io::Result<()> {
        // SAFETY: no pointers; the group is the child's, if the child has not been waited for.
        let has_failed = unsafe { libc::kill(-self.pid, libc::SIGCONT) } != 0;
        let error = io::Error::last_os_error();
        // The group has no members but the ended child. macOS then returns EPERM.
        let is_gone = matches!(error.raw_os_error(), Some(libc::ESRCH | libc::EPERM));
        if has_failed && !is_gone { Err(error) } else { Ok(()) }
    }

    pub(crate) fn wait(&self) -> io::Result<i32> {
        loop {
            if let State::Ended(code) = *locked(&self.child) {
                return Ok(code);
            }
            match self.look(0) {
                Ok(_) => {
                    if let Some(code) = self.try_wait()? {
                        return Ok(code);
                    }
                }
                Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
                // ECHILD: another thread has just waited for the child.
                Err(error)
                    if error.raw_os_error() == Some(libc::ECHILD)
                        && matches!(*locked(&self.child), State::Ended(_)) => {}
                Err(error) => return Err(error),
            }
        }
    }

    pub(crate) fn try_wait(&self) -> io::Result<Option<i32>> {
        let mut state = locked(&self.child);
        if let State::Running { child, ending } = &mut *state {
            if let Some(family) = ending {
                if !self.has_ended()? {
                    return Ok(None);
                }
                // The session's id stays valid until the child has been waited for.
                self.signal_all(family, libc::SIGKILL)?;
            }
            let Some(status) = child.try_wait()? else { return Ok(None) };
            *state = State::Ended(exit_code(status));
        }
        match *state {
            State::Ended(code) => Ok(Some(code)),
            State::Running { .. } => Ok(None),
        }
    }

    pub(crate) fn kill(&self) -> io::Result<()> {
        self.force(libc::SIGKILL)
    }

    pub(crate) fn close(&self) {
        self.closed.stop();
    }

    /// Hangs up the whole session, and resumes what is stopped, so that it can take the hang-up.
    pub(crate) fn leave(&self) -> io::Result<()> {
        let session = session_members(self.pid());
        self.signal_all(&session, libc::SIGHUP)?;
        self.signal_all(&session, libc::SIGCONT)
    }

    fn hang_up(&self) -> io::Result<()> {
        if let State::Running { ending, .. } = &mut *locked(&self.child) {
            ending.get_or_insert_with(|| family(self.pid()));
        }
        self.leave()
    }

    fn terminate(&self) -> io::Result<()> {
        self.force(libc::SIGTERM)
    }

    /// Sends a signal to the command and its descendants, unless the command has been waited for.
    fn force(&self, signal: libc::c_int) -> io::Result<()> {
        match &*locked(&self.child) {
            State::Ended(_) => Ok(()),
            State::Running { ending, .. } => {
                self.signal_all(ending.as_deref().unwrap_or_default(), signal)?;
                // Some may have started since.
                self.signal_all(&family(self.pid()), signal)
            }
        }
    }

    /// Sends a signal to each of these processes that is still in the terminal's session.
    fn signal_all(&self, pids: &[u32], signal: libc::c_int) -> io::Result<()> {
        for pid in pids.iter().filter(|pid| session_of(**pid) == Some(self.pid())) {
            // SAFETY: no pointers. The process may have ended since, or may be another user's.
            if unsafe { libc::kill(*pid as libc::pid_t, signal) } != 0 {
                let error = io::Error::last_os_error();
                if !matches!(error.raw_os_error(), Some(libc::ESRCH | libc::EPERM)) {
                    return Err(error);
                }
            }
        }
        Ok(())
    }

    pub(crate) fn end_of_input(&self) -> Option<Vec<u8>> {
        let modes = locked(&self.master).get_termios()?;
        let gathers_lines = modes.local_flags.bits() & libc::ICANON != 0;
        gathers_lines.then(|| vec![modes.control_chars[libc::VEOF]])
    }

    /// Whether the child has ended. Valid only until the child has been waited for.
    fn has_ended(&self) -> io::Result<bool> {
        // SAFETY: the field is filled in, with zero if nothing has happened.
        Ok(unsafe { self.look(libc::WNOHANG)?.si_pid() } != 0)
    }

    /// Queries the child's state without reaping it, so that its pid stays valid.
    fn look(&self, flags: libc::c_int) -> io::Result<libc::siginfo_t> {
        // SAFETY: all-zero is a valid value of the type.
        let mut info: libc::siginfo_t = unsafe { std::mem::zeroed() };
        let flags = flags | libc::WEXITED | libc::WNOWAIT;
        // SAFETY: the pointer is to a value of ours.
        let result = unsafe { libc::waitid(libc::P_PID, self.pid as libc::id_t, &mut info, flags) };
        if result == 0 { Ok(info) } else { Err(io::Error::last_os_error()) }
    }

    /// A duplicate of the terminal's descriptor.
    fn master(&self) -> io::Result<File> {
        let master = locked(&self.master);
        let fd = master.as_raw_fd().ok_or(io::ErrorKind::Unsupported)?;
        // SAFETY: the descriptor is the master's, which the lock keeps open while it is borrowed.
        let fd: OwnedFd = unsafe { BorrowedFd::borrow_raw(fd) }.try_clone_to_owned()?;
        Ok(File::from(fd))
    }
}

impl std::fmt::Debug for Pty {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Pty").field("pid", &self.pid).finish_non_exhaustive()
    }
}

/// The terminal's output.
#[derive(Debug)]
pub(crate) struct Reader {
    terminal: File,
    closed: Arc<Stop>,
}

impl Reader {
    pub(crate) fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        loop {
            match self.terminal.read(buffer) {
                // On Linux, this error means that no process has the other side open any more.
                Err(error) if error.raw_os_error() == Some(libc::EIO) => return Ok(0),
                Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => {
                    // If the terminal is ready and closed, the remaining output is read first.
                    if !self.closed.wait(&self.terminal, libc::POLLIN)?.ready {
                        return Ok(0);
                    }
                }
                result => return result,
            }
        }
    }
}

/// The terminal's input.
#[derive(Debug)]
pub(crate) struct Writer {
    terminal: File,
    closed: Arc<Stop>,
}

impl Writer {
    pub(crate) fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        loop {
            match self.terminal.write(bytes) {
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => {
                    if self.closed.wait(&self.terminal, libc::POLLOUT)?.stopped {
                        return Err(refusal(io::ErrorKind::BrokenPipe, "the terminal is closed"));
                    }
                }
                result => return result,
            }
        }
    }
}

/// Finds the command as a shell does: a name with a directory is used as it is, any other is
/// searched for in PATH.
pub(crate) fn find(command: &Command, cwd: &Path) -> io::Result<PathBuf> {
    let name = command.get_program();
    let mut refused = None;
    let candidates: Vec<PathBuf> = if has_directory(name) {
        vec![cwd.join(name)]
    } else {
        let path = variable(command, "PATH").unwrap_or_default();
        std::env::split_paths(path).map(|directory| cwd.join(directory).join(name)).collect()
    };
    for candidate in candidates {
        match candidate.metadata() {
            Ok(file) if file.is_file() && file.permissions().mode() & 0o111 != 0 => {
                return Ok(candidate);
            }
            Ok(_) => refused = refused.or(Some(candidate)),
            Err(_) => {}
        }
    }
    Err(match refused {
        Some(file) => refusal(
            io::ErrorKind::PermissionDenied,
            format!("{} is not an executable file; check the command", file.display()),
        ),
        None => not_found(name),
    })
}

/// The command in portable-pty's form. All values are explicit, since portable-pty would choose
/// missing values itself, such as the home directory.
fn builder(program: &Path, command: &Command) -> CommandBuilder {
    let mut builder = CommandBuilder::new(program);
    builder.args(command.get_args());
    builder.env_clear();
    for (name, value) in command.get_envs() {
        if let Some(value) = value {
            builder.env(name, value);
        }
    }
    if let Some(directory) = command.get_current_dir() {
        builder.cwd(directory);
    }
    builder
}

fn pty_size(size: Size) -> PtySize {
    PtySize { rows: size.rows.max(1), cols: size.cols.max(1), pixel_width: 0, pixel_height: 0 }
}

/// The system's error inside an error of portable-pty, or else the error of portable-pty.
fn io_error(error: impl Into<Box<dyn std::error::Error + Send + Sync>>) -> io::Error {
    let error = error.into();
    match error.downcast::<io::Error>() {
        Ok(error) => *error,
        Err(error) => io::Error::other(error),
    }
}
