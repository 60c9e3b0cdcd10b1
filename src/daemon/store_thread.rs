//! The store's thread, and the handle that the router's thread has of it.
//!
//! The router never waits for the disk: changes stay here while the store's channel is full. The
//! router limits their number.

use super::event::Event;
use crossbeam_channel::{Receiver, Sender, TrySendError, bounded};
use protocol::record::{Change, Clock, Query};
use std::{
    collections::{BTreeMap, VecDeque},
    io, mem,
    thread::{self, JoinHandle},
};
use store::{Cancel, Job, Store};

/// The number of jobs that wait for the store.
const JOBS_MAX: usize = 16;

/// The number of queries that the store has at a time. They take turns.
const QUERIES_MAX: usize = 16;

/// The handle that the router's thread has of the store's thread.
#[derive(Debug)]
pub(super) struct StoreHandle {
    jobs: Sender<Job>,
    /// Changes from the router that are not handed over to the store yet.
    changes: Vec<Change>,
    /// Queries from the router that are not handed over yet; they follow the changes.
    queries: VecDeque<(u64, Query)>,
    /// The queries that the store has not answered, by number.
    unanswered: BTreeMap<u64, Cancel>,
    /// The number of changes that the store is done with.
    done: u64,
}

/// What the store's thread does until its channel of jobs ends.
pub(super) type Run = fn(Store, &Receiver<Job>, &Sender<Event>);

/// Starts the store's thread.
pub(super) fn start(
    store: Store,
    run: Run,
    inbox: Sender<Event>,
) -> io::Result<(StoreHandle, JoinHandle<()>)> {
    let (jobs, waiting) = bounded(JOBS_MAX);
    let thread = thread::Builder::new().name("store".into()).spawn(move || {
        let guard = PanicGuard(inbox);
        run(store, &waiting, &guard.0);
    })?;
    Ok((StoreHandle::new(jobs), thread))
}

/// Does the jobs, and reports to the router's inbox.
pub(super) fn run(store: Store, jobs: &Receiver<Job>, inbox: &Sender<Event>) {
    // Sending fails only once the router's thread is ending. The last jobs are still done.
    store.run(jobs, |report| drop(inbox.send(Event::Stored(report))));
}

/// Reports a panic of the store's thread.
struct PanicGuard(Sender<Event>);

impl Drop for PanicGuard {
    fn drop(&mut self) {
        if thread::panicking() {
            drop(self.0.send(Event::StoreDied));
        }
    }
}

impl StoreHandle {
    fn new(jobs: Sender<Job>) -> Self {
        let (changes, queries, unanswered) = (Vec::new(), VecDeque::new(), BTreeMap::new());
        Self { jobs, changes, queries, unanswered, done: 0 }
    }

    pub(super) fn push(&mut self, change: Change) {
        self.changes.push(change);
    }

    pub(super) fn query(&mut self, number: u64, query: Query) {
        self.queries.push_back((number, query));
    }

    /// Cancels a query, if it is unanswered, since the client that asked has left.
    pub(super) fn forget(&mut self, number: u64) {
        self.queries.retain(|query| query.0 != number);
        if let Some(cancel) = self.unanswered.get(&number) {
            cancel.cancel();
        }
    }

    /// Notes that the store has answered a query.
    pub(super) fn note_answer(&mut self, number: u64) {
        self.unanswered.remove(&number);
    }

    /// Adds to the number of changes that the store is done with. Returns the sum.
    pub(super) const fn add_done(&mut self, count: u64) -> u64 {
        self.done += count;
        self.done
    }

    /// Hands over changes and queries while the store's channel has room.
    pub(super) fn hand_over(&mut self, clock: Clock) {
        if !self.changes.is_empty() {
            let job = Job::Write { changes: mem::take(&mut self.changes), clock };
            if let Some(Job::Write { changes, .. }) = self.try_send(job) {
                self.changes = changes;
                return;
            }
        }
        while self.unanswered.len() < QUERIES_MAX
            && let Some((number, query)) = self.queries.pop_front()
        {
            let cancel = Cancel::default();
            let job = Job::Query(number, query, cancel.clone());
            if let Some(Job::Query(number, query, _)) = self.try_send(job) {
                self.queries.push_front((number, query));
                return;
            }
            self.unanswered.insert(number, cancel);
        }
    }

    /// Sends a job, or returns it if the channel is full. The next attempt follows the store's next
    /// report at the latest.
    fn try_send(&self, job: Job) -> Option<Job> {
        match self.jobs.try_send(job) {
            Ok(()) => None,
            Err(TrySendError::Full(job) | TrySendError::Disconnected(job)) => Some(job),
        }
    }

    /// Tells an idle store the time. A busy store gets it with its jobs.
    pub(super) fn tell_time(&self, clock: Clock) {
        drop(self.jobs.try_send(Job::Write { changes: Vec::new(), clock }));
    }

    /// The last job and the channel for it. Dropping the channel ends the store.
    pub(super) fn into_last_job(self, clock: Clock) -> (Sender<Job>, Job) {
        (self.jobs, Job::Write { changes: self.changes, clock })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use protocol::{Moment, Now};

    #[test]
    fn query_of_a_client_that_leaves_is_cancelled_wherever_it_is() {
        let (jobs, store) = bounded(JOBS_MAX);
        let mut handle = StoreHandle::new(jobs);
        let clock = Clock(Now { monotonic: Moment(0), unix_ms: 0 });
        let last = QUERIES_MAX as u64 + 1;
        for client in 1..=last + 1 {
            handle.query(client, Query::Id(String::new()));
        }
        handle.hand_over(clock);
        handle.forget(1);
        handle.forget(last);
        let handed: Vec<_> = store.try_iter().collect();
        let is_cancelled = |job: &Job| matches!(job, Job::Query(1, _, it) if it.is_cancelled());
        assert_eq!(handed.len(), QUERIES_MAX);
        assert_eq!(handed.iter().map(is_cancelled).filter(|it| *it).count(), 1);
        // The place of the query that is answered goes to the next client that is still there.
        handle.note_answer(1);
        handle.hand_over(clock);
        assert!(matches!(store.try_recv(), Ok(Job::Query(client, ..)) if client == last + 1));
    }
}
