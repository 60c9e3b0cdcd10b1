//! This process's terminal: its size, and raw mode.

#[cfg(unix)]
#[path = "tty/unix.rs"]
mod imp;
#[cfg(windows)]
#[path = "tty/windows.rs"]
mod imp;

use std::{
    io::{self, IsTerminal as _, Read, Write},
    panic,
    sync::{Mutex, Once},
};

pub use crate::pty::Size;
use crate::{locked, refusal};

/// A standard stream.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Standard {
    /// The stream with file descriptor 0.
    Input,
    /// The stream with file descriptor 1.
    Output,
    /// The stream with file descriptor 2.
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

/// Whether standard input is a pipe, a socket or a file. The command should see the end of these.
/// The end of a terminal's input only means that the terminal is gone.
#[must_use]
pub fn is_input_piped() -> bool {
    imp::is_input_piped()
}

/// Whether standard output is the system's null device, so that nothing reads it.
#[must_use]
pub fn is_output_discarded() -> bool {
    imp::is_output_discarded()
}

/// Waits until nothing reads standard output any more. Returns false if that cannot be known: on
/// Windows, where only a write fails then.
#[must_use]
pub fn wait_until_output_is_closed() -> bool {
    imp::wait_until_output_is_closed()
}

/// The size of the terminal of standard output (or else of input, or error). `None` if none of them
/// is a terminal, or if the size is unknown.
pub fn size() -> Option<Size> {
    imp::size().filter(|size| size.rows > 0 && size.cols > 0)
}

/// Unbuffered standard input. Nothing is read ahead, and in raw mode every key arrives. (The
/// standard library does not deliver Ctrl-Z on Windows.)
#[derive(Debug)]
pub struct Input(imp::Input);

impl Input {
    /// Opens standard input.
    ///
    /// # Errors
    /// If there is none, or no handle left for it.
    pub fn new() -> io::Result<Self> {
        imp::Input::new().map(Self).map_err(crate::naming("open standard input"))
    }

    /// A handle that lets another thread end the reads.
    pub fn interrupter(&self) -> Interrupter {
        Interrupter(self.0.interrupter())
    }
}

/// Blocks until there is input; `Ok(0)` is the end, or an interruption.
impl Read for Input {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        self.0.read(buffer)
    }
}

/// A handle that ends the reads of an [`Input`], present and future. On Windows, it ends only reads
/// of a console.
#[derive(Clone, Debug)]
pub struct Interrupter(imp::Interrupter);

impl Interrupter {
    /// Ends present and future reads.
    pub fn interrupt(&self) {
        self.0.interrupt();
    }
}

/// Unbuffered standard output. A write is shown at once, with as few system calls as possible.
#[derive(Debug)]
pub struct Output(imp::Output);

impl Output {
    /// Opens standard output.
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

/// The terminal's modes before raw mode. There is one value, since a process has one terminal.
static BEFORE: Mutex<Option<imp::Modes>> = Mutex::new(None);

/// Raw mode: the terminal delivers every key as it is pressed, and prints output unchanged.
///
/// Dropping this restores the earlier modes. A panic anywhere in the process also restores them,
/// before its message is printed. A killed process restores nothing.
#[derive(Debug)]
pub struct RawMode(());

impl RawMode {
    /// Puts the terminal of standard input (and, on Windows, of standard output) into raw mode.
    ///
    /// # Errors
    /// `Unsupported` if standard input is not a terminal; `AlreadyExists` if this process has put
    /// it into raw mode already.
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

    /// Restores the earlier modes, without waiting until the terminal has taken all output.
    pub fn end_at_once(self) {
        restore(imp::set_at_once);
    }
}

impl Drop for RawMode {
    fn drop(&mut self) {
        restore(imp::set);
    }
}

/// Whether this process has put the terminal into raw mode.
#[cfg(windows)]
pub(crate) fn is_raw() -> bool {
    locked(&BEFORE).is_some()
}

fn restore(set: fn(&imp::Modes)) {
    if let Some(modes) = locked(&BEFORE).take() {
        set(&modes);
    }
}

fn restore_on_panic() {
    static HOOK: Once = Once::new();
    HOOK.call_once(|| {
        let next = panic::take_hook();
        panic::set_hook(Box::new(move |panic| {
            restore(imp::set);
            next(panic);
        }));
    });
}
