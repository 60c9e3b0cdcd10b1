//! The store's loop: groups of changes, and the recovery of a disk that fails.

mod answer;
mod recovery;

use super::{
    Opened, Store,
    active_query::ActiveQuery,
    error::{OpenError, StoreError},
    fault::{FaultPoint, Faults},
    file,
    image::{self, Restored},
    job::{Job, Report, Settings},
    pending_writes::PendingWrites,
    queries::Queries,
    row::{IdForm, answer_bytes, notice_bytes, send_bytes},
    save::{self, Files},
    schema::{self, Prepared},
    sweep::{HOUR_MS, Sweep},
    takeover::{self, Progressed},
    write::{Undo, Writer, Written},
};
use crossbeam_channel::{Receiver, select};
#[cfg(test)]
use protocol::Moment;
use protocol::{
    Now,
    payload::Durability,
    record::{Change, Clock, Image, LastNumbers},
};
use recovery::{error_sentence, set_aside};
use rusqlite::Connection;
use std::time::{Duration, Instant};

/// The most changes in a transaction. With more, commits would not become cheaper, and the first
/// change would wait longer.
const GROUP_CHANGES_MAX: usize = 4_096;

/// The most bytes of messages, notices and answers in a transaction.
const GROUP_BYTES_MAX: usize = 8 << 20;

/// The first and the longest wait before a failing disk is tried again.
const RETRY_MS: [u64; 2] = [50, 5_000];

/// The time without a job after which the store counts as idle.
const IDLE_AFTER: Duration = Duration::from_millis(20);

/// The longest time for which jobs and queries put off a step of the work for idle times.
const SWEEP_AFTER: Duration = Duration::from_millis(250);

/// The longest time between two looks at the files' names.
const LOOK_EVERY: Duration = Duration::from_secs(1);

/// The receiver of a committer's reports.
type Reporter<'a> = &'a mut dyn FnMut(Report);

/// The state of a running store.
#[derive(Debug)]
pub(super) struct Committer {
    settings: Settings,
    /// `None` while the disk fails.
    connection: Option<Connection>,
    /// The files that `connection` has open, or had open when the disk began to fail; `None` if a
    /// saved file was not opened yet.
    files: Option<Files>,
    /// A connection whose files have lost their names, until its content is in a new file.
    detached: Option<Connection>,
    /// A sentence that says that another process has the directory. Nothing more is stored then.
    ousted: Option<String>,
    /// The number of times in a row that the directory was another process's.
    refusals: u32,
    is_closing: bool,
    /// Whether commits sync the log, if messages are to survive a power failure.
    syncs: bool,
    clock: Clock,
    /// The form of the ids of deliveries, which a new file gets, too.
    ids: IdForm,
    last: LastNumbers,
    sweep: Sweep,
    queries: Queries,
    failing: Option<Failing>,
    /// The reason why the store has no space for messages; `None` while it has space.
    space_error: Option<String>,
    pending: PendingWrites,
    /// SENDs of a failed transaction, which may be on the disk nevertheless.
    unconfirmed: Vec<Undo>,
    idle: bool,
    /// The moment since which work for idle times waits; `None` if it does not.
    put_off: Option<Instant>,
    /// The hour of the clock that was last written to the file.
    hour: u64,
    pub(super) faults: Faults,
}

#[derive(Debug)]
struct Failing {
    why: String,
    /// The time between two attempts, and the moment of the next one.
    retry_ms: u64,
    retry_at: Instant,
    /// The reason why the file is unusable, if it is damaged.
    damaged: Option<String>,
}

/// The changes of one transaction.
#[derive(Debug, Default)]
struct Group {
    changes: Vec<Change>,
    /// The disk space that its messages need.
    bytes: usize,
    /// The disk space that its notices and answers need.
    droppable_bytes: usize,
}

impl Committer {
    pub(super) fn open(
        settings: Settings,
        now_unix_ms: u64,
        progressed: Progressed<'_>,
    ) -> Result<Opened, OpenError> {
        let mut remarks = Vec::new();
        let refused = |error: &StoreError| OpenError(error_sentence(&settings, "open", error));
        // An empty file that this start has made is not reported.
        let was_there = settings.path.exists();
        let mut open =
            || open_file(&settings, now_unix_ms, was_there, &mut remarks, &mut *progressed);
        let opened = match open() {
            // SQLite reports a failed read as damage, too. Damage is found again.
            Err(error) if error.is_damage() => open(),
            opened => opened,
        };
        let (connection, image) = match opened {
            Err(error) if error.is_damage() => {
                remarks.push(
                    set_aside(&settings, now_unix_ms, &error.to_string())
                        .map_err(|error| refused(&error))?,
                );
                open_file(&settings, now_unix_ms, false, &mut remarks, progressed)
            }
            opened => opened,
        }
        .map_err(|error| refused(&error))?;
        let files = Files::of(&settings.path).map_err(|error| refused(&error.into()))?;
        let sweep = Sweep::new(&connection, &settings, &image).map_err(|error| refused(&error))?;
        let ids = IdForm::read(&connection).map_err(|error| refused(&error))?;
        let monotonic = image.clock.moment_at(now_unix_ms);
        let clock = Clock(Now { monotonic, unix_ms: now_unix_ms });
        let committer = Self {
            connection: Some(connection),
            files: Some(files),
            detached: None,
            ousted: None,
            refusals: 0,
            is_closing: false,
            syncs: true,
            clock,
            ids,
            last: image.last,
            sweep,
            queries: Queries::default(),
            failing: None,
            space_error: None,
            pending: PendingWrites::default(),
            unconfirmed: Vec::new(),
            idle: false,
            put_off: None,
            hour: monotonic.0 / HOUR_MS,
            faults: Faults::default(),
            settings,
        };
        Ok(Opened { store: Store(committer), image, id_key: ids.key, remarks })
    }

    pub(super) fn run(&mut self, jobs: &Receiver<Job>, report: Reporter<'_>) {
        while let Some(job) = self.next(jobs, report) {
            let (group, query) = self.gather(job, jobs);
            self.write(group, report);
            if let Some(query) = query {
                self.add_query(query, report);
            }
        }
        self.close(report);
    }

    /// Collects the changes that are queued, up to a limit or a query.
    fn gather(&mut self, mut job: Job, jobs: &Receiver<Job>) -> (Group, Option<ActiveQuery>) {
        let mut group = Group::default();
        loop {
            match job {
                Job::Write { changes, clock } => {
                    self.clock = clock;
                    group.add(changes);
                }
                Job::Query(number, process, query, cancel) => {
                    return (group, Some(ActiveQuery::new(number, process, query, cancel)));
                }
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

    /// Waits for the next job. Meanwhile, answers queries, and tries a failing disk again or sweeps
    /// a working store.
    fn next(&mut self, jobs: &Receiver<Job>, report: Reporter<'_>) -> Option<Job> {
        loop {
            // Queries that never pause do not put this off.
            if self.failing.as_ref().is_some_and(|failing| failing.wait().is_zero()) {
                self.use_idle_time(report);
            }
            self.sweep_if_put_off(report);
            self.begin_slice(report);
            select! {
                recv(jobs) -> job => {
                    self.idle = false;
                    return job.ok();
                }
                recv(self.queries.done()) -> slice => {
                    let slice = slice.expect("the thread of the queries does not panic");
                    self.end_slice(slice, report);
                }
                default(self.wait_max()) => self.use_idle_time(report),
            }
        }
    }

    fn use_idle_time(&mut self, report: Reporter<'_>) {
        if let Some(failing) = &mut self.failing {
            failing.put_off();
            // `recover` reports a failure itself.
            let _ = self.recover(report);
            return;
        }
        self.idle = true;
        self.look(report);
        if self.has_work() {
            self.sweep(report);
        }
    }

    /// Does a step of the work for idle times that has waited for one too long.
    fn sweep_if_put_off(&mut self, report: Reporter<'_>) {
        let waits = self.failing.is_none() && self.has_work();
        match self.put_off.filter(|_| waits) {
            Some(since) if since.elapsed() >= SWEEP_AFTER => self.sweep(report),
            Some(_) => {}
            None => self.put_off = waits.then(Instant::now),
        }
    }

    /// The time to wait for a job before other work is done.
    fn wait_max(&self) -> Duration {
        match &self.failing {
            Some(failing) => failing.wait(),
            None if self.queries.is_waiting() => Duration::ZERO,
            None if !self.has_work() => LOOK_EVERY,
            None if self.idle => Duration::ZERO,
            None => IDLE_AFTER,
        }
    }

    fn has_work(&self) -> bool {
        self.sweep.has_work(self.clock.0.monotonic)
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
            && self.clock.0.monotonic.0 / HOUR_MS != self.hour
            && let Err((error, _)) = self.transact(&[], false, report)
        {
            self.fail(&error, report);
        }
    }

    fn write_group(&mut self, mut group: Group, report: Reporter<'_>) -> Result<(), String> {
        let mut space = if self.failing.is_some() { self.recover(report) } else { Ok(()) };
        space = space.and_then(|()| self.free_space_for(&group, report));
        if let Err(why) = self.drop_without_space(&mut group, report) {
            space = Err(why);
        }
        if self.failing.is_some() {
            self.defer(group);
            return space;
        }
        if space.is_err() {
            group.changes.retain(|change| !matches!(change, Change::Accepted(_)));
        }
        match self.transact(&group.changes, false, report) {
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

    /// Drops a group's notices and answers if there is no space for them. The daemon still holds
    /// the notices in memory, and hands out the answers.
    fn drop_without_space(
        &mut self,
        group: &mut Group,
        report: Reporter<'_>,
    ) -> Result<(), String> {
        let Some(connection) = &mut self.connection else { return Ok(()) };
        if group.droppable_bytes == 0 {
            return Ok(());
        }
        let bytes = group.bytes + group.droppable_bytes;
        match self.sweep.free_space_for_notices(connection, &self.settings, bytes) {
            Ok(true) => {}
            Ok(false) => group
                .changes
                .retain(|change| !matches!(change, Change::Notice(_) | Change::Answer(_))),
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
        report: Reporter<'_>,
    ) -> Result<(), (StoreError, Vec<Undo>)> {
        let mut undo = Vec::new();
        match self.try_transact(changes, with_pending, &mut undo) {
            Ok(written) => {
                self.last = written.last;
                self.hour = self.clock.0.monotonic.0 / HOUR_MS;
                self.sweep.note(&written, changes.len());
                self.check_files(report).map_err(|error| (error, undo))
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
        let connection =
            self.connection.as_mut().expect("the connection is open while nothing fails");
        let may_wait = !changes.is_empty() && changes.iter().all(Change::may_wait_for_sync);
        let syncs = with_pending || !may_wait;
        if syncs != self.syncs && self.settings.durability == Durability::Disk {
            file::sync_commits(connection, syncs)?;
            self.syncs = syncs;
        }
        let transaction = connection.transaction()?;
        let mut writer = Writer::new(&transaction, self.last, self.clock)?;
        if with_pending {
            writer.probe()?;
            // Undone in reverse order, since two of the SENDs may have the same message.
            for undo in self.unconfirmed.iter().rev() {
                writer.undo(undo)?;
            }
            writer.forget_unconfirmed()?;
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
        let written = writer.finish()?;
        self.faults.fail_if_due(FaultPoint::Commit)?;
        transaction.commit()?;
        self.faults.fail_if_due(FaultPoint::Committed)?;
        Ok(written)
    }

    fn defer(&mut self, group: Group) {
        self.pending.note_written(&self.last);
        for change in group.changes {
            self.pending.push(change);
        }
    }

    fn sweep(&mut self, report: Reporter<'_>) {
        self.put_off = None;
        let Some(connection) = &mut self.connection else { return };
        let swept = self.sweep.step(connection, &self.settings, self.clock.0.monotonic);
        if let Err(error) = swept {
            self.fail(&error, report);
        }
    }

    /// Sweeps if there is a large backlog, although the store is not idle.
    fn sweep_if_due(&mut self, report: Reporter<'_>) {
        while self.failing.is_none() && self.sweep.is_due() {
            self.sweep(report);
        }
    }

    fn close(&mut self, report: Reporter<'_>) {
        self.is_closing = true;
        self.queries.end();
        self.look(report);
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

impl Failing {
    /// The time until the next attempt.
    fn wait(&self) -> Duration {
        self.retry_at.saturating_duration_since(Instant::now())
    }

    /// Sets the moment of the next attempt.
    fn put_off(&mut self) {
        self.retry_at = Instant::now() + Duration::from_millis(self.retry_ms);
    }
}

impl Group {
    fn add(&mut self, changes: Vec<Change>) {
        for change in &changes {
            match change {
                Change::Accepted(accepted) | Change::AcceptedAgain(accepted) => {
                    self.bytes += send_bytes(accepted);
                }
                Change::Notice(notice) => self.droppable_bytes += notice_bytes(notice),
                Change::Answer(answer) => self.droppable_bytes += answer_bytes(answer),
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
        let bytes = self.bytes + self.droppable_bytes;
        self.changes.len() >= GROUP_CHANGES_MAX || bytes >= GROUP_BYTES_MAX
    }
}

/// Opens the file and reads the image. An empty file is reported if one was there.
fn open_file(
    settings: &Settings,
    now_unix_ms: u64,
    was_there: bool,
    remarks: &mut Vec<String>,
    progressed: Progressed<'_>,
) -> Result<(Connection, Image), StoreError> {
    let path = &settings.path;
    if let Some(aside) = save::adopt(path, None, now_unix_ms)? {
        let (path, aside) = (path.display(), aside.display());
        remarks
            .push(format!("{path} was replaced while it was open; what was found is now {aside}"));
    }
    let mut kept = takeover::resume(path)?;
    let mut connection = file::connect(settings)?;
    let found = file::schema_version(&connection)?;
    if (1..schema::FIRST).contains(&found) {
        let taken = takeover::take_over(connection, path, found, progressed)?;
        if taken.skipped > 0 {
            remarks.push(format!(
                "{} ended deliveries and messages of {} were damaged, and are left out",
                taken.skipped,
                path.display()
            ));
        }
        kept = Some(taken.kept);
        connection = file::connect(settings)?;
    }
    let path = path.display();
    match schema::prepare(&mut connection, &settings.path, &schema::CURRENT)? {
        Prepared::New if was_there => remarks.push(format!(
            "{path} was empty, perhaps because the first start was cut short; a new one is begun"
        )),
        Prepared::New | Prepared::Current => {}
        Prepared::Migrated(copy) => kept = Some(copy),
    }
    if let Some(kept) = kept {
        let kept = kept.display();
        remarks.push(format!("{path} was of an older version, which is kept as {kept}"));
    }
    let Restored { image, remarks: found } =
        image::restore(&mut connection, settings.dead_letters_max, now_unix_ms)?;
    remarks.extend(found);
    Ok((connection, image))
}

#[cfg(test)]
mod inspect {
    use super::*;
    use protocol::delivery_id::IdKey;

    impl Committer {
        /// Changes the key of the ids.
        pub(crate) fn use_id_key(&mut self, key: IdKey) {
            self.ids.key = key;
            let connection = self.connection.as_ref().unwrap();
            connection.execute("UPDATE meta SET id_key = ?", [key.to_bytes()]).unwrap();
        }

        /// Whether the last commit was synced.
        pub(crate) fn has_synced(&self) -> bool {
            let connection = self.connection.as_ref().unwrap();
            let synchronous =
                connection.pragma_query_value(None, "synchronous", |row| row.get::<_, u32>(0));
            synchronous.unwrap() == 2
        }

        pub(crate) fn set_wall_clock(&mut self, unix_ms: u64) {
            self.clock.0.unix_ms = unix_ms;
        }

        /// Writes changes.
        pub(crate) fn write_changes(&mut self, changes: Vec<Change>) {
            let mut group = Group::default();
            group.add(changes);
            self.write(group, &mut drop);
        }

        /// Returns the number of streams that are to be written or removed.
        pub(crate) fn pending_streams(&self) -> usize {
            self.pending.streams()
        }

        /// Tries to recover, which has to fail. Returns the time between this attempt and the next
        /// in milliseconds.
        pub(crate) fn fail_to_recover(&mut self) -> u64 {
            assert!(self.recover(&mut drop).is_err());
            self.failing.as_ref().unwrap().retry_ms
        }

        /// Sweeps until no work is left.
        pub(crate) fn sweep_all(&mut self, now: Moment) {
            self.sweep_steps(now, 1_000);
            assert!(!self.has_work(), "the sweep ends");
        }

        /// Sweeps until no work is left, for some steps at most.
        pub(crate) fn sweep_steps(&mut self, now: Moment, max: u32) {
            self.clock.0.monotonic = now;
            for _ in 0..max {
                if self.has_work() {
                    self.sweep(&mut |report| panic!("{report:?}"));
                }
            }
        }

        /// The connection for queries, if the system allows one.
        pub(crate) fn open_reader(&self) -> Option<Connection> {
            file::connect_reader(&self.settings.path).unwrap()
        }
    }
}
