//! The thread that reads policy.toml again on request.

use super::{error::DaemonError, event::Event};
use crate::{
    config::{is_absent, policy},
    router::{ClientId, policy::Policy},
};
use crossbeam_channel::{Receiver, Sender, bounded};
use parking_lot::Mutex;
use platform::paths;
use std::{
    io, mem,
    path::{Path, PathBuf},
    sync::Arc,
    thread::{self, JoinHandle},
};

/// A handle that requests the file to be read. The thread ends when the last handle is dropped.
#[derive(Clone, Debug)]
pub(super) struct PolicyReloader {
    wake: Sender<()>,
    waiting: WaitingClients,
}

/// The clients that wait for the outcome.
type WaitingClients = Arc<Mutex<Vec<ClientId>>>;

/// Starts the thread.
pub(super) fn start(
    home: PathBuf,
    inbox: Sender<Event>,
) -> io::Result<(PolicyReloader, JoinHandle<()>)> {
    let (wake, wakes) = bounded(1);
    let waiting = WaitingClients::default();
    let of_thread = Arc::clone(&waiting);
    let thread = thread::Builder::new()
        .name("policy".into())
        .spawn(move || run(&home, &wakes, &of_thread, &inbox))?;
    Ok((PolicyReloader { wake, waiting }, thread))
}

impl PolicyReloader {
    /// Requests the file to be read, for a client that waits for the outcome or for none.
    pub(super) fn reload(&self, client: Option<ClientId>) {
        self.waiting.lock().extend(client);
        // If the channel is full, the file is about to be read, which serves this request, too.
        let _ = self.wake.try_send(());
    }
}

/// Loads the policy file.
///
/// # Errors
/// If the file is invalid, or if other users can change it and so grant themselves any right.
pub fn load(home: &Path) -> Result<Policy, DaemonError> {
    match paths::check_only_owner_writes(&home.join(policy::FILE)) {
        Err(error) if !is_absent(&error) => Err(error.into()),
        _ => policy::load(home).map_err(DaemonError::Policy),
    }
}

fn run(home: &Path, wakes: &Receiver<()>, waiting: &WaitingClients, inbox: &Sender<Event>) {
    for () in wakes {
        let clients = mem::take(&mut *waiting.lock());
        let read = load(home).map(Arc::new).map_err(|error| error.to_string());
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
