//! Other processes: the start of a process that outlives this one, and facts about other processes.

#[cfg(unix)]
#[path = "process/unix.rs"]
mod imp;
#[cfg(windows)]
#[path = "process/windows.rs"]
mod imp;

use std::{
    ffi::{OsStr, OsString},
    fs::File,
    io,
    path::{Path, PathBuf},
    process::Command,
};

use crate::{naming, paths};

/// A process that runs on its own. Dropping this value does not affect it.
#[derive(Debug)]
pub struct Detached(imp::Child);

impl Detached {
    /// The process id.
    pub fn pid(&self) -> u32 {
        self.0.id()
    }

    /// The exit code if the process has ended.
    ///
    /// # Errors
    /// If the system does not report the process's state.
    pub fn exited(&mut self) -> io::Result<Option<i32>> {
        self.0.exited().map_err(naming("look after the process"))
    }

    /// Whether the system ends the process together with others: see [`ends_with_others`].
    #[must_use]
    pub fn ends_with_others(&self) -> bool {
        self.0.ends_with_others()
    }
}

/// Raises this process's limit of open files and connections to `wanted`, as far as the system
/// allows. Returns the new limit.
///
/// # Errors
/// If the system does not report the present limit.
pub fn allow_open_files(wanted: u64) -> io::Result<u64> {
    imp::allow_open_files(wanted).map_err(naming("ask for more open files"))
}

/// Limits the memory that the allocator keeps after many threads freed it: they share a few arenas,
/// and large allocations go back to the system. Does nothing where the allocator has no such
/// settings.
pub fn keep_little_memory() {
    imp::keep_little_memory();
}

/// Returns the pages of freed allocations to the system, also those between allocations that are
/// in use. Takes milliseconds for hundreds of megabytes. Does nothing where the allocator has no
/// such call.
pub fn return_free_memory() {
    imp::return_free_memory();
}

/// Has the system end this process before others at a logoff or shutdown, so that this process does
/// not mistake the end of another for a failure. Does nothing where the system has no such order.
///
/// # Errors
/// If the system refuses.
pub fn end_before_others() -> io::Result<()> {
    imp::end_before_others().map_err(naming("ask to end before others"))
}

/// Whether the system ends this process together with others: on Windows, with the processes of its
/// job, if the job ends its processes when it is closed. False where there are no such jobs.
///
/// # Errors
/// If the system does not report it.
pub fn ends_with_others() -> io::Result<bool> {
    imp::ends_with_others().map_err(naming("ask for this process's job"))
}

/// Starts a program that has no terminal, is not ended with this process or its terminal, and keeps
/// none of this process's files or pipes open. It has no standard input, appends both outputs to
/// the file `log` (made for this user only), and runs in the log's directory, or in its nearest
/// ancestor that can be a working directory.
///
/// # Errors
/// If the log cannot be opened or the program not started.
pub fn spawn_detached(exe: &Path, args: &[OsString], log: &Path) -> io::Result<Detached> {
    paths::open_private_file(log)?;
    let output = File::options().append(true).open(log).map_err(naming(log.display()))?;
    let mut command = Command::new(exe);
    command.args(args);
    let directory = log.ancestors().skip(1).find(|directory| imp::may_run_in(directory));
    if let Some(directory) = directory.filter(|directory| !directory.as_os_str().is_empty()) {
        command.current_dir(directory);
    }
    imp::spawn(&mut command, output)
        .map(Detached)
        .map_err(naming(format!("start {}", exe.display())))
}

/// The system's name: `linux`, `macos` or `windows`.
pub const SYSTEM: &str = std::env::consts::OS;

/// The file that a command of this name runs, as found in the search path.
#[must_use]
pub fn find_program(command: &OsStr) -> Option<PathBuf> {
    let command = Path::new(command);
    if command.components().count() > 1 {
        return Some(command.to_owned());
    }
    let path = std::env::var_os("PATH")?;
    let mut all = std::env::split_paths(&path).flat_map(|directory| {
        imp::PROGRAM_ENDINGS.iter().map(move |ending| {
            let mut name = OsString::from(command);
            name.push(ending);
            directory.join(name)
        })
    });
    all.find(|file| file.is_file())
}

/// The most processes that [`family`] lists.
const FAMILY_MAX: usize = 256;

/// A process and its descendants, the nearest first, without descendants that have left its
/// session. On Windows, the process alone.
#[must_use]
pub fn family(pid: u32) -> Vec<u32> {
    let mut family = vec![pid];
    let mut at = 0;
    while at < family.len() && family.len() < FAMILY_MAX {
        family.extend(imp::children(family[at]));
        at += 1;
    }
    family
}

/// Whether no process outside the [`family`] of `pid` runs the program of `pid` in the same
/// directory. False where the system does not say.
#[must_use]
pub fn is_alone(pid: u32) -> bool {
    imp::is_alone(pid, &family(pid))
}

/// The files that a process has open for writing. Known on Linux, for processes of this user;
/// `None` otherwise.
#[must_use]
pub fn written_files(pid: u32) -> Option<Vec<PathBuf>> {
    imp::written_files(pid)
}

#[cfg(windows)]
pub(crate) use imp::exit_code_of;
#[cfg(unix)]
pub(crate) use imp::{exit_code, session_members, session_of};
