//! Recovery of a store whose files or disk fail: a look at the files' paths, the end of a
//! connection that failed, and the reopening of the file.

use super::{Committer, Failing, RETRY_MS, Reporter};
use crate::{
    error::StoreError,
    fault::FaultPoint,
    file,
    job::{Report, Settings},
    pending_writes::PendingWrites,
    save::{self, Files},
    schema::{self, Prepared},
};
use rusqlite::Connection;
use std::{io, path::Path, time::Instant};

/// The number of refusals of the directory after which another process has it for good. Some
/// processes only try to get it. The waits between them become longer, some seconds together.
const REFUSALS_MAX: u32 = 8;

impl Committer {
    /// Checks that the open files can be found by their paths.
    pub(super) fn look(&mut self, report: Reporter<'_>) {
        if let Err(error) = self.check_files(report) {
            self.fail(&error, report);
        }
    }

    /// Saves the content in a new file if the open ones have lost their names.
    pub(super) fn check_files(&mut self, report: Reporter<'_>) -> Result<(), StoreError> {
        if self.connection.is_some()
            && let Some(files) = &self.files
            && !files.are_in_place()?
        {
            self.detached = self.connection.take();
            self.queries.close_reader();
            return self.save_detached(report);
        }
        Ok(())
    }

    /// Checks that the directory of files that lost their names is not another process's. If it
    /// stays so, the content is kept elsewhere, and nothing more is stored.
    fn check_claim(&mut self, report: Reporter<'_>) -> Result<(), StoreError> {
        if self.settings.claim.is_held()? {
            self.refusals = 0;
            return Ok(());
        }
        self.refusals += 1;
        let is_last = |most| self.is_closing || self.refusals >= most;
        if !is_last(REFUSALS_MAX) {
            return Err(io::Error::other("another process has its directory").into());
        }
        let (path, unix_ms) = (&self.settings.path, self.clock.0.unix_ms);
        let keep = |detached| save::keep_elsewhere(detached, path, unix_ms);
        let kept = match self.detached.as_ref().map(keep).transpose() {
            Err(error) if !is_last(2 * REFUSALS_MAX) && !error.is_damage() => return Err(error),
            kept => kept,
        };
        let what = match kept {
            Ok(Some(kept)) => format!("its content is now {}", kept.display()),
            Ok(None) => "its content is lost".to_owned(),
            Err(error) => format!("its content is lost, since it cannot be saved: {error}"),
        };
        let ousted = format!(
            "the store {} was removed or replaced, and another daemon has its directory; {what}",
            path.display()
        );
        self.detached = None;
        self.ousted = Some(ousted.clone());
        report(Report::Ousted(ousted.clone()));
        Err(io::Error::other(ousted).into())
    }

    fn save_detached(&mut self, report: Reporter<'_>) -> Result<(), StoreError> {
        self.check_claim(report)?;
        let Some(detached) = &self.detached else { return Ok(()) };
        let path = &self.settings.path;
        self.faults.fail_if_due(FaultPoint::Save)?;
        if let Err(error) = save::save(detached, path) {
            if error.is_damage() {
                self.detached = None;
            }
            return Err(error);
        }
        let aside = save::adopt(path, self.files.as_ref(), self.clock.0.unix_ms)?;
        (self.detached, self.files) = (None, None);
        let mut saved = format!(
            "the files of the store {} were removed or replaced while it was open; its whole \
             content is in a new file",
            path.display()
        );
        if let Some(aside) = aside {
            saved += &format!(", and the file found in its place is now {}", aside.display());
        }
        let connection = file::connect(&self.settings)?;
        self.adopt(connection)?;
        report(Report::Saved(saved));
        Ok(())
    }

    /// Closes the connection after a failure. Returns the reason as a sentence.
    pub(super) fn fail(&mut self, error: &StoreError, report: Reporter<'_>) -> String {
        self.connection = None;
        self.queries.close_reader();
        let why = error_sentence(&self.settings, "use", error);
        let damaged = error.is_damage().then(|| error.to_string());
        match &mut self.failing {
            Some(failing) => {
                failing.retry_ms = (failing.retry_ms * 2).min(RETRY_MS[1]);
                failing.put_off();
                failing.why.clone_from(&why);
                failing.damaged = damaged.or_else(|| failing.damaged.take());
            }
            None => {
                let (retry_ms, retry_at) = (RETRY_MS[0], Instant::now());
                let failing = Failing { why: why.clone(), retry_ms, retry_at, damaged };
                self.failing.insert(failing).put_off();
                report(Report::Health(Err(why.clone())));
            }
        }
        why
    }

    /// Opens the file again and writes the pending changes.
    pub(super) fn recover(&mut self, report: Reporter<'_>) -> Result<(), String> {
        if let Some(ousted) = &self.ousted {
            return Err(ousted.clone());
        }
        if self.queries.is_lent()
            && let Some(failing) = &self.failing
        {
            // Opening the file would drop the locks of SQLite's that the reader shares.
            return Err(failing.why.clone());
        }
        if let Err(error) = self.reopen(report) {
            return Err(self.fail(&error, report));
        }
        if let Err((error, _)) = self.transact(&[], true, report) {
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
        if self.detached.is_some() {
            return self.save_detached(report);
        }
        if !self.files.as_ref().is_some_and(|files| matches!(files.are_in_place(), Ok(true))) {
            self.check_claim(report)?;
        }
        let lost = self.set_aside_unusable()?;
        let mut connection = file::connect(&self.settings)?;
        file::empty_log(&connection)?;
        let path = &self.settings.path;
        if schema::prepare(&mut connection, path, &schema::CURRENT)? == Prepared::New {
            self.ids.write(&connection)?;
            let removed = || removed_sentence(&self.settings, None);
            report(Report::Lost(lost.unwrap_or_else(removed)));
        }
        self.adopt(connection)
    }

    /// Sets the file aside if it is damaged, or is not the one that was open. Returns a sentence
    /// about it.
    fn set_aside_unusable(&mut self) -> Result<Option<String>, StoreError> {
        let unix_ms = self.clock.0.unix_ms;
        if let Some(failing) = &mut self.failing
            && let Some(why) = &failing.damaged
        {
            let lost = set_aside(&self.settings, unix_ms, why)?;
            (failing.damaged, self.files) = (None, None);
            return Ok(Some(lost));
        }
        let Some(files) = &self.files else { return Ok(None) };
        if files.are_in_place()? {
            return Ok(None);
        }
        let aside = file::set_aside(&self.settings.path, ".replaced", unix_ms)?;
        self.files = None;
        Ok(Some(removed_sentence(&self.settings, aside.as_deref())))
    }

    /// Continues with a connection to a file that was opened again.
    fn adopt(&mut self, mut connection: Connection) -> Result<(), StoreError> {
        self.sweep.restart(&connection)?;
        // Space is freed at once, since the pending changes are written before any sweep.
        let bytes = self.pending.message_bytes();
        self.sweep.free_space(&mut connection, &self.settings, bytes)?;
        let bytes = self.pending.notice_bytes();
        if !self.sweep.free_space_for_notices(&mut connection, &self.settings, bytes)? {
            self.pending.drop_notices();
        }
        // Between the look and the opening, another file may have got the name.
        if self.files.as_ref().map_or(Ok(true), Files::are_in_place)? {
            self.files = Some(Files::of(&self.settings.path)?);
            (self.connection, self.syncs) = (Some(connection), true);
            return Ok(());
        }
        Err(io::Error::other("its files were replaced while it was opened").into())
    }
}

/// Renames a damaged file. Returns a sentence about it.
pub(super) fn set_aside(
    settings: &Settings,
    unix_ms: u64,
    why: &str,
) -> Result<String, StoreError> {
    let path = settings.path.display();
    let aside = file::set_aside(&settings.path, ".damaged", unix_ms)?;
    let now =
        aside.map_or_else(String::new, |aside| format!("it is now {}, and ", aside.display()));
    Ok(format!("{path} was damaged ({why}); {now}a new one is begun"))
}

/// A sentence about a file that was removed or replaced, and whose content is lost.
fn removed_sentence(settings: &Settings, aside: Option<&Path>) -> String {
    let found = aside
        .map(|aside| format!("; the file found in its place is now {}", aside.display()))
        .unwrap_or_default();
    let path = settings.path.display();
    format!("the store {path} was removed or replaced, and a new one is begun{found}")
}

pub(super) fn error_sentence(settings: &Settings, action: &str, error: &StoreError) -> String {
    let path = settings.path.display();
    format!("cannot {action} the store {path}: {error}; {}", error.advice())
}
