//! The queries that wait, and the thread that answers them with a connection of its own.
//!
//! The store's thread lends the connection for a slice of one query at a time, after the commit of
//! all changes before the query. So it knows when nobody reads, and can shorten the log or open the
//! file again.

use super::{
    active_query::ActiveQuery,
    error::StoreError,
    fault::{FaultPoint, Faults},
    job::Cancel,
    query,
    time_shares::TimeShares,
};
use crossbeam_channel::{Receiver, Sender, bounded, never};
use protocol::record::QueryResult;
use rusqlite::{Connection, InterruptHandle};
use std::{
    collections::{BTreeSet, VecDeque},
    fmt, io,
    thread::{self, JoinHandle},
};

/// The most pieces of damage that are remembered, and so reported.
const DAMAGE_MAX: usize = 4_096;

/// Queries and what answers them.
#[derive(Debug, Default)]
pub(super) struct Queries {
    /// Queries that wait for their next slice.
    pub(super) waiting: VecDeque<ActiveQuery>,
    shares: TimeShares,
    /// The connection, while it is not lent.
    pub(super) reader: Option<Connection>,
    /// Damage that queries have met, and that was reported.
    damage: BTreeSet<String>,
    lent: Option<Lent>,
    thread: Option<Thread>,
}

/// A connection that the thread has.
struct Lent {
    /// Ends the statement that runs. A statement that begins later is not interrupted.
    interrupt: InterruptHandle,
    /// Cancels the query, and with it any statement that begins later.
    cancel: Cancel,
    /// Whether its file is no longer the store's.
    is_outdated: bool,
}

/// A slice of a query: its connection, and the outcome once it is over.
#[derive(Debug)]
pub(super) struct Slice {
    connection: Connection,
    query: ActiveQuery,
    outcome: Result<bool, StoreError>,
}

#[derive(Debug)]
struct Thread {
    slices: Sender<Slice>,
    done: Receiver<Slice>,
    thread: JoinHandle<()>,
}

impl Thread {
    fn start(faults: Faults) -> io::Result<Self> {
        let (slices, waiting) = bounded::<Slice>(1);
        let (over, done) = bounded(1);
        // Waits for: its channel, the disk. Started for the first query; the store's thread joins
        // it.
        let thread = thread::Builder::new().name("queries".into()).spawn(move || {
            for mut slice in waiting {
                let Slice { connection, query, outcome } = &mut slice;
                *outcome =
                    faults.fail_if_due(FaultPoint::Query).and_then(|()| query.slice(connection));
                if over.send(slice).is_err() {
                    break;
                }
            }
        })?;
        Ok(Self { slices, done, thread })
    }
}

impl Queries {
    /// Slices that are over; nothing comes while none is under way.
    pub(super) fn done(&self) -> Receiver<Slice> {
        match (&self.lent, &self.thread) {
            (Some(_), Some(thread)) => thread.done.clone(),
            _ => never(),
        }
    }

    /// Whether a slice is under way.
    pub(super) const fn is_lent(&self) -> bool {
        self.lent.is_some()
    }

    /// Whether a query waits although no slice is under way.
    pub(super) fn is_waiting(&self) -> bool {
        self.lent.is_none() && !self.waiting.is_empty()
    }

    /// Adds a query.
    pub(super) fn add(&mut self, query: ActiveQuery) {
        self.shares.add(query.process);
        self.waiting.push_back(query);
    }

    /// Takes the query for the next slice: the first one of the process that has used least time.
    pub(super) fn next(&mut self) -> Option<ActiveQuery> {
        let waiting = self.waiting.iter().enumerate();
        let (next, _) = waiting.min_by_key(|(_, query)| self.shares.used(query.process))?;
        self.waiting.remove(next)
    }

    /// Charges the process of a query for its last slice.
    pub(super) fn charge(&mut self, query: &ActiveQuery) {
        let waiting = self.waiting.iter().map(|query| query.process);
        self.shares.charge(query.process, query.slice_time, waiting);
    }

    /// Starts the thread if it does not run.
    pub(super) fn start(&mut self, faults: &Faults) -> io::Result<()> {
        if self.thread.is_none() {
            self.thread = Some(Thread::start(faults.clone())?);
        }
        Ok(())
    }

    /// Lends a connection to the thread for a query's next slice.
    pub(super) fn lend(&mut self, connection: Connection, query: ActiveQuery) {
        let thread = self.thread.as_ref().expect("the thread was started");
        let interrupt = connection.get_interrupt_handle();
        let cancel = query.cancel.clone();
        let slice = Slice { connection, query, outcome: Ok(false) };
        thread.slices.send(slice).expect("the thread runs as long as it gets slices");
        self.lent = Some(Lent { interrupt, cancel, is_outdated: false });
    }

    /// Takes the connection back after a slice. Returns the query and the outcome.
    pub(super) fn take_back(&mut self, slice: Slice) -> (ActiveQuery, Result<bool, StoreError>) {
        let Slice { connection, query, mut outcome } = slice;
        let lent = self.lent.take().expect("a slice was under way");
        if lent.is_outdated {
            // A slice that has ended read one state of the former file, so what it found counts.
            outcome = outcome.or(Ok(false));
        } else if outcome.is_ok() {
            self.reader = Some(connection);
        }
        (query, outcome)
    }

    /// Notes the damage that a query has met. Returns a description of what is new.
    pub(super) fn note_damage(
        &mut self,
        outcome: &Result<QueryResult, StoreError>,
    ) -> Option<String> {
        let met: Vec<String> = match outcome {
            Ok(found) => {
                let damaged = found.rows.iter().filter(|row| query::is_damaged(row));
                damaged.map(|row| format!("delivery {}", row.delivery.number)).collect()
            }
            Err(error) if error.is_damage() => vec![error.to_string()],
            Err(_) => Vec::new(),
        };
        let is_new =
            |what: &String| self.damage.len() < DAMAGE_MAX && self.damage.insert(what.clone());
        let new: Vec<String> = met.into_iter().filter(is_new).collect();
        match &new[..] {
            [] => None,
            [what] => Some(what.clone()),
            [first, rest @ ..] => Some(format!("{first} and {} more", rest.len())),
        }
    }

    /// Gives the connection up: its file is no longer the store's, or is opened again.
    pub(super) fn close_reader(&mut self) {
        self.reader = None;
        if let Some(lent) = &mut self.lent {
            lent.is_outdated = true;
            lent.interrupt.interrupt();
        }
    }

    /// Ends the slice that is under way, and the thread. Unanswered queries are dropped.
    pub(super) fn end(&mut self) {
        self.waiting.clear();
        if let Some(lent) = &self.lent {
            lent.cancel.cancel();
        }
        self.close_reader();
        if let Some(Thread { slices, done, thread }) = self.thread.take() {
            drop((slices, done));
            thread.join().expect("the thread of the queries does not panic");
        }
        self.lent = None;
    }
}

impl fmt::Debug for Lent {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Lent").finish_non_exhaustive()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::job::Process;
    use protocol::record::Query;
    use std::time::Duration;

    #[test]
    fn end_cancels_the_query_whose_slice_is_under_way() {
        let mut queries = Queries::default();
        queries.start(&Faults::default()).unwrap();
        let cancel = Cancel::default();
        let query = ActiveQuery::new(1, None, Query::Id(String::new()), cancel.clone());
        let connection = Connection::open_in_memory().unwrap();
        queries.lend(connection, query);
        queries.end();
        assert!(cancel.is_cancelled());
    }

    const FIRST: Process = Some(1);
    const SECOND: Process = Some(2);
    const MS: Duration = Duration::from_millis(1);

    fn query(process: Process) -> ActiveQuery {
        ActiveQuery::new(1, process, Query::Id(String::new()), Cancel::default())
    }

    /// Runs a slice that takes this time for the first process, and 1 ms for others. Returns the
    /// process. The query goes on.
    fn slice(queries: &mut Queries, time: Duration) -> Process {
        let mut next = queries.next().unwrap();
        next.slice_time = if next.process == FIRST { time } else { MS };
        queries.charge(&next);
        queries.waiting.push_back(next);
        queries.waiting.back().unwrap().process
    }

    #[test]
    fn long_slice_is_followed_by_as_much_time_of_others() {
        let mut queries = Queries::default();
        (0..8).for_each(|_| queries.add(query(FIRST)));
        (0..50).for_each(|_| assert_eq!(slice(&mut queries, 200 * MS), FIRST));
        // What the first process did alone does not count, but for the slice under way.
        let mut lent = queries.next().unwrap();
        queries.add(query(SECOND));
        lent.slice_time = 200 * MS;
        queries.charge(&lent);
        queries.waiting.push_back(lent);
        for _ in 0..3 {
            (0..200).for_each(|_| assert_eq!(slice(&mut queries, 200 * MS), SECOND));
            assert_eq!(slice(&mut queries, 200 * MS), FIRST);
        }
    }
}
