//! The readers of all clients: their start, in turns of the connecting processes, and their end.

use super::{client_threads, reader_context::ReaderContext, turns::Turns, vital};
use crossbeam_channel::{Receiver, RecvTimeoutError, Select, Sender, bounded, tick};
use parking_lot::Mutex;
use platform::transport::Stream;
use std::{
    io,
    sync::Arc,
    thread::JoinHandle,
    time::{Duration, Instant},
};

/// The first and the longest pause after an error of the system, such as too many open files.
const PAUSES: [Duration; 2] = [Duration::from_millis(10), Duration::from_secs(1)];

/// The interval at which the readers of a process that floods the daemon are started.
const FLOOD_PACE: Duration = Duration::from_millis(1);

/// The shortest time between two lines in the log about errors that do not follow each other.
const LOGGED_INTERVAL: Duration = Duration::from_secs(1);

/// The pauses after errors that follow each other.
pub(super) struct Pause {
    next: Duration,
    logged: Option<Instant>,
}

/// The accepted connections whose readers are not started yet.
#[derive(Clone, Debug)]
pub(super) struct Arriving {
    turns: Arc<Mutex<Turns<Stream>>>,
    /// Holds a token while a process that floods nobody may have a connection that the starter has
    /// not seen.
    wake: Sender<()>,
}

/// The thread that starts a reader for each connection that arrives.
#[derive(Debug)]
pub(super) struct Starter {
    pub(super) arriving: Arriving,
    stop: Sender<()>,
    thread: JoinHandle<Readers>,
}

/// Reader threads that are not joined yet.
#[derive(Debug, Default)]
pub(super) struct Readers(Vec<JoinHandle<()>>);

impl Pause {
    pub(super) const fn new() -> Self {
        Self { next: PAUSES[0], logged: None }
    }

    /// Begins again with the shortest pause, because there was no error.
    pub(super) const fn reset(&mut self) {
        self.next = PAUSES[0];
    }

    /// Logs an error, and waits for some time. Returns false if the thread is to stop.
    pub(super) fn after(&mut self, error: &io::Error, stopped: &Receiver<()>) -> bool {
        if !is_running(stopped, Duration::ZERO) {
            return false;
        }
        let pause = self.next;
        let is_recent = self.logged.is_some_and(|logged| logged.elapsed() < LOGGED_INTERVAL);
        if pause > PAUSES[0] || !is_recent {
            tracing::warn!("cannot accept a connection: {error}; trying again in {pause:?}");
            self.logged = Some(Instant::now());
        }
        self.next = (pause * 2).min(PAUSES[1]);
        is_running(stopped, pause)
    }
}

/// Waits at most `time` for the stop of a thread. Returns true if it goes on.
fn is_running(stopped: &Receiver<()>, time: Duration) -> bool {
    matches!(stopped.recv_timeout(time), Err(RecvTimeoutError::Timeout))
}

impl Arriving {
    /// Lets a connection wait for its reader. If too many wait, closes one.
    pub(super) fn add(&self, stream: Stream) {
        let pid = stream.peer_pid();
        let (lost, is_flood) = {
            let mut turns = self.turns.lock();
            (turns.push(pid, stream), turns.is_flood(pid))
        };
        if lost.is_some() {
            tracing::debug!("closed a connection, since too many wait for their readers");
        }
        if !is_flood {
            // If there is a token already, the starter is going to look.
            let _ = self.wake.try_send(());
        }
    }
}

/// What the starter does until it is to stop. It is given the connections that arrive, what wakes
/// and stops it, and what the readers share.
pub(super) type Run =
    fn(&Mutex<Turns<Stream>>, &Receiver<()>, &Receiver<()>, &ReaderContext) -> Readers;

impl Starter {
    /// Starts the thread. `most` connections may wait for their readers.
    pub(super) fn start(most: usize, context: &ReaderContext, run: Run) -> io::Result<Self> {
        let turns = Arc::new(Mutex::new(Turns::new(most)));
        let ((wake, woken), (stop, stopped)) = (bounded(1), bounded(0));
        let arriving = Arriving { turns: Arc::clone(&turns), wake };
        let readers = context.clone();
        // Waits for: the acceptor; a pause after an error, and between the readers of a process
        // that floods the daemon with connections. It joins the readers that have ended.
        let thread = vital::spawn("starter", &context.inbox, move |_| {
            run(&turns, &woken, &stopped, &readers)
        })?;
        Ok(Self { arriving, stop, thread })
    }

    /// Starts no more readers. Closes the connections that wait for one.
    pub(super) fn stop(self) -> Readers {
        drop(self.stop);
        self.thread.join().unwrap_or_else(|_| {
            tracing::error!("the starter panicked");
            Readers::default()
        })
    }
}

/// Starts readers until it is to stop.
pub(super) fn start_readers(
    turns: &Mutex<Turns<Stream>>,
    woken: &Receiver<()>,
    stopped: &Receiver<()>,
    context: &ReaderContext,
) -> Readers {
    let mut readers = Readers::default();
    let mut pause = Pause::new();
    let pace = tick(FLOOD_PACE);
    while let Some(stream) = next(turns, woken, &pace, stopped) {
        match client_threads::start(context.next_id(), stream, context) {
            Ok(reader) => {
                readers.add(reader);
                pause.reset();
            }
            Err(error) if pause.after(&error, stopped) => {}
            Err(_) => break,
        }
    }
    readers
}

/// Waits for the next connection: with each tick of `pace` one of a process that floods the daemon,
/// and else one of the others. Returns `None` if the thread is to stop.
fn next(
    turns: &Mutex<Turns<Stream>>,
    woken: &Receiver<()>,
    pace: &Receiver<Instant>,
    stopped: &Receiver<()>,
) -> Option<Stream> {
    while is_running(stopped, Duration::ZERO) {
        let is_paced = pace.try_recv().is_ok();
        let (next, is_flooded) = {
            let mut turns = turns.lock();
            let flood = if is_paced { turns.pop_of(true) } else { None };
            (flood.or_else(|| turns.pop_of(false)), !turns.is_empty())
        };
        if next.is_some() {
            return next;
        }
        let mut waiting = Select::new();
        waiting.recv(woken);
        waiting.recv(stopped);
        if is_flooded {
            waiting.recv(pace);
        }
        waiting.ready();
        // The token is taken before the next look, so that no connection after that look is missed.
        let _ = woken.try_recv();
    }
    None
}

impl Readers {
    /// Joins all reader threads. Their streams must be closed.
    pub(super) fn join(self) {
        self.0.into_iter().for_each(join);
    }

    fn add(&mut self, thread: JoinHandle<()>) {
        self.0.extract_if(.., |thread| thread.is_finished()).for_each(join);
        self.0.push(thread);
    }
}

fn join(reader: JoinHandle<()>) {
    let name = reader.thread().name().unwrap_or("reader").to_owned();
    if reader.join().is_err() {
        tracing::error!("{name} panicked");
    }
}
