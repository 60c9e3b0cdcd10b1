//! Threads that the daemon cannot do without: if one panics, the daemon ends, so that a person, a
//! wrapper or the service starts a new one.

use super::{Inbox, event::Event};
use std::{
    io,
    thread::{self, JoinHandle},
};

/// Starts a thread whose panic ends the daemon.
pub(super) fn spawn<T: Send + 'static>(
    name: &'static str,
    inbox: &Inbox,
    run: impl FnOnce(&Inbox) -> T + Send + 'static,
) -> io::Result<JoinHandle<T>> {
    let guard = PanicGuard { name, inbox: inbox.clone() };
    thread::Builder::new().name(name.into()).spawn(move || {
        let guard = guard;
        run(&guard.inbox)
    })
}

/// Reports a panic of its thread.
struct PanicGuard {
    name: &'static str,
    inbox: Inbox,
}

impl Drop for PanicGuard {
    fn drop(&mut self) {
        if thread::panicking() {
            // Posting fails only once the router has ended.
            drop(self.inbox.post(Event::Panicked(self.name)));
        }
    }
}
