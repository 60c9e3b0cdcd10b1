//! The acceptor: accepts connections and starts their threads.

use super::client_threads::{self, ReaderContext};
use crossbeam_channel::{Receiver, Sender, bounded};
use parking_lot::Mutex;
use platform::transport::Listener;
use router::ClientId;
use std::{
    io,
    sync::{
        Arc,
        atomic::{AtomicU64, Ordering},
    },
    thread::{self, JoinHandle},
    time::Duration,
};

/// The first and the longest pause after an error of `accept`, such as too many open files.
const PAUSES: [Duration; 2] = [Duration::from_millis(10), Duration::from_secs(1)];

/// Reader threads that are not joined yet, and the next client's id; shared by all acceptors.
#[derive(Clone, Debug, Default)]
pub(super) struct Readers {
    threads: Arc<Mutex<Vec<JoinHandle<()>>>>,
    next_id: Arc<AtomicU64>,
}

impl Readers {
    /// Joins all reader threads. Their streams must be closed.
    pub(super) fn join(&self) {
        for thread in std::mem::take(&mut *self.threads.lock()) {
            join_reader(thread);
        }
    }

    fn add(&self, thread: JoinHandle<()>) {
        let mut threads = self.threads.lock();
        for ended in threads.extract_if(.., |thread| thread.is_finished()) {
            join_reader(ended);
        }
        threads.push(thread);
    }

    fn next_id(&self) -> ClientId {
        ClientId(self.next_id.fetch_add(1, Ordering::Relaxed))
    }
}

fn join_reader(thread: JoinHandle<()>) {
    let name = thread.thread().name().unwrap_or("reader").to_owned();
    if thread.join().is_err() {
        tracing::error!("{name} panicked");
    }
}

/// A listener and the thread that accepts on it.
#[derive(Debug)]
pub(super) struct Acceptor {
    pub(super) listener: Arc<Listener>,
    stop: Sender<()>,
    thread: JoinHandle<()>,
}

impl Acceptor {
    pub(super) fn start(
        listener: Listener,
        readers: Readers,
        context: ReaderContext,
    ) -> io::Result<Self> {
        let listener = Arc::new(listener);
        let (stop, stopped) = bounded(0);
        let accepting = Arc::clone(&listener);
        let thread = thread::Builder::new()
            .name("acceptor".into())
            .spawn(move || accept(&accepting, &stopped, &readers, &context))?;
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

fn accept(listener: &Listener, stopped: &Receiver<()>, readers: &Readers, context: &ReaderContext) {
    let mut pause = PAUSES[0];
    loop {
        let started = listener
            .accept()
            .and_then(|stream| client_threads::start(readers.next_id(), stream, context));
        match started {
            Ok(reader) => {
                readers.add(reader);
                pause = PAUSES[0];
            }
            Err(error) => {
                if !is_running(stopped, Duration::ZERO) {
                    return;
                }
                tracing::warn!("cannot accept a connection: {error}; trying again in {pause:?}");
                if !is_running(stopped, pause) {
                    return;
                }
                pause = (pause * 2).min(PAUSES[1]);
            }
        }
    }
}

/// Waits at most `time` for the stop of the acceptor. Returns true if the acceptor still runs.
fn is_running(stopped: &Receiver<()>, time: Duration) -> bool {
    matches!(stopped.recv_timeout(time), Err(crossbeam_channel::RecvTimeoutError::Timeout))
}
