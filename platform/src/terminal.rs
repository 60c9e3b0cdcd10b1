//! The terminal this process runs in: its size, and raw mode.

#[cfg(unix)]
#[path = "terminal/unix.rs"]
mod imp;
#[cfg(windows)]
#[path = "terminal/windows.rs"]
mod imp;

use std::{
    io::{self, IsTerminal as _, Read, Write},
    panic,
    sync::{Mutex, Once},
};

pub use crate::pty::Size;
use crate::{locked, refusal};

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

/// What is typed (or comes on standard input), as soon as it is there: nothing is read ahead, and in raw
/// mode every key arrives, which the standard library does not grant for Ctrl-Z on Windows.
#[derive(Debug)]
pub struct Input(imp::Input);

impl Input {
    /// Standard input.
    ///
    /// # Errors
    /// If there is none, or no handle left for it.
    pub fn new() -> io::Result<Self> {
        imp::Input::new().map(Self).map_err(crate::naming("open standard input"))
    }

    /// What ends a read of this in another thread.
    pub fn interrupter(&self) -> Interrupter {
        Interrupter(self.0.interrupter())
    }
}

/// Blocks until there is something; `Ok(0)` is the end, or an interruption.
impl Read for Input {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        self.0.read(buffer)
    }
}

/// Ends the reads of an [`Input`], now and from now on. On Windows, one of a console only.
#[derive(Clone, Debug)]
pub struct Interrupter(imp::Interrupter);

impl Interrupter {
    /// Ends them.
    pub fn interrupt(&self) {
        self.0.interrupt();
    }
}

/// Standard output without a buffer in between: what is written is shown, in as few calls.
#[derive(Debug)]
pub struct Output(imp::Output);

impl Output {
    /// Standard output.
    ///
    /// # Errors
    /// If there is none, or no handle left for it.
    pub fn new() -> io::Result<Self> {
        imp::Output::new().map(Self).map_err(crate::naming("open standard output"))
    }
}

impl Write for Output {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        self.0.write(bytes)
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
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
        let mut before = locked(&BEFORE);
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

/// Whether keys come as they are pressed.
#[cfg(windows)]
pub(crate) fn is_raw() -> bool {
    locked(&BEFORE).is_some()
}

fn restore() {
    if let Some(modes) = locked(&BEFORE).take() {
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
