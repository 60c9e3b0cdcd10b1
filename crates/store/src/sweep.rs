//! Work for idle times: words are indexed, ended deliveries move to the history, and old ones are
//! deleted. The work is done in small steps, since a SEND that arrives during a step waits for its
//! end.

mod forget;
mod indexing;

use super::{
    error::StoreError,
    file::{self, PAGE_BYTES},
    index,
    job::Settings,
    row::{self, number, read_single, signed},
    write,
};
use protocol::{Moment, record::Image};
use rusqlite::{Connection, params};
use std::collections::{BTreeMap, VecDeque};

/// The most rows that a step writes.
const STEP_ROWS: usize = 128;

/// The bytes of indexed messages after which a step ends.
const STEP_BYTES: usize = 256 << 10;

/// The pages that the rows of a step need at most when they come into the history.
const MOVE_PAGES: u64 = 32;

/// The most rows that a step reads in search of rows to change.
const SCAN_ROWS: usize = 4_096;

/// The most ended deliveries whose numbers are remembered. The others are found by a scan of the
/// table.
const ENDED_MAX: usize = 65_536;

/// The backlog from which steps are also done while the store is busy.
const BACKLOG_MIN: u64 = 4_096;

/// The number of transactions between two steps while the store is busy.
const GROUPS_BETWEEN: u32 = 64;

/// The backlog from which steps keep pace with the changes. It bounds what the next start reads.
const BACKLOG_MAX: u64 = 65_536;

/// The number of changes between two steps that keep pace. A delivery counts as two changes at
/// least, its acceptance and its end.
const CHANGES_BETWEEN: usize = 2 * STEP_ROWS;

/// The number of a sender's new dedup records after which its old ones are deleted.
const DEDUP_BETWEEN: usize = 512;

/// The most senders whose new dedup records are counted.
const COUNTED_MAX: usize = 8_192;

/// The number of changes after which the log is checkpointed in an idle time.
const CHECKPOINT_CHANGES: usize = 2_048;

/// The numbers of deliveries that an idle and a busy store leave out of the index of ids.
const UNLISTED_MAX: u64 = if cfg!(test) { 0 } else { 1_024 };
const UNLISTED_BUSY: u64 = 65_536;

pub(super) const HOUR_MS: u64 = 3_600_000;

/// The work to be done.
#[derive(Debug, Default)]
pub(super) struct Sweep {
    /// Known ended deliveries, by number, that are to be moved to the history.
    ended: VecDeque<u64>,
    /// The row number after which the table of deliveries has to be scanned for more ended ones;
    /// `None` if all are known.
    unlisted_after: Option<u64>,
    /// The number up to which messages are indexed.
    indexed: u64,
    /// The number up to which the index of ids has the deliveries.
    listed: u64,
    /// The highest numbers of a message and of a delivery.
    last_message: u64,
    last_delivery: u64,
    /// The number of new dedup records by sender.
    dedup: BTreeMap<u64, usize>,
    /// Senders that may have too many dedup records, and how many they have too many at most.
    over_limit: BTreeMap<u64, usize>,
    /// The sum of these numbers.
    over_limit_total: usize,
    /// The hour of the last complete search of the history for old deliveries.
    aged: Option<u64>,
    /// The number of the delivery that the current search for old deliveries has reached.
    aging: u64,
    /// Whether words of deleted messages are in the index still, and the text maybe in the log.
    has_deleted: bool,
    /// Whether the index is being written anew, and the hour in which that was last completed.
    merging: bool,
    merged: Option<u64>,
    /// Whether deleted texts are only in the log.
    emptying: bool,
    /// Changes since the log's last checkpoint.
    logged: usize,
    /// Transactions, and their changes, since the last step that was done while the store was busy.
    groups: u32,
    changes: usize,
    /// An upper bound of the pages in use; unknown at first and after a step.
    pages: Option<u64>,
    /// Whether the last step found no space for the history; false again after a transaction.
    no_space: bool,
}

impl Sweep {
    /// The work for a store with this image.
    pub(super) fn new(
        connection: &Connection,
        settings: &Settings,
        image: &Image,
    ) -> Result<Self, StoreError> {
        let (last_message, last_delivery) = (image.last.message, image.last.delivery);
        let mut sweep = Self { last_message, last_delivery, ..Self::default() };
        let mut dedup: BTreeMap<u64, usize> = BTreeMap::new();
        for record in image.dedup.values() {
            *dedup.entry(record.sender).or_default() += 1;
        }
        for (sender, count) in dedup {
            sweep.note_over_limit(sender, count.saturating_sub(settings.dedup_max));
        }
        sweep.restart(connection)?;
        Ok(sweep)
    }

    /// Starts over on a file that was opened anew.
    pub(super) fn restart(&mut self, connection: &Connection) -> Result<(), StoreError> {
        self.ended.clear();
        self.unlisted_after = Some(0);
        (self.indexed, self.listed) =
            read_single(connection, "SELECT indexed, listed FROM meta", |row| {
                Ok((number(row, 0)?, number(row, 1)?))
            })?;
        self.aged = None;
        // The last daemon may have ended before it forgot the words.
        (self.has_deleted, self.merging, self.merged) = (true, false, None);
        self.emptying = false;
        self.pages = None;
        Ok(())
    }

    /// Notes what a transaction wrote.
    pub(super) fn note(&mut self, written: &write::Written, changes: usize) {
        let last = &written.last;
        let new = last.message.saturating_sub(self.last_message);
        let new = new.max(last.delivery.saturating_sub(self.last_delivery)) as usize;
        (self.last_message, self.last_delivery) = (last.message, last.delivery);
        self.logged += changes;
        // A message to many has more deliveries than changes.
        let changes = changes.max(2 * new.max(written.ended.len()));
        self.groups = self.groups.saturating_add(1);
        self.changes = self.changes.saturating_add(changes);
        self.no_space = false;
        self.has_deleted |= written.has_erased;
        for delivery in &written.ended {
            if self.unlisted_after.is_some_and(|after| *delivery > after) {
                continue;
            }
            if self.ended.len() < ENDED_MAX {
                self.ended.push_back(*delivery);
            } else {
                self.unlisted_after = Some(0);
            }
        }
        for (sender, new) in &written.dedup {
            let count = self.dedup.entry(*sender).or_default();
            *count += new;
            if *count >= DEDUP_BETWEEN {
                let count = *count;
                self.dedup.remove(sender);
                self.note_over_limit(*sender, count);
            }
        }
        if self.dedup.len() > COUNTED_MAX {
            for (sender, count) in std::mem::take(&mut self.dedup) {
                self.note_over_limit(sender, count);
            }
        }
    }

    /// Notes that a sender has at most this many dedup records more than it may have.
    fn note_over_limit(&mut self, sender: u64, count: usize) {
        if count > 0 {
            *self.over_limit.entry(sender).or_default() += count;
            self.over_limit_total += count;
        }
    }

    /// Whether there is work for an idle store.
    pub(super) fn has_work(&self, now: Moment) -> bool {
        let history = self.indexed < self.last_message
            || self.unlisted() > UNLISTED_MAX
            || !self.ended.is_empty()
            || self.unlisted_after.is_some();
        history && !self.no_space
            || !self.over_limit.is_empty()
            || self.aged != Some(now.0 / HOUR_MS)
            || self.is_merge_due(now)
            || self.logged >= CHECKPOINT_CHANGES
    }

    /// Whether a step is due although the store is busy.
    pub(super) fn is_due(&mut self) -> bool {
        match self.backlog() {
            ..BACKLOG_MIN => self.changes = 0,
            BACKLOG_MIN..BACKLOG_MAX => {
                self.changes = 0;
                if self.groups >= GROUPS_BETWEEN {
                    self.groups = 0;
                    return true;
                }
            }
            BACKLOG_MAX.. => {
                if let Some(left) = self.changes.checked_sub(CHANGES_BETWEEN) {
                    (self.groups, self.changes) = (0, left);
                    return true;
                }
            }
        }
        false
    }

    /// Returns about how many rows have to be indexed, listed, moved or deleted.
    fn backlog(&self) -> u64 {
        if self.unlisted_after.is_some() {
            return BACKLOG_MAX;
        }
        let unindexed = self.last_message.saturating_sub(self.indexed);
        let unlisted = self.unlisted().saturating_sub(UNLISTED_BUSY);
        unindexed + unlisted + (self.ended.len() + self.over_limit_total) as u64
    }

    /// Does one step.
    pub(super) fn step(
        &mut self,
        connection: &mut Connection,
        settings: &Settings,
        now: Moment,
    ) -> Result<(), StoreError> {
        self.pages = None;
        // If there is no space for the history, no delivery is moved there.
        self.no_space = !self.free_space(connection, settings, STEP_BYTES, now)?;
        // Dedup records do not wait for an end of the other work, which may not come.
        if self.delete_dedup(connection, settings)?
            | (!self.no_space
                && (self.index_some(connection)?
                    | self.move_some(connection, now)?
                    | self.list_some(connection, UNLISTED_BUSY)?))
        {
            return Ok(());
        }
        if !self.no_space && self.list_some(connection, UNLISTED_MAX)? {
            return Ok(());
        }
        if self.delete_old(connection, settings, now)? || self.forget_words(connection, now)? {
            return Ok(());
        }
        if self.logged >= CHECKPOINT_CHANGES {
            file::checkpoint(connection)?;
        }
        self.logged = 0;
        Ok(())
    }

    /// Frees space for messages by deleting ended deliveries of the agent that holds most of them.
    /// A reserve is left for changes that must not be refused.
    pub(super) fn free_space(
        &mut self,
        connection: &mut Connection,
        settings: &Settings,
        bytes: usize,
        now: Moment,
    ) -> Result<bool, StoreError> {
        self.free_space_above(connection, settings, bytes, reserve(settings), now)
    }

    /// Frees space for notices, which may use half of the reserve.
    pub(super) fn free_space_for_notices(
        &mut self,
        connection: &mut Connection,
        settings: &Settings,
        bytes: usize,
        now: Moment,
    ) -> Result<bool, StoreError> {
        self.free_space_above(connection, settings, bytes, reserve(settings) / 2, now)
    }

    fn free_space_above(
        &mut self,
        connection: &mut Connection,
        settings: &Settings,
        bytes: usize,
        reserve: u64,
        now: Moment,
    ) -> Result<bool, StoreError> {
        let pages = settings.bytes_max / PAGE_BYTES;
        // Pages are not filled completely.
        let needed = bytes as u64 * 5 / 4 / PAGE_BYTES + 8;
        loop {
            let used = match self.pages {
                Some(used) if used + needed + reserve <= pages => used,
                _ => pages_used(connection)?,
            };
            self.pages = Some(used + needed);
            if used + needed + reserve <= pages {
                return Ok(true);
            }
            let missing = (used + needed + reserve - pages) * PAGE_BYTES;
            // Rows come into the history only while the file has pages for them.
            let has_moved = used + MOVE_PAGES <= pages && self.move_some(connection, now)?;
            if !self.delete_oldest(connection, missing)?
                && !has_moved
                && !self.delete_ended(connection)?
            {
                return Ok(false);
            }
        }
    }

    /// The number up to which messages are indexed.
    pub(super) const fn indexed(&self) -> u64 {
        self.indexed
    }

    /// The highest message number.
    pub(super) const fn last_message(&self) -> u64 {
        self.last_message
    }

    const fn unlisted(&self) -> u64 {
        self.last_delivery.saturating_sub(self.listed)
    }

    /// Moves some ended deliveries to the history. Returns false if there are none.
    fn move_some(&mut self, connection: &mut Connection, now: Moment) -> Result<bool, StoreError> {
        let ended = self.take_ended(connection)?;
        let Some(ended) = ended else { return Ok(false) };
        let transaction = connection.transaction()?;
        for number in ended {
            index::move_to_history(&transaction, number, now)?;
        }
        transaction.commit()?;
        Ok(true)
    }

    /// Takes some ended deliveries, and scans a part of the table if none is known. Returns `None`
    /// once all are taken and the table was scanned to its end.
    fn take_ended(&mut self, connection: &Connection) -> Result<Option<Vec<u64>>, StoreError> {
        if self.ended.is_empty() {
            let Some(after) = self.unlisted_after else { return Ok(None) };
            self.unlisted_after = self.list_ended(connection, after)?;
        }
        Ok(Some(self.ended.drain(..STEP_ROWS.min(self.ended.len())).collect()))
    }

    /// Scans some rows for ended deliveries. Returns the number after which to continue.
    fn list_ended(
        &mut self,
        connection: &Connection,
        after: u64,
    ) -> Result<Option<u64>, StoreError> {
        let mut statement = connection.prepare_cached(
            "SELECT number, ending FROM delivery WHERE number > ? ORDER BY number LIMIT ?",
        )?;
        let mut rows = statement.query(params![signed(after), SCAN_ROWS as u32])?;
        let (mut last, mut count) = (after, 0);
        while let Some(row) = rows.next()? {
            last = number(row, 0)?;
            count += 1;
            if !row::is_open(row, 1)? {
                self.ended.push_back(last);
            }
        }
        Ok((count == SCAN_ROWS).then_some(last))
    }

    /// Deletes the oldest dedup records of one sender that has too many. Returns false if no sender
    /// has too many.
    fn delete_dedup(
        &mut self,
        connection: &mut Connection,
        settings: &Settings,
    ) -> Result<bool, StoreError> {
        let Some(mut entry) = self.over_limit.first_entry() else { return Ok(false) };
        let sender = *entry.key();
        let deleted = connection
            .prepare_cached(
                "DELETE FROM double WHERE sender = ?1 AND message IN (
                     SELECT message FROM double AS old WHERE sender = ?1 AND message <= (
                         SELECT message FROM double WHERE sender = ?1
                         ORDER BY message DESC LIMIT 1 OFFSET ?2
                     ) AND NOT EXISTS (
                         SELECT 1 FROM message WHERE number = old.message AND hot > 0
                     ) ORDER BY message LIMIT ?3
                 )",
            )?
            .execute(params![
                signed(sender),
                signed(settings.dedup_max as u64),
                STEP_ROWS as u32
            ])?;
        let known = *entry.get();
        if deleted < STEP_ROWS {
            entry.remove();
            self.over_limit_total -= known;
        } else {
            let left = known.saturating_sub(deleted);
            entry.insert(left);
            self.over_limit_total -= known - left;
        }
        Ok(true)
    }

    /// Searches a part of the history for deliveries that are too old, and deletes these. Returns
    /// false once this hour's search is complete.
    fn delete_old(
        &mut self,
        connection: &mut Connection,
        settings: &Settings,
        now: Moment,
    ) -> Result<bool, StoreError> {
        let hour = now.0 / HOUR_MS;
        if self.aged == Some(hour) {
            return Ok(false);
        }
        let (mut seen, mut old) = (0, Vec::new());
        {
            let mut statement = connection.prepare_cached(
                "SELECT number, message, moved FROM history WHERE number > ? ORDER BY number",
            )?;
            let mut rows = statement.query([signed(self.aging)])?;
            while let Some(row) = rows.next()? {
                self.aging = number(row, 0)?;
                if number(row, 2)?.saturating_add(settings.history_ms) < now.0 {
                    old.push((self.aging, number(row, 1)?));
                }
                seen += 1;
                if seen == SCAN_ROWS || old.len() == STEP_ROWS {
                    break;
                }
            }
            if seen < SCAN_ROWS && old.len() < STEP_ROWS {
                (self.aged, self.aging) = (Some(hour), 0);
            }
        }
        self.has_deleted |= !old.is_empty();
        delete(connection, &old)?;
        Ok(true)
    }

    /// Deletes the oldest ended deliveries of the principal that holds most of the history, about
    /// `bytes` of them at most. Returns false if there are none.
    fn delete_oldest(
        &mut self,
        connection: &mut Connection,
        bytes: u64,
    ) -> Result<bool, StoreError> {
        let (mut oldest, mut freed) = (Vec::new(), 0);
        {
            let mut statement = connection.prepare_cached(
                "SELECT number, message, bytes FROM history
                 WHERE holder = (SELECT name FROM holder ORDER BY bytes DESC LIMIT 1)
                 ORDER BY number LIMIT ?",
            )?;
            let mut rows = statement.query([STEP_ROWS as u32])?;
            while let Some(row) = rows.next()?
                && freed < bytes
            {
                oldest.push((number(row, 0)?, number(row, 1)?));
                freed += number(row, 2)?;
            }
        }
        self.has_deleted = true;
        delete(connection, &oldest)?;
        Ok(!oldest.is_empty())
    }

    /// Deletes some ended deliveries that do not fit into the history. Returns false if there are
    /// none.
    fn delete_ended(&mut self, connection: &mut Connection) -> Result<bool, StoreError> {
        let Some(ended) = self.take_ended(connection)? else { return Ok(false) };
        let transaction = connection.transaction()?;
        for delivery in ended {
            let message: Option<i64> = transaction
                .prepare_cached(
                    "DELETE FROM delivery WHERE number = ? AND ending <> 0 RETURNING message",
                )?
                .query_map([signed(delivery)], |row| row.get(0))?
                .next()
                .transpose()?;
            if let Some(message) = message {
                write::release(&transaction, message.cast_unsigned(), 0, 1)?;
            }
        }
        transaction.commit()?;
        Ok(true)
    }
}

/// The number of pages that are reserved for changes that must not be refused.
fn reserve(settings: &Settings) -> u64 {
    (settings.bytes_max / PAGE_BYTES / 16).clamp(32, 4_096)
}

/// Deletes rows of the history, each given by the numbers of its delivery and its message.
fn delete(connection: &mut Connection, rows: &[(u64, u64)]) -> Result<(), StoreError> {
    if rows.is_empty() {
        return Ok(());
    }
    let transaction = connection.transaction()?;
    for (delivery, message) in rows {
        transaction
            .prepare_cached("DELETE FROM history WHERE number = ?")?
            .execute([signed(*delivery)])?;
        write::release(&transaction, *message, 1, 0)?;
    }
    Ok(transaction.commit()?)
}

fn pages_used(connection: &Connection) -> Result<u64, StoreError> {
    let count = |sql| read_single(connection, sql, |row| number(row, 0));
    Ok(count("PRAGMA page_count")? - count("PRAGMA freelist_count")?)
}

#[cfg(test)]
mod tests {
    use super::*;
    use protocol::record::LastNumbers;
    use write::Written;

    #[test]
    fn large_backlog_no_longer_grows_in_a_busy_store() {
        let mut sweep = Sweep::default();
        let (mut message, mut largest) = (0, 0);
        for per_transaction in [1, 7, 512] {
            for _ in 0..2 * BACKLOG_MAX / per_transaction {
                message += per_transaction;
                let last = LastNumbers { message, ..LastNumbers::default() };
                let written = Written { last, ..Written::default() };
                sweep.note(&written, 2 * per_transaction as usize);
                while sweep.is_due() {
                    sweep.indexed += STEP_ROWS as u64;
                }
                largest = largest.max(sweep.backlog());
            }
        }
        assert!(largest >= BACKLOG_MAX, "the bound is reached: {largest}");
        assert!(largest <= BACKLOG_MAX + 512 + STEP_ROWS as u64, "{largest}");
    }

    #[test]
    fn ids_do_not_fall_behind_a_constant_fan_out() {
        let mut sweep = Sweep::default();
        let (mut last, mut largest) = (LastNumbers::default(), 0);
        for _ in 0..1_000 {
            (last.message, last.delivery) = (last.message + 1, last.delivery + 500);
            sweep.note(&Written { last, ..Written::default() }, 1);
            while sweep.is_due() {
                sweep.indexed = sweep.last_message;
                sweep.listed += STEP_ROWS as u64;
            }
            largest = largest.max(sweep.unlisted());
        }
        assert!(largest >= UNLISTED_BUSY + BACKLOG_MAX, "the bound is reached: {largest}");
        assert!(largest <= UNLISTED_BUSY + BACKLOG_MAX + 2 * 500, "{largest}");
    }

    #[test]
    fn dedup_records_over_their_limit_count_as_backlog() {
        let mut sweep = Sweep::default();
        let dedup = [(1, BACKLOG_MAX as usize)].into();
        sweep.note(&Written { dedup, ..Written::default() }, CHANGES_BETWEEN);
        assert!(sweep.is_due() && !sweep.is_due());
    }
}
