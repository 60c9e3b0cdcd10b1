//! Automatic starts: what a wrapper, a listener or a command of a wrapped agent does about a daemon
//! that has died.
//!
//! They are made under one lock of the home. A command that puts another daemon in place of one, or
//! stops it, holds that lock meanwhile, so that nothing starts a daemon in between. Under it, in
//! this order: is a daemon up, does one hold the home, was it stopped on purpose, were there too
//! many starts.

mod starts;

use super::{Failure, TIMED_OUT, launch, log, place::Place, print::foreign_line};
use crate::{
    client::{ClientError, Settings, WhenAbsent},
    daemon::stopped,
};
use crossbeam_channel::{Receiver, Sender, bounded};
use platform::{clock, lock::Lock};
use std::{
    fmt,
    path::Path,
    sync::{
        Arc,
        atomic::{AtomicBool, Ordering},
    },
    thread::{self, JoinHandle},
    time::Duration,
};

/// The lock in the home directory under which automatic starts are made.
const LOCK_FILE: &str = "start.lock";

/// How long a person's command, or an agent's, waits for the start lock: as long as a start may
/// take.
const LOCK_WAIT_MS: u64 = 15_000;

/// Between two looks whether it is free.
const LOOK_AGAIN: Duration = Duration::from_millis(50);

/// What came of an automatic start.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Outcome {
    /// A daemon was started.
    Started,
    /// One is up.
    IsUp,
    /// One starts or stops, or listens elsewhere; or somebody else has the start lock.
    Busy,
    /// None was started: the last one was stopped on purpose.
    Stopped,
    /// None was started: too many were within a minute.
    TooOften,
}

impl fmt::Display for Outcome {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Started => "the daemon had died, and was started again",
            Self::IsUp => "the daemon is up",
            Self::Busy => "a daemon starts or stops, or listens elsewhere",
            Self::Stopped => {
                "the daemon was stopped on purpose: your user starts it with `agent-relay up`"
            }
            Self::TooOften => {
                "the daemon was started 5 times within a minute, and ended each time: daemon.log in the home \
                 directory says why, and your user starts it with `agent-relay up`"
            }
        })
    }
}

/// Keeps automatic starts off a home until the result is dropped, for a person's command that stops
/// a daemon or replaces it. `None` where there is no home, or where somebody holds the start lock
/// for longer than a start takes: a process that stands still must not shut a person out.
pub(super) fn hold_off(home: &Path) -> Result<Option<Lock>, Failure> {
    if !home.is_dir() {
        return Ok(None);
    }
    let deadline = clock::monotonic_ms() + LOCK_WAIT_MS;
    loop {
        let start_lock = Lock::take(&home.join(LOCK_FILE)).map_err(Failure::because)?;
        if start_lock.is_some() || clock::monotonic_ms() > deadline {
            return Ok(start_lock);
        }
        thread::sleep(LOOK_AGAIN);
    }
}

/// Marks a home as one whose daemon was stopped on purpose, by a person's command.
pub(super) fn mark_stopped(home: &Path) -> Result<(), Failure> {
    if home.is_dir() { stopped::mark(home).map_err(Failure::because) } else { Ok(()) }
}

/// A person has started a daemon: whatever keeps automatic starts from a home is over.
pub(super) fn allow(home: &Path) -> Result<(), Failure> {
    stopped::clear(home).and_then(|()| starts::forget(home)).map_err(Failure::because)
}

/// Fails where the daemon was stopped on purpose: no command of an agent's starts it then.
pub(super) fn check_not_stopped(home: &Path) -> Result<(), Failure> {
    match stopped::is_marked(home).map_err(Failure::because)? {
        true => Err(Failure::failed(Outcome::Stopped.to_string())),
        false => Ok(()),
    }
}

/// Starts a daemon for a command of a wrapped agent's, which waits for it; false where one was up.
pub(super) fn start_for_agent(place: &mut Place) -> Result<bool, Failure> {
    launch::make_home(&place.home)?;
    let deadline = clock::monotonic_ms() + LOCK_WAIT_MS;
    loop {
        match start(place, &|| false)? {
            Outcome::Started => return Ok(true),
            Outcome::IsUp => return Ok(false),
            Outcome::Busy if clock::monotonic_ms() <= deadline => thread::sleep(LOOK_AGAIN),
            busy @ Outcome::Busy => return Err(Failure::new(TIMED_OUT, busy.to_string())),
            not @ (Outcome::Stopped | Outcome::TooOften) => {
                return Err(Failure::failed(not.to_string()));
            }
        }
    }
}

/// Starts a daemon if none is up and nothing speaks against it.
fn start(place: &mut Place, is_over: &dyn Fn() -> bool) -> Result<Outcome, Failure> {
    let lock = Lock::take(&place.home.join(LOCK_FILE)).map_err(Failure::because)?;
    let Some(_start_lock) = lock else { return Ok(Outcome::Busy) };
    match place.try_join(&|endpoint| Settings::guest(endpoint)) {
        Ok(_) => return Ok(Outcome::IsUp),
        Err(ClientError::NoDaemon { .. }) => {}
        Err(error) => return Err(error.into()),
    }
    // First, since a daemon that stops sets the mark before it gives up its home.
    if place.is_locked()? {
        return Ok(Outcome::Busy);
    }
    if stopped::is_marked(&place.home).map_err(Failure::because)? {
        return Ok(Outcome::Stopped);
    }
    if !starts::count(&place.home, clock::unix_ms()).map_err(Failure::because)? {
        return Ok(Outcome::TooOften);
    }
    let is_ours = launch::start_unless(place, is_over)?;
    Ok(if is_ours { Outcome::Started } else { Outcome::IsUp })
}

/// The thread that starts a daemon when the one that a client had has died, so that the client
/// waits for nothing.
pub(super) struct Starter {
    /// The endpoint that the client had.
    wake: Sender<String>,
    is_over: Arc<AtomicBool>,
    thread: Option<JoinHandle<()>>,
}

impl Starter {
    /// Starts the thread, for a client of this name.
    pub(super) fn begin(place: &Place, name: &str) -> Result<Self, Failure> {
        // After an upgrade this program's file is another one, or is where this one was at the
        // beginning.
        launch::own_program()?;
        let (wake, wakes) = bounded(1);
        let is_over = Arc::new(AtomicBool::new(false));
        let (place, name, over) = (place.clone(), name.to_owned(), Arc::clone(&is_over));
        let thread = thread::Builder::new()
            .name("starter".to_owned())
            .spawn(move || run(place, &name, &wakes, &over))
            .map_err(Failure::because)?;
        Ok(Self { wake, is_over, thread: Some(thread) })
    }

    /// What the client calls that had a daemon at this endpoint.
    pub(super) fn when_absent(&self, endpoint: &str) -> WhenAbsent {
        let (wake, endpoint) = (self.wake.clone(), endpoint.to_owned());
        WhenAbsent(Arc::new(move || {
            // Where one call waits already, it is soon enough for this one.
            let _ = wake.try_send(endpoint.clone());
        }))
    }
}

impl Drop for Starter {
    fn drop(&mut self) {
        self.is_over.store(true, Ordering::Relaxed);
        // Where a call waits already, the thread wakes as well.
        let _ = self.wake.try_send(String::new());
        if let Some(thread) = self.thread.take() {
            // Its own panic was reported by the panic hook.
            drop(thread.join());
        }
    }
}

/// Says in the daemon's log what comes of it; that none is started, once, until one is.
fn run(mut place: Place, name: &str, wakes: &Receiver<String>, is_over: &AtomicBool) {
    let mut said = None;
    for endpoint in wakes {
        if is_over.load(Ordering::Relaxed) {
            return;
        }
        place.sources.option = Some(endpoint);
        let outcome = start(&mut place, &|| is_over.load(Ordering::Relaxed));
        let line = match &outcome {
            Ok(Outcome::IsUp | Outcome::Busy) => continue,
            Ok(outcome) => outcome.to_string(),
            Err(failure) => {
                let why = failure.words.as_deref().unwrap_or_default();
                format!("the daemon had died, and was not started again: {why}")
            }
        };
        let is_new = said.as_ref() != Some(&line);
        if is_new || outcome == Ok(Outcome::Started) {
            log::note(&place.home, &foreign_line(&format!("{name}: {line}")));
        }
        said = Some(line);
    }
}
