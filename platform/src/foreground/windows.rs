//! Windows: the processes attached to the pseudo console. A console has no foreground: any attached
//! process may read the input. The command's job is not used, since it also contains processes
//! without a console.

#[path = "windows/members.rs"]
mod members;
#[path = "windows/process.rs"]
mod process;

use std::{ffi::OsString, io, path::Path};

use super::{
    Executable, FileId, PROCESSES_MAX, Process,
    command_lines::{CommandLine, CommandLines},
    too_many, unreadable,
};
use crate::pty::{Pty, WeakPty};
use members::Server;

/// A program image in a process's memory. A process runs one image from its start to its end.
#[derive(Clone, Debug, PartialEq, Eq)]
struct Image {
    start: u64,
}

/// A type without values: a console has no foreground group to mark.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Mark {}

pub(super) fn start_time(pid: u32) -> Option<u64> {
    let process::Found::Open(process) = process::open(pid) else { return None };
    process.start()
}

#[derive(Debug)]
pub(super) struct Observer {
    pty: WeakPty,
    server: Server,
    command_lines: CommandLines<Image>,
}

impl Observer {
    pub(super) fn new(pty: &Pty, member_server: Option<Vec<OsString>>) -> Self {
        let mut observer = Self {
            pty: pty.downgrade(),
            server: Server::new(member_server),
            command_lines: CommandLines::default(),
        };
        if let process::Found::Open(process) = process::open(pty.pid()) {
            // The result is not needed. The call remembers the command line.
            observer.facts(&process);
        }
        observer
    }

    pub(super) fn mark(&self) -> Option<Mark> {
        None
    }

    /// Lists the console's processes; `None` if processes have come or gone during the call.
    pub(super) fn try_look(&mut self) -> io::Result<Option<Vec<Process>>> {
        let members = self.members()?;
        // While a process is open, its id is not used again.
        let all: Vec<_> = members.iter().map(|&pid| (pid, process::open(pid))).collect();
        let mut processes = Vec::with_capacity(all.len());
        for (pid, found) in &all {
            match found {
                process::Found::Open(process) => processes.push(self.facts(process)),
                process::Found::Closed => processes.push(unreadable(*pid)),
                process::Found::Gone => return Ok(None),
            }
        }
        if self.members()? != members {
            return Ok(None);
        }
        self.command_lines.retain(&processes, |pid, _| members.contains(&pid));
        Ok(Some(processes))
    }

    /// The process ids attached to the console, sorted.
    fn members(&mut self) -> io::Result<Vec<u32>> {
        let pty = self.pty.upgrade()?;
        let mut members = self.server.members(pty.pid())?;
        if members.len() > PROCESSES_MAX {
            return Err(too_many());
        }
        members.sort_unstable();
        Ok(members)
    }

    fn facts(&mut self, process: &process::Open) -> Process {
        let image = Image { start: process.start().unwrap_or_default() };
        let line = self.command_lines.get(process.pid(), &image).cloned().unwrap_or_else(|| {
            let (line, directory) = process.command_line();
            CommandLine { arguments: line.as_deref().and_then(process::split), directory }
        });
        self.command_lines.insert(process.pid(), image, &line);
        let executable = process.path().and_then(|path| {
            let file = file_id(&path).ok()?;
            Some(Executable { path, file })
        });
        Process {
            pid: process.pid(),
            parent: process.parent(),
            executable,
            arguments: line.arguments,
            directory: line.directory,
            is_stopped: false,
            reads_terminal: None,
        }
    }
}

pub(super) fn file_id(path: &Path) -> io::Result<FileId> {
    process::file_id(path)
}

pub(super) fn serve_console_members() -> io::Result<()> {
    members::serve()
}
