//! Unix: signal-hook, in a thread of its own.

use std::{
    io, mem,
    thread::{self, JoinHandle},
};

use signal_hook::{
    consts::{SIGHUP, SIGQUIT, SIGTERM, SIGTSTP, SIGWINCH},
    iterator::{Handle, Signals},
};

use super::{Signal, notify};
use crate::naming;

/// The thread that waits for signals.
#[derive(Debug)]
pub(crate) struct Watch {
    signals: Handle,
    thread: Option<JoinHandle<()>>,
}

pub(crate) fn watch(keys: bool) -> io::Result<Watch> {
    let of_keys = if keys { &[SIGQUIT, SIGTSTP][..] } else { &[] };
    let watched = [SIGTERM, SIGHUP, SIGWINCH].iter().chain(of_keys);
    let mut signals = Signals::new(watched).map_err(naming("listen for signals"))?;
    let handle = signals.handle();
    // Waits for: the system, then what `notify` waits for: the inbox in the daemon, nothing in a
    // wrapper.
    let thread = thread::Builder::new().name("signals".to_owned()).spawn(move || {
        for signal in signals.forever() {
            notify(match signal {
                SIGHUP => Signal::HangUp,
                SIGWINCH => Signal::Resize,
                SIGTSTP => Signal::Suspend,
                _ => Signal::Stop,
            });
        }
    })?;
    Ok(Watch { signals: handle, thread: Some(thread) })
}

pub(crate) fn suspend() -> io::Result<()> {
    // SAFETY: all-zero is a valid value of the type: the default action, without flags.
    let default: libc::sigaction = unsafe { mem::zeroed() };
    let handler = action(&default)?;
    // SAFETY: no pointers.
    let raised = unsafe { libc::raise(SIGTSTP) };
    // The process was suspended here, and continues.
    action(&handler)?;
    if raised == 0 { Ok(()) } else { Err(io::Error::last_os_error()) }
}

/// Sets the action for SIGTSTP. Returns the one before.
fn action(action: &libc::sigaction) -> io::Result<libc::sigaction> {
    // SAFETY: all-zero is a valid value of the type.
    let mut before = unsafe { mem::zeroed() };
    // SAFETY: the pointers are to values of the right type; the action is the default or that of
    // signal-hook, both of which are valid for the life of the process.
    match unsafe { libc::sigaction(SIGTSTP, action, &mut before) } {
        0 => Ok(before),
        _ => Err(io::Error::last_os_error()),
    }
}

impl Drop for Watch {
    fn drop(&mut self) {
        self.signals.close();
        if let Some(thread) = self.thread.take()
            && thread.thread().id() != thread::current().id()
        {
            // A panic in the listener has been reported already.
            let _ = thread.join();
        }
    }
}
