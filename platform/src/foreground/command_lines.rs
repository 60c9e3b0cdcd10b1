//! The command lines of program images, as first seen.

use std::{collections::HashMap, ffi::OsString, path::PathBuf};

use super::{PROCESSES_MAX, Process};

/// The most images that are remembered. Above this number, all images outside the foreground are
/// forgotten.
const IMAGES_MAX: usize = 2 * PROCESSES_MAX;

/// The remembered facts of a program image.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct CommandLine {
    pub(super) arguments: Option<Vec<OsString>>,
    pub(super) directory: Option<PathBuf>,
}

/// The command lines as first seen, by process id.
#[derive(Debug)]
pub(super) struct CommandLines<Image>(HashMap<u32, (Image, CommandLine)>);

impl<Image> Default for CommandLines<Image> {
    fn default() -> Self {
        Self(HashMap::new())
    }
}

impl<Image: PartialEq> CommandLines<Image> {
    /// The command line of the process, if it still runs this image.
    pub(super) fn get(&self, pid: u32, image: &Image) -> Option<&CommandLine> {
        self.0.get(&pid).filter(|(seen, _)| seen == image).map(|(_, line)| line)
    }

    /// Remembers a command line. An unreadable one is left out, since it may be readable later.
    pub(super) fn insert(&mut self, pid: u32, image: Image, line: &CommandLine) {
        if line.arguments.is_some() {
            self.0.insert(pid, (image, line.clone()));
        }
    }

    /// Forgets processes that are gone. If too many are left, also forgets those outside
    /// `foreground`.
    pub(super) fn retain(&mut self, foreground: &[Process], lives: impl Fn(u32, &Image) -> bool) {
        self.0.retain(|&pid, (image, _)| lives(pid, image));
        if self.0.len() > IMAGES_MAX {
            self.0.retain(|&pid, _| foreground.iter().any(|process| process.pid == pid));
        }
    }
}
