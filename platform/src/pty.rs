//! Pseudo-terminals: a command that believes it runs in a terminal, which is us.

#[cfg(any(windows, test))]
mod command_line;
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

use crate::{naming, refusal};

/// How often [`Pty::end`] looks whether the command has ended.
const LOOK: Duration = Duration::from_millis(5);

/// Ctrl-Break, as it is typed into a pseudo console of Windows': the key goes down and comes up. Elsewhere there
/// is no such key.
pub const CTRL_BREAK: &[u8] = b"\x1b[3;70;0;1;8;1_\x1b[3;70;0;0;8;1_";

/// Whether a pseudo-terminal takes the screen that shows it for an empty one with the cursor at the top left, as
/// Windows' do: they say by place where they print, and ask for the first one, which [`Pty`] answers so.
pub const BEGINS_AT_HOME: bool = cfg!(windows);

/// A terminal's size in character cells.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Size {
    /// Lines.
    pub rows: u16,
    /// Columns.
    pub cols: u16,
}

/// A command in a pseudo-terminal. Clones are the same one, for use by several threads.
///
/// Dropping the last clone (and its reader and writer) closes the terminal, which ends most commands,
/// but waits for nothing.
#[derive(Clone, Debug)]
pub struct Pty(Arc<imp::Pty>);

impl Pty {
    /// Starts `command` (name and arguments) in a new pseudo-terminal.
    ///
    /// It gets this process's environment with `env` set (or, with `None`, taken out), and runs in
    /// `cwd`, or in this process's directory.
    ///
    /// # Errors
    /// `NotFound` with the command's name if there is no such command, `PermissionDenied` if it is not
    /// executable; `NotFound` with the directory's name if that is missing; `InvalidInput` if an argument
    /// can't be passed on, as one with a line break to a batch file (Windows); and what the system says.
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

    /// What the command prints. Several readers share the output between them.
    ///
    /// # Errors
    /// If the system has no handles left.
    pub fn reader(&self) -> io::Result<Reader> {
        self.0.reader().map(Reader).map_err(naming("read from the terminal"))
    }

    /// What the command reads as typed.
    ///
    /// # Errors
    /// If the system has no handles left.
    pub fn writer(&self) -> io::Result<Writer> {
        self.0.writer().map(Writer).map_err(naming("write to the terminal"))
    }

    /// Gives the terminal another size; the command is told.
    ///
    /// # Errors
    /// If the system refuses, or the terminal is closed.
    pub fn resize(&self, size: Size) -> io::Result<()> {
        self.0.resize(size).map_err(naming("resize the terminal"))
    }

    /// The command's process.
    pub fn pid(&self) -> u32 {
        self.0.pid()
    }

    /// The terminal's foreground process group; `None` where there is no such thing.
    #[cfg_attr(windows, allow(dead_code, reason = "a console has no foreground group"))]
    pub(crate) fn foreground_group(&self) -> Option<u32> {
        self.0.foreground_group()
    }

    /// Whether the terminal gathers lines (canonical mode) for the program that reads it; `None`
    /// where the system does not say.
    #[must_use]
    pub fn gathers_lines(&self) -> Option<bool> {
        self.0.gathers_lines()
    }

    /// A reference that does not keep the terminal open.
    pub(crate) fn downgrade(&self) -> WeakPty {
        WeakPty(Arc::downgrade(&self.0))
    }

    /// Has the command go on where it has suspended itself: there is no shell around it that would.
    /// Does nothing where there is no such thing.
    ///
    /// # Errors
    /// If the system refuses.
    pub fn resume(&self) -> io::Result<()> {
        self.0.resume().map_err(naming("resume the command"))
    }

    /// Waits until the command has ended, and says its exit code: 128 + n if signal n ended it. May
    /// be called often and by several threads.
    ///
    /// # Errors
    /// If the system does not say.
    pub fn wait(&self) -> io::Result<i32> {
        self.0.wait().map_err(naming("wait for the command"))
    }

    /// The exit code if the command has ended.
    ///
    /// # Errors
    /// If the system does not say.
    pub fn try_wait(&self) -> io::Result<Option<i32>> {
        self.0.try_wait().map_err(naming("look after the command"))
    }

    /// Makes the command and what it started end: first by the terminal's hanging up, after `grace` by
    /// a request to terminate (Unix), after another `grace` by force. Waits for it. Somebody must go
    /// on reading what it prints meanwhile.
    ///
    /// # Errors
    /// If the system refuses.
    pub fn end(&self, grace: Duration) -> io::Result<i32> {
        for insist in imp::GENTLE {
            insist(&self.0).map_err(naming("end the command"))?;
            let given_up = Instant::now() + grace;
            while Instant::now() < given_up {
                if let Some(code) = self.try_wait()? {
                    // What it has left behind.
                    self.kill()?;
                    return Ok(code);
                }
                thread::sleep(LOOK);
            }
        }
        self.kill()?;
        self.wait()
    }

    /// Ends the command and what it started by force, without waiting.
    ///
    /// # Errors
    /// If the system refuses. That it has ended already is none.
    pub fn kill(&self) -> io::Result<()> {
        self.0.kill().map_err(naming("kill the command"))
    }

    /// Closes the terminal, once the command has ended: readers get what is still in it and then the
    /// end, even if something the command left behind keeps it open; writers get an error.
    pub fn close(&self) {
        self.0.close();
    }
}

/// A reference to a [`Pty`] that does not keep the terminal open.
#[derive(Clone, Debug)]
pub(crate) struct WeakPty(Weak<imp::Pty>);

impl WeakPty {
    /// The terminal, as long as some clone of it lives.
    pub(crate) fn upgrade(&self) -> io::Result<Pty> {
        let closed = || refusal(io::ErrorKind::BrokenPipe, "the terminal is closed");
        self.0.upgrade().map(Pty).ok_or_else(closed)
    }
}

/// Whether there is such a command, which [`Pty::spawn`] would run with the environment of this process.
///
/// # Errors
/// As that has them, but for what only the start tells.
pub fn check(command: &[OsString], cwd: Option<&Path>) -> io::Result<()> {
    find(command, cwd).map(drop)
}

/// The file that [`Pty::spawn`] would run with the environment of this process.
///
/// # Errors
/// As [`check`] has them.
pub fn find(command: &[OsString], cwd: Option<&Path>) -> io::Result<PathBuf> {
    describe(command, &[], cwd).map(|(program, _)| program)
}

/// The file to run, and with what; the command runs nothing itself.
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
        None => env::current_dir().map_err(naming("look for this process's directory"))?,
    };
    // With all variables that there are to be.
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

/// Reads what the command prints; `Ok(0)` is the end. Read in large pieces.
#[derive(Debug)]
pub struct Reader(imp::Reader);

impl Read for Reader {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        self.0.read(buffer)
    }
}

/// Types into the terminal. Nothing is held back, and nothing is typed when it is dropped.
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

/// Whether a name says where the command is, so that it is not to be looked for.
fn has_directory(name: &OsStr) -> bool {
    Path::new(name).components().count() > 1 || Path::new(name).is_absolute()
}

/// A variable of the command's own.
fn variable<'a>(command: &'a Command, name: &str) -> Option<&'a OsStr> {
    let is_it = |key: &OsStr| {
        if cfg!(windows) { key.eq_ignore_ascii_case(name) } else { key == name }
    };
    command.get_envs().find(|(key, _)| is_it(key)).and_then(|(_, value)| value)
}

fn not_found(name: &OsStr) -> io::Error {
    refusal(
        io::ErrorKind::NotFound,
        format!("there is no command {}: check its name and PATH", name.display()),
    )
}
