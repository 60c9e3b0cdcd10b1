//! A temporary folder for a store, and a store in it that runs on a thread of its own.

use super::{
    super::{Cancel, Claim, Job, OpenError, Opened, Report, Settings, Store, fault::Faults},
    world::ID_KEY,
};
use crossbeam_channel::{Receiver, Sender};
use protocol::{
    Moment, Now,
    payload::Durability,
    record::{Change, Clock, Image, Query, QueryResult},
};
use std::{
    collections::BTreeMap,
    env, fs, io,
    path::PathBuf,
    process,
    sync::{
        Arc,
        atomic::{AtomicU64, Ordering},
    },
    thread,
    time::Duration,
};

/// The wall clock's time in these tests, the moment of the daemon's clock at that time, and the
/// length of a day, in milliseconds.
pub(super) const NOW_MS: u64 = 1_763_629_200_000;
pub(super) const NOW: Moment = Moment(1_000_000);
pub(super) const DAY_MS: u64 = 86_400_000;

/// A claim that holds or not.
#[derive(Debug)]
pub(crate) struct Claimed(pub(crate) bool);

impl Claim for Claimed {
    fn is_held(&self) -> io::Result<bool> {
        Ok(self.0)
    }
}

pub(crate) struct Folder(pub(super) PathBuf);

impl Folder {
    pub(crate) fn new() -> Self {
        static COUNTER: AtomicU64 = AtomicU64::new(0);
        let count = COUNTER.fetch_add(1, Ordering::Relaxed);
        let path = env::temp_dir().join(format!("agent-relay-store-{}-{count}", process::id()));
        // An earlier process with this id may have left such a folder behind.
        let _ = fs::remove_dir_all(&path);
        platform::paths::make_private_dir(&path).unwrap();
        Self(path)
    }

    pub(crate) fn path(&self) -> PathBuf {
        self.0.join("relay.db")
    }

    pub(crate) fn settings(&self) -> Settings {
        Settings {
            path: self.path(),
            claim: Arc::new(Claimed(true)),
            durability: Durability::Process,
            history_ms: 7 * DAY_MS,
            bytes_max: 1 << 30,
            dedup_max: 4_096,
            dead_letters_max: 65_536,
        }
    }

    pub(crate) fn open(&self) -> Opened {
        open_with(self.settings()).unwrap()
    }

    pub(super) fn image(&self) -> Image {
        self.open().image
    }

    /// Opens a store and runs it until all jobs are done.
    pub(super) fn run(&self, jobs: Vec<Job>) -> Vec<Report> {
        run(self.open().store, jobs)
    }

    /// Asserts that a message is stored exactly as long as a delivery refers to it, and that sums
    /// and counts are right.
    pub(super) fn check_counts(&self) {
        let database = rusqlite::Connection::open(self.path()).unwrap();
        let unused = "SELECT count(*) FROM message WHERE number NOT IN
            (SELECT message FROM delivery)";
        let orphaned = "SELECT count(*) FROM delivery WHERE message NOT IN
            (SELECT number FROM message)";
        let miscounted = "SELECT count(*) FROM meta WHERE open <>
            (SELECT count(*) FROM delivery WHERE ending = 0)";
        let held = "SELECT count(*) FROM holder FULL JOIN (
                SELECT CASE WHEN sender_name LIKE '@guest%' THEN '@guest' ELSE lower(sender_name) END
                AS holder, sum(bytes) AS bytes FROM delivery WHERE ending <> 0 GROUP BY 1
            ) AS real ON real.holder = holder.name WHERE holder.bytes IS NOT real.bytes";
        let words = "SELECT count(*) FROM words WHERE rowid NOT IN (SELECT number FROM message)";
        for sql in [unused, orphaned, miscounted, held, words] {
            let count: u32 = database.query_row(sql, [], |row| row.get(0)).unwrap();
            assert_eq!(count, 0, "{sql}");
        }
    }

    /// The names of files with this prefix, sorted.
    pub(super) fn files(&self, prefix: &str) -> Vec<String> {
        let entries = fs::read_dir(&self.0).unwrap();
        let names = entries.map(|entry| entry.unwrap().file_name().into_string().unwrap());
        let mut names: Vec<_> = names.filter(|name| name.starts_with(prefix)).collect();
        names.sort();
        names
    }

    /// Copies the database and its log.
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

/// Opens a store. Its ids have the key of the generator's.
pub(super) fn open_with(settings: Settings) -> Result<Opened, OpenError> {
    let mut opened = Store::open(settings, NOW_MS, &mut drop)?;
    opened.store.0.use_id_key(ID_KEY);
    Ok(opened)
}

pub(super) fn run(store: Store, jobs: Vec<Job>) -> Vec<Report> {
    let mut reports = Vec::new();
    run_with(store, jobs, |report| reports.push(report));
    reports
}

pub(super) fn run_with(store: Store, jobs: Vec<Job>, mut report: impl FnMut(Report)) {
    let (sender, receiver) = crossbeam_channel::bounded(jobs.len());
    let mut unanswered = jobs.iter().filter(|job| matches!(job, Job::Query(..))).count();
    for job in jobs {
        sender.send(job).unwrap();
    }
    // The store ends with its last sender, and does not answer queries then.
    let mut sender = Some(sender).filter(|_| unanswered > 0);
    store.run(&receiver, |it| {
        if matches!(it, Report::Answer(..)) {
            unanswered -= 1;
            sender = sender.take().filter(|_| unanswered > 0);
        }
        report(it);
    });
}

/// A clock some milliseconds after [`NOW_MS`].
pub(super) fn clock(ms: u64) -> Clock {
    Clock(Now { monotonic: NOW.plus(ms), unix_ms: NOW_MS + ms })
}

pub(super) fn write(changes: Vec<Change>) -> Job {
    Job::Write { changes, clock: clock(0) }
}

/// A query that is not cancelled.
pub(super) fn query(number: u64, query: Query) -> Job {
    Job::Query(number, None, query, Cancel::default())
}

/// A query that finds nothing, which ends a group of changes.
pub(super) fn end_group() -> Job {
    query(0, Query::Id(String::new()))
}

/// The answers to queries among reports, by the queries' numbers.
pub(super) fn answers(reports: Vec<Report>) -> Vec<QueryResult> {
    let answers = reports.into_iter().filter_map(|report| match report {
        Report::Answer(number, answer) => Some((number, answer.unwrap())),
        _ => None,
    });
    answers.collect::<BTreeMap<_, _>>().into_values().collect()
}

/// A store on a thread of its own.
pub(super) struct RunningStore {
    jobs: Sender<Job>,
    reports: Receiver<Report>,
    thread: thread::JoinHandle<()>,
    pub(super) faults: Faults,
}

impl RunningStore {
    pub(super) fn start(store: Store) -> Self {
        let faults = store.0.faults.clone();
        let (jobs, job_receiver) = crossbeam_channel::bounded(1);
        let (sender, reports) = crossbeam_channel::bounded(1_000);
        let run = move || store.run(&job_receiver, |report| sender.send(report).unwrap());
        Self { jobs, reports, thread: thread::spawn(run), faults }
    }

    /// Writes changes. Returns the report about them, and the reports before it.
    pub(super) fn write(&self, changes: Vec<Change>) -> (Report, Vec<Report>) {
        self.jobs.send(write(changes)).unwrap();
        let mut before = Vec::new();
        loop {
            match self.next() {
                report @ (Report::Persisted(_) | Report::Refused { .. }) => {
                    return (report, before);
                }
                report => before.push(report),
            }
        }
    }

    /// Writes changes, and waits for a query's answer, too.
    pub(super) fn write_amid_answers(&self, changes: Vec<Change>) {
        let (report, before) = self.write(changes);
        assert_eq!(report, Report::Persisted(1));
        if before.is_empty() {
            assert!(matches!(self.next(), Report::Answer(..)));
        }
    }

    /// Tells the store the time.
    pub(super) fn tell_time(&self, clock: Clock) {
        self.jobs.send(Job::Write { changes: Vec::new(), clock }).unwrap();
    }

    /// Sends a query.
    pub(super) fn ask(&self, number: u64, query: Query) {
        self.ask_cancellable(number, query);
    }

    /// Sends a query. Returns what cancels it.
    pub(super) fn ask_cancellable(&self, number: u64, query: Query) -> Cancel {
        let cancel = Cancel::default();
        self.jobs.send(Job::Query(number, None, query, cancel.clone())).unwrap();
        cancel
    }

    pub(super) fn next(&self) -> Report {
        self.reports.recv_timeout(Duration::from_secs(30)).expect("the store reports")
    }

    /// Ends the store. Returns the reports that were not read yet.
    pub(super) fn end(self) -> Vec<Report> {
        drop(self.jobs);
        self.thread.join().unwrap();
        self.reports.iter().collect()
    }
}
