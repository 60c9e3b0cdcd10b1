//! Pseudo-terminals: a command runs in a terminal that this process provides.

#[cfg(any(windows, test))]
mod handshake;
#[cfg(unix)]
#[path = "pty/unix.rs"]
mod imp;
#[cfg(windows)]
#[path = "pty/windows.rs"]
mod imp;

use std::{
    env,
    ffi::{OsStr, OsString},
    io::{self, Read, Write},
    path::{Path, PathBuf},
    process::Command,
    sync::{Arc, Weak},
    thread,
    time::{Duration, Instant},
};

use crate::{naming, paths, refusal};

/// The pause between two checks of [`Pty::end`] whether the command has ended.
const POLL_INTERVAL: Duration = Duration::from_millis(5);

/// Ctrl-Break as input of a Windows pseudo console: the key goes down and comes up. Other systems
/// have no such key.
pub const CTRL_BREAK: &[u8] = b"\x1b[3;70;0;1;8;1_\x1b[3;70;0;0;8;1_";

/// Whether a pseudo-terminal assumes that its screen is empty at first, with the cursor at the top
/// left. The pseudo-terminal of Windows does: it prints at absolute positions, and [`Pty`] answers
/// its question for the cursor's position with the top left.
pub const BEGINS_AT_HOME: bool = cfg!(windows);

/// Whether the programs in a terminal may continue after its window is closed. Windows ends them.
pub const OUTLIVES_TERMINAL: bool = cfg!(unix);

/// Whether escape sequences that the pseudo-terminal does not know may not reach its reader.
/// Windows repaints a console's screen, and old versions drop what they do not know.
pub const MAY_SWALLOW_SEQUENCES: bool = cfg!(windows);

/// Whether the sequences around a paste may not reach the command. For a command without virtual
/// terminal input, Windows turns typed text into key events, and drops everything that is not a
/// key.
pub const MAY_DROP_PASTE_MARKS: bool = cfg!(windows);

/// A terminal's size in character cells.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Size {
    /// Lines.
    pub rows: u16,
    /// Columns.
    pub cols: u16,
}

/// A command in a pseudo-terminal. Clones share the terminal, for use by several threads.
///
/// Dropping the last clone (and its reader and writer) closes the terminal, which ends most
/// commands; the drop does not wait for that.
#[derive(Clone, Debug)]
pub struct Pty(Arc<imp::Pty>);

impl Pty {
    /// Starts `command` (name and arguments) in a new pseudo-terminal.
    ///
    /// The command gets this process's environment with the changes in `env` (`None` removes a
    /// variable), and runs in `cwd`, or in this process's directory.
    ///
    /// # Errors
    /// `NotFound` with the command's name if there is no such command, `PermissionDenied` if it is
    /// not executable; `NotFound` with the directory's name if that is missing; `InvalidInput` if
    /// an argument cannot be passed on, such as one with a line break to a batch file (Windows);
    /// and the system's errors.
    pub fn spawn(
        command: &[OsString],
        env: &[(OsString, Option<OsString>)],
        cwd: Option<&Path>,
        size: Size,
    ) -> io::Result<Self> {
        let (program, command) = describe(command, env, cwd)?;
        let name = command.get_program().display().to_string();
        let pty =
            imp::Pty::spawn(&program, &command, size).map_err(naming(format!("run {name}")))?;
        Ok(Self(Arc::new(pty)))
    }

    /// A reader of the command's output. Each byte goes to only one of several readers.
    ///
    /// # Errors
    /// If the system has no handles left.
    pub fn reader(&self) -> io::Result<Reader> {
        self.0.reader().map(Reader).map_err(naming("read from the terminal"))
    }

    /// A writer of the command's input.
    ///
    /// # Errors
    /// If the system has no handles left.
    pub fn writer(&self) -> io::Result<Writer> {
        self.0.writer().map(Writer).map_err(naming("write to the terminal"))
    }

    /// Changes the terminal's size and notifies the command.
    ///
    /// # Errors
    /// If the system refuses, or the terminal is closed.
    pub fn resize(&self, size: Size) -> io::Result<()> {
        self.0.resize(size).map_err(naming("resize the terminal"))
    }

    /// The process id of the command.
    pub fn pid(&self) -> u32 {
        self.0.pid()
    }

    /// The terminal's foreground process group; `None` where there is none.
    ///
    /// # Errors
    /// If the system does not report it, such as gVisor.
    #[cfg(unix)]
    pub(crate) fn foreground_group(&self) -> io::Result<Option<u32>> {
        self.0.foreground_group()
    }

    /// Whether the terminal gathers lines (canonical mode) for the program that reads from it.
    /// `None` where the system does not say.
    #[must_use]
    pub fn gathers_lines(&self) -> Option<bool> {
        self.0.gathers_lines()
    }

    /// A reference that does not keep the terminal open.
    pub(crate) fn downgrade(&self) -> WeakPty {
        WeakPty(Arc::downgrade(&self.0))
    }

    /// Resumes a command that has suspended itself, since there is no shell that would resume it.
    /// Does nothing where the system has no job control.
    ///
    /// # Errors
    /// If the system refuses.
    pub fn resume(&self) -> io::Result<()> {
        self.0.resume().map_err(naming("resume the command"))
    }

    /// Waits until the command has ended, and returns its exit code: 128 + n if signal n ended it.
    /// May be called repeatedly and by several threads.
    ///
    /// # Errors
    /// If the system does not report the command's state.
    pub fn wait(&self) -> io::Result<i32> {
        self.0.wait().map_err(naming("wait for the command"))
    }

    /// The exit code if the command has ended.
    ///
    /// # Errors
    /// If the system does not report the command's state.
    pub fn try_wait(&self) -> io::Result<Option<i32>> {
        self.0.try_wait().map_err(naming("look after the command"))
    }

    /// Ends the command, and waits for its end. First hangs up all processes of the terminal. After
    /// `grace` asks the command and its descendants to end (Unix), and after another `grace` kills
    /// them. Another thread should keep reading the output during the call: a process that waits for
    /// its output to be read can only be killed.
    ///
    /// # Errors
    /// If the system refuses.
    pub fn end(&self, grace: Duration) -> io::Result<i32> {
        for attempt in imp::GENTLE_ENDINGS {
            attempt(&self.0).map_err(naming("end the command"))?;
            let given_up = Instant::now() + grace;
            while Instant::now() < given_up {
                if let Some(code) = self.try_wait()? {
                    self.leave()?;
                    return Ok(code);
                }
                thread::sleep(POLL_INTERVAL);
            }
        }
        self.kill()?;
        self.wait()
    }

    /// Ends the command and its descendants by force, without waiting. Succeeds if the command has
    /// ended already.
    ///
    /// # Errors
    /// If the system refuses.
    pub fn kill(&self) -> io::Result<()> {
        self.0.kill().map_err(naming("kill the command"))
    }

    /// Hangs up the processes that the ended command has left behind in the terminal, as when a
    /// terminal's window is closed. On Windows, kills them.
    ///
    /// # Errors
    /// If the system refuses.
    pub fn leave(&self) -> io::Result<()> {
        self.0.leave().map_err(naming("hang up the terminal"))
    }

    /// Returns the keys that end the input of a program that reads lines. On Unix, returns `None`
    /// while the terminal does not collect lines, since the keys would be ordinary input then.
    #[must_use]
    pub fn end_of_input(&self) -> Option<Vec<u8>> {
        self.0.end_of_input()
    }

    /// Closes the terminal, once the command has ended. Readers get the remaining output and then
    /// the end, even if a process that the command left behind keeps the terminal open; writers get
    /// an error.
    pub fn close(&self) {
        self.0.close();
    }
}

/// A reference to a [`Pty`] that does not keep the terminal open.
#[derive(Clone, Debug)]
pub(crate) struct WeakPty(Weak<imp::Pty>);

impl WeakPty {
    /// The terminal, if a clone of its [`Pty`] still lives.
    pub(crate) fn upgrade(&self) -> io::Result<Pty> {
        let closed = || refusal(io::ErrorKind::BrokenPipe, "the terminal is closed");
        self.0.upgrade().map(Pty).ok_or_else(closed)
    }
}

/// Checks that [`Pty::spawn`] would find this command with the environment of this process.
///
/// # Errors
/// The errors of [`Pty::spawn`] that are known without starting the command.
pub fn check(command: &[OsString], cwd: Option<&Path>) -> io::Result<()> {
    find(command, cwd).map(drop)
}

/// The file that [`Pty::spawn`] would run with the environment of this process.
///
/// # Errors
/// As [`check`].
pub fn find(command: &[OsString], cwd: Option<&Path>) -> io::Result<PathBuf> {
    describe(command, &[], cwd).map(|(program, _)| program)
}

/// Resolves the file to run. Also returns a `Command` that only holds the arguments, the directory
/// and the environment, and is never run itself.
fn describe(
    command: &[OsString],
    env: &[(OsString, Option<OsString>)],
    cwd: Option<&Path>,
) -> io::Result<(PathBuf, Command)> {
    let Some((name, arguments)) = command.split_first() else {
        return Err(refusal(io::ErrorKind::InvalidInput, "there is no command to run"));
    };
    let cwd = match cwd {
        Some(cwd) if !cwd.is_dir() => {
            return Err(refusal(
                io::ErrorKind::NotFound,
                format!("the directory {} does not exist", cwd.display()),
            ));
        }
        Some(cwd) => cwd.to_owned(),
        None => paths::current_directory()?,
    };
    // The description holds the complete environment, not only changes.
    let mut command = Command::new(name);
    command.args(arguments).current_dir(&cwd).env_clear().envs(env::vars_os());
    for (key, value) in env {
        match value {
            Some(value) => command.env(key, value),
            None => command.env_remove(key),
        };
    }
    let program = imp::find(&command, &cwd)?;
    Ok((program, command))
}

/// Reads the command's output; `Ok(0)` is the end. Large buffers need fewer calls.
#[derive(Debug)]
pub struct Reader(imp::Reader);

impl Read for Reader {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        self.0.read(buffer)
    }
}

/// Types into the terminal. Writes are not buffered, and dropping the writer types nothing.
#[derive(Debug)]
pub struct Writer(imp::Writer);

impl Write for Writer {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        self.0.write(bytes)
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

/// Whether a command's name contains a directory, so that it is not searched for in PATH.
fn has_directory(name: &OsStr) -> bool {
    Path::new(name).components().count() > 1 || Path::new(name).is_absolute()
}

/// A variable of the command's environment.
fn variable<'a>(command: &'a Command, name: &str) -> Option<&'a OsStr> {
    let is_it = |key: &OsStr| {
        if cfg!(windows) { key.eq_ignore_ascii_case(name) } else { key == name }
    };
    command.get_envs().find(|(key, _)| is_it(key)).and_then(|(_, value)| value)
}

fn not_found(name: &OsStr) -> io::Error {
    refusal(
        io::ErrorKind::NotFound,
        format!("there is no command {}; check its name and PATH", name.display()),
    )
}
