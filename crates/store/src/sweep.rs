//! Work for idle times: old deliveries and dedup records are deleted, and words are indexed once
//! somebody has searched. The work is done in small steps, since a SEND that arrives during a step
//! waits for its end.

mod forget;
mod indexing;

use super::{
    error::StoreError,
    file::{self, PAGE_BYTES},
    holder::{self, Charges},
    job::Settings,
    row::{self, number, read_single, signed},
    words, write,
};
use protocol::{Moment, record::Image};
use rusqlite::{Connection, params};
use std::collections::BTreeMap;

/// The most rows that a step writes.
const STEP_ROWS: usize = 128;

/// The bytes of indexed texts, and of the messages that were read for them, after which a step
/// ends. To index a text takes some hundred times as long as to read it.
const STEP_BYTES: usize = words::INDEXED_BYTES_MAX;
const STEP_READ_BYTES: usize = 1 << 20;

/// The bytes that the index needs for a step at most.
const INDEX_BYTES: usize = 8 * (STEP_BYTES + words::INDEXED_BYTES_MAX);

/// The most rows that a step reads in search of rows to change.
const SCAN_ROWS: usize = 4_096;

/// The dedup records over their limits from which steps are also done while the store is busy. It
/// bounds what the next start reads.
const BACKLOG_MAX: usize = 65_536;

/// The number of a sender's new dedup records after which its old ones are deleted.
const DEDUP_BETWEEN: usize = 512;

/// The most senders whose new dedup records are counted.
const COUNTED_MAX: usize = 8_192;

/// The number of changes after which the log is checkpointed in an idle time.
const CHECKPOINT_CHANGES: usize = 2_048;

pub(super) const HOUR_MS: u64 = 3_600_000;

/// The work to be done.
#[derive(Debug, Default)]
pub(super) struct Sweep {
    /// The number up to which messages are indexed; 0 until somebody searches.
    indexed: u64,
    /// The highest number of a message.
    last_message: u64,
    /// The number of new dedup records by sender.
    dedup: BTreeMap<u64, usize>,
    /// Senders that may have too many dedup records, and how many they have too many at most.
    over_limit: BTreeMap<u64, usize>,
    /// The sum of these numbers.
    over_limit_total: usize,
    /// The hour of the last complete search for old deliveries.
    aged: Option<u64>,
    /// The number of the delivery that the current search for old deliveries has reached.
    aging: u64,
    /// Whether the index may have words of deleted messages, and the log their texts.
    has_deleted: bool,
    /// Whether the index is being rewritten, and the hour in which that was last completed.
    merging: bool,
    merged: Option<u64>,
    /// Whether deleted texts are only in the log.
    emptying: bool,
    /// Changes since the log's last checkpoint.
    logged: usize,
    /// An upper bound of the pages in use; unknown at first and after a step.
    pages: Option<u64>,
    /// The holder whose deliveries were deleted last to free space, and the last of these.
    emptied: Option<(String, u64)>,
    /// Whether the last step found no space for the index; false again after a transaction.
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
        for (sender, count) in dedup {
            sweep.note_over_limit(sender, count.saturating_sub(settings.dedup_max));
        }
        sweep.restart(connection)?;
        Ok(sweep)
    }

    /// Starts over on a file that was opened again.
    pub(super) fn restart(&mut self, connection: &Connection) -> Result<(), StoreError> {
        self.indexed = read_single(connection, "SELECT indexed FROM meta", |row| number(row, 0))?;
        self.emptied = None;
        (self.aged, self.aging) = (None, 0);
        // The last daemon may have ended before it forgot the words.
        (self.has_deleted, self.merging, self.merged) = (true, false, None);
        self.emptying = false;
        self.pages = None;
        Ok(())
    }

    /// Notes what a transaction wrote.
    pub(super) fn note(&mut self, written: &write::Written, changes: usize) {
        self.last_message = written.last.message;
        self.logged += changes;
        self.no_space = false;
        self.has_deleted |= written.has_erased;
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
        self.is_behind() && !self.no_space
            || !self.over_limit.is_empty()
            || self.aged != Some(now.0 / HOUR_MS)
            || self.is_merge_due(now)
            || self.logged >= CHECKPOINT_CHANGES
    }

    /// Whether the index lacks words of messages, if there is one.
    const fn is_behind(&self) -> bool {
        self.indexed > 0 && self.indexed < self.last_message
    }

    /// Whether a step is due although the store is busy.
    pub(super) const fn is_due(&self) -> bool {
        self.over_limit_total >= BACKLOG_MAX
    }

    /// Does one step.
    pub(super) fn step(
        &mut self,
        connection: &mut Connection,
        settings: &Settings,
        now: Moment,
    ) -> Result<(), StoreError> {
        self.pages = None;
        // Dedup records do not wait for an end of the other work, which may not come.
        if self.delete_dedup(connection, settings)? {
            return Ok(());
        }
        if self.is_behind() {
            // The index does not grow into a store that is nearly full: searches do without it.
            self.no_space = !has_room(connection, settings, INDEX_BYTES)?;
            if !self.no_space && self.index_some(connection)? {
                return Ok(());
            }
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
        let needed = pages_for(bytes);
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
            if !self.delete_oldest(connection, missing)? {
                return Ok(false);
            }
        }
    }

    /// Begins the index of words, unless it is begun.
    pub(super) fn begin_index(
        &mut self,
        connection: &mut Connection,
        settings: &Settings,
    ) -> Result<(), StoreError> {
        if self.indexed == 0 && has_room(connection, settings, INDEX_BYTES)? {
            self.index_some(connection)?;
        }
        Ok(())
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
                         SELECT 1 FROM delivery WHERE message = old.message AND ending = 0
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

    /// Searches some ended deliveries for those that are too old, and deletes these. Returns false
    /// once this hour's search is complete.
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
                "SELECT number, ending, ended FROM delivery WHERE number > ? ORDER BY number",
            )?;
            let mut rows = statement.query([signed(self.aging)])?;
            while let Some(row) = rows.next()? {
                self.aging = number(row, 0)?;
                if !row::is_open(row, 1)?
                    && number(row, 2)?.saturating_add(settings.history_ms) < now.0
                {
                    old.push(self.aging);
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

    /// Deletes the oldest ended deliveries of the holder of the most bytes, about `bytes` of them
    /// at most. Returns false if there are none.
    fn delete_oldest(
        &mut self,
        connection: &mut Connection,
        bytes: u64,
    ) -> Result<bool, StoreError> {
        while let Some(holder) = holder::largest(connection)? {
            // Open ones, which stay, are not read again and again. Guests have few of these.
            let after = match self.emptied.take() {
                Some((last, after)) if last == holder && holder != holder::GUESTS => after,
                _ => 0,
            };
            let oldest = oldest_of(connection, &holder, after, bytes)?;
            let Some(last) = oldest.last().copied() else {
                if after == 0 {
                    holder::remove(connection, &holder)?;
                }
                continue;
            };
            self.has_deleted = true;
            delete(connection, &oldest)?;
            self.emptied = Some((holder, last));
            return Ok(true);
        }
        Ok(false)
    }
}

/// Some ended deliveries of a holder, about `bytes` of them at most, the oldest first; of guests,
/// those of one guest after another. Those up to number `after` are passed over.
fn oldest_of(
    connection: &Connection,
    holder: &str,
    after: u64,
    bytes: u64,
) -> Result<Vec<u64>, StoreError> {
    let mut statement = connection.prepare_cached(&format!(
        "SELECT number, bytes FROM delivery INDEXED BY delivery_sender
         WHERE {} AND number > ?2 AND ending <> 0 LIMIT ?3",
        holder::has_sender(holder)
    ))?;
    let mut rows = statement.query(params![holder, signed(after), STEP_ROWS as u32])?;
    let (mut oldest, mut freed) = (Vec::new(), 0);
    while let Some(row) = rows.next()?
        && freed < bytes
    {
        oldest.push(number(row, 0)?);
        freed += number(row, 1)?;
    }
    Ok(oldest)
}

/// The number of pages that are reserved for changes that must not be refused.
fn reserve(settings: &Settings) -> u64 {
    (settings.bytes_max / PAGE_BYTES / 16).clamp(32, 4_096)
}

/// Deletes ended deliveries, and the messages that no other delivery refers to.
fn delete(connection: &mut Connection, deliveries: &[u64]) -> Result<(), StoreError> {
    if deliveries.is_empty() {
        return Ok(());
    }
    let transaction = connection.transaction()?;
    let mut charges = Charges::default();
    for delivery in deliveries {
        let sql = "DELETE FROM delivery WHERE number = ? RETURNING sender_name, bytes, message";
        let mut statement = transaction.prepare_cached(sql)?;
        let mut rows = statement.query([signed(*delivery)])?;
        while let Some(row) = rows.next()? {
            charges.release(row)?;
            write::delete_unused(&transaction, number(row, 2)?)?;
        }
    }
    charges.write(&transaction)?;
    Ok(transaction.commit()?)
}

/// Whether a number of bytes fit, so that the index of words leaves a quarter of the store free.
fn has_room(
    connection: &Connection,
    settings: &Settings,
    bytes: usize,
) -> Result<bool, StoreError> {
    let pages = settings.bytes_max / PAGE_BYTES;
    Ok(pages_used(connection)? + pages_for(bytes) <= pages / 4 * 3)
}

/// The pages for a number of bytes. Pages are not filled completely.
const fn pages_for(bytes: usize) -> u64 {
    bytes as u64 * 5 / 4 / PAGE_BYTES + 8
}

fn pages_used(connection: &Connection) -> Result<u64, StoreError> {
    let count = |sql| read_single(connection, sql, |row| number(row, 0));
    Ok(count("PRAGMA page_count")? - count("PRAGMA freelist_count")?)
}

#[cfg(test)]
mod tests {
    use super::*;
    use write::Written;

    #[test]
    fn dedup_records_over_their_limit_are_deleted_in_a_busy_store() {
        let mut sweep = Sweep::default();
        let dedup = |count| Written { dedup: [(1, count)].into(), ..Written::default() };
        sweep.note(&dedup(BACKLOG_MAX - 1), 1);
        assert!(!sweep.is_due());
        sweep.note(&dedup(DEDUP_BETWEEN), 1);
        assert!(sweep.is_due());
    }
}
