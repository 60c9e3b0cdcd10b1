//! Facts about other processes, most of all about the programs that would read input typed into a
//! pseudo-terminal. The caller decides what follows from them.
//!
//! Every fact holds only for the moment of its query, [`Observer::look`]. A program may come to the
//! foreground between the query and the typing, so a caller queries again directly before it types.

#[path = "foreground/command_lines.rs"]
mod command_lines;
#[cfg(unix)]
#[path = "foreground/unix.rs"]
mod imp;
#[cfg(windows)]
#[path = "foreground/windows.rs"]
mod imp;
#[cfg(target_os = "linux")]
#[path = "foreground/linux.rs"]
mod system;
#[cfg(target_os = "macos")]
#[path = "foreground/macos.rs"]
mod system;

use std::{
    ffi::OsString,
    fs::File,
    io::{self, Read as _},
    path::{Path, PathBuf},
    thread,
    time::Duration,
};

use crate::{naming, pty::Pty, refusal};

/// The most processes that [`Observer::look`] lists. More processes are an error.
pub const PROCESSES_MAX: usize = 512;
/// The most bytes of a command line that [`Process::arguments`] holds; later arguments are left
/// out.
pub const ARGUMENTS_BYTES_MAX: usize = 64 * 1024;
/// The most attempts of one look, with [`PAUSE`] between them, if the foreground keeps changing.
const ATTEMPTS: usize = 4;
/// The most queries of a new command until its exec is over. The spawn can return before that.
#[cfg(unix)]
const FIRST_ATTEMPTS: usize = 100;
/// The time that an exec, or the end of a process, usually takes.
const PAUSE: Duration = Duration::from_millis(1);
/// The bytes that [`same_content`] reads at once.
const PIECE_BYTES: usize = 64 * 1024;

/// The start time of a process, in units of the system. It distinguishes the process from an
/// earlier one with the same id. `None` if the process has ended, or the system does not report it.
#[must_use]
pub fn start_time(pid: u32) -> Option<u64> {
    imp::start_time(pid)
}

/// A file's identity (Unix: device and inode; Windows: volume serial number and file id).
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct FileId {
    volume: u64,
    file: u128,
}

impl FileId {
    /// The identity of the file at `path`; links are followed.
    ///
    /// # Errors
    /// If there is no such file, or the system does not let this process examine it.
    pub fn of(path: &Path) -> io::Result<Self> {
        imp::file_id(path).map_err(naming(path.display()))
    }
}

/// Whether two regular files have the same bytes. Their lengths are compared first.
///
/// # Errors
/// If one of them is not a regular file or cannot be read.
pub fn same_content(a: &Path, b: &Path) -> io::Result<bool> {
    if length(a)? != length(b)? {
        return Ok(false);
    }
    let open = |path: &Path| File::open(path).map_err(naming(path.display()));
    let (mut first, mut second) = (open(a)?, open(b)?);
    let (mut first_piece, mut second_piece) = (vec![0; PIECE_BYTES], vec![0; PIECE_BYTES]);
    loop {
        let filled = fill(&mut first, &mut first_piece).map_err(naming(a.display()))?;
        let second_filled = fill(&mut second, &mut second_piece).map_err(naming(b.display()))?;
        if first_piece[..filled] != second_piece[..second_filled] {
            return Ok(false);
        }
        if filled < PIECE_BYTES {
            return Ok(true);
        }
    }
}

/// The length of a regular file. Opening another kind, such as a named pipe, could block.
fn length(path: &Path) -> io::Result<u64> {
    let metadata = path.metadata().map_err(naming(path.display()))?;
    if metadata.is_file() {
        return Ok(metadata.len());
    }
    let why = format!("{} is not a regular file: compare files only", path.display());
    Err(refusal(io::ErrorKind::InvalidInput, why))
}

/// Reads until the buffer is full or the file ends; returns the number of bytes read.
fn fill(file: &mut File, buffer: &mut [u8]) -> io::Result<usize> {
    let mut filled = 0;
    while filled < buffer.len() {
        match file.read(&mut buffer[filled..]) {
            Ok(0) => break,
            Ok(read) => filled += read,
            Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
            Err(error) => return Err(error),
        }
    }
    Ok(filled)
}

/// A program's file.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Executable {
    /// The path that the program was started from, even if the file is no longer there.
    pub path: PathBuf,
    /// The file that runs, even if the path now names another file. Windows tells only the path; on
    /// Windows, this is the file at that path now.
    pub file: FileId,
}

/// A process that may read what is typed into a pseudo-terminal.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Process {
    /// The process id.
    pub pid: u32,
    /// The parent's process id, if the parent is known.
    pub parent: Option<u32>,
    /// The program's file; `None` where the system does not let it be read.
    pub executable: Option<Executable>,
    /// The command line with `argv[0]`, as first seen for this program image, since a program may
    /// erase its own command line. At most [`ARGUMENTS_BYTES_MAX`] bytes; `None` where unreadable.
    pub arguments: Option<Vec<OsString>>,
    /// The working directory when `arguments` was read, to resolve relative arguments; `None` where
    /// unreadable.
    pub directory: Option<PathBuf>,
    /// Whether job control has suspended the process.
    pub is_stopped: bool,
    /// Whether the process reads input from the terminal; `None` where the system does not say.
    pub reads_terminal: Option<bool>,
}

/// A mark of the foreground. Two marks differ if another program has come to the foreground
/// between them.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Mark(imp::Mark);

/// Looks at the foreground of a pseudo-terminal, and remembers the command lines seen there.
///
/// An observer does not keep the terminal open.
#[derive(Debug)]
pub struct Observer(imp::Observer);

impl Observer {
    /// Begins to observe a terminal. Must be called directly after [`Pty::spawn`], since this reads
    /// the command's arguments before the command can erase them.
    ///
    /// On Windows, `member_server` is the command line of a program that calls
    /// [`serve_console_members`]. Without a server, [`Observer::look`] fails. Other systems ignore
    /// `member_server`.
    #[must_use]
    pub fn new(pty: &Pty, member_server: Option<Vec<OsString>>) -> Self {
        Self(imp::Observer::new(pty, member_server))
    }

    /// All processes of the terminal's foreground: on Unix those of its foreground process group,
    /// on Windows those attached to its console. An empty list also means that the foreground could
    /// not be determined.
    ///
    /// # Errors
    /// If the terminal is closed, there are more than [`PROCESSES_MAX`] processes, the foreground
    /// changes during every attempt, or the system does not list the processes. `Unsupported` if
    /// the system does not report the foreground group.
    pub fn look(&mut self) -> io::Result<Vec<Process>> {
        let name = naming("look at the terminal's foreground");
        for _ in 0..ATTEMPTS {
            match self.0.try_look() {
                Ok(None) => thread::sleep(PAUSE),
                Ok(Some(processes)) => return Ok(processes),
                Err(error) => return Err(name(error)),
            }
        }
        let changing = "its processes keep changing; retry";
        Err(name(refusal(io::ErrorKind::WouldBlock, changing)))
    }

    /// A mark that is cheap to read. It changes when another process group comes to the foreground,
    /// when the group's leader executes a program, or when the terminal enters or leaves canonical
    /// mode. `None` on Windows, which has no foreground groups, and while the terminal has none.
    #[must_use]
    pub fn mark(&self) -> Option<Mark> {
        self.0.mark().map(Mark)
    }
}

/// Serves the members of a console to an [`Observer`] over standard input and output, until
/// standard input ends. The body of the `member_server` given to [`Observer::new`].
///
/// # Errors
/// `Unsupported` on systems other than Windows; and if a stream cannot be read or written.
pub fn serve_console_members() -> io::Result<()> {
    imp::serve_console_members()
}

/// A process that this process may not inspect.
fn unreadable(pid: u32) -> Process {
    Process {
        pid,
        parent: None,
        executable: None,
        arguments: None,
        directory: None,
        is_stopped: false,
        reads_terminal: None,
    }
}

fn too_many() -> io::Error {
    let why = format!("it has more than {PROCESSES_MAX} processes");
    refusal(io::ErrorKind::QuotaExceeded, why)
}
