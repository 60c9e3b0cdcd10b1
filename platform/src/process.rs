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
    process::{Child, Command, ExitStatus, Stdio},
};

use crate::{naming, paths};

/// A process that runs on its own. Dropping this value does not affect it.
#[derive(Debug)]
pub struct Detached(Child);

impl Detached {
    /// The process id.
    pub fn pid(&self) -> u32 {
        self.0.id()
    }

    /// The exit code if the process has ended.
    ///
    /// # Errors
    /// If the system does not tell the process's state.
    pub fn exited(&mut self) -> io::Result<Option<i32>> {
        let status = self.0.try_wait().map_err(naming("look after the process"))?;
        Ok(status.map(exit_code))
    }
}

/// Raises this process's limit of open files and connections to `wanted`, as far as the system
/// allows. Returns the new limit.
///
/// # Errors
/// If the system does not tell the present limit.
pub fn allow_open_files(wanted: u64) -> io::Result<u64> {
    imp::allow_open_files(wanted).map_err(naming("ask for more open files"))
}

/// Has the system end this process before others at a logoff or shutdown, so that this process does
/// not mistake the end of another for a failure. Does nothing where the system has no such order.
///
/// # Errors
/// If the system refuses.
pub fn end_before_others() -> io::Result<()> {
    imp::end_before_others().map_err(naming("ask to end before others"))
}

/// Starts a program that has no terminal, is not ended with this process or its terminal, and keeps
/// none of this process's files or pipes open. It has no standard input, appends both outputs to
/// the file `log` (made for this user only), and runs in the log's directory, or in the nearest
/// directory above in which the system lets processes run.
///
/// # Errors
/// If the log cannot be opened or the program not started.
pub fn spawn_detached(exe: &Path, args: &[OsString], log: &Path) -> io::Result<Detached> {
    paths::open_private_file(log)?;
    let output = File::options().append(true).open(log).map_err(naming(log.display()))?;
    let mut command = Command::new(exe);
    command.args(args).stdin(Stdio::null());
    command.stdout(output.try_clone()?).stderr(output);
    let directory = log.ancestors().skip(1).find(|directory| imp::may_run_in(directory));
    if let Some(directory) = directory.filter(|directory| !directory.as_os_str().is_empty()) {
        command.current_dir(directory);
    }
    imp::spawn(&mut command).map(Detached).map_err(naming(format!("start {}", exe.display())))
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

/// A process and its descendants, the nearest first. On Linux, without descendants that have left
/// its session; on other systems, the process alone.
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

/// The exit code by the convention of shells: 128 + n if signal n ended the process (Unix).
pub(crate) fn exit_code(status: ExitStatus) -> i32 {
    imp::exit_code(status)
}
