//! The daemon: threads that wait for the system around one machine that never waits.
//!
//! ```text
//!   acceptor --- a stream ---> reader ----+
//!                              reader ----+--> inbox --> router's thread --> lane --> stream
//!                              writer ----+ "written"           (Core)         \--> writer
//! ```
//!
//! [`run`] is the keeper: it claims the place, starts the threads, watches over the socket, and ends
//! everything in order. Who waits for whom is the waiting table of ARCHITECTURE.md.

mod acceptor;
mod claim;
mod client;
mod core;
mod event;
mod hands;
pub mod operator_key;
mod reloading;
mod spin;
pub mod stopped;
mod storing;

use crate::{
    config::ConfigError,
    link::Held,
    protocol::{relay::Process, secret::Secret},
    router::Limits,
    store::{self, OpenError, Opened, Store},
};
use acceptor::{Acceptor, Readers};
use claim::Claim;
pub use claim::locks_directory;
use client::Surroundings;
use core::{Core, Start};
use crossbeam_channel::{Receiver, RecvTimeoutError, Sender, bounded};
use event::Event;
use hands::Hands;
use platform::{
    endpoint::Endpoint,
    peer::User,
    stop::Signal,
    transport::{Listener, Place},
};
use reloading::Reloading;
pub use reloading::load as load_policy;
use std::{
    fmt, io, mem,
    ops::RangeInclusive,
    path::{Path, PathBuf},
    process,
    sync::Arc,
    thread,
    time::Duration,
};

/// Events that wait for the router's thread before those who bring them wait too, at most and at least.
const INBOX_EVENTS: RangeInclusive<usize> = 16..=1024;

/// Files that the daemon has open beside its clients' connections, and some to spare.
const FILES_OF_OWN: u64 = 64;

/// The store's file in the home directory.
pub const STORE_FILE: &str = "relay.db";

/// Dead letters that an ACK that comes late may find.
const DEAD_LETTERS_MAX: usize = 1 << 16;

const DAY_MS: u64 = 86_400_000;

/// How often the keeper looks whether its socket is still there. Cleaners empty `/tmp`.
const LOOK_EVERY: Duration = Duration::from_secs(5);

/// So many of them are an hour.
const LOOKS_IN_AN_HOUR: u32 = 720;

/// What a daemon is started with.
#[derive(Clone, Debug)]
pub struct Settings {
    /// Where its lock, its log and its data are.
    pub home: PathBuf,
    /// Whom it serves: the user as whom it runs, unless it is a service.
    pub owner: User,
    /// Where it listens, if that was said; else the default place.
    pub endpoint: Option<Endpoint>,
    /// The machine's bounds and times.
    pub limits: Limits,
    /// Days after which a message that is over is forgotten.
    pub history_days: u64,
    /// The store's file, at most.
    pub store_bytes_max: u64,
}

/// Why there is no daemon.
#[derive(Debug)]
pub enum DaemonError {
    /// One runs already, with this home.
    HomeInUse(PathBuf),
    /// One runs already, at this endpoint.
    EndpointInUse(Endpoint),
    /// The system refused; the error names its object.
    System(io::Error),
    /// What the owner has decided can't be read.
    Policy(ConfigError),
    /// What was kept can't be read, or nothing more be kept.
    Store(OpenError),
    /// This thread panicked.
    Panicked(&'static str),
}

impl fmt::Display for DaemonError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::HomeInUse(home) => {
                let home = home.display();
                write!(
                    f,
                    "a daemon with the home {home} is already running: `agent-relay down` stops it"
                )
            }
            Self::EndpointInUse(endpoint) => {
                write!(
                    f,
                    "a daemon is already running at {endpoint}: choose another endpoint, or stop it"
                )
            }
            Self::System(error) => write!(f, "{error}"),
            Self::Policy(error) => write!(f, "{error}"),
            Self::Store(error) => write!(f, "{error}"),
            Self::Panicked(thread) => {
                write!(f, "the {thread} made a mistake; the daemon can't go on")
            }
        }
    }
}

impl std::error::Error for DaemonError {}

impl From<OpenError> for DaemonError {
    fn from(error: OpenError) -> Self {
        Self::Store(error)
    }
}

impl From<io::Error> for DaemonError {
    fn from(error: io::Error) -> Self {
        Self::System(error)
    }
}

/// Runs a daemon until it is told to stop; `ready` hears where, once clients can connect.
pub fn run(settings: Settings, ready: impl FnOnce(&Endpoint)) -> Result<(), DaemonError> {
    let mut claim = Claim::stake(&settings)?;
    let policy = Arc::new(load_policy(&settings.home)?);
    let opened = open_store(&settings)?;
    let operator_key = operator_key::read_or_make(&claim.home, &settings.owner)?;
    let listener = Listener::bind_for(&claim.endpoint, &settings.owner)?;
    // Before anybody is let in: whom the daemon has welcomed doesn't see it fail to start.
    claim.announce()?;
    if let Err(error) = stopped::clear(&claim.home) {
        tracing::warn!("no daemon starts by itself once this one has died: {error}");
    }
    allow_clients(&settings.limits);
    let (inbox, events) = bounded(inbox_events(&settings.limits));
    let held = Held::default();
    let all = Surroundings {
        inbox: inbox.clone(),
        frame_bytes_max: settings.limits.frame_bytes_max,
        held: held.clone(),
        half_read_bytes_max: settings.limits.memory_bytes_max / 2,
        owner: settings.owner,
    };
    let (reloading, policy_thread) = reloading::start(settings.home.clone(), inbox.clone())?;
    let signals = tell_signals(inbox.clone(), reloading.clone())?;
    let (storing, store) = storing::start(opened.store, inbox)?;
    let about = Process { remarks: opened.remarks, ..describe(&claim) };
    let start = Start {
        limits: settings.limits,
        seed: seed()?,
        image: opened.image,
        operator_key: operator_key.hash(),
        policy,
        about,
    };
    let core = Core::new(start, events, held, Hands::new(storing, reloading));
    let (news, router_ended) = bounded(1);
    // The news end also where the router's thread panics: the keeper hears of either.
    let core = thread::Builder::new().name("router".into()).spawn(move || core.run(news))?;
    let readers = Readers::default();
    let mut acceptor = Acceptor::start(listener, readers.clone(), all.clone())?;
    tracing::info!("listening at {}", claim.endpoint);
    ready(&claim.endpoint);
    acceptor = keep(acceptor, (&mut claim, &operator_key), &readers, &all, &router_ended);
    acceptor.stop();
    // The router's thread ends with the last way into its inbox.
    drop((signals, all));
    let reason = core.join().map_err(|_| DaemonError::Panicked("router"))?;
    // Before the home's lock is free: whoever finds that free then looks for the mark.
    if reason == Some(stopped::ON_PURPOSE)
        && let Err(error) = stopped::mark(&claim.home)
    {
        tracing::error!("a wrapper may start the next daemon by itself: {error}");
    }
    store.join().map_err(|_| DaemonError::Panicked("store"))?;
    policy_thread.join().map_err(|_| DaemonError::Panicked("policy's thread"))?;
    readers.join();
    tracing::info!("stopped");
    Ok(())
}

/// Looks into the store of a home where no daemon runs, if there is one; it stays as it is.
///
/// # Errors
/// If the next daemon would not start with it, or set it aside as damaged.
pub fn examine_store(home: &Path) -> Result<(), OpenError> {
    let path = home.join(STORE_FILE);
    if path.exists() { store::examine(&path) } else { Ok(()) }
}

/// Opens what the last daemon left.
fn open_store(settings: &Settings) -> Result<Opened, DaemonError> {
    let opened = Store::open(
        store::Settings {
            path: settings.home.join(STORE_FILE),
            durability: settings.limits.durability,
            history_ms: settings.history_days.saturating_mul(DAY_MS),
            bytes_max: settings.store_bytes_max,
            dedup_max: settings.limits.doubles_max,
            dead_letters_max: DEAD_LETTERS_MAX,
        },
        platform::clock::unix_ms(),
    )?;
    for remark in &opened.remarks {
        tracing::warn!("{remark}");
    }
    Ok(opened)
}

/// Asks the system for as many connections as there may be clients.
fn allow_clients(limits: &Limits) {
    let wanted = (limits.clients_max + limits.strangers_max) as u64 + FILES_OF_OWN;
    match platform::process::allow_open_files(wanted) {
        Ok(files) if files < wanted => {
            tracing::warn!("the system allows {files} open files; max_clients needs {wanted}");
        }
        Ok(_) => {}
        Err(error) => tracing::warn!("{error}"),
    }
}

/// So many that they hold half the memory that there may be, if each is as long as a frame.
fn inbox_events(limits: &Limits) -> usize {
    let events = limits.memory_bytes_max / 2 / limits.frame_bytes_max;
    events.clamp(*INBOX_EVENTS.start(), *INBOX_EVENTS.end())
}

/// What `status` says about this process.
fn describe(claim: &Claim) -> Process<'static> {
    Process {
        pid: process::id(),
        endpoint: claim.endpoint.as_text().to_owned().into(),
        home: claim.home.display().to_string().into(),
        left: claim.left.as_ref().map(|left| left.as_text().to_owned().into()),
        store_fails: None,
        remarks: Vec::new(),
    }
}

fn tell_signals(
    inbox: Sender<Event>,
    reloading: Reloading,
) -> io::Result<platform::stop::Listening> {
    platform::stop::listen(move |signal| match signal {
        // Without an inbox the daemon is at its end already.
        Signal::Stop => drop(inbox.send(Event::Stop(stopped::ON_PURPOSE))),
        Signal::HangUp => reloading.begin(None),
        Signal::Resize | Signal::Break => {}
    })
}

/// Watches over the socket until the router's thread ends.
fn keep(
    mut acceptor: Acceptor,
    (claim, operator_key): (&mut Claim, &Secret),
    readers: &Readers,
    all: &Surroundings,
    router_ended: &Receiver<()>,
) -> Acceptor {
    let mut at = claim.endpoint.clone();
    let mut looks = 0_u32;
    while let Err(RecvTimeoutError::Timeout) = router_ended.recv_timeout(LOOK_EVERY) {
        looks += 1;
        if looks.is_multiple_of(LOOKS_IN_AN_HOUR) {
            // Without an inbox the daemon is at its end already.
            drop(all.inbox.send(Event::Hour));
        }
        match claim.hold_home() {
            Ok(false) => {}
            Ok(true) => {
                tracing::warn!("{} was removed; made it anew", claim.home.display());
                if let Err(error) = operator_key::write(&claim.home, operator_key, &all.owner) {
                    tracing::error!("nobody can prove to be an operator now: {error}");
                }
            }
            Err(error) => tracing::error!("the home is not this daemon's any more: {error}"),
        }
        match acceptor.listener.place() {
            Ok(Place::Mine) => continue,
            Ok(Place::Gone) => {
                tracing::warn!("{} is gone; listening there anew", claim.endpoint);
            }
            Ok(Place::Foreign) => {
                // Where it moved already, only listening there failed.
                if claim.endpoint == at
                    && let Err(error) = claim.move_to_own()
                {
                    tracing::error!("{} is somebody else's now: {error}", claim.endpoint);
                    continue;
                }
                tracing::warn!("the endpoint is somebody else's now; using {}", claim.endpoint);
            }
            Err(error) => {
                tracing::warn!("can't look at {}: {error}", claim.endpoint);
                continue;
            }
        }
        match listen_anew(claim, readers, all) {
            Ok(fresh) => {
                mem::replace(&mut acceptor, fresh).stop();
                at = claim.endpoint.clone();
                // Without an inbox the daemon is at its end already.
                drop(all.inbox.send(Event::Described(describe(claim))));
            }
            Err(error) => tracing::error!("can't listen at {}: {error}", claim.endpoint),
        }
    }
    acceptor
}

fn listen_anew(claim: &Claim, readers: &Readers, all: &Surroundings) -> io::Result<Acceptor> {
    let listener = Listener::bind_for(&claim.endpoint, &all.owner)?;
    claim.announce()?;
    Acceptor::start(listener, readers.clone(), all.clone())
}

/// Randomness of the system's for the machine's generator.
fn seed() -> io::Result<[u8; 32]> {
    let mut seed = [0; 32];
    getrandom::fill(&mut seed)
        .map_err(|error| io::Error::other(format!("the system has no randomness: {error}")))?;
    Ok(seed)
}
