//! The daemon: threads that wait for the system, around a router that never waits.
//!
//! ```text
//!   acceptor --- a stream ---> starter --- a stream ---> reader ----+
//!                                                        reader ----+--> inbox --> Routing
//!                                                        writer ----+ "written"      |
//!                                              stream <-- lane, perhaps through a writer
//! ```
//!
//! [`run`] takes the locks, starts the threads, supervises the socket, and ends everything in
//! order. A comment `Waits for` above the start of each thread says what it waits for. `inbox` says
//! which thread routes, and `client::link` how a lane writes.
//!
//! To stop, the router sends BYE to every client and closes. The lanes are dropped, so the writers
//! write what they hold and end; the readers see the end and report it. The router reports that it
//! has stopped, and the main thread joins all others.
//!
//! Locks guard only: the inbox and whose turn it is to route, a reader's quota, a channel's
//! account, the table of long half-read frames, the reason of a connection's end, the connections
//! that wait for a reader, and the requests that wait for the policy file.

mod acceptor;
mod channel;
mod channel_reader;
mod client_handle;
mod client_table;
mod client_threads;
mod client_wire;
mod entry;
mod error;
mod event;
mod inbox;
mod instance_lock;
pub(crate) mod mark;
mod operator_key;
mod policy_thread;
mod reader_context;
mod readers;
mod routing;
mod settings;
pub(crate) mod stopped;
mod store_thread;
mod turns;
mod vital;

pub(crate) use error::DaemonError;
pub(crate) use instance_lock::{locks_directory, remove_endpoint_lock};
pub(crate) use policy_thread::load as load_policy;
pub(crate) use settings::Settings;
pub use settings::limits;

use acceptor::Acceptor;
use client::link::{BufferedBytes, HalfRead};
use crossbeam_channel::{RecvTimeoutError, bounded};
use event::Event;
use instance_lock::InstanceLock;
use platform::{
    endpoint::Endpoint,
    random,
    stop_signals::Signal,
    transport::{EndpointState, Listener},
};
use policy_thread::PolicyReloader;
use protocol::{relay::Process, secret::Secret};
use reader_context::ReaderContext;
use readers::{Arriving, Starter};
use router::{Limits, policy::Policy};
use routing::{Routing, Start};
use std::{
    io, mem,
    path::Path,
    process,
    sync::Arc,
    thread,
    time::{Duration, Instant},
};
use store::{self, OpenError, Opened, Progress, Store};
use turns::{FLOOD, WAITING_MAX};

/// The inbox of the router.
type Inbox = inbox::Inbox<Routing>;

/// The number of open files besides the clients' connections, with some to spare.
const FILES_OF_OWN: u64 = 64;

/// The store's file in the home directory.
pub(crate) const STORE_FILE: &str = "relay.db";

/// The number of dead letters that a late ACK can still acknowledge.
const DEAD_LETTERS_MAX: usize = 1 << 16;

const DAY_MS: u64 = 86_400_000;

/// The interval of checks that the socket still exists; cleaners of `/tmp` may remove it.
const CHECK_EVERY: Duration = Duration::from_secs(5);

/// The number of these checks in an hour.
const CHECKS_PER_HOUR: u32 = 720;

/// Runs a daemon until it is told to stop. `ready` is called with its endpoint once clients can
/// connect, and `progressed` again and again before, while the store is taken over from an older
/// version, which may take long.
pub(crate) fn run(
    settings: Settings,
    progressed: &mut dyn FnMut(),
    ready: impl FnOnce(&Endpoint),
) -> Result<(), DaemonError> {
    let lock = InstanceLock::acquire(&settings)?;
    let policy = policy_thread::load_to_apply(&settings.home)?;
    let opened = open_store(&settings, &lock, progressed)?;
    run_with(settings, lock, policy, opened, Runs::default(), ready)
}

/// What vital threads do.
#[derive(Clone, Copy)]
struct Runs {
    store: store_thread::Run,
    acceptor: acceptor::Run,
    starter: readers::Run,
}

impl Default for Runs {
    fn default() -> Self {
        Self {
            store: store_thread::run,
            acceptor: acceptor::accept,
            starter: readers::start_readers,
        }
    }
}

fn run_with(
    settings: Settings,
    mut lock: InstanceLock,
    policy: Option<Policy>,
    opened: Opened,
    runs: Runs,
    ready: impl FnOnce(&Endpoint),
) -> Result<(), DaemonError> {
    let operator_key = operator_key::read_or_make(&lock.home, &settings.owner)?;
    let listener = Listener::bind_for(&lock.endpoint, &settings.owner)?;
    // The file is written before any client is accepted, so that no client sees the start fail.
    lock.write_endpoint_file()?;
    if let Err(error) = stopped::MARK.clear(&lock.home) {
        tracing::warn!("wrappers will not restart this daemon if it dies: {error}");
    }
    // Each client has a reader, which allocates what it has read.
    platform::process::keep_little_memory();
    let (waiting_max, inbox) = (allow_clients(&settings.limits), Inbox::new());
    // The same quarter as of long frames that are read in part.
    let buffered = BufferedBytes::new(settings.limits.memory_bytes_max / 4);
    // The channel is disconnected when the router's thread ends, also by a panic.
    let (ended, router_ended) = bounded(1);
    let context = ReaderContext {
        inbox: inbox.clone(),
        frame_bytes_max: settings.limits.frame_bytes_max,
        buffered: buffered.clone(),
        half_read: half_read(&settings.limits),
        owner: settings.owner,
        router_ended,
        ids: Arc::default(),
    };
    let (reloader, policy_thread) =
        policy_thread::start(Arc::clone(&lock.home_lock), policy.is_some(), &inbox)?;
    let signals = handle_signals(inbox.clone(), reloader.clone())?;
    let (store, store_thread) = store_thread::start(opened.store, runs.store, &inbox)?;
    let about = describe(&lock, settings.ends_with_starter, opened.remarks);
    let start = Start {
        limits: settings.limits,
        seed: random::bytes()?,
        image: opened.image,
        id_key: opened.id_key,
        operator_key: operator_key.hash(),
        policy: Arc::new(policy.unwrap_or_default()),
        about,
    };
    let routing = Box::new(Routing::new(start, buffered, store, reloader.clone()));
    // Waits for: the inbox until `deadline()`, while another thread routes or nothing is due; at
    // its end the store's channel.
    let router = thread::Builder::new().name("router".into()).spawn(move || {
        let mut routing = inbox.run(routing);
        routing.hang_up();
        drop(ended);
        routing.finish()
    })?;
    let starter = Starter::start(waiting_max, &context, runs.starter)?;
    let arriving = starter.arriving.clone();
    let acceptor = Acceptor::start(listener, arriving, runs.acceptor, &context.inbox)?;
    tracing::info!("listening at {}", lock.endpoint);
    ready(&lock.endpoint);
    let keeper = Keeper {
        lock: &mut lock,
        operator_key: &operator_key,
        reloader: &reloader,
        arriving: &starter.arriving,
        run_acceptor: runs.acceptor,
        context: &context,
    };
    keeper.supervise(acceptor).stop();
    let readers = starter.stop();
    // The policy thread ends when the last reloader is dropped.
    drop((signals, reloader));
    let ended = router.join().map_err(|_| DaemonError::Panicked("router"))?;
    if matches!(ended, Ok(Some(stopped::ON_PURPOSE))) {
        lock.mark_as_stopped();
    }
    store_thread.join().map_err(|_| DaemonError::Panicked("store"))?;
    policy_thread.join().map_err(|_| DaemonError::Panicked("policy"))?;
    readers.join();
    tracing::info!("stopped");
    match ended? {
        Some(stopped::OUSTED) => Err(DaemonError::home_in_use(&lock.home)),
        _ => Ok(()),
    }
}

/// Checks the store of a home where no daemon runs, if there is one. The file does not change.
///
/// # Errors
/// If the next daemon would refuse to start with the store, or set its file aside as damaged.
pub(crate) fn examine_store(home: &Path) -> Result<(), OpenError> {
    let path = home.join(STORE_FILE);
    if path.exists() { store::examine(&path) } else { Ok(()) }
}

/// The beginning of the lines about a takeover in the log, which commands that wait look for.
pub(crate) const TAKING_OVER: &str = "taking over the store of an older version";

/// The time between two of these lines.
const TELL_EVERY: Duration = Duration::from_secs(1);

/// Opens the store.
fn open_store(
    settings: &Settings,
    lock: &InstanceLock,
    progressed: &mut dyn FnMut(),
) -> Result<Opened, DaemonError> {
    let mut told: Option<Instant> = None;
    let mut progressed = |Progress { done, all }: Progress| {
        if told.is_none_or(|told| told.elapsed() >= TELL_EVERY) {
            told = Some(Instant::now());
            tracing::warn!("{TAKING_OVER}: {done} of {all} rows");
        }
        progressed();
    };
    let opened = Store::open(
        store::Settings {
            path: settings.home.join(STORE_FILE),
            claim: lock.home_lock.clone(),
            durability: settings.limits.durability,
            history_ms: settings.history_days.saturating_mul(DAY_MS),
            bytes_max: settings.store_bytes_max,
            dedup_max: settings.limits.dedup_max,
            dead_letters_max: DEAD_LETTERS_MAX,
        },
        platform::clock::unix_ms(),
        &mut progressed,
    )?;
    for remark in &opened.remarks {
        tracing::warn!("{remark}");
    }
    Ok(opened)
}

/// Long frames that are read in part may hold a quarter of the memory, since each is there twice
/// until its client's quota has room for it; those of clients without a handshake a sixteenth, or
/// two whole frames.
fn half_read(limits: &Limits) -> HalfRead {
    let Limits { memory_bytes_max, frame_bytes_max, .. } = *limits;
    HalfRead::new(memory_bytes_max / 4, (memory_bytes_max / 16).max(2 * frame_bytes_max))
}

/// Raises the limit of open files to the number of clients allowed. Returns how many connections
/// may wait for their readers: if the system allows fewer files, a quarter of them, but [`FLOOD`].
fn allow_clients(limits: &Limits) -> usize {
    let clients = limits.clients_max + limits.unauthenticated_max + WAITING_MAX;
    let wanted = clients as u64 + FILES_OF_OWN;
    let files = platform::process::allow_open_files(wanted).unwrap_or_else(|error| {
        tracing::warn!("{error}");
        wanted
    });
    if files < wanted {
        tracing::warn!("the system allows {files} open files; max_clients needs {wanted}");
    }
    usize::try_from(files / 4).map_or(WAITING_MAX, |quarter| quarter.clamp(FLOOD, WAITING_MAX))
}

/// The description of this process in `status`.
fn describe(
    lock: &InstanceLock,
    ends_with_starter: bool,
    remarks: Vec<String>,
) -> Process<'static> {
    Process {
        pid: process::id(),
        endpoint: lock.endpoint.as_text().to_owned().into(),
        home: lock.home.display().to_string().into(),
        left: lock.left.as_ref().map(|left| left.as_text().to_owned().into()),
        endpoint_fails: None,
        store_fails: None,
        ends_with_starter,
        remarks,
    }
}

fn handle_signals(
    inbox: Inbox,
    reloader: PolicyReloader,
) -> io::Result<platform::stop_signals::Listening> {
    platform::stop_signals::listen(move |signal| match signal {
        // Sending fails only while the daemon is ending.
        Signal::Stop => drop(inbox.send(Event::Stop(stopped::ON_PURPOSE))),
        Signal::HangUp => reloader.reload(None),
        Signal::Suspend | Signal::Resize | Signal::Break => {}
    })
}

/// What the daemon's main thread restores, and what it needs for that.
struct Keeper<'a> {
    lock: &'a mut InstanceLock,
    operator_key: &'a Secret,
    reloader: &'a PolicyReloader,
    arriving: &'a Arriving,
    run_acceptor: acceptor::Run,
    context: &'a ReaderContext,
}

impl Keeper<'_> {
    /// Restores the home and the socket if they are removed or taken, until the router's thread
    /// ends.
    fn supervise(mut self, mut acceptor: Acceptor) -> Acceptor {
        let mut at = self.lock.endpoint.clone();
        let (mut checks, mut fails) = (0_u32, None);
        // Waits for: the router's end, up to `CHECK_EVERY`; then files, an old acceptor and the
        // inbox. `run_with` then joins every thread. (In a Windows service this is the service's
        // own thread.)
        while let Err(RecvTimeoutError::Timeout) =
            self.context.router_ended.recv_timeout(CHECK_EVERY)
        {
            checks += 1;
            if checks.is_multiple_of(CHECKS_PER_HOUR) {
                // Sending fails only while the daemon is ending.
                drop(self.context.inbox.send(Event::Hour));
            }
            self.restore_home();
            if !self.must_listen_again(&acceptor.listener, &at) {
                if fails.take().is_some() {
                    self.describe(None);
                }
                continue;
            }
            match self.listen_again() {
                Ok(new_acceptor) => {
                    let endpoint = &self.lock.endpoint;
                    tracing::warn!("{at} was removed or taken: listening at {endpoint} again");
                    mem::replace(&mut acceptor, new_acceptor).stop();
                    at = self.lock.endpoint.clone();
                    fails = None;
                    self.describe(None);
                }
                Err(error) if fails.as_ref() == Some(&error.to_string()) => {}
                Err(error) => {
                    tracing::error!("cannot listen at {}: {error}", self.lock.endpoint);
                    fails = Some(error.to_string());
                    self.describe(fails.clone());
                }
            }
        }
        acceptor
    }

    /// Tells the router what `status` says about the process from now on. `endpoint_fails` is why
    /// nobody can connect.
    fn describe(&self, endpoint_fails: Option<String>) {
        let about = Process { endpoint_fails, ..describe(self.lock, false, Vec::new()) };
        // Sending fails only while the daemon is ending.
        drop(self.context.inbox.send(Event::Described(about)));
    }

    fn restore_home(&self) {
        match self.lock.restore_home() {
            Ok(false) => {}
            Ok(true) => {
                tracing::warn!("{} was removed, and is created again", self.lock.home.display());
                match self.write_home() {
                    Ok(()) => self.lock.home_lock.complete(),
                    Err(error) => tracing::error!("{error}; the next daemon may start without it"),
                }
            }
            Err(error) => tracing::error!("the home cannot be locked any more: {error}"),
        }
    }

    /// Writes the home's files other than the store's.
    fn write_home(&self) -> io::Result<()> {
        let home = &self.lock.home;
        self.reloader.restore_mark(home)?;
        self.lock.write_endpoint_file()?;
        operator_key::write(home, self.operator_key, &self.context.owner)
    }

    /// Returns whether nobody can connect at the endpoint, so that the daemon must listen again. If
    /// another user took it, the lock moves to one of this user's, unless it has left `at`, where
    /// the daemon listened last, already.
    fn must_listen_again(&mut self, listener: &Listener, at: &Endpoint) -> bool {
        match listener.endpoint_state() {
            Ok(EndpointState::Mine) => return false,
            Ok(EndpointState::Gone) => {}
            // If an earlier round moved the endpoint already, only listening there failed.
            Ok(EndpointState::Foreign) if self.lock.endpoint == *at => return self.leave_taken(),
            Ok(EndpointState::Foreign) => {}
            Err(error) => {
                tracing::warn!("cannot check {}: {error}", self.lock.endpoint);
                return false;
            }
        }
        true
    }

    /// Moves the lock away from an endpoint that another user took. What this user has put there
    /// stays a reason not to listen. Returns whether to listen again.
    fn leave_taken(&mut self) -> bool {
        let is_another_users = match Listener::is_foreign(&self.lock.endpoint) {
            Ok(is_another_users) => is_another_users,
            Err(error) => {
                tracing::warn!("cannot check {}: {error}", self.lock.endpoint);
                return false;
            }
        };
        if is_another_users {
            if let Err(error) = self.lock.move_to_own_endpoint() {
                let taken = &self.lock.endpoint;
                tracing::error!("{taken} was taken by another user: {error}");
                return false;
            }
            let endpoint = &self.lock.endpoint;
            tracing::warn!("the endpoint was taken by another user; using {endpoint}");
        }
        true
    }

    fn listen_again(&self) -> io::Result<Acceptor> {
        let listener = Listener::bind_again(&self.lock.endpoint, &self.context.owner)?;
        self.lock.write_endpoint_file()?;
        let arriving = self.arriving.clone();
        Acceptor::start(listener, arriving, self.run_acceptor, &self.context.inbox)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use platform::{paths, peer::User, transport::Stream};
    use protocol::frame;
    use std::{
        env, fs,
        io::{Read, Write},
    };

    /// The longest wait for a daemon's end.
    const WATCHDOG: Duration = Duration::from_secs(60);

    /// Runs a daemon with these threads, and sends it a HELLO. Returns how it ends.
    fn end_of_daemon(name: &str, runs: Runs) -> Result<(), DaemonError> {
        let home = env::temp_dir().join(format!("ar-panic-{name}-{}", process::id()));
        paths::make_private_dir(&home).unwrap();
        let settings = Settings {
            endpoint: Some(Endpoint::inside(&home, "relay").unwrap()),
            home: home.clone(),
            owner: User::me().unwrap(),
            limits: Limits::default(),
            history_days: 1,
            store_bytes_max: 1 << 30,
            ends_with_starter: false,
        };
        let lock = InstanceLock::acquire(&settings).unwrap();
        let opened = open_store(&settings, &lock, &mut || {}).unwrap();
        let (ready, is_ready) = bounded(1);
        let (ended, end) = bounded(1);
        let daemon = thread::spawn(move || {
            let ready = |at: &Endpoint| ready.send(at.clone()).unwrap();
            ended.send(run_with(settings, lock, None, opened, runs, ready)).unwrap();
        });
        let client = Stream::connect(&is_ready.recv().unwrap()).unwrap();
        let (json, mut hello) =
            (r#"{"v":1,"type":"HELLO","id":"h","ts":1,"payload":{"agent":"Ann"}}"#, Vec::new());
        frame::append(&mut hello, |frame| frame.extend_from_slice(json.as_bytes()));
        // A thread that panics may have closed the connection already.
        let _ = (&client).write_all(&hello);
        let ended = end.recv_timeout(WATCHDOG).expect("the daemon ends");
        daemon.join().unwrap();
        drop((&client).read_to_end(&mut Vec::new()));
        fs::remove_dir_all(home).unwrap();
        ended
    }

    #[test]
    fn panic_of_a_vital_thread_ends_the_daemon() {
        let acceptor: acceptor::Run =
            |listener, _, _| panic!("on purpose, at {:?}", listener.accept());
        let starter: readers::Run = |_, woken, _, _| panic!("on purpose, at {:?}", woken.recv());
        let store: store_thread::Run = |_, jobs, _| panic!("on purpose, at {:?}", jobs.recv());
        let cases = [
            ("acceptor", Runs { acceptor, ..Runs::default() }),
            ("starter", Runs { starter, ..Runs::default() }),
            ("store", Runs { store, ..Runs::default() }),
        ];
        // One daemon at a time listens for the signals of this process.
        for (name, runs) in cases {
            let ended = end_of_daemon(name, runs);
            assert!(matches!(ended, Err(DaemonError::Panicked(it)) if it == name), "{ended:?}");
        }
    }
}
