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
mod spin;

use crate::{
    link::Held,
    protocol::relay::Process,
    router::{Limits, Router},
};
use acceptor::{Acceptor, Readers};
use claim::Claim;
use client::Surroundings;
use crossbeam_channel::{Receiver, RecvTimeoutError, Sender, bounded};
use event::Event;
use platform::{
    endpoint::Endpoint,
    peer::User,
    stop::Signal,
    transport::{Listener, Place},
};
use serde_json::value::RawValue;
use std::{fmt, io, mem, ops::RangeInclusive, path::PathBuf, process, thread, time::Duration};

/// Events that wait for the router's thread before those who bring them wait too, at most and at least.
const INBOX_EVENTS: RangeInclusive<usize> = 16..=1024;

/// Files that the daemon has open beside its clients' connections, and some to spare.
const FILES_OF_OWN: u64 = 64;

/// How often the keeper looks whether its socket is still there. Cleaners empty `/tmp`.
const LOOK_EVERY: Duration = Duration::from_secs(5);

/// What a daemon is started with.
#[derive(Clone, Debug)]
pub struct Settings {
    /// Where its lock, its log and its data are.
    pub home: PathBuf,
    /// Where it listens, if that was said; else the default place.
    pub endpoint: Option<Endpoint>,
    /// The machine's bounds and times.
    pub limits: Limits,
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
    /// The router's thread panicked.
    Panicked,
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
            Self::Panicked => f.write_str("the router made a mistake; the daemon can't go on"),
        }
    }
}

impl std::error::Error for DaemonError {}

impl From<io::Error> for DaemonError {
    fn from(error: io::Error) -> Self {
        Self::System(error)
    }
}

/// Runs a daemon until it is told to stop; `ready` hears where, once clients can connect.
pub fn run(settings: Settings, ready: impl FnOnce(&Endpoint)) -> Result<(), DaemonError> {
    let mut claim = Claim::stake(&settings.home, settings.endpoint)?;
    let listener = Listener::bind(&claim.endpoint)?;
    allow_clients(&settings.limits);
    let (inbox, events) = bounded(inbox_events(&settings.limits));
    let held = Held::default();
    let all = Surroundings {
        inbox: inbox.clone(),
        frame_bytes_max: settings.limits.frame_bytes_max,
        held: held.clone(),
        half_read_bytes_max: settings.limits.memory_bytes_max / 2,
        owner: User::me()?,
    };
    let signals = tell_signals(inbox.clone())?;
    let mut router = Router::new(settings.limits, seed()?);
    router.describe_daemon(describe(&claim));
    let core = core::Core::new(router, events, held);
    let (news, router_ended) = bounded(1);
    // The news end also where the router's thread panics: the keeper hears of either.
    let core = thread::Builder::new().name("router".into()).spawn(move || core.run(news))?;
    let readers = Readers::default();
    let mut acceptor = Acceptor::start(listener, readers.clone(), all.clone())?;
    claim.announce()?;
    tracing::info!("listening at {}", claim.endpoint);
    ready(&claim.endpoint);
    acceptor = keep(acceptor, &mut claim, &readers, &all, &router_ended);
    acceptor.stop();
    // The router's thread ends with the last way into its inbox.
    drop((signals, inbox, all));
    core.join().map_err(|_| DaemonError::Panicked)?;
    readers.join();
    tracing::info!("stopped");
    Ok(())
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
fn describe(claim: &Claim) -> Box<RawValue> {
    let about = Process {
        pid: process::id(),
        endpoint: claim.endpoint.as_text().into(),
        home: claim.home.display().to_string().into(),
        left: claim.left.as_ref().map(|left| left.as_text().into()),
    };
    serde_json::value::to_raw_value(&about).expect("it is texts and a number")
}

fn tell_signals(inbox: Sender<Event>) -> io::Result<platform::stop::Listening> {
    platform::stop::listen(move |signal| match signal {
        // Without an inbox the daemon is at its end already.
        Signal::Stop => drop(inbox.send(Event::Stop("stop"))),
        Signal::HangUp => tracing::info!("there is no policy to reload yet"),
        Signal::Resize => {}
    })
}

/// Watches over the socket until the router's thread ends.
fn keep(
    mut acceptor: Acceptor,
    claim: &mut Claim,
    readers: &Readers,
    all: &Surroundings,
    router_ended: &Receiver<()>,
) -> Acceptor {
    let mut at = claim.endpoint.clone();
    while let Err(RecvTimeoutError::Timeout) = router_ended.recv_timeout(LOOK_EVERY) {
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
    let listener = Listener::bind(&claim.endpoint)?;
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
