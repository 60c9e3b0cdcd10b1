//! The thread that reads policy.toml again on request.

use super::{
    Inbox, error::DaemonError, event::Event, instance_lock::HomeLock, mark::POLICY_IN_FORCE, vital,
};
use crate::config::policy;
use client::home::{LOCK_FILE, is_absent};
use crossbeam_channel::{Receiver, Sender, bounded};
use parking_lot::Mutex;
use platform::paths;
use router::{ClientId, policy::Policy};
use std::{
    fs, io, mem,
    path::Path,
    sync::{
        Arc,
        atomic::{AtomicBool, Ordering},
    },
    thread::JoinHandle,
};

/// A handle that requests the file to be read. The thread ends when the last handle is dropped.
#[derive(Clone, Debug)]
pub(super) struct PolicyReloader {
    wake: Sender<()>,
    waiting: WaitingClients,
    /// Whether the rules of a policy.toml are in force.
    in_force: Arc<AtomicBool>,
}

/// The clients that wait for the outcome.
type WaitingClients = Arc<Mutex<Vec<ClientId>>>;

/// Starts the thread. `in_force` tells whether the rules of a policy.toml are in force.
pub(super) fn start(
    home: Arc<HomeLock>,
    in_force: bool,
    inbox: &Inbox,
) -> io::Result<(PolicyReloader, JoinHandle<()>)> {
    let (wake, wakes) = bounded(1);
    let (waiting, in_force) = (WaitingClients::default(), Arc::new(AtomicBool::new(in_force)));
    let reloader = PolicyReloader { wake, waiting, in_force };
    let (waiting, in_force) = (Arc::clone(&reloader.waiting), Arc::clone(&reloader.in_force));
    // Waits for: its channel, policy.toml, then the inbox (the new policy).
    let thread = vital::spawn("policy", inbox, move |inbox| {
        run(&home, &wakes, &waiting, &in_force, inbox);
    })?;
    Ok((reloader, thread))
}

impl PolicyReloader {
    /// Requests the file to be read, for a client that waits for the outcome or for none.
    pub(super) fn reload(&self, client: Option<ClientId>) {
        self.waiting.lock().extend(client);
        // If the channel is full, the file is about to be read, which serves this request, too.
        let _ = self.wake.try_send(());
    }

    /// Sets the mark of rules in force again, after the home was removed and made again.
    pub(super) fn restore_mark(&self, home: &Path) -> io::Result<()> {
        if self.in_force.load(Ordering::Relaxed) { POLICY_IN_FORCE.set(home) } else { Ok(()) }
    }
}

/// Loads the policy file. `None` if there is none.
///
/// # Errors
/// If the file is invalid, if other users can change it and so grant themselves any right, or if
/// it is missing although its rules were in force.
pub(crate) fn load(home: &Path) -> Result<Option<Policy>, DaemonError> {
    match paths::check_only_owner_writes(&home.join(policy::FILE)) {
        Err(error) if !is_absent(&error) => return Err(error.into()),
        _ => {}
    }
    let policy = policy::load(home).map_err(DaemonError::Policy)?;
    if policy.is_none() && POLICY_IN_FORCE.is_set(home)? {
        return Err(DaemonError::Policy(policy::missing(home)));
    }
    Ok(policy)
}

/// Loads the policy file to apply it: marks the home if there is one.
pub(super) fn load_to_apply(home: &Path) -> Result<Option<Policy>, DaemonError> {
    let policy = load(home)?;
    if policy.is_some() {
        POLICY_IN_FORCE.set(home)?;
    }
    Ok(policy)
}

fn load_again(lock: &HomeLock, in_force: &AtomicBool) -> Result<Policy, DaemonError> {
    let home = lock.home();
    let policy = load_to_apply(home)?;
    // The mark is missing, too, if the whole home was removed.
    let is_removed =
        || Ok::<_, io::Error>(!fs::exists(home.join(LOCK_FILE))? || lock.is_incomplete());
    if policy.is_none() && in_force.load(Ordering::Relaxed) && is_removed()? {
        return Err(DaemonError::Policy(policy::missing(home)));
    }
    in_force.store(policy.is_some(), Ordering::Relaxed);
    Ok(policy.unwrap_or_default())
}

fn run(
    home: &HomeLock,
    wakes: &Receiver<()>,
    waiting: &WaitingClients,
    in_force: &AtomicBool,
    inbox: &Inbox,
) {
    for () in wakes {
        let clients = mem::take(&mut *waiting.lock());
        let read = load_again(home, in_force).map(Arc::new).map_err(|error| error.to_string());
        match &read {
            Ok(policy) => {
                let (keys, rules) = (policy.keys.len(), policy.rules.len());
                tracing::info!("the policy was read again: {keys} keys, {rules} rules");
            }
            Err(why) => tracing::error!("the policy stays as it was: {why}"),
        }
        // Sending fails only while the daemon is ending.
        drop(inbox.send(Event::PolicyRead(clients, read)));
    }
}
