//! The thread that reads the keys of `top`.
//!
//! The library that reads them may block until the next key although it was only asked whether
//! there is one: after half of a sequence, or if the system has reported the same key twice. So it
//! gets a separate thread, and the screen never waits for it.

use crate::cli::failure::Failure;
use crossbeam_channel::{Receiver, Sender, bounded};
use ratatui::crossterm::event::{self, Event};
use std::io;

/// The events of the terminal, each read only once it is allowed, so that the thread takes no key
/// from another program in this terminal.
pub(super) struct Input {
    allowed: Sender<()>,
    events: Receiver<io::Result<Event>>,
}

impl Input {
    /// Starts the thread, which ends with the process if no key comes.
    pub(super) fn start() -> Result<Self, Failure> {
        let (allowed, permits) = bounded::<()>(1);
        let (sender, events) = bounded(1);
        // Waits for: its channel, the terminal, then the main thread's channel. Not joined: ends
        // with the process.
        super::spawn("top keys", move || {
            for () in permits {
                if sender.send(event::read()).is_err() {
                    return;
                }
            }
        })?;
        Ok(Self { allowed, events })
    }

    /// Allows to read the next event.
    pub(super) fn allow(&self) {
        // A full channel already holds a permit.
        let _ = self.allowed.try_send(());
    }

    pub(super) fn events(&self) -> &Receiver<io::Result<Event>> {
        &self.events
    }
}
