//! Automatic starts of a daemon that has died, by a wrapper, a listener, or a command of a wrapped
//! agent.
//!
//! An automatic start holds the home's start lock. Commands that stop or replace the daemon hold
//! the same lock, so that no daemon is started in between. Under the lock, a start checks in this
//! order whether a daemon is up, whether a daemon holds the home, whether the daemon was stopped on
//! purpose, and whether there were too many starts.

mod starts;

use super::{
    failure::{Failure, TIMED_OUT},
    identity::looking,
    launch, log,
    program::own_program,
};
use crate::daemon::stopped;
use client::{ClientError, WhenAbsent, home::Context};
use crossbeam_channel::{Receiver, Sender, bounded};
use platform::{
    clock,
    lock::Lock,
    service::{self, RunState},
};
use protocol::text::escaped;
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

/// The lock in the home directory that automatic starts hold.
const LOCK_FILE: &str = "start.lock";

/// The longest wait of a command for the start lock: the longest time that a start takes.
const LOCK_WAIT_MS: u64 = 15_000;

/// The pause between two attempts to take the lock.
const POLL_INTERVAL: Duration = Duration::from_millis(50);

/// The outcome of an automatic start.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Outcome {
    /// A daemon was started.
    Started,
    /// A daemon is up.
    AlreadyUp,
    /// A daemon starts or stops, or listens elsewhere; or another process has the start lock.
    Busy,
    /// No daemon was started: the last one was stopped on purpose.
    Stopped,
    /// No daemon was started: there were too many starts within a minute.
    TooOften,
}

impl fmt::Display for Outcome {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Started => "the daemon had died, and was started again",
            Self::AlreadyUp => "the daemon is up",
            Self::Busy => "a daemon starts or stops, or listens elsewhere",
            Self::Stopped => {
                "the daemon was stopped on purpose: your user starts it with `agent-relay up`"
            }
            Self::TooOften => {
                "the daemon was started 5 times within a minute, and ended each time: daemon.log \
                 in the home directory says why, and your user starts it with `agent-relay up`"
            }
        })
    }
}

/// Prevents automatic starts until the result is dropped, for a person's command that stops or
/// replaces the daemon.
///
/// `None` if there is no home, or if another process holds the start lock for longer than a start
/// takes: a process that hangs must not block a person.
pub(super) fn prevent_starts(home: &Path) -> Result<Option<Lock>, Failure> {
    if !home.is_dir() {
        return Ok(None);
    }
    let deadline = clock::monotonic_ms() + LOCK_WAIT_MS;
    loop {
        let start_lock = Lock::take(&home.join(LOCK_FILE)).map_err(Failure::because)?;
        if start_lock.is_some() || clock::monotonic_ms() > deadline {
            return Ok(start_lock);
        }
        thread::sleep(POLL_INTERVAL);
    }
}

/// Marks that a person's command stopped the daemon of a home on purpose.
pub(super) fn mark_stopped(home: &Path) -> Result<(), Failure> {
    if home.is_dir() { stopped::MARK.set(home).map_err(Failure::because) } else { Ok(()) }
}

/// Allows automatic starts again, after a person's command has started a daemon.
pub(super) fn allow_starts(home: &Path) -> Result<(), Failure> {
    stopped::MARK.clear(home).and_then(|_| starts::forget(home)).map_err(Failure::because)
}

/// Fails if the daemon was stopped on purpose, since agents' commands do not start it then.
pub(super) fn check_not_stopped(home: &Path) -> Result<(), Failure> {
    match stopped::MARK.is_set(home).map_err(Failure::because)? {
        true => Err(Failure::failed(Outcome::Stopped.to_string())),
        false => Ok(()),
    }
}

/// Starts a daemon for a command of a wrapped agent, and waits until the daemon is up. Returns
/// false if a daemon was up before.
pub(super) fn start_for_agent(context: &mut Context) -> Result<bool, Failure> {
    launch::make_home(&context.home)?;
    let deadline = clock::monotonic_ms() + LOCK_WAIT_MS;
    loop {
        match start(context, &|| false)? {
            Outcome::Started => return Ok(true),
            Outcome::AlreadyUp => return Ok(false),
            Outcome::Busy if clock::monotonic_ms() <= deadline => thread::sleep(POLL_INTERVAL),
            busy @ Outcome::Busy => return Err(Failure::new(TIMED_OUT, busy.to_string())),
            refused @ (Outcome::Stopped | Outcome::TooOften) => {
                return Err(Failure::failed(refused.to_string()));
            }
        }
    }
}

/// Starts a daemon if none is up and automatic starts are allowed.
fn start(context: &mut Context, is_over: &dyn Fn() -> bool) -> Result<Outcome, Failure> {
    let lock = Lock::take(&context.home.join(LOCK_FILE)).map_err(Failure::because)?;
    let Some(_start_lock) = lock else { return Ok(Outcome::Busy) };
    match context.try_join(&looking(context)) {
        Ok(_) => return Ok(Outcome::AlreadyUp),
        Err(ClientError::NoDaemon { .. }) => {}
        Err(error) if error.is_of_ending_daemon() => return Ok(Outcome::Busy),
        Err(error) => return Err(error.into()),
    }
    // Checked before the stop mark: a stopping daemon writes the mark before it releases its home.
    if context.is_locked()? {
        return Ok(Outcome::Busy);
    }
    if stopped::MARK.is_set(&context.home).map_err(Failure::because)? {
        return Ok(Outcome::Stopped);
    }
    // A service has its mark in its own home, which this user may not read. The installer stops it,
    // too, and must not find it running again.
    if context.sources.service_used().is_some()
        && let Some(service) = service::installed().map_err(Failure::because)?
        && service.state == RunState::Stopped
    {
        return Ok(Outcome::Stopped);
    }
    if !starts::count(&context.home, clock::unix_ms()).map_err(Failure::because)? {
        return Ok(Outcome::TooOften);
    }
    let started = launch::start(context, is_over)?;
    Ok(if started.is_some() { Outcome::Started } else { Outcome::AlreadyUp })
}

/// A thread that starts a daemon after a client has lost its daemon, so that the client does not
/// wait.
pub(super) struct Starter {
    /// The channel for the endpoint of the lost daemon.
    wake: Sender<String>,
    is_over: Arc<AtomicBool>,
    thread: Option<JoinHandle<()>>,
}

impl Starter {
    /// Starts the thread for a client of this name.
    pub(super) fn begin(context: &Context, name: &str) -> Result<Self, Failure> {
        // Remembers the program's path now, before an upgrade can replace the file.
        own_program()?;
        let (wake, wakes) = bounded(1);
        let is_over = Arc::new(AtomicBool::new(false));
        let (context, name, over) = (context.clone(), name.to_owned(), Arc::clone(&is_over));
        // Waits for: its channel, the home's start lock (50 ms), files, then the daemon or the
        // service manager that it starts (20 s). Only the end of the process waits for it.
        let thread = thread::Builder::new()
            .name("starter".to_owned())
            .spawn(move || run(context, &name, &wakes, &over))
            .map_err(Failure::because)?;
        Ok(Self { wake, is_over, thread: Some(thread) })
    }

    /// The callback of a client that finds no daemon at this endpoint.
    pub(super) fn when_absent(&self, endpoint: &str) -> WhenAbsent {
        let (wake, endpoint) = (self.wake.clone(), endpoint.to_owned());
        WhenAbsent(Arc::new(move || {
            // A full channel already holds a wake-up, which is enough.
            let _ = wake.try_send(endpoint.clone());
        }))
    }
}

impl Drop for Starter {
    fn drop(&mut self) {
        self.is_over.store(true, Ordering::Relaxed);
        // If the channel is full, the wake-up that it holds wakes the thread.
        let _ = self.wake.try_send(String::new());
        if let Some(thread) = self.thread.take() {
            // If the thread has panicked, the panic hook has reported that.
            drop(thread.join());
        }
    }
}

/// Starts a daemon at each wake-up, and logs the outcome. A failure that repeats is logged once.
fn run(mut context: Context, name: &str, wakes: &Receiver<String>, is_over: &AtomicBool) {
    let mut last_line = None;
    for endpoint in wakes {
        if is_over.load(Ordering::Relaxed) {
            return;
        }
        context.sources.option = Some(endpoint);
        let outcome = start(&mut context, &|| is_over.load(Ordering::Relaxed));
        let line = match &outcome {
            Ok(Outcome::AlreadyUp | Outcome::Busy) => continue,
            Ok(outcome) => outcome.to_string(),
            Err(failure) => {
                let why = failure.message.as_deref().unwrap_or_default();
                format!("the daemon had died, and was not started again: {why}")
            }
        };
        let is_new = last_line.as_ref() != Some(&line);
        if is_new || outcome == Ok(Outcome::Started) {
            log::note(&context.home, &escaped(&format!("{name}: {line}")));
        }
        last_line = Some(line);
    }
}
