//! A front: the process that a shell waits for, while a child of it does the work. The child may
//! leave the terminal and continue.

#[cfg(unix)]
#[path = "front/unix.rs"]
mod imp;
#[cfg(windows)]
#[path = "front/windows.rs"]
mod imp;

use std::{fs::File, io};

use crate::naming;

/// The two processes after [`Front::fork`].
#[derive(Debug)]
pub enum Forked {
    /// The child, which does the work.
    Child(Front),
    /// The front, when the child has ended or left. The front should end with this exit code.
    Front(i32),
}

/// The front of this process, which is its parent. A clone is the same front.
#[derive(Clone, Debug)]
pub struct Front(imp::Front);

impl Front {
    /// Makes this process the front, and continues in a child with the same terminal, files and
    /// memory.
    ///
    /// The front waits for the child. It passes SIGINT, SIGTERM and SIGHUP on to it, stops when the
    /// child is stopped, and does not touch the terminal. If a signal ends the child, it ends
    /// the front, too; else this call returns in the front, with the child's exit code, or with 0
    /// if the child has left.
    ///
    /// This process must have one thread, since the child gets only that one.
    ///
    /// # Errors
    /// `Unsupported` on Windows; and the system's errors.
    pub fn fork() -> io::Result<Forked> {
        match imp::Front::fork() {
            Ok(Ok(front)) => Ok(Forked::Child(Self(front))),
            Ok(Err(code)) => Ok(Forked::Front(code)),
            Err(error) => Err(naming("start another process for the command")(error)),
        }
    }

    /// Waits until the front has ended.
    pub fn wait(&self) {
        self.0.wait();
    }

    /// Whether the front runs.
    #[must_use]
    pub fn runs(&self) -> bool {
        self.0.runs()
    }

    /// Detaches this process from its terminal, and ends the front: this process gets a session of
    /// its own, no standard input, and `output` as standard output and error (nothing reads them
    /// without it). The caller must have closed its other descriptors of the terminal.
    ///
    /// # Errors
    /// If the streams or the session stay as they were. The front ends all the same.
    pub fn leave(&self, output: Option<File>) -> io::Result<()> {
        self.0.leave(output).map_err(naming("leave the terminal"))
    }
}
