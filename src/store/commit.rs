//! The store's loop: groups of changes, and the recovery of a disk that fails.

use super::{
    error::{OpenError, StoreError},
    fault::{FaultPoint, Faults},
    file,
    image::{self, Restored},
    job::{Job, Report, Settings},
    pending_writes::PendingWrites,
    query,
    row::{notice_bytes, send_bytes},
    schema::{self, Prepared},
    sweep::{HOUR_MS, Sweep},
    write::{Undo, Writer, Written},
};
use crate::protocol::Now;
use crate::record::{Change, Clock, Filter, Image, LastNumbers, Query, QueryResult};
use crossbeam_channel::{Receiver, RecvTimeoutError};
use rusqlite::Connection;
use std::time::Duration;

/// The most changes in a transaction. With more, commits would not become cheaper, and the first
/// change would wait longer.
const GROUP_CHANGES_MAX: usize = 4_096;

/// The most bytes of messages and notices in a transaction.
const GROUP_BYTES_MAX: usize = 8 << 20;

/// The first and the longest wait before a failing disk is tried again.
const RETRY_MS: [u64; 2] = [50, 5_000];

/// The time without a job after which the store counts as idle.
const IDLE_AFTER: Duration = Duration::from_millis(20);

/// The receiver of a committer's reports.
type Reporter<'a> = &'a mut dyn FnMut(Report);

/// The state of a running store.
#[derive(Debug)]
pub(super) struct Committer {
    settings: Settings,
    /// `None` while the disk fails.
    connection: Option<Connection>,
    clock: Clock,
    last: LastNumbers,
    sweep: Sweep,
    failing: Option<Failing>,
    /// The reason why the store has no space for messages; `None` while it has space.
    space_error: Option<String>,
    pending: PendingWrites,
    /// SENDs of a failed transaction, which may be on the disk nevertheless.
    unconfirmed: Vec<Undo>,
    idle: bool,
    /// The hour of the clock that was last written to the file.
    hour: u64,
    pub(super) faults: Faults,
}

#[derive(Debug)]
struct Failing {
    why: String,
    retry_ms: u64,
    /// The reason why the file is unusable, if it is damaged.
    damaged: Option<String>,
}

/// The changes of one transaction.
#[derive(Debug, Default)]
struct Group {
    changes: Vec<Change>,
    /// The disk space that its messages need.
    bytes: usize,
    /// The disk space that its notices need.
    notice_bytes: usize,
}

impl Committer {
    pub(super) fn open(
        settings: Settings,
        now_unix_ms: u64,
    ) -> Result<(Self, Image, Vec<String>), OpenError> {
        let mut remarks = Vec::new();
        let refused = |error: &StoreError| OpenError(error_sentence(&settings, "open", error));
        let (connection, image) = match open_file(&settings, now_unix_ms, &mut remarks) {
            Err(error) if error.is_damage() => {
                remarks.push(
                    set_aside(&settings, now_unix_ms, &error.to_string())
                        .map_err(|error| refused(&error))?,
                );
                open_file(&settings, now_unix_ms, &mut remarks)
            }
            opened => opened,
        }
        .map_err(|error| refused(&error))?;
        let sweep = Sweep::new(&connection, &settings, &image).map_err(|error| refused(&error))?;
        let monotonic = image.clock.moment_at(now_unix_ms);
        let clock = Clock(Now { monotonic, unix_ms: now_unix_ms });
        let committer = Self {
            connection: Some(connection),
            clock,
            last: image.last,
            sweep,
            failing: None,
            space_error: None,
            pending: PendingWrites::default(),
            unconfirmed: Vec::new(),
            idle: false,
            hour: now_unix_ms / HOUR_MS,
            faults: Faults::default(),
            settings,
        };
        Ok((committer, image, remarks))
    }

    pub(super) fn run(&mut self, jobs: &Receiver<Job>, report: Reporter<'_>) {
        while let Some(job) = self.next(jobs, report) {
            let (group, query) = self.gather(job, jobs);
            self.write(group, report);
            if let Some((number, query)) = query {
                let found = self.find(&query, report);
                report(Report::Answer(number, found));
            }
        }
        self.close(report);
    }

    /// Collects the changes that are queued, up to a limit or a query.
    fn gather(&mut self, mut job: Job, jobs: &Receiver<Job>) -> (Group, Option<(u64, Query)>) {
        let mut group = Group::default();
        loop {
            match job {
                Job::Write { changes, clock } => {
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

    /// Waits for the next job. Meanwhile, tries a failing disk again, or sweeps a working store.
    fn next(&mut self, jobs: &Receiver<Job>, report: Reporter<'_>) -> Option<Job> {
        loop {
            let received = match self.wait_max() {
                None => jobs.recv().map_err(|_| RecvTimeoutError::Disconnected),
                Some(wait) => jobs.recv_timeout(wait),
            };
            match received {
                Ok(job) => {
                    self.idle = false;
                    return Some(job);
                }
                Err(RecvTimeoutError::Disconnected) => return None,
                Err(RecvTimeoutError::Timeout) if self.failing.is_some() => {
                    // `recover` reports a failure itself.
                    let _ = self.recover(report);
                }
                Err(RecvTimeoutError::Timeout) => {
                    self.idle = true;
                    self.sweep(report);
                }
            }
        }
    }

    /// The time to wait for a job before other work is done.
    fn wait_max(&self) -> Option<Duration> {
        if let Some(failing) = &self.failing {
            return Some(Duration::from_millis(failing.retry_ms));
        }
        let wait = if self.idle { Duration::ZERO } else { IDLE_AFTER };
        self.sweep.has_work(self.clock.0.unix_ms).then_some(wait)
    }

    /// Writes a group and reports the outcome.
    fn write(&mut self, group: Group, report: Reporter<'_>) {
        let count = group.changes.len() as u64;
        if count == 0 {
            return self.write_time(report);
        }
        let outcome = self.write_group(group, report);
        report(match outcome {
            Ok(()) => Report::Persisted(count),
            Err(why) => Report::Refused { count, why },
        });
        self.sweep_if_due(report);
    }

    /// Writes the time alone, once an hour. A stored clock that is too old would not be trusted by
    /// the next daemon.
    fn write_time(&mut self, report: Reporter<'_>) {
        if self.failing.is_none()
            && self.clock.0.unix_ms / HOUR_MS != self.hour
            && let Err((error, _)) = self.transact(&[], false)
        {
            self.fail(&error, report);
        }
    }

    fn write_group(&mut self, mut group: Group, report: Reporter<'_>) -> Result<(), String> {
        let mut space = if self.failing.is_some() { self.recover(report) } else { Ok(()) };
        space = space.and_then(|()| self.free_space_for(&group, report));
        if let Err(why) = self.drop_notices_without_space(&mut group, report) {
            space = Err(why);
        }
        if self.failing.is_some() {
            self.defer(group);
            return space;
        }
        if space.is_err() {
            group.changes.retain(|change| !matches!(change, Change::Accepted(_)));
        }
        match self.transact(&group.changes, false) {
            Ok(()) => space,
            Err((error, unconfirmed)) => {
                self.unconfirmed = unconfirmed;
                self.defer(group);
                Err(self.fail(&error, report))
            }
        }
    }

    /// Frees space for a group's messages. Fails with the reason if there is none.
    fn free_space_for(&mut self, group: &Group, report: Reporter<'_>) -> Result<(), String> {
        if group.bytes == 0 {
            return Ok(());
        }
        let Some(connection) = &mut self.connection else { return Ok(()) };
        let space = match self.sweep.free_space(connection, &self.settings, group.bytes) {
            Ok(true) => Ok(()),
            Ok(false) => Err(format!(
                "the store {} is full of messages that wait for their recipients: connect these, or \
                 raise `store_max_bytes`",
                self.settings.path.display()
            )),
            Err(error) => Err(self.fail(&error, report)),
        };
        if self.failing.is_none() {
            let space_error = space.clone().err();
            if space_error.is_some() != self.space_error.is_some() {
                report(Report::Health(space.clone()));
            }
            self.space_error = space_error;
        }
        space
    }

    /// Drops a group's notices if there is no space for them. The daemon still holds them in
    /// memory.
    fn drop_notices_without_space(
        &mut self,
        group: &mut Group,
        report: Reporter<'_>,
    ) -> Result<(), String> {
        let Some(connection) = &mut self.connection else { return Ok(()) };
        if group.notice_bytes == 0 {
            return Ok(());
        }
        let bytes = group.bytes + group.notice_bytes;
        match self.sweep.free_space_for_notices(connection, &self.settings, bytes) {
            Ok(true) => {}
            Ok(false) => group.changes.retain(|change| !matches!(change, Change::Notice(_))),
            Err(error) => return Err(self.fail(&error, report)),
        }
        Ok(())
    }

    /// Writes changes, and the pending ones if `with_pending`, in one transaction. An error comes
    /// with the SENDs that may be on the disk nevertheless.
    fn transact(
        &mut self,
        changes: &[Change],
        with_pending: bool,
    ) -> Result<(), (StoreError, Vec<Undo>)> {
        let mut undo = Vec::new();
        match self.try_transact(changes, with_pending, &mut undo) {
            Ok(written) => {
                self.last = written.last;
                self.hour = self.clock.0.unix_ms / HOUR_MS;
                self.sweep.note(&written, changes.len());
                Ok(())
            }
            Err(error) => Err((error, undo)),
        }
    }

    fn try_transact(
        &mut self,
        changes: &[Change],
        with_pending: bool,
        undo: &mut Vec<Undo>,
    ) -> Result<Written, StoreError> {
        // A file that was removed while open would accept writes that nobody could ever read.
        self.settings.path.metadata()?;
        let connection =
            self.connection.as_mut().expect("the connection is open while nothing fails");
        let transaction = connection.transaction()?;
        let mut writer = Writer::new(&transaction, self.last)?;
        if with_pending {
            writer.probe()?;
            // Undone in reverse order, since two of the SENDs may have the same message.
            for undo in self.unconfirmed.iter().rev() {
                writer.undo(undo)?;
            }
            for change in self.pending.changes() {
                writer.apply(&change)?;
            }
        }
        for change in changes {
            if let Change::Accepted(accepted) = change {
                undo.push(writer.undo_of(accepted)?);
            }
            writer.apply(change)?;
        }
        let written = writer.finish(self.clock)?;
        self.faults.fail_if_due(FaultPoint::Commit)?;
        transaction.commit()?;
        self.faults.fail_if_due(FaultPoint::Committed)?;
        Ok(written)
    }

    /// Closes the connection after a failure. Returns the reason as a sentence.
    fn fail(&mut self, error: &StoreError, report: Reporter<'_>) -> String {
        self.connection = None;
        let why = error_sentence(&self.settings, "use", error);
        let damaged = error.is_damage().then(|| error.to_string());
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

    fn defer(&mut self, group: Group) {
        for change in group.changes {
            self.pending.push(change);
        }
    }

    /// Opens the file again and writes the pending changes.
    fn recover(&mut self, report: Reporter<'_>) -> Result<(), String> {
        if let Err(error) = self.reopen(report) {
            return Err(self.fail(&error, report));
        }
        if let Err((error, _)) = self.transact(&[], true) {
            return Err(self.fail(&error, report));
        }
        self.pending = PendingWrites::default();
        self.unconfirmed.clear();
        (self.failing, self.space_error) = (None, None);
        report(Report::Health(Ok(())));
        Ok(())
    }

    fn reopen(&mut self, report: Reporter<'_>) -> Result<(), StoreError> {
        self.faults.fail_if_due(FaultPoint::Open)?;
        let path = &self.settings.path;
        let mut lost = format!("the store {} was removed, and a new one is begun", path.display());
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
        // Space is freed at once, since the pending changes are written before any sweep.
        self.sweep.free_space(&mut connection, &self.settings, self.pending.message_bytes())?;
        let bytes = self.pending.notice_bytes();
        if !self.sweep.free_space_for_notices(&mut connection, &self.settings, bytes)? {
            self.pending.drop_notices();
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
        found.map_err(|error| self.fail(&error, report))
    }

    fn sweep(&mut self, report: Reporter<'_>) {
        let Some(connection) = &mut self.connection else { return };
        let swept = self.sweep.step(connection, &self.settings, self.clock.0.unix_ms);
        if let Err(error) = swept {
            self.fail(&error, report);
        }
    }

    /// Sweeps one step if there is a large backlog, although the store is not idle.
    fn sweep_if_due(&mut self, report: Reporter<'_>) {
        if self.sweep.is_due() {
            self.sweep(report);
        }
    }

    /// Sweeps until no work is left.
    #[cfg(test)]
    pub(super) fn sweep_all(&mut self, unix_ms: u64) {
        self.clock.0.unix_ms = unix_ms;
        let mut steps = 0;
        while self.sweep.has_work(unix_ms) {
            self.sweep(&mut |report| panic!("{report:?}"));
            steps += 1;
            assert!(steps < 1_000, "the sweep ends");
        }
    }

    fn close(&mut self, report: Reporter<'_>) {
        if self.failing.is_some() && self.recover(report).is_err() {
            return;
        }
        if let Some(connection) = self.connection.take()
            && let Err(error) = file::close(connection)
        {
            self.fail(&error, report);
        }
    }
}

impl Group {
    fn add(&mut self, changes: Vec<Change>) {
        for change in &changes {
            match change {
                Change::Accepted(accepted) | Change::AcceptedAgain(accepted) => {
                    self.bytes += send_bytes(accepted);
                }
                Change::Notice(notice) => self.notice_bytes += notice_bytes(notice),
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
        let bytes = self.bytes + self.notice_bytes;
        self.changes.len() >= GROUP_CHANGES_MAX || bytes >= GROUP_BYTES_MAX
    }
}

/// Opens the file and reads the image.
fn open_file(
    settings: &Settings,
    now_unix_ms: u64,
    remarks: &mut Vec<String>,
) -> Result<(Connection, Image), StoreError> {
    let mut connection = file::connect(settings)?;
    let path = &settings.path;
    if let Prepared::Migrated(copy) = schema::prepare(&mut connection, path, &schema::CURRENT)? {
        let path = path.display();
        remarks
            .push(format!("{path} was of an older version; it is copied to {copy} and migrated"));
    }
    let Restored { image, remarks: found } =
        image::restore(&mut connection, settings.dead_letters_max, now_unix_ms)?;
    remarks.extend(found);
    Ok((connection, image))
}

/// Renames a damaged file. Returns a sentence about it.
fn set_aside(settings: &Settings, unix_ms: u64, why: &str) -> Result<String, StoreError> {
    let aside = file::set_aside(&settings.path, unix_ms)?;
    let path = settings.path.display();
    Ok(format!("{path} was damaged ({why}); it is now {}, and a new one is begun", aside.display()))
}

fn error_sentence(settings: &Settings, action: &str, error: &StoreError) -> String {
    let path = settings.path.display();
    format!("cannot {action} the store {path}: {error}; {}", error.advice())
}
