//! Keeping the report of this process.

use super::{Report, State};
use crossbeam_channel::{Receiver, RecvTimeoutError, Sender, bounded};
use platform::{clock, lock::Lock, paths};
use std::{
    fs,
    io::{self, ErrorKind},
    path::{Path, PathBuf},
    sync::{
        Arc,
        atomic::{AtomicU64, Ordering::Relaxed},
    },
    thread::{self, JoinHandle},
    time::Duration,
};

/// The capacity of the channel to the thread that writes.
const UPDATES_MAX: usize = 256;

/// The least time between two writes, in milliseconds.
const WRITE_MS: u64 = 1_000;

/// The interval between writes of new counts, in milliseconds.
const COUNTS_MS: u64 = 5_000;

/// The counts of a report.
#[derive(Debug, Default)]
pub struct Counters {
    /// See [`Report::sent`].
    pub sent: AtomicU64,
    /// See [`Report::sent_refused`].
    pub sent_refused: AtomicU64,
    /// See [`Report::received`].
    pub received: AtomicU64,
    /// See [`Report::received_refused`].
    pub received_refused: AtomicU64,
}

impl Counters {
    /// Counts one more.
    pub fn count(counter: &AtomicU64) {
        counter.fetch_add(1, Relaxed);
    }
}

enum Update {
    Change(Box<dyn FnOnce(&mut Report) + Send>),
    /// The bridge ends, unless it was stopped for this reason.
    End(Option<String>),
}

/// A handle for changing this process's report. Clones change the same report.
#[derive(Clone, Debug)]
pub struct Reporter {
    updates: Sender<Update>,
    counters: Arc<Counters>,
}

impl Reporter {
    /// Changes the report. The file follows within a second.
    pub fn update(&self, change: impl FnOnce(&mut Report) + Send + 'static) {
        // The thread has ended only if the bridge has, too.
        drop(self.updates.send(Update::Change(Box::new(change))));
    }

    /// The counts, which the file follows within some seconds.
    #[must_use]
    pub fn counters(&self) -> &Arc<Counters> {
        &self.counters
    }
}

/// This process's report, and the thread that writes it.
#[derive(Debug)]
pub struct Reporting {
    reporter: Reporter,
    thread: JoinHandle<()>,
}

impl Reporting {
    /// Writes the first report of a bridge into its home. A bridge works without one, so a failure
    /// to write is only a line for `log`.
    ///
    /// # Errors
    /// If no thread can start.
    pub fn begin(home: &Path, report: Report, log: fn(&str)) -> io::Result<Self> {
        let path = report.path(home);
        let counters = Arc::new(Counters::default());
        let (updates, changes) = bounded(UPDATES_MAX);
        let mut writer = Writer {
            path,
            lock: None,
            report,
            counters: Arc::clone(&counters),
            written_at: clock::monotonic_ms(),
            log,
            failure: None,
        };
        writer.try_write();
        // Waits for: its channel until the next write is due, the disk. The main thread waits for
        // it while the channel is full, and joins it at its end.
        let thread = thread::Builder::new()
            .name("bridge report".to_owned())
            .spawn(move || writer.run(&changes))?;
        Ok(Self { reporter: Reporter { updates, counters }, thread })
    }

    /// The way to change the report.
    #[must_use]
    pub const fn reporter(&self) -> &Reporter {
        &self.reporter
    }

    /// Ends the report: removes it, or after a failure leaves it with the error.
    pub fn end(self, failure: Option<String>) {
        let Self { reporter, thread } = self;
        // A thread that has panicked has said so.
        drop(reporter.updates.send(Update::End(failure)));
        drop(thread.join());
    }
}

struct Writer {
    path: PathBuf,
    /// `None` while another bridge of this name, which may be about to end, has it.
    lock: Option<Lock>,
    report: Report,
    counters: Arc<Counters>,
    written_at: u64,
    log: fn(&str),
    failure: Option<String>,
}

impl Writer {
    fn run(mut self, updates: &Receiver<Update>) {
        let mut is_changed = false;
        loop {
            let period = if is_changed { WRITE_MS } else { COUNTS_MS };
            let left = (self.written_at + period).saturating_sub(clock::monotonic_ms());
            match updates.recv_timeout(Duration::from_millis(left)) {
                Ok(Update::Change(change)) => {
                    change(&mut self.report);
                    is_changed = true;
                }
                Ok(Update::End(failure)) => return self.end(failure),
                Err(RecvTimeoutError::Timeout) => {
                    if self.copy_counts() || is_changed || self.lock.is_none() {
                        self.try_write();
                    }
                    (self.written_at, is_changed) = (clock::monotonic_ms(), false);
                }
                Err(RecvTimeoutError::Disconnected) => return,
            }
        }
    }

    fn end(mut self, failure: Option<String>) {
        if let Some(why) = failure {
            self.copy_counts();
            self.report.failed(&why);
            self.report.hosts.clear();
            (self.report.state, self.report.since) = (State::Ended, clock::unix_ms());
            return self.try_write();
        }
        let Some(lock) = self.lock.take() else { return };
        let removed = match fs::remove_file(&self.path) {
            Err(error) if error.kind() != ErrorKind::NotFound => Err(error),
            _ => lock.remove(),
        };
        if let Err(error) = removed {
            (self.log)(&format!("{} cannot be removed: {error}", self.path.display()));
        }
    }

    /// Updates the counts. Returns whether they have changed.
    fn copy_counts(&mut self) -> bool {
        let Report { sent, sent_refused, received, received_refused, .. } = &mut self.report;
        let mut is_changed = false;
        for (count, counter) in [
            (sent, &self.counters.sent),
            (sent_refused, &self.counters.sent_refused),
            (received, &self.counters.received),
            (received_refused, &self.counters.received_refused),
        ] {
            let now = counter.load(Relaxed);
            is_changed |= *count != now;
            *count = now;
        }
        is_changed
    }

    /// Writes the report, and logs a failure once.
    fn try_write(&mut self) {
        let failure = self.write().err().map(|error| error.to_string());
        if let Some(why) = failure.as_ref().filter(|why| self.failure.as_ref() != Some(*why)) {
            (self.log)(&format!("the report for `agent-relay status` is not written: {why}"));
        }
        self.failure = failure;
    }

    fn write(&mut self) -> io::Result<()> {
        if self.lock.is_none() {
            self.path.parent().map_or(Ok(()), paths::make_private_dir)?;
            self.lock = Lock::take(&self.path.with_extension("lock"))?;
        }
        if self.lock.is_none() {
            return Ok(());
        }
        let json = serde_json::to_vec(&self.report).expect("a report is JSON");
        paths::write_private_file(&self.path, &json)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::report::{DIRECTORY, Kind, Known, read};

    /// A home, which is removed at the end.
    struct Home(PathBuf);

    impl Home {
        fn new(name: &str) -> Self {
            let path =
                std::env::temp_dir().join(format!("ar-report-{name}-{}", std::process::id()));
            paths::make_private_dir(&path).unwrap();
            Self(path)
        }

        fn begin(&self, kind: Kind, name: &str) -> Reporting {
            let report = Report::new(kind, name, "1.2.3");
            Reporting::begin(&self.0, report, |line| panic!("{line}")).unwrap()
        }

        fn read(&self) -> Vec<Known> {
            read(&self.0).unwrap()
        }
    }

    impl Drop for Home {
        fn drop(&mut self) {
            drop(fs::remove_dir_all(&self.0));
        }
    }

    /// Ends a bridge as a kill does.
    fn kill(Reporting { reporter, thread }: Reporting) {
        drop(reporter);
        thread.join().unwrap();
    }

    #[test]
    fn stopped_bridge_leaves_no_report() {
        let home = Home::new("stopped");
        assert_eq!(home.read(), []);
        let (pi, desk) = (home.begin(Kind::Bridge, "pi"), home.begin(Kind::Nats, "desk"));
        let all = home.read();
        let names: Vec<_> = all.iter().map(|known| &*known.report.name).collect();
        assert_eq!(names, ["pi", "desk"]);
        assert!(all.iter().all(|it| it.running && it.report.state == State::Connecting));
        pi.end(None);
        desk.end(None);
        assert_eq!(home.read(), []);
        assert_eq!(fs::read_dir(home.0.join(DIRECTORY)).unwrap().count(), 0);
    }

    #[test]
    fn failed_or_killed_bridge_has_ended() {
        let home = Home::new("ended");
        let pi = home.begin(Kind::Bridge, "pi");
        pi.reporter().update(|report| report.linked(None));
        pi.reporter().update(|report| report.host_came("pi", vec!["Bob".to_owned()]));
        Counters::count(&pi.reporter().counters().sent);
        pi.end(Some("NAME_IN_USE".to_owned()));
        let [Known { running: false, report }] = &home.read()[..] else { panic!() };
        assert_eq!((report.state, report.links, report.sent), (State::Ended, 1, 1));
        assert_eq!(report.error.as_ref().unwrap().text, "NAME_IN_USE");
        assert_eq!(report.hosts, []);
        // The next bridge of that name takes its place, and a killed bridge is also detected.
        let pi = home.begin(Kind::Bridge, "pi");
        assert!(home.read()[0].running);
        kill(pi);
        let ended = home.read();
        assert_eq!((ended[0].running, ended[0].report.state), (false, State::Ended));
        kill(home.begin(Kind::Stdio, "laptop"));
        assert_eq!(home.read(), ended, "the other machine starts the next stdio");
    }

    #[test]
    fn second_bridge_of_a_name_takes_the_report_over() {
        let home = Home::new("second");
        let (first, second) = (home.begin(Kind::Stdio, "pi"), home.begin(Kind::Stdio, "pi"));
        first.end(Some("the connection was lost".to_owned()));
        second.reporter().update(|report| report.linked(None));
        second.end(Some("and again".to_owned()));
        let path = home.0.join(DIRECTORY).join("stdio-pi.json");
        let report: Report = serde_json::from_slice(&fs::read(path).unwrap()).unwrap();
        assert_eq!((report.links, &*report.error.unwrap().text), (1, "and again"));
    }

    #[test]
    fn damaged_report_is_named() {
        let home = Home::new("damaged");
        home.begin(Kind::Nats, "desk").end(Some("x".to_owned()));
        fs::write(home.0.join(DIRECTORY).join("nats-desk.json"), "{").unwrap();
        assert!(read(&home.0).unwrap_err().to_string().contains("nats-desk.json: "));
    }
}
