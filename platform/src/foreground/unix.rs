//! Unix: the processes of the terminal's foreground group. The image of a process is read before
//! and after its other facts, which are valid only if both images are equal.

use std::{ffi::OsString, io, path::Path, thread};

use super::{
    FIRST_ATTEMPTS, FileId, PAUSE, PROCESSES_MAX, Process,
    command_lines::{CommandLine, CommandLines},
    system::{self, ProcessState, Spawner, Stamp, Start},
    too_many, unreadable,
};
use crate::{
    pty::{Pty, WeakPty},
    refusal,
};

/// A program image in a process's memory. Each exec makes another image. On Linux without address
/// randomization, two images can be equal by chance if their command lines have equal lengths.
#[derive(Clone, Debug, PartialEq, Eq)]
struct Image {
    start: Start,
    file: Option<FileId>,
    stamp: Stamp,
}

/// The foreground group, and its leader's start time and image if the leader lives.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Mark {
    group: u32,
    /// Whether the terminal is in canonical mode. A program that the leader has started can change
    /// the mode while the leader waits, and neither the group nor the leader shows that.
    gathers_lines: Option<bool>,
    leader: Option<(Start, Stamp)>,
}

pub(super) fn start_time(pid: u32) -> Option<u64> {
    ProcessState::read(pid).ok().map(|state| state.start())
}

#[derive(Debug)]
pub(super) struct Observer {
    pty: WeakPty,
    /// The session that the command leads.
    session: u32,
    spawner: Spawner,
    command_lines: CommandLines<Image>,
}

/// The result of reading one process.
enum Reading {
    Steady(Box<Process>),
    Gone,
    Changing,
}

impl Observer {
    pub(super) fn new(pty: &Pty, _member_server: Option<Vec<OsString>>) -> Self {
        let session = pty.pid();
        let mut observer = Self {
            pty: pty.downgrade(),
            session,
            spawner: Spawner::this_process(),
            command_lines: CommandLines::default(),
        };
        for _ in 0..FIRST_ATTEMPTS {
            match observer.read(session, session) {
                Reading::Changing => thread::sleep(PAUSE),
                // The process needs no further attempt if it was read or has ended.
                Reading::Steady(_) | Reading::Gone => break,
            }
        }
        observer
    }

    pub(super) fn mark(&self) -> Option<Mark> {
        let group = self.group().ok()?;
        let gathers_lines = self.pty.upgrade().ok()?.gathers_lines();
        let leader = ProcessState::read(group).ok().map(|state| (state.start(), state.stamp()));
        Some(Mark { group, gathers_lines, leader })
    }

    fn group(&self) -> io::Result<u32> {
        let none = || refusal(io::ErrorKind::NotFound, "the terminal has no foreground group");
        match self.pty.upgrade()?.foreground_group() {
            // What gVisor answers, and systems without job control.
            Err(error) if matches!(error.raw_os_error(), Some(libc::ENOTTY | libc::ENOSYS)) => {
                let why = format!("the system does not tell its foreground group: {error}");
                Err(refusal(io::ErrorKind::Unsupported, why))
            }
            group => group?.ok_or_else(none),
        }
    }

    /// Lists the foreground's processes; `None` if the foreground has changed during the call.
    pub(super) fn try_look(&mut self) -> io::Result<Option<Vec<Process>>> {
        let group = self.group()?;
        let (members, closed) = system::members(group, self.session)?;
        if members.len() > PROCESSES_MAX {
            return Err(too_many());
        }
        let mut processes = Vec::with_capacity(members.len());
        for pid in members {
            match self.read(pid, group) {
                Reading::Steady(process) => processes.push(*process),
                Reading::Gone => {}
                Reading::Changing => return Ok(None),
            }
        }
        self.command_lines.retain(&processes, |pid, image| {
            ProcessState::read(pid).is_ok_and(|state| state.start() == image.start)
        });
        processes.extend(closed.into_iter().map(unreadable).take(PROCESSES_MAX));
        Ok((self.group()? == group).then_some(processes))
    }

    /// Reads the facts of one process, valid only if its image is the same before and after.
    fn read(&mut self, pid: u32, group: u32) -> Reading {
        let before = match ProcessState::read(pid) {
            Ok(before) => before,
            Err(error) if system::is_gone(&error) => return Reading::Gone,
            Err(_) if system::MEMBERS_MAY_BE_UNREADABLE => {
                return Reading::Steady(Box::new(unreadable(pid)));
            }
            Err(_) => return Reading::Changing,
        };
        if before.has_ended() {
            return Reading::Gone;
        }
        if !before.is_member(group, self.session) {
            return Reading::Changing;
        }
        let executable = system::executable(pid);
        if executable.is_none() && before.has_no_memory() {
            return Reading::Gone;
        }
        let file = executable.as_ref().map(|executable| executable.file);
        let image = Image { start: before.start(), file, stamp: before.stamp() };
        let line = self.command_line(pid, &before, &image);
        if self.spawner.is_before_exec(&before, executable.as_ref(), line.arguments.as_ref()) {
            return Reading::Changing;
        }
        let reads_terminal = before.reads_terminal();
        let Ok(after) = ProcessState::read(pid) else { return Reading::Changing };
        if (after.start(), after.stamp()) != (image.start, image.stamp) {
            return Reading::Changing;
        }
        self.command_lines.insert(pid, image, &line);
        Reading::Steady(Box::new(Process {
            pid,
            parent: Some(after.parent()).filter(|&parent| parent != 0),
            executable,
            arguments: line.arguments,
            directory: line.directory,
            is_stopped: after.is_stopped(),
            reads_terminal,
        }))
    }

    fn command_line(&self, pid: u32, state: &ProcessState, image: &Image) -> CommandLine {
        if let Some(line) = self.command_lines.get(pid, image) {
            return line.clone();
        }
        let arguments = system::arguments(pid);
        if system::FORK_SHARES_STAMP
            && let Some(line) = self.inherited(state.parent(), image, arguments.as_ref())
        {
            return line;
        }
        CommandLine { arguments, directory: system::directory(pid) }
    }

    /// The parent's command line, if the process is a fork of the parent: arguments that the parent
    /// has erased are erased in the fork as well. Without address randomization, equal stamps can
    /// be chance, so the current arguments are compared too.
    fn inherited(
        &self,
        parent: u32,
        image: &Image,
        now: Option<&Vec<OsString>>,
    ) -> Option<CommandLine> {
        let state = ProcessState::read(parent).ok()?;
        let of_parent = Image { start: state.start(), ..image.clone() };
        let line = self.command_lines.get(parent, &of_parent)?;
        let is_fork = state.stamp() == image.stamp && now == system::arguments(parent).as_ref();
        is_fork.then(|| line.clone())
    }
}

pub(super) fn file_id(path: &Path) -> io::Result<FileId> {
    system::file_id(path)
}

pub(super) fn serve_console_members() -> io::Result<()> {
    let why = "only Windows has consoles with members to serve";
    Err(refusal(io::ErrorKind::Unsupported, why))
}
