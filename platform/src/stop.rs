//! What the system tells a process from outside: to stop, that its terminal hung up, that the
//! window has another size.

#[cfg(unix)]
#[path = "stop/unix.rs"]
mod imp;
#[cfg(windows)]
#[path = "stop/windows.rs"]
mod imp;

use std::{
    io,
    sync::{
        Mutex, OnceLock,
        atomic::{AtomicBool, Ordering},
    },
};

use crate::{locked, refusal};

/// What was told.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Signal {
    /// Stop: Ctrl-C, SIGTERM; on Windows also Ctrl-Break, and the closing of the console. (Of a logoff or shutdown
    /// Windows tells only services, and those by the service manager: others end at once.)
    Stop,
    /// SIGHUP: the terminal is gone. To a process that has none it means, by old custom, to read its
    /// configuration again. Not on Windows.
    HangUp,
    /// The terminal has another size; [`crate::terminal::size`] has it.
    Resize,
    /// Ctrl-Break, while the terminal is in raw mode: a console has no other way to say that this key was
    /// pressed. At other times it means to stop. Only on Windows.
    Break,
}

type Listener = Box<dyn Fn(Signal) + Send>;

/// Who is told. There is one for the whole process, as there is one set of signals.
static LISTENER: Mutex<Option<Listener>> = Mutex::new(None);

/// Whether Ctrl-C, and what else a console tells, means this process.
static HEARS_CONSOLE: AtomicBool = AtomicBool::new(true);

/// Being told; ends when dropped. The signals do not get their old meaning back then: they do
/// nothing any more.
#[derive(Debug)]
pub struct Listening {
    _watch: imp::Watch,
}

/// Has `told` called for every signal, one at a time, in threads named "ctrl-c" (the ctrlc library's,
/// started once for the process) and "signals" (ended when the result is dropped). It should hand the
/// news over and return.
///
/// # Errors
/// `AlreadyExists` if somebody listens; and what the system says.
pub fn listen(told: impl Fn(Signal) + Send + 'static) -> io::Result<Listening> {
    {
        let mut listener = locked(&LISTENER);
        if listener.is_some() {
            return Err(refusal(
                io::ErrorKind::AlreadyExists,
                "the signals have a listener already",
            ));
        }
        *listener = Some(Box::new(told));
    }
    let caught = if hears_console() { catch_ctrl_c() } else { Ok(()) };
    match caught.and_then(|()| imp::watch()) {
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

/// For a service, which the service manager tells: a console would tell it of every logoff of anybody.
#[cfg(windows)]
pub(crate) fn leave_console() {
    HEARS_CONSOLE.store(false, Ordering::SeqCst);
}

fn hears_console() -> bool {
    HEARS_CONSOLE.load(Ordering::SeqCst)
}

/// Called by the watches.
pub(crate) fn tell(signal: Signal) {
    if let Some(listener) = &*locked(&LISTENER) {
        listener(signal);
    }
}

/// ctrlc takes one handler a process, for ever.
fn catch_ctrl_c() -> io::Result<()> {
    static CAUGHT: OnceLock<Result<(), String>> = OnceLock::new();
    let caught = CAUGHT.get_or_init(|| {
        ctrlc::set_handler(|| tell(Signal::Stop))
            .map_err(|error| format!("listen for Ctrl-C: {error}"))
    });
    caught.clone().map_err(io::Error::other)
}
