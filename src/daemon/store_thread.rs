//! The store's thread, and the handle of it for the threads that route.
//!
//! The router never waits for the disk: changes stay here while the store's channel is full. The
//! router limits their number.

use super::{
    Inbox,
    event::Event,
    turns::{Pid, Turns},
    vital,
};
use crossbeam_channel::{Receiver, Sender, TrySendError, bounded};
use protocol::record::{Change, Clock, Query};
use std::{collections::BTreeMap, io, mem, thread::JoinHandle};
use store::{Cancel, Job, Store};

/// The number of jobs that wait for the store.
const JOBS_MAX: usize = 16;

/// The number of queries that the store has at a time. They take turns. A process gets at most half
/// of the places that others leave, so that a few with many queries leave one.
const QUERIES_MAX: usize = 16;

/// The handle of the store's thread.
#[derive(Debug)]
pub(super) struct StoreHandle {
    jobs: Sender<Job>,
    /// Changes from the router that are not handed over to the store yet.
    changes: Vec<Change>,
    /// Queries from the router that are not handed over yet, by the process that asks; they follow
    /// the changes.
    queries: Turns<(u64, Query)>,
    /// The queries that the store has not answered, by number, with the process that asks.
    unanswered: BTreeMap<u64, (Pid, Cancel)>,
    /// The number of changes that the store is done with.
    done: u64,
}

/// What the store's thread does until its channel of jobs ends.
pub(super) type Run = fn(Store, &Receiver<Job>, &Inbox);

/// Starts the store's thread.
pub(super) fn start(
    store: Store,
    run: Run,
    inbox: &Inbox,
) -> io::Result<(StoreHandle, JoinHandle<()>)> {
    let (jobs, waiting) = bounded(JOBS_MAX);
    // Waits for: its channel, the disk, then the inbox (the report); at its end `queries`, whose
    // query it cancels.
    let thread = vital::spawn("store", inbox, move |inbox| run(store, &waiting, inbox))?;
    Ok((StoreHandle::new(jobs), thread))
}

/// Does the jobs, and reports to the router's inbox.
pub(super) fn run(store: Store, jobs: &Receiver<Job>, inbox: &Inbox) {
    // Posting fails only once the router has ended. The last jobs are still done.
    store.run(jobs, |report| drop(inbox.post(Event::Stored(report))));
}

impl StoreHandle {
    fn new(jobs: Sender<Job>) -> Self {
        // The router allows each client one query at a time.
        let queries = Turns::new(usize::MAX);
        Self { jobs, changes: Vec::new(), queries, unanswered: BTreeMap::new(), done: 0 }
    }

    pub(super) fn push(&mut self, change: Change) {
        self.changes.push(change);
    }

    /// Adds a query of a process.
    pub(super) fn query(&mut self, number: u64, pid: Pid, query: Query) {
        drop(self.queries.push(pid, (number, query)));
    }

    /// Cancels a query, if it is unanswered, since the client that asked has left.
    pub(super) fn forget(&mut self, number: u64) {
        self.queries.retain(|query| query.0 != number);
        if let Some((_, cancel)) = self.unanswered.get(&number) {
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
        // Nobody else sends jobs, so the channel has room for what is sent next.
        while self.unanswered.len() < QUERIES_MAX
            && !self.jobs.is_full()
            && let Some((pid, (number, query))) = self.next_query()
        {
            let cancel = Cancel::default();
            self.unanswered.insert(number, (pid, cancel.clone()));
            drop(self.try_send(Job::Query(number, pid, query, cancel)));
        }
    }

    fn next_query(&mut self) -> Option<(Pid, (u64, Query))> {
        let unanswered = self.unanswered.values();
        let handed = |pid| unanswered.clone().filter(|(of, _)| *of == pid).count();
        let free = QUERIES_MAX - self.unanswered.len();
        self.queries.pop(|pid| handed(pid) < free)
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
            handle.query(client, Some(client as u32), Query::Id(String::new()));
        }
        handle.hand_over(clock);
        handle.forget(1);
        handle.forget(last);
        let handed: Vec<_> = store.try_iter().collect();
        let is_cancelled = |job: &Job| matches!(job, Job::Query(1, _, _, it) if it.is_cancelled());
        assert_eq!(handed.len(), QUERIES_MAX);
        assert_eq!(handed.iter().map(is_cancelled).filter(|it| *it).count(), 1);
        // The place of the query that is answered goes to the next client that is still there.
        handle.note_answer(1);
        handle.hand_over(clock);
        assert!(matches!(store.try_recv(), Ok(Job::Query(client, ..)) if client == last + 1));
    }

    #[test]
    fn processes_with_many_queries_leave_others_a_place() {
        let (jobs, store) = bounded(JOBS_MAX);
        let mut handle = StoreHandle::new(jobs);
        let clock = Clock(Now { monotonic: Moment(0), unix_ms: 0 });
        let asker = |job| match job {
            Job::Query(_, pid, ..) => pid,
            Job::Write { .. } => panic!("a query"),
        };
        let mut number = 0;
        for (pid, places) in [(1, 8), (2, 4), (3, 2), (4, 1), (5, 1)] {
            for _ in 0..100 {
                number += 1;
                handle.query(number, Some(pid), Query::Id(String::new()));
            }
            handle.hand_over(clock);
            assert_eq!(store.try_iter().map(asker).collect::<Vec<_>>(), vec![Some(pid); places]);
        }
        // The next place goes to a process that has none.
        handle.note_answer(1);
        handle.hand_over(clock);
        assert_eq!(store.try_iter().count(), 0);
        handle.query(number + 1, Some(6), Query::Id(String::new()));
        handle.hand_over(clock);
        assert_eq!(store.try_iter().map(asker).collect::<Vec<_>>(), [Some(6)]);
    }
}
