//! Unix: signal-hook, in a thread of its own.

use std::{
    io,
    thread::{self, JoinHandle},
};

use signal_hook::{
    consts::{SIGHUP, SIGTERM, SIGWINCH},
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

pub(crate) fn watch() -> io::Result<Watch> {
    let mut signals =
        Signals::new([SIGTERM, SIGHUP, SIGWINCH]).map_err(naming("listen for signals"))?;
    let handle = signals.handle();
    let thread = thread::Builder::new().name("signals".to_owned()).spawn(move || {
        for signal in signals.forever() {
            notify(match signal {
                SIGHUP => Signal::HangUp,
                SIGWINCH => Signal::Resize,
                _ => Signal::Stop,
            });
        }
    })?;
    Ok(Watch { signals: handle, thread: Some(thread) })
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
