//! The store's thread, and the router's side of it.
//!
//! The router never waits for the disk: changes that the store's channel has no room for stay here. How
//! many there may be is the machine's own bound.

use super::event::Event;
use crate::{
    protocol::record::{Change, Clock},
    store::{Job, Store},
};
use crossbeam_channel::{Receiver, Sender, TrySendError, bounded};
use std::{
    io, mem,
    thread::{self, JoinHandle},
};

/// Batches that wait for the store.
const JOBS: usize = 16;

/// What the router's thread needs of the store.
#[derive(Debug)]
pub(super) struct Storing {
    jobs: Sender<Job>,
    /// Said by the machine, and not handed over.
    changes: Vec<Change>,
    /// How many are through.
    through: u64,
}

/// Starts the store's thread.
pub(super) fn start(
    store: Store,
    inbox: Sender<Event>,
) -> io::Result<(Storing, JoinHandle<()>)> {
    let (jobs, waiting) = bounded(JOBS);
    let thread = thread::Builder::new().name("store".into()).spawn(move || {
        let watch = Watch(inbox);
        run(store, &waiting, &watch.0);
    })?;
    Ok((Storing { jobs, changes: Vec::new(), through: 0 }, thread))
}

fn run(store: Store, jobs: &Receiver<Job>, inbox: &Sender<Event>) {
    // Without an inbox the router's thread is at its end: the last jobs are done all the same.
    store.run(jobs, |report| drop(inbox.send(Event::Stored(report))));
}

/// Tells the router's thread if the store's panics.
struct Watch(Sender<Event>);

impl Drop for Watch {
    fn drop(&mut self) {
        if thread::panicking() {
            drop(self.0.send(Event::StoreDied));
        }
    }
}

impl Storing {
    pub(super) fn push(&mut self, change: Change) {
        self.changes.push(change);
    }

    /// So many more are through; gives back how many that makes.
    pub(super) const fn pass(&mut self, count: u64) -> u64 {
        self.through += count;
        self.through
    }

    /// Hands over what there is, if the store has room for it.
    pub(super) fn hand_over(&mut self, clock: Clock) {
        if self.changes.is_empty() {
            return;
        }
        let job = Job::Keep { changes: mem::take(&mut self.changes), clock };
        if let Err(TrySendError::Full(job) | TrySendError::Disconnected(job)) =
            self.jobs.try_send(job)
            && let Job::Keep { changes, .. } = job
        {
            self.changes = changes;
        }
    }

    /// Hands over the last of it, and lets the store end.
    pub(super) fn finish(mut self, clock: Clock) {
        let job = Job::Keep { changes: mem::take(&mut self.changes), clock };
        if self.jobs.send(job).is_err() {
            tracing::error!("the store ended before the last changes reached it");
        }
    }
}
