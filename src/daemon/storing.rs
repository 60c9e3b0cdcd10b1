//! The store's thread, and the router's side of it.
//!
//! The router never waits for the disk: changes that the store's channel has no room for stay here. How
//! many there may be is the machine's own bound.

use super::event::Event;
use crate::{
    record::{Change, Clock, Query},
    store::{Job, Store},
};
use crossbeam_channel::{Receiver, Sender, TrySendError, bounded};
use std::{
    collections::VecDeque,
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
    /// Asked by the machine after those changes, and not handed over.
    queries: VecDeque<(u64, Query)>,
    /// How many are through.
    through: u64,
}

/// Starts the store's thread.
pub(super) fn start(store: Store, inbox: Sender<Event>) -> io::Result<(Storing, JoinHandle<()>)> {
    let (jobs, waiting) = bounded(JOBS);
    let thread = thread::Builder::new().name("store".into()).spawn(move || {
        let watch = Watch(inbox);
        run(store, &waiting, &watch.0);
    })?;
    Ok((Storing { jobs, changes: Vec::new(), queries: VecDeque::new(), through: 0 }, thread))
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

    pub(super) fn ask(&mut self, number: u64, query: Query) {
        self.queries.push_back((number, query));
    }

    /// So many more are through; gives back how many that makes.
    pub(super) const fn pass(&mut self, count: u64) -> u64 {
        self.through += count;
        self.through
    }

    /// Hands over what there is, as far as the store has room for it.
    pub(super) fn hand_over(&mut self, clock: Clock) {
        if !self.changes.is_empty() {
            let job = Job::Write { changes: mem::take(&mut self.changes), clock };
            if let Some(Job::Write { changes, .. }) = self.try_send(job) {
                self.changes = changes;
                return;
            }
        }
        while let Some((number, query)) = self.queries.pop_front() {
            if let Some(Job::Query(number, query)) = self.try_send(Job::Query(number, query)) {
                self.queries.push_front((number, query));
                return;
            }
        }
    }

    /// Gives a job back that there is no room for: the store's next report is the time to try again.
    fn try_send(&self, job: Job) -> Option<Job> {
        match self.jobs.try_send(job) {
            Ok(()) => None,
            Err(TrySendError::Full(job) | TrySendError::Disconnected(job)) => Some(job),
        }
    }

    /// Says what time it is where nothing else is to be said. A store that is busy hears it anyway.
    pub(super) fn tell_time(&self, clock: Clock) {
        drop(self.jobs.try_send(Job::Write { changes: Vec::new(), clock }));
    }

    /// The last of it, and where it goes. Without the way there, the store ends.
    pub(super) fn last(self, clock: Clock) -> (Sender<Job>, Job) {
        (self.jobs, Job::Write { changes: self.changes, clock })
    }
}
