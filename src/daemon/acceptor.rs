//! The acceptor: accepts connections, and hands them to the starter of their readers.

use super::readers::{Arriving, Pause};
use crossbeam_channel::{Receiver, Sender, bounded};
use platform::transport::Listener;
use std::{
    io,
    sync::Arc,
    thread::{self, JoinHandle},
};

/// A listener and the thread that accepts on it.
#[derive(Debug)]
pub(super) struct Acceptor {
    pub(super) listener: Arc<Listener>,
    stop: Sender<()>,
    thread: JoinHandle<()>,
}

impl Acceptor {
    pub(super) fn start(listener: Listener, arriving: Arriving) -> io::Result<Self> {
        let listener = Arc::new(listener);
        let (stop, stopped) = bounded(0);
        let accepting = Arc::clone(&listener);
        let thread = thread::Builder::new()
            .name("acceptor".into())
            .spawn(move || accept(&accepting, &stopped, &arriving))?;
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

fn accept(listener: &Listener, stopped: &Receiver<()>, arriving: &Arriving) {
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
