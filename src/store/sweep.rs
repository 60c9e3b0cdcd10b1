//! Work for idle times: words are indexed, ended deliveries move to the history, and old ones are
//! deleted. The work is done in small steps, since a SEND that arrives during a step waits for its
//! end.

use super::{
    error::StoreError,
    file::PAGE_BYTES,
    index,
    job::Settings,
    row::{self, number, read_single, signed},
    write,
};
use crate::record::Image;
use rusqlite::{Connection, params};
use std::collections::{BTreeMap, BTreeSet, VecDeque};

/// The most rows that a step writes.
const STEP_ROWS: usize = 128;

/// The bytes of indexed messages after which a step ends.
const STEP_BYTES: usize = 256 << 10;

/// The most rows that a step reads in search of rows to change.
const SCAN_ROWS: usize = 4_096;

/// The most ended deliveries whose numbers are remembered. The others are found by a scan of the
/// table.
const ENDED_MAX: usize = 65_536;

/// The backlog from which steps are also done while the store is busy.
const BACKLOG_MIN: u64 = 4_096;

/// The number of transactions between two steps while the store is busy.
const GROUPS_BETWEEN: u32 = 64;

/// The number of a sender's new dedup records after which its old ones are deleted.
const DEDUP_BETWEEN: usize = 512;

/// The most senders whose new dedup records are counted.
const COUNTED_MAX: usize = 8_192;

/// The number of changes after which the log is checkpointed in an idle time.
const CHECKPOINT_CHANGES: usize = 2_048;

/// The most messages that are indexed before a search.
const SEARCH_MAX: usize = 20_000;

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
    /// The highest message number.
    last_message: u64,
    /// The number of new dedup records by sender.
    dedup: BTreeMap<u64, usize>,
    /// Senders with too many dedup records.
    over_limit: BTreeSet<u64>,
    /// The hour of the last complete search of the history for old deliveries.
    aged: Option<u64>,
    /// The number of the delivery that the current search for old deliveries has reached.
    aging: u64,
    /// Changes since the log's last checkpoint.
    logged: usize,
    /// Transactions since the last step that was done while the store was busy.
    groups: u32,
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
        let mut sweep = Self { last_message: image.last.message, ..Self::default() };
        let mut dedup: BTreeMap<u64, usize> = BTreeMap::new();
        for record in image.dedup.values() {
            *dedup.entry(record.sender).or_default() += 1;
        }
        let over_limit = dedup.into_iter().filter(|(_, count)| *count > settings.dedup_max);
        sweep.over_limit = over_limit.map(|(sender, _)| sender).collect();
        sweep.restart(connection)?;
        Ok(sweep)
    }

    /// Starts over on a file that was opened anew.
    pub(super) fn restart(&mut self, connection: &Connection) -> Result<(), StoreError> {
        self.ended.clear();
        self.unlisted_after = Some(0);
        self.indexed = read_single(connection, "SELECT indexed FROM meta", |row| number(row, 0))?;
        self.aged = None;
        self.pages = None;
        Ok(())
    }

    /// Notes what a transaction wrote.
    pub(super) fn note(&mut self, written: &write::Written, changes: usize) {
        self.last_message = written.last.message;
        self.logged += changes;
        self.groups = self.groups.saturating_add(1);
        self.no_space = false;
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
                self.dedup.remove(sender);
                self.over_limit.insert(*sender);
            }
        }
        if self.dedup.len() > COUNTED_MAX {
            self.over_limit.extend(std::mem::take(&mut self.dedup).into_keys());
        }
    }

    /// Whether there is work for an idle store.
    pub(super) fn has_work(&self, unix_ms: u64) -> bool {
        let history = self.indexed < self.last_message
            || !self.ended.is_empty()
            || self.unlisted_after.is_some();
        history && !self.no_space
            || !self.over_limit.is_empty()
            || self.aged != Some(unix_ms / HOUR_MS)
            || self.logged >= CHECKPOINT_CHANGES
    }

    /// Whether a step is due although the store is busy.
    pub(super) fn is_due(&mut self) -> bool {
        let behind = self.last_message - self.indexed.min(self.last_message);
        let due = self.groups >= GROUPS_BETWEEN && behind + self.ended.len() as u64 >= BACKLOG_MIN;
        if due {
            self.groups = 0;
        }
        due
    }

    /// Does one step.
    pub(super) fn step(
        &mut self,
        connection: &mut Connection,
        settings: &Settings,
        unix_ms: u64,
    ) -> Result<(), StoreError> {
        self.pages = None;
        // If there is no space for the history, no delivery is moved there.
        self.no_space = !self.free_space(connection, settings, STEP_BYTES)?;
        if !self.no_space && (self.index_some(connection)? | self.move_some(connection)?) {
            return Ok(());
        }
        if self.delete_dedup(connection, settings)?
            || self.delete_old(connection, settings, unix_ms)?
        {
            return Ok(());
        }
        if self.logged >= CHECKPOINT_CHANGES {
            connection.query_row("PRAGMA wal_checkpoint(PASSIVE)", [], |_| Ok(()))?;
        }
        self.logged = 0;
        Ok(())
    }

    /// Indexes the messages that a search would miss.
    pub(super) fn index_all(&mut self, connection: &mut Connection) -> Result<(), StoreError> {
        for _ in 0..SEARCH_MAX / STEP_ROWS {
            if !self.index_some(connection)? {
                break;
            }
        }
        Ok(())
    }

    /// Frees space for messages by deleting the oldest ended deliveries. A reserve is left for
    /// changes that must not be refused.
    pub(super) fn free_space(
        &mut self,
        connection: &mut Connection,
        settings: &Settings,
        bytes: usize,
    ) -> Result<bool, StoreError> {
        self.free_space_above(connection, settings, bytes, reserve(settings))
    }

    /// Frees space for notices, which may use half of the reserve.
    pub(super) fn free_space_for_notices(
        &mut self,
        connection: &mut Connection,
        settings: &Settings,
        bytes: usize,
    ) -> Result<bool, StoreError> {
        self.free_space_above(connection, settings, bytes, reserve(settings) / 2)
    }

    fn free_space_above(
        &mut self,
        connection: &mut Connection,
        settings: &Settings,
        bytes: usize,
        reserve: u64,
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
            if !self.delete_oldest(connection)? {
                return Ok(false);
            }
        }
    }

    /// Indexes the words of some messages. Returns false if all messages are indexed.
    fn index_some(&mut self, connection: &mut Connection) -> Result<bool, StoreError> {
        if self.indexed >= self.last_message {
            return Ok(false);
        }
        let transaction = connection.transaction()?;
        let mut last = self.last_message;
        {
            let mut statement = transaction.prepare_cached(
                "SELECT number, shared FROM message WHERE number > ? ORDER BY number",
            )?;
            let mut rows = statement.query([signed(self.indexed)])?;
            let (mut count, mut bytes) = (0, 0);
            while let Some(row) = rows.next()? {
                let (number, shared) = (number(row, 0)?, row::blob(row, 1)?);
                index::index_words(&transaction, number, shared)?;
                (count, bytes) = (count + 1, bytes + shared.len());
                if count >= STEP_ROWS || bytes >= STEP_BYTES {
                    last = number;
                    break;
                }
            }
        }
        transaction.execute("UPDATE meta SET indexed = ?", [signed(last)])?;
        transaction.commit()?;
        self.indexed = last;
        Ok(true)
    }

    /// Moves some ended deliveries to the history. Returns false if there are none.
    fn move_some(&mut self, connection: &mut Connection) -> Result<bool, StoreError> {
        let ended = self.take_ended(connection)?;
        let Some(ended) = ended else { return Ok(false) };
        let transaction = connection.transaction()?;
        for number in ended {
            index::move_to_history(&transaction, number)?;
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
        let Some(sender) = self.over_limit.first().copied() else { return Ok(false) };
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
        if deleted < STEP_ROWS {
            self.over_limit.remove(&sender);
        }
        Ok(true)
    }

    /// Searches a part of the history for deliveries that are too old, and deletes these. Returns
    /// false once this hour's search is complete.
    fn delete_old(
        &mut self,
        connection: &mut Connection,
        settings: &Settings,
        unix_ms: u64,
    ) -> Result<bool, StoreError> {
        let hour = unix_ms / HOUR_MS;
        if self.aged == Some(hour) {
            return Ok(false);
        }
        let (mut seen, mut old) = (0, Vec::new());
        {
            let mut statement = connection.prepare_cached(
                "SELECT number, message, ended_ms FROM history WHERE number > ? ORDER BY number",
            )?;
            let mut rows = statement.query([signed(self.aging)])?;
            while let Some(row) = rows.next()? {
                self.aging = number(row, 0)?;
                if number(row, 2)?.saturating_add(settings.history_ms) < unix_ms {
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
        delete(connection, &old)?;
        Ok(true)
    }

    /// Deletes the oldest ended deliveries. Returns false if there are none.
    fn delete_oldest(&mut self, connection: &mut Connection) -> Result<bool, StoreError> {
        let mut oldest = Vec::new();
        {
            let mut statement = connection
                .prepare_cached("SELECT number, message FROM history ORDER BY number LIMIT ?")?;
            let mut rows = statement.query([STEP_ROWS as u32])?;
            while let Some(row) = rows.next()? {
                oldest.push((number(row, 0)?, number(row, 1)?));
            }
        }
        if !oldest.is_empty() {
            delete(connection, &oldest)?;
            return Ok(true);
        }
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
