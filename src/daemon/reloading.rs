//! The thread that reads policy.toml again, so that nobody waits for the file who has anything else to do.

use super::{DaemonError, event::Event};
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

/// What has it read the file. The thread ends with the last of these.
#[derive(Clone, Debug)]
pub(super) struct Reloading {
    wake: Sender<()>,
    askers: Askers,
}

/// Who waits for it.
type Askers = Arc<Mutex<Vec<ClientId>>>;

/// Starts the thread.
pub(super) fn start(
    home: PathBuf,
    inbox: Sender<Event>,
) -> io::Result<(Reloading, JoinHandle<()>)> {
    let (wake, wakes) = bounded(1);
    let askers = Askers::default();
    let waiting = Arc::clone(&askers);
    let thread = thread::Builder::new()
        .name("policy".into())
        .spawn(move || run(&home, &wakes, &waiting, &inbox))?;
    Ok((Reloading { wake, askers }, thread))
}

impl Reloading {
    /// Has the file read from now on, for somebody who waits for it or for nobody.
    pub(super) fn begin(&self, asker: Option<ClientId>) {
        self.askers.lock().extend(asker);
        // Where one waits to begin already, it is soon enough for this one too.
        let _ = self.wake.try_send(());
    }
}

/// What the owner has decided. A file that others can change is nobody's word: whoever may write in it
/// could give themselves every right.
pub fn load(home: &Path) -> Result<Policy, DaemonError> {
    match paths::check_unchangeable(&home.join(policy::FILE)) {
        Err(error) if !is_absent(&error) => Err(error.into()),
        _ => policy::load(home).map_err(DaemonError::Policy),
    }
}

fn run(home: &Path, wakes: &Receiver<()>, waiting: &Askers, inbox: &Sender<Event>) {
    for () in wakes {
        let askers = mem::take(&mut *waiting.lock());
        let read = load(home).map(Arc::new).map_err(|error| error.to_string());
        match &read {
            Ok(policy) => {
                let (keys, rules) = (policy.keys.len(), policy.rules.len());
                tracing::info!("the policy was read again: {keys} keys, {rules} rules");
            }
            Err(why) => tracing::error!("the policy stays as it was: {why}"),
        }
        // Without an inbox the daemon is at its end already.
        drop(inbox.send(Event::PolicyRead(askers, read)));
    }
}
