//! A folder for a store, gone at the end; and a store in it that is run step by step.

use super::super::{Durability, Job, Opened, Report, Settings, Store};
use crate::protocol::{
    Moment, Now,
    record::{Change, Clock, Found, Image, Query},
};
use std::{
    env, fs,
    path::{Path, PathBuf},
    process,
    sync::atomic::{AtomicU64, Ordering},
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
pub(super) fn found(reports: Vec<Report>) -> Vec<Found> {
    let found = reports.into_iter().filter_map(|report| match report {
        Report::Found(_, found) => Some(found.unwrap()),
        _ => None,
    });
    found.collect()
}

pub(super) fn flip(path: &Path, at: impl FnOnce(&[u8]) -> usize) {
    let mut bytes = fs::read(path).unwrap();
    let at = at(&bytes);
    bytes[at] ^= 0x20;
    fs::write(path, bytes).unwrap();
}
