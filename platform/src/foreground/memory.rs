//! The command lines of program images, as first seen.

use std::{collections::HashMap, ffi::OsString, path::PathBuf};

use super::{PROCESSES_MAX, Process, imp::Image};

/// The most images that are remembered; those that are not in the foreground are forgotten first.
const IMAGES_MAX: usize = 2 * PROCESSES_MAX;

/// What is remembered of a program image.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct CommandLine {
    pub(super) arguments: Option<Vec<OsString>>,
    pub(super) directory: Option<PathBuf>,
}

/// The command lines first seen, by process id.
#[derive(Debug, Default)]
pub(super) struct Memory(HashMap<u32, (Image, CommandLine)>);

impl Memory {
    /// What was seen of the process, if it still runs this image.
    pub(super) fn get(&self, pid: u32, image: &Image) -> Option<&CommandLine> {
        self.0.get(&pid).filter(|(seen, _)| seen == image).map(|(_, line)| line)
    }

    /// Remembers a command line, unless there was none to read: it may be readable later.
    pub(super) fn insert(&mut self, pid: u32, image: Image, line: &CommandLine) {
        if line.arguments.is_some() {
            self.0.insert(pid, (image, line.clone()));
        }
    }

    /// Forgets processes that are gone, and if too many are left, all that are not in `foreground`.
    pub(super) fn retain(&mut self, foreground: &[Process], lives: impl Fn(u32, &Image) -> bool) {
        self.0.retain(|&pid, (image, _)| lives(pid, image));
        if self.0.len() > IMAGES_MAX {
            self.0.retain(|&pid, _| foreground.iter().any(|process| process.pid == pid));
        }
    }
}
