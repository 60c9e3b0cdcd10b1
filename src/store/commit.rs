//! The store's loop: groups of changes, and what happens when the disk does not take them.

use super::{
    Job, Report, Settings, StoreError,
    fault::{Faults, Place},
    file,
    image::{self, Read},
    owed::Owed,
    query,
    schema::{self, Prepared},
    sweep::{HOUR_MS, Sweep},
    trouble::Trouble,
    write::{Undo, Writer, Written},
};
use crate::protocol::Now;
use crate::record::{
    AcceptedSend, Change, Clock, Filter, Image, LastNumbers, NoticeRecord, Query, QueryResult,
};
use crossbeam_channel::{Receiver, RecvTimeoutError};
use rusqlite::Connection;
use std::time::Duration;

/// Changes that are written together. More make a commit no cheaper, and the first of them wait longer.
const GROUP_CHANGES_MAX: usize = 4_096;

/// Their bodies.
const GROUP_BYTES_MAX: usize = 8 << 20;

/// How soon a failing disk is tried again, at first and at the last.
const RETRY_MS: [u64; 2] = [50, 5_000];

/// Nothing is swept before it has been quiet for so long.
const QUIET: Duration = Duration::from_millis(20);

/// Where a committer tells what comes of its jobs.
type Reporter<'a> = &'a mut dyn FnMut(Report);

/// The store at work.
#[derive(Debug)]
pub(super) struct Committer {
    settings: Settings,
    /// None while it fails.
    connection: Option<Connection>,
    clock: Clock,
    last: LastNumbers,
    sweep: Sweep,
    failing: Option<Failing>,
    /// Why messages are refused for want of room, while they are.
    full: Option<String>,
    owed: Owed,
    /// What the last transaction may have left on the disk although it failed.
    doubtful: Vec<Undo>,
    quiet: bool,
    /// The hour in which the file's clock stands.
    hour: u64,
    pub(super) faults: Faults,
}

#[derive(Debug)]
struct Failing {
    why: String,
    retry_ms: u64,
    /// The file is no good; and why.
    damaged: Option<String>,
}

/// What is written in one transaction.
#[derive(Debug, Default)]
struct Group {
    changes: Vec<Change>,
    /// Room that its messages take.
    bytes: usize,
    /// Room that its answers take.
    answer_bytes: usize,
}

impl Committer {
    pub(super) fn open(
        settings: Settings,
        now_unix_ms: u64,
    ) -> Result<(Self, Image, Vec<String>), StoreError> {
        let mut remarks = Vec::new();
        let told = |trouble: &Trouble| StoreError(sentence(&settings, "open", trouble));
        let (connection, image) = match begin(&settings, now_unix_ms, &mut remarks) {
            Err(trouble) if trouble.is_damage() => {
                remarks.push(
                    set_aside(&settings, now_unix_ms, &trouble.to_string())
                        .map_err(|trouble| told(&trouble))?,
                );
                begin(&settings, now_unix_ms, &mut remarks)
            }
            begun => begun,
        }
        .map_err(|trouble| told(&trouble))?;
        let sweep = Sweep::new(&connection, &settings, &image).map_err(|trouble| told(&trouble))?;
        let monotonic = image.clock.moment_at(now_unix_ms);
        let clock = Clock(Now { monotonic, unix_ms: now_unix_ms });
        let committer = Self {
            connection: Some(connection),
            clock,
            last: image.last,
            sweep,
            failing: None,
            full: None,
            owed: Owed::default(),
            doubtful: Vec::new(),
            quiet: false,
            hour: now_unix_ms / HOUR_MS,
            faults: Faults::default(),
            settings,
        };
        Ok((committer, image, remarks))
    }

    pub(super) fn run(&mut self, jobs: &Receiver<Job>, report: Reporter<'_>) {
        while let Some(job) = self.next(jobs, report) {
            let (group, query) = self.gather(job, jobs);
            self.keep(group, report);
            if let Some((number, query)) = query {
                let found = self.find(&query, report);
                report(Report::Found(number, found));
            }
        }
        self.close(report);
    }

    /// All changes that wait, up to a bound or a query.
    fn gather(&mut self, mut job: Job, jobs: &Receiver<Job>) -> (Group, Option<(u64, Query)>) {
        let mut group = Group::default();
        loop {
            match job {
                Job::Keep { changes, clock } => {
                    self.clock = clock;
                    group.add(changes);
                }
                Job::Query(number, query) => return (group, Some((number, query))),
            }
            if group.is_full() {
                return (group, None);
            }
            match jobs.try_recv() {
                Ok(next) => job = next,
                Err(_) => return (group, None),
            }
        }
    }

    /// The next job. Until it comes, a failing disk is tried, and a good one is swept.
    fn next(&mut self, jobs: &Receiver<Job>, report: Reporter<'_>) -> Option<Job> {
        loop {
            let received = match self.pause() {
                None => jobs.recv().map_err(|_| RecvTimeoutError::Disconnected),
                Some(pause) => jobs.recv_timeout(pause),
            };
            match received {
                Ok(job) => {
                    self.quiet = false;
                    return Some(job);
                }
                Err(RecvTimeoutError::Disconnected) => return None,
                Err(RecvTimeoutError::Timeout) if self.failing.is_some() => {
                    // What is wrong has been told.
                    let _ = self.recover(report);
                }
                Err(RecvTimeoutError::Timeout) => {
                    self.quiet = true;
                    self.sweep(report);
                }
            }
        }
    }

    /// How long to wait for a job before something else is done.
    fn pause(&self) -> Option<Duration> {
        if let Some(failing) = &self.failing {
            return Some(Duration::from_millis(failing.retry_ms));
        }
        let wait = if self.quiet { Duration::ZERO } else { QUIET };
        self.sweep.has_work(self.clock.0.unix_ms).then_some(wait)
    }

    /// Keeps a group, or says why its messages are refused.
    fn keep(&mut self, group: Group, report: Reporter<'_>) {
        let count = group.changes.len() as u64;
        if count == 0 {
            return self.keep_time(report);
        }
        let kept = self.write_group(group, report);
        report(match kept {
            Ok(()) => Report::Kept(count),
            Err(why) => Report::NotKept { count, why },
        });
        self.sweep_a_little(report);
    }

    /// Writes the time alone, once an hour: nobody would believe a clock that stands for long while nothing
    /// changes.
    fn keep_time(&mut self, report: Reporter<'_>) {
        if self.failing.is_none()
            && self.clock.0.unix_ms / HOUR_MS != self.hour
            && let Err((trouble, _)) = self.transact(&[], false)
        {
            self.fail(&trouble, report);
        }
    }

    fn write_group(&mut self, mut group: Group, report: Reporter<'_>) -> Result<(), String> {
        let mut room = if self.failing.is_some() { self.recover(report) } else { Ok(()) };
        room = room.and_then(|()| self.room_for(&group, report));
        if let Err(why) = self.refuse_answers(&mut group, report) {
            room = Err(why);
        }
        if self.failing.is_some() {
            self.owe(group);
            return room;
        }
        if room.is_err() {
            group.changes.retain(|change| !matches!(change, Change::Accepted(_)));
        }
        match self.transact(&group.changes, false) {
            Ok(()) => room,
            Err((trouble, doubtful)) => {
                self.doubtful = doubtful;
                self.owe(group);
                Err(self.fail(&trouble, report))
            }
        }
    }

    /// Makes room for a group where there is too little; says why there is none.
    fn room_for(&mut self, group: &Group, report: Reporter<'_>) -> Result<(), String> {
        if group.bytes == 0 {
            return Ok(());
        }
        let Some(connection) = &mut self.connection else { return Ok(()) };
        let room = match self.sweep.make_room(connection, &self.settings, group.bytes) {
            Ok(true) => Ok(()),
            Ok(false) => Err(format!(
                "the store in {} is full of messages that wait: let their recipients come, or raise \
                 `store_max_bytes`",
                self.settings.path.display()
            )),
            Err(trouble) => Err(self.fail(&trouble, report)),
        };
        if self.failing.is_none() {
            let full = room.clone().err();
            if full.is_some() != self.full.is_some() {
                report(Report::Health(room.clone()));
            }
            self.full = full;
        }
        room
    }

    /// Where there is no room for answers, only the daemon has them.
    fn refuse_answers(&mut self, group: &mut Group, report: Reporter<'_>) -> Result<(), String> {
        let Some(connection) = &mut self.connection else { return Ok(()) };
        if group.answer_bytes == 0 {
            return Ok(());
        }
        let bytes = group.bytes + group.answer_bytes;
        match self.sweep.make_room_for_answers(connection, &self.settings, bytes) {
            Ok(true) => {}
            Ok(false) => group.changes.retain(|change| !matches!(change, Change::Notice(_))),
            Err(trouble) => return Err(self.fail(&trouble, report)),
        }
        Ok(())
    }

    /// Writes changes, all or none; with what is owed, if that is to be settled. What failed may be on
    /// the disk all the same: it is told with what undoes it.
    fn transact(&mut self, changes: &[Change], settle: bool) -> Result<(), (Trouble, Vec<Undo>)> {
        let mut undo = Vec::new();
        match self.try_transact(changes, settle, &mut undo) {
            Ok(written) => {
                self.last = written.last;
                self.hour = self.clock.0.unix_ms / HOUR_MS;
                self.sweep.note(&written, changes.len());
                Ok(())
            }
            Err(trouble) => Err((trouble, undo)),
        }
    }

    fn try_transact(
        &mut self,
        changes: &[Change],
        settle: bool,
        undo: &mut Vec<Undo>,
    ) -> Result<Written, Trouble> {
        // Whoever removes an open file takes from everybody what is written to it from then on.
        self.settings.path.metadata()?;
        let connection = self.connection.as_mut().expect("there is one while nothing fails");
        let transaction = connection.transaction()?;
        let mut writer = Writer::new(&transaction, self.last)?;
        if settle {
            writer.prove()?;
            // The last first: one message may have come twice.
            for doubtful in self.doubtful.iter().rev() {
                writer.undo(doubtful)?;
            }
            for change in self.owed.changes() {
                writer.apply(&change)?;
            }
        }
        for change in changes {
            if let Change::Accepted(taken) = change {
                undo.push(writer.undo_of(taken)?);
            }
            writer.apply(change)?;
        }
        let written = writer.finish(self.clock)?;
        self.faults.pass(Place::Commit)?;
        transaction.commit()?;
        self.faults.pass(Place::Committed)?;
        Ok(written)
    }

    /// Gives the connection up, after it has failed. Says why.
    fn fail(&mut self, trouble: &Trouble, report: Reporter<'_>) -> String {
        self.connection = None;
        let why = sentence(&self.settings, "use", trouble);
        let damaged = trouble.is_damage().then(|| trouble.to_string());
        match &mut self.failing {
            Some(failing) => {
                failing.retry_ms = (failing.retry_ms * 2).min(RETRY_MS[1]);
                failing.why.clone_from(&why);
                failing.damaged = damaged.or_else(|| failing.damaged.take());
            }
            None => {
                self.failing = Some(Failing { why: why.clone(), retry_ms: RETRY_MS[0], damaged });
                report(Report::Health(Err(why.clone())));
            }
        }
        why
    }

    fn owe(&mut self, group: Group) {
        for change in group.changes {
            self.owed.push(change);
        }
    }

    /// Opens the file anew and writes what is owed. Says why that does not work.
    fn recover(&mut self, report: Reporter<'_>) -> Result<(), String> {
        if let Err(trouble) = self.reopen(report) {
            return Err(self.fail(&trouble, report));
        }
        if let Err((trouble, _)) = self.transact(&[], true) {
            return Err(self.fail(&trouble, report));
        }
        self.owed = Owed::default();
        self.doubtful.clear();
        (self.failing, self.full) = (None, None);
        report(Report::Health(Ok(())));
        Ok(())
    }

    fn reopen(&mut self, report: Reporter<'_>) -> Result<(), Trouble> {
        self.faults.pass(Place::Open)?;
        let path = &self.settings.path;
        let mut lost = format!("the store {} was gone, and a new one is begun", path.display());
        if let Some(failing) = &mut self.failing
            && let Some(why) = &failing.damaged
        {
            lost = set_aside(&self.settings, self.clock.0.unix_ms, why)?;
            failing.damaged = None;
        }
        let mut connection = file::connect(&self.settings)?;
        file::empty_log(&connection)?;
        if schema::prepare(&mut connection, path, &schema::CURRENT)? == Prepared::New {
            report(Report::Lost(lost));
        }
        self.sweep.restart(&connection)?;
        // What is owed needs room, and nothing is swept before it has it.
        self.sweep.make_room(&mut connection, &self.settings, self.owed.taken_bytes())?;
        let bytes = self.owed.answer_bytes();
        if !self.sweep.make_room_for_answers(&mut connection, &self.settings, bytes)? {
            self.owed.refuse_answers();
        }
        self.connection = Some(connection);
        Ok(())
    }

    fn find(&mut self, query: &Query, report: Reporter<'_>) -> Result<QueryResult, String> {
        let Some(connection) = &mut self.connection else {
            return Err(self.failing.as_ref().map_or_else(String::new, |it| it.why.clone()));
        };
        let searches = matches!(query, Query::List(Filter { search: Some(_), .. }));
        let indexed = if searches { self.sweep.index_all(connection) } else { Ok(()) };
        let found = indexed.and_then(|()| query::find(connection, query));
        found.map_err(|trouble| self.fail(&trouble, report))
    }

    fn sweep(&mut self, report: Reporter<'_>) {
        let Some(connection) = &mut self.connection else { return };
        let swept = self.sweep.step(connection, &self.settings, self.clock.0.unix_ms);
        if let Err(trouble) = swept {
            self.fail(&trouble, report);
        }
    }

    /// Where there is never a pause, sweeping can't wait for one.
    fn sweep_a_little(&mut self, report: Reporter<'_>) {
        if self.sweep.is_due() {
            self.sweep(report);
        }
    }

    /// Sweeps until there is nothing left to do.
    #[cfg(test)]
    pub(super) fn sweep_all(&mut self, unix_ms: u64) {
        self.clock.0.unix_ms = unix_ms;
        let mut steps = 0;
        while self.sweep.has_work(unix_ms) {
            self.sweep(&mut |report| panic!("{report:?}"));
            steps += 1;
            assert!(steps < 1_000, "the sweep comes to an end");
        }
    }

    fn close(&mut self, report: Reporter<'_>) {
        if self.failing.is_some() && self.recover(report).is_err() {
            return;
        }
        if let Some(connection) = self.connection.take()
            && let Err(trouble) = file::close(connection)
        {
            self.fail(&trouble, report);
        }
    }
}

impl Group {
    fn add(&mut self, changes: Vec<Change>) {
        for change in &changes {
            match change {
                Change::Accepted(taken) | Change::AcceptedAgain(taken) => {
                    self.bytes += bytes_of(taken)
                }
                Change::Notice(answer) => self.answer_bytes += bytes_of_answer(answer),
                _ => {}
            }
        }
        if self.changes.is_empty() {
            self.changes = changes;
        } else {
            self.changes.extend(changes);
        }
    }

    const fn is_full(&self) -> bool {
        let bytes = self.bytes + self.answer_bytes;
        self.changes.len() >= GROUP_CHANGES_MAX || bytes >= GROUP_BYTES_MAX
    }
}

/// Room on the disk that an answer takes, about.
pub(super) fn bytes_of_answer(answer: &NoticeRecord) -> usize {
    100 + answer.frame.len()
}

/// Room on the disk that a SEND takes for good, about.
pub(super) fn bytes_of(taken: &AcceptedSend) -> usize {
    let names = taken.message.session.len() + taken.message.send_id.len();
    300 + names + taken.message.shared.len() + 150 * taken.deliveries.len()
}

/// Opens the file and reads it.
fn begin(
    settings: &Settings,
    now_unix_ms: u64,
    remarks: &mut Vec<String>,
) -> Result<(Connection, Image), Trouble> {
    let mut connection = file::connect(settings)?;
    let path = &settings.path;
    if let Prepared::Migrated(copy) = schema::prepare(&mut connection, path, &schema::CURRENT)? {
        let path = path.display();
        remarks.push(format!("{path} was of an older version, and is copied to {copy}"));
    }
    let Read { image, remarks: found } =
        image::read(&mut connection, settings.dead_max, now_unix_ms)?;
    remarks.extend(found);
    Ok((connection, image))
}

/// Renames a damaged file; says so.
fn set_aside(settings: &Settings, unix_ms: u64, why: &str) -> Result<String, Trouble> {
    let aside = file::set_aside(&settings.path, unix_ms)?;
    let path = settings.path.display();
    Ok(format!("{path} was damaged ({why}); it is now {}, and a new one is begun", aside.display()))
}

fn sentence(settings: &Settings, action: &str, trouble: &Trouble) -> String {
    let path = settings.path.display();
    format!("cannot {action} the store {path}: {trouble}; {}", trouble.advice())
}
