//! Moves an agent CLI to the background, when its terminal is gone or its person detaches.

use super::{attach::DetachKey, threads::Screen};
use platform::{
    front::Front,
    tty::{Interrupter, RawMode},
};
use std::{fs::File, thread::JoinHandle};

/// The parts of a wrapper that can continue without its terminal.
pub(crate) struct Background {
    /// The key that detaches.
    pub(crate) detach_key: DetachKey,
    /// The process that the person's shell waits for.
    pub(crate) front: Front,
    /// Ends the reading of the person's keys.
    pub(crate) keys: Interrupter,
    /// Begins the agent's log. Returns it for the standard output, if that works.
    pub(crate) begin_log: Box<dyn FnOnce() -> Option<File>>,
}

/// The resources that the wrapper gives up when it leaves its terminal.
pub(super) struct Leaving {
    pub(super) front: Front,
    pub(super) screen: Screen,
    /// The thread that reads the keys, and the way to end it.
    pub(super) reader: Option<JoinHandle<()>>,
    pub(super) keys: Interrupter,
    pub(super) raw: Option<RawMode>,
    pub(super) log: Option<File>,
}

/// The last output for a person who detaches.
pub(super) struct Farewell {
    /// The bytes that restore the terminal's modes.
    pub(super) reset: String,
    pub(super) line: String,
    pub(super) show: fn(&str),
}

impl Leaving {
    /// Restores the terminal, closes it, and lets the shell continue. Waits until the terminal has
    /// taken all output. Without a farewell, the terminal is gone.
    pub(super) fn leave(self, farewell: Option<Farewell>) {
        let reset = farewell.as_ref().map(|farewell| &*farewell.reset);
        if let Err(error) = self.screen.close(reset) {
            tracing::debug!("the terminal is gone: {error}");
        }
        self.keys.interrupt();
        // A panic was reported by the panic hook.
        drop(self.reader.map(JoinHandle::join));
        drop(self.raw);
        if let Some(Farewell { line, show, .. }) = farewell {
            show(&line);
        }
        if let Err(error) = self.front.leave(self.log) {
            tracing::warn!("{error}");
        }
    }
}

/// The line for a person whose terminal no longer shows an agent.
pub(crate) fn farewell(name: &str) -> String {
    format!("{name} runs on; `agent-relay attach {name}` shows it again")
}
