//! A folder for a store, gone at the end; and a store in it that is run step by step.

use super::super::{Durability, Job, Opened, Report, Settings, Store, fault::Faults};
use crate::protocol::{Moment, Now};
use crate::record::{Change, Clock, Image, Query, QueryResult};
use crossbeam_channel::{Receiver, Sender};
use std::{
    env, fs,
    path::PathBuf,
    process,
    sync::atomic::{AtomicU64, Ordering},
    thread,
    time::Duration,
};

/// The wall clock's time in these tests, and a day of it.
pub(super) const NOW_MS: u64 = 1_763_629_200_000;
pub(super) const DAY_MS: u64 = 86_400_000;

pub(super) struct Folder(pub(super) PathBuf);

impl Folder {
    pub(super) fn new() -> Self {
        static COUNTER: AtomicU64 = AtomicU64::new(0);
        let count = COUNTER.fetch_add(1, Ordering::Relaxed);
        let path = env::temp_dir().join(format!("agent-relay-store-{}-{count}", process::id()));
        // What an earlier process of that id left behind.
        let _ = fs::remove_dir_all(&path);
        platform::paths::make_private_dir(&path).unwrap();
        Self(path)
    }

    pub(super) fn path(&self) -> PathBuf {
        self.0.join("relay.db")
    }

    pub(super) fn settings(&self) -> Settings {
        Settings {
            path: self.path(),
            durability: Durability::Process,
            history_ms: 7 * DAY_MS,
            bytes_max: 1 << 30,
            doubles_max: 4_096,
            dead_max: 65_536,
        }
    }

    pub(super) fn open(&self) -> Opened {
        Store::open(self.settings(), NOW_MS).unwrap()
    }

    pub(super) fn image(&self) -> Image {
        self.open().image
    }

    /// Runs a store until all jobs are done.
    pub(super) fn run(&self, jobs: Vec<Job>) -> Vec<Report> {
        run(self.open().store, jobs)
    }

    /// Sees that each message is there as long as something needs it, and no longer.
    pub(super) fn check_counts(&self) {
        let database = rusqlite::Connection::open(self.path()).unwrap();
        let wrong = "SELECT count(*) FROM message WHERE hot + cold = 0
            OR hot <> (SELECT count(*) FROM delivery WHERE delivery.message = message.number)
            OR cold <> (SELECT count(*) FROM history WHERE history.message = message.number)";
        let alone =
            "SELECT count(*) FROM (SELECT message FROM delivery UNION SELECT message FROM history)
            WHERE message NOT IN (SELECT number FROM message)";
        let words = "SELECT count(*) FROM words WHERE rowid NOT IN (SELECT number FROM message)";
        for sql in [wrong, alone, words] {
            let count: u32 = database.query_row(sql, [], |row| row.get(0)).unwrap();
            assert_eq!(count, 0, "{sql}");
        }
    }

    /// Files whose name begins so, in order.
    pub(super) fn files(&self, prefix: &str) -> Vec<String> {
        let entries = fs::read_dir(&self.0).unwrap();
        let names = entries.map(|entry| entry.unwrap().file_name().into_string().unwrap());
        let mut names: Vec<_> = names.filter(|name| name.starts_with(prefix)).collect();
        names.sort();
        names
    }

    /// Copies the database and its log as they are.
    pub(super) fn copy_to(&self, other: &Self) {
        for name in self.files("relay.db") {
            fs::copy(self.0.join(&name), other.0.join(&name)).unwrap();
        }
    }
}

impl Drop for Folder {
    fn drop(&mut self) {
        let _ = fs::remove_dir_all(&self.0);
    }
}

pub(super) fn run(store: Store, jobs: Vec<Job>) -> Vec<Report> {
    let mut reports = Vec::new();
    run_with(store, jobs, |report| reports.push(report));
    reports
}

pub(super) fn run_with(store: Store, jobs: Vec<Job>, report: impl FnMut(Report)) {
    let (sender, receiver) = crossbeam_channel::bounded(jobs.len());
    for job in jobs {
        sender.send(job).unwrap();
    }
    drop(sender);
    store.run(&receiver, report);
}

/// A clock some milliseconds after [`NOW_MS`].
pub(super) const fn clock(ms: u64) -> Clock {
    Clock(Now { monotonic: Moment(1_000_000 + ms), unix_ms: NOW_MS + ms })
}

pub(super) const fn keep(changes: Vec<Change>) -> Job {
    Job::Keep { changes, clock: clock(0) }
}

/// A query ends a group, whatever it asks.
pub(super) fn cut() -> Job {
    Job::Query(0, Query::Id(String::new()))
}

/// The answers among reports.
pub(super) fn found(reports: Vec<Report>) -> Vec<QueryResult> {
    let found = reports.into_iter().filter_map(|report| match report {
        Report::Found(_, found) => Some(found.unwrap()),
        _ => None,
    });
    found.collect()
}

/// A store on a thread of its own, to talk with.
pub(super) struct Live {
    jobs: Sender<Job>,
    reports: Receiver<Report>,
    thread: thread::JoinHandle<()>,
    pub(super) faults: Faults,
}

impl Live {
    pub(super) fn start(store: Store) -> Self {
        let faults = store.0.faults.clone();
        let (jobs, to_do) = crossbeam_channel::bounded(1);
        let (sender, reports) = crossbeam_channel::bounded(1_000);
        let run = move || store.run(&to_do, |report| sender.send(report).unwrap());
        Self { jobs, reports, thread: thread::spawn(run), faults }
    }

    /// Has changes kept; says what came of it, and what was told before.
    pub(super) fn keep(&self, changes: Vec<Change>) -> (Report, Vec<Report>) {
        self.jobs.send(keep(changes)).unwrap();
        let mut before = Vec::new();
        loop {
            match self.next() {
                report @ (Report::Kept(_) | Report::NotKept { .. }) => return (report, before),
                report => before.push(report),
            }
        }
    }

    pub(super) fn next(&self) -> Report {
        self.reports.recv_timeout(Duration::from_secs(30)).expect("the store says something")
    }

    /// Ends the store; says what it told until then.
    pub(super) fn end(self) -> Vec<Report> {
        drop(self.jobs);
        self.thread.join().unwrap();
        self.reports.iter().collect()
    }
}
