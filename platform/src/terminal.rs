//! The terminal this process runs in: its size, and raw mode.

#[cfg(unix)]
#[path = "terminal/unix.rs"]
mod imp;
#[cfg(windows)]
#[path = "terminal/windows.rs"]
mod imp;

use std::{
    io::{self, IsTerminal as _},
    panic,
    sync::{Mutex, MutexGuard, Once, PoisonError},
};

pub use crate::pty::Size;
use crate::refusal;

/// One of the three standard streams.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Standard {
    /// Standard input.
    Input,
    /// Standard output.
    Output,
    /// Standard error.
    Error,
}

/// Whether a standard stream is a terminal.
pub fn is_terminal(stream: Standard) -> bool {
    match stream {
        Standard::Input => io::stdin().is_terminal(),
        Standard::Output => io::stdout().is_terminal(),
        Standard::Error => io::stderr().is_terminal(),
    }
}

/// The size of the terminal that standard output (or else input, or error) is; `None` if none is one,
/// or if it does not know.
pub fn size() -> Option<Size> {
    imp::size().filter(|size| size.rows > 0 && size.cols > 0)
}

/// What the terminal was like before raw mode; there is one terminal, so there is one of these.
static BEFORE: Mutex<Option<imp::Modes>> = Mutex::new(None);

/// The terminal hands over every key as it is pressed, and prints what it gets as it is.
///
/// Dropping this restores what was before; a panic anywhere in the process restores it too, before
/// its message is printed. A process that is killed can restore nothing.
#[derive(Debug)]
pub struct RawMode(());

impl RawMode {
    /// Puts the terminal of standard input (and, on Windows, of standard output) into raw mode.
    ///
    /// # Errors
    /// `Unsupported` if standard input is not a terminal; `AlreadyExists` if it is raw already by us.
    pub fn enter() -> io::Result<Self> {
        if !is_terminal(Standard::Input) {
            return Err(refusal(io::ErrorKind::Unsupported, "standard input is not a terminal"));
        }
        let mut before = lock();
        if before.is_some() {
            return Err(refusal(
                io::ErrorKind::AlreadyExists,
                "the terminal is in raw mode already",
            ));
        }
        restore_on_panic();
        *before = Some(imp::make_raw().map_err(crate::naming("make the terminal raw"))?);
        Ok(Self(()))
    }
}

impl Drop for RawMode {
    fn drop(&mut self) {
        restore();
    }
}

fn restore() {
    if let Some(modes) = lock().take() {
        imp::set(&modes);
    }
}

fn restore_on_panic() {
    static HOOK: Once = Once::new();
    HOOK.call_once(|| {
        let next = panic::take_hook();
        panic::set_hook(Box::new(move |panic| {
            restore();
            next(panic);
        }));
    });
}

/// A panic while it was held has left the value whole: it is one assignment.
fn lock() -> MutexGuard<'static, Option<imp::Modes>> {
    BEFORE.lock().unwrap_or_else(PoisonError::into_inner)
}
