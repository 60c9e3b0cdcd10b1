//! The acceptor: accepts connections, and hands them to the starter of their readers.

use super::{
    Inbox,
    readers::{Arriving, Pause},
    vital,
};
use crossbeam_channel::{Receiver, Sender, bounded};
use platform::transport::Listener;
use std::{io, sync::Arc, thread::JoinHandle};

/// A listener and the thread that accepts on it.
#[derive(Debug)]
pub(super) struct Acceptor {
    pub(super) listener: Arc<Listener>,
    stop: Sender<()>,
    thread: JoinHandle<()>,
}

/// What an acceptor does until it is to stop.
pub(super) type Run = fn(&Listener, &Receiver<()>, &Arriving);

impl Acceptor {
    pub(super) fn start(
        listener: Listener,
        arriving: Arriving,
        run: Run,
        inbox: &Inbox,
    ) -> io::Result<Self> {
        let listener = Arc::new(listener);
        let (stop, stopped) = bounded(0);
        let accepting = Arc::clone(&listener);
        // Waits for: the system; after an error, a pause.
        let thread =
            vital::spawn("acceptor", inbox, move |_| run(&accepting, &stopped, &arriving))?;
        Ok(Self { listener, stop, thread })
    }

    /// Stops accepting and closes the listener. Connections stay.
    pub(super) fn stop(self) {
        drop(self.stop);
        self.listener.stop();
        if self.thread.join().is_err() {
            tracing::error!("the acceptor panicked");
        }
    }
}

/// Accepts connections until it is to stop.
pub(super) fn accept(listener: &Listener, stopped: &Receiver<()>, arriving: &Arriving) {
    let mut pause = Pause::new();
    loop {
        match listener.accept() {
            Ok(stream) => {
                arriving.add(stream);
                pause.reset();
            }
            Err(error) if pause.after(&error, stopped) => {}
            Err(_) => return,
        }
    }
}
