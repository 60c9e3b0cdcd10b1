//! The system's notifications to a process: a request to stop, the hang-up of its terminal, a
//! change of the window's size.

#[cfg(unix)]
#[path = "stop_signals/unix.rs"]
mod imp;
#[cfg(windows)]
#[path = "stop_signals/windows.rs"]
mod imp;

use std::{
    io,
    sync::{
        Mutex, OnceLock,
        atomic::{AtomicBool, Ordering},
    },
};

use crate::{locked, refusal};

/// A notification.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Signal {
    /// A request to stop: Ctrl-C, SIGTERM; on Windows also Ctrl-Break, and the closing of the
    /// console. (Windows announces a logoff or shutdown only to services, through the service
    /// manager; other processes are ended at once.)
    Stop,
    /// SIGHUP: the terminal is gone. By convention, a process without a terminal reads its
    /// configuration again. Not on Windows.
    HangUp,
    /// Ctrl-Z, for [`listen_with_keys`]. Not on Windows.
    Suspend,
    /// The terminal has another size; [`crate::tty::size`] returns it.
    Resize,
    /// Ctrl-Break, while the terminal is in raw mode: a console has no other way to report this
    /// key. At other times it is [`Signal::Stop`]. Only on Windows.
    Break,
}

type Listener = Box<dyn Fn(Signal) + Send>;

/// The one listener of the process, as there is one set of signals.
static LISTENER: Mutex<Option<Listener>> = Mutex::new(None);

/// Whether this process reacts to Ctrl-C and other console events.
static HANDLES_CONSOLE: AtomicBool = AtomicBool::new(true);

/// A subscription to signals, which ends when dropped. The default actions of the signals are not
/// restored: without a subscription, the signals have no effect.
#[derive(Debug)]
pub struct Listening {
    _watch: imp::Watch,
}

/// Calls `on_signal` for every signal, one at a time. The function should pass the signal on and
/// return. It runs in two threads: "ctrl-c", which the library ctrlc starts once for the process,
/// and "signals", which ends once the result is dropped and, on Windows, the console answers.
///
/// # Errors
/// `AlreadyExists` if there is a listener; and the system's errors.
pub fn listen(on_signal: impl Fn(Signal) + Send + 'static) -> io::Result<Listening> {
    listen_for(false, on_signal)
}

/// Like [`listen`], for a program that has changed the terminal so that keys send signals. It also
/// gets Ctrl-\, as [`Signal::Stop`], and Ctrl-Z. After Ctrl-Z it should change the terminal back,
/// call [`suspend`], and change the terminal again.
///
/// # Errors
/// As [`listen`].
pub fn listen_with_keys(on_signal: impl Fn(Signal) + Send + 'static) -> io::Result<Listening> {
    listen_for(true, on_signal)
}

/// Suspends this process, as Ctrl-Z does, until it is continued. Does nothing on Windows, and if no
/// shell could continue it.
///
/// # Errors
/// The system's errors.
pub fn suspend() -> io::Result<()> {
    imp::suspend()
}

fn listen_for(keys: bool, on_signal: impl Fn(Signal) + Send + 'static) -> io::Result<Listening> {
    {
        let mut listener = locked(&LISTENER);
        if listener.is_some() {
            return Err(refusal(
                io::ErrorKind::AlreadyExists,
                "another part of this process listens for signals already",
            ));
        }
        *listener = Some(Box::new(on_signal));
    }
    let caught = if handles_console() { catch_ctrl_c() } else { Ok(()) };
    match caught.and_then(|()| imp::watch(keys)) {
        Ok(watch) => Ok(Listening { _watch: watch }),
        Err(error) => {
            *locked(&LISTENER) = None;
            Err(error)
        }
    }
}

impl Drop for Listening {
    fn drop(&mut self) {
        *locked(&LISTENER) = None;
    }
}

/// Makes this process ignore console events, for a service: its stop requests come from the service
/// manager, and a console would also report the logoff of every user.
#[cfg(windows)]
pub(crate) fn leave_console() {
    HANDLES_CONSOLE.store(false, Ordering::SeqCst);
}

fn handles_console() -> bool {
    HANDLES_CONSOLE.load(Ordering::SeqCst)
}

/// Passes a signal to the listener, if there is one.
pub(crate) fn notify(signal: Signal) {
    if let Some(listener) = &*locked(&LISTENER) {
        listener(signal);
    }
}

/// Registers the Ctrl-C handler once: ctrlc takes one handler for the life of the process.
fn catch_ctrl_c() -> io::Result<()> {
    static CAUGHT: OnceLock<Result<(), String>> = OnceLock::new();
    let caught = CAUGHT.get_or_init(|| {
        ctrlc::set_handler(|| notify(Signal::Stop))
            .map_err(|error| format!("listen for Ctrl-C: {error}"))
    });
    caught.clone().map_err(io::Error::other)
}
