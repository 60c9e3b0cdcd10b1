//! What is done when nothing else is: words are indexed, what is over moves to the history, what is old
//! is forgotten. In small steps, since whoever sends meanwhile waits for the end of one.

use super::{Settings, file::PAGE_BYTES, image::one, row, said, trouble::Trouble, write};
use crate::record::Image;
use row::{number, signed};
use rusqlite::{Connection, params};
use std::collections::{BTreeMap, BTreeSet, VecDeque};

/// Rows in a step.
const STEP_ROWS: usize = 128;

/// Bytes of messages that a step indexes.
const STEP_BYTES: usize = 256 << 10;

/// Rows that a step reads only.
const SCAN_ROWS: usize = 4_096;

/// Ended deliveries that are remembered by number. If there are more, they are looked for.
const ENDED_MAX: usize = 65_536;

/// From so much work on, it is also done between groups that leave no pause: after each so many.
const BEHIND: u64 = 4_096;
const GROUPS_BETWEEN: u32 = 64;

/// New doubles of a sender before its old ones are forgotten.
const DOUBLES_BETWEEN: usize = 512;

/// Senders whose doubles are counted.
const COUNTED_MAX: usize = 8_192;

/// Changes after which the log is carried over in a pause.
const CHECKPOINT_CHANGES: usize = 2_048;

/// Messages that are indexed at most before a search.
const SEARCH_MAX: usize = 20_000;

pub(super) const HOUR_MS: u64 = 3_600_000;

/// What there is to sweep.
#[derive(Debug, Default)]
pub(super) struct Sweep {
    /// Deliveries that ended.
    ended: VecDeque<u64>,
    /// There may be others after this one.
    unlisted_after: Option<u64>,
    /// Messages up to this one are indexed.
    indexed: u64,
    /// The highest message.
    last_message: u64,
    /// New doubles by sender.
    doubles: BTreeMap<u64, usize>,
    /// Senders with too many.
    crowded: BTreeSet<u64>,
    /// The hour in which the history was last looked through for what is too old.
    aged: Option<u64>,
    /// How far that has come.
    aging: u64,
    /// Changes since the log was last carried over.
    logged: usize,
    /// Groups since the last step.
    groups: u32,
    /// Pages in use, at most; unknown at first, and after a step.
    pages: Option<u64>,
    /// There is no room for a history until something else changes.
    cramped: bool,
}

impl Sweep {
    /// For a store with this image.
    pub(super) fn new(
        connection: &Connection,
        settings: &Settings,
        image: &Image,
    ) -> Result<Self, Trouble> {
        let mut sweep = Self { last_message: image.last.message, ..Self::default() };
        let mut doubles: BTreeMap<u64, usize> = BTreeMap::new();
        for double in image.dedup.values() {
            *doubles.entry(double.sender).or_default() += 1;
        }
        let crowded = doubles.into_iter().filter(|(_, count)| *count > settings.doubles_max);
        sweep.crowded = crowded.map(|(sender, _)| sender).collect();
        sweep.restart(connection)?;
        Ok(sweep)
    }

    /// Looks at the file anew.
    pub(super) fn restart(&mut self, connection: &Connection) -> Result<(), Trouble> {
        self.ended.clear();
        self.unlisted_after = Some(0);
        self.indexed = one(connection, "SELECT indexed FROM meta", |row| number(row, 0))?;
        self.aged = None;
        self.pages = None;
        Ok(())
    }

    /// Hears of what a transaction wrote.
    pub(super) fn note(&mut self, written: &write::Written, changes: usize) {
        self.last_message = written.last.message;
        self.logged += changes;
        self.groups = self.groups.saturating_add(1);
        self.cramped = false;
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
        for (sender, new) in &written.doubles {
            let count = self.doubles.entry(*sender).or_default();
            *count += new;
            if *count >= DOUBLES_BETWEEN {
                self.doubles.remove(sender);
                self.crowded.insert(*sender);
            }
        }
        if self.doubles.len() > COUNTED_MAX {
            self.crowded.extend(std::mem::take(&mut self.doubles).into_keys());
        }
    }

    /// Whether there is anything to do in a pause.
    pub(super) fn has_work(&self, unix_ms: u64) -> bool {
        let history = self.indexed < self.last_message
            || !self.ended.is_empty()
            || self.unlisted_after.is_some();
        history && !self.cramped
            || !self.crowded.is_empty()
            || self.aged != Some(unix_ms / HOUR_MS)
            || self.logged >= CHECKPOINT_CHANGES
    }

    /// Whether it is time for a step although there is no pause.
    pub(super) fn is_due(&mut self) -> bool {
        let behind = self.last_message - self.indexed.min(self.last_message);
        let due = self.groups >= GROUPS_BETWEEN && behind + self.ended.len() as u64 >= BEHIND;
        if due {
            self.groups = 0;
        }
        due
    }

    /// Does a little of what there is to do.
    pub(super) fn step(
        &mut self,
        connection: &mut Connection,
        settings: &Settings,
        unix_ms: u64,
    ) -> Result<(), Trouble> {
        self.pages = None;
        // Where there is no room for a history, there is nothing to move either.
        self.cramped = !self.make_room(connection, settings, STEP_BYTES)?;
        if !self.cramped && (self.index_some(connection)? | self.move_some(connection)?) {
            return Ok(());
        }
        if self.forget_doubles(connection, settings)? || self.age(connection, settings, unix_ms)? {
            return Ok(());
        }
        if self.logged >= CHECKPOINT_CHANGES {
            connection.query_row("PRAGMA wal_checkpoint(PASSIVE)", [], |_| Ok(()))?;
        }
        self.logged = 0;
        Ok(())
    }

    /// Indexes what a search would miss.
    pub(super) fn index_all(&mut self, connection: &mut Connection) -> Result<(), Trouble> {
        for _ in 0..SEARCH_MAX / STEP_ROWS {
            if !self.index_some(connection)? {
                break;
            }
        }
        Ok(())
    }

    /// Sees that there is room for so many bytes of messages, by forgetting the oldest that are over.
    /// The last of the room is for what must not be refused.
    pub(super) fn make_room(
        &mut self,
        connection: &mut Connection,
        settings: &Settings,
        bytes: usize,
    ) -> Result<bool, Trouble> {
        self.make_room_before(connection, settings, bytes, reserve(settings))
    }

    /// The same for answers, which are still taken where messages are not.
    pub(super) fn make_room_for_answers(
        &mut self,
        connection: &mut Connection,
        settings: &Settings,
        bytes: usize,
    ) -> Result<bool, Trouble> {
        self.make_room_before(connection, settings, bytes, reserve(settings) / 2)
    }

    fn make_room_before(
        &mut self,
        connection: &mut Connection,
        settings: &Settings,
        bytes: usize,
        reserve: u64,
    ) -> Result<bool, Trouble> {
        let pages = settings.bytes_max / PAGE_BYTES;
        // Pages are not filled to the brim.
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
            if !self.forget_oldest(connection)? {
                return Ok(false);
            }
        }
    }

    /// Indexes the next messages; false if there are none.
    fn index_some(&mut self, connection: &mut Connection) -> Result<bool, Trouble> {
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
                index(&transaction, number, shared)?;
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

    /// Moves some of what is over to the history; false if there is nothing.
    fn move_some(&mut self, connection: &mut Connection) -> Result<bool, Trouble> {
        let ended = self.take_ended(connection)?;
        let Some(ended) = ended else { return Ok(false) };
        let transaction = connection.transaction()?;
        for number in ended {
            move_one(&transaction, number)?;
        }
        transaction.commit()?;
        Ok(true)
    }

    /// Some deliveries that ended; none if there are no more.
    fn take_ended(&mut self, connection: &Connection) -> Result<Option<Vec<u64>>, Trouble> {
        if self.ended.is_empty() {
            let Some(after) = self.unlisted_after else { return Ok(None) };
            self.unlisted_after = self.list_ended(connection, after)?;
        }
        Ok(Some(self.ended.drain(..STEP_ROWS.min(self.ended.len())).collect()))
    }

    /// Looks for deliveries that ended among some rows; says after which to go on.
    fn list_ended(&mut self, connection: &Connection, after: u64) -> Result<Option<u64>, Trouble> {
        let mut statement = connection.prepare_cached(
            "SELECT number, ending FROM delivery WHERE number > ? ORDER BY number LIMIT ?",
        )?;
        let mut rows = statement.query(params![signed(after), SCAN_ROWS as u32])?;
        let (mut last, mut count) = (after, 0);
        while let Some(row) = rows.next()? {
            last = number(row, 0)?;
            count += 1;
            if row.get::<_, i64>(1)? != row::OPEN {
                self.ended.push_back(last);
            }
        }
        Ok((count == SCAN_ROWS).then_some(last))
    }

    /// Forgets the oldest doubles of a sender that has too many; false if none has.
    fn forget_doubles(
        &mut self,
        connection: &mut Connection,
        settings: &Settings,
    ) -> Result<bool, Trouble> {
        let Some(sender) = self.crowded.first().copied() else { return Ok(false) };
        let forgotten = connection
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
                signed(settings.doubles_max as u64),
                STEP_ROWS as u32
            ])?;
        if forgotten < STEP_ROWS {
            self.crowded.remove(&sender);
        }
        Ok(true)
    }

    /// Forgets what is too old, once an hour; false if all of that is done.
    fn age(
        &mut self,
        connection: &mut Connection,
        settings: &Settings,
        unix_ms: u64,
    ) -> Result<bool, Trouble> {
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
        forget(connection, &old)?;
        Ok(true)
    }

    /// Forgets the oldest of what is over; false if nothing is.
    fn forget_oldest(&mut self, connection: &mut Connection) -> Result<bool, Trouble> {
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
            forget(connection, &oldest)?;
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

/// Pages that no message gets.
fn reserve(settings: &Settings) -> u64 {
    (settings.bytes_max / PAGE_BYTES / 16).clamp(32, 4_096)
}

/// Puts a message's words into the index.
pub(super) fn index(connection: &Connection, number: u64, shared: &[u8]) -> rusqlite::Result<()> {
    let Some(body) = said::body(shared) else { return Ok(()) };
    connection
        .prepare_cached("INSERT OR REPLACE INTO words (rowid, body) VALUES (?, ?)")?
        .execute(params![signed(number), body])
        .map(drop)
}

/// Moves a delivery to the history, if it is over and not there already.
fn move_one(connection: &Connection, delivery: u64) -> Result<(), Trouble> {
    let mut statement = connection.prepare_cached(
        "SELECT message, name, send_id, shared FROM delivery
         LEFT JOIN message ON message.number = delivery.message
         WHERE delivery.number = ? AND ending <> 0",
    )?;
    let mut rows = statement.query([signed(delivery)])?;
    let Some(row) = rows.next()? else { return Ok(()) };
    let message: i64 = row.get(0)?;
    let to: String = row.get(1)?;
    let send_id: Option<String> = row.get(2)?;
    let (from, topic) =
        said::head(row.get_ref(3)?.as_blob().unwrap_or_default()).unwrap_or_default();
    connection
        .prepare_cached(&format!(
            "INSERT OR REPLACE INTO history
             SELECT {}, ?2, ?3, ?4, ?5 FROM delivery WHERE number = ?1",
            row::DELIVERY
        ))?
        .execute(params![
            signed(delivery),
            key(from),
            key(&to),
            topic,
            send_id.unwrap_or_default()
        ])?;
    connection
        .prepare_cached("DELETE FROM delivery WHERE number = ?")?
        .execute([signed(delivery)])?;
    connection
        .prepare_cached("UPDATE message SET hot = hot - 1, cold = cold + 1 WHERE number = ?")?
        .execute([message])?;
    Ok(())
}

/// Drops rows of the history, given with their messages.
fn forget(connection: &mut Connection, rows: &[(u64, u64)]) -> Result<(), Trouble> {
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

fn pages_used(connection: &Connection) -> Result<u64, Trouble> {
    let count = |sql| one(connection, sql, |row| number(row, 0));
    Ok(count("PRAGMA page_count")? - count("PRAGMA freelist_count")?)
}

/// A name in the form in which equal names are equal.
pub(super) fn key(name: &str) -> String {
    name.to_ascii_lowercase()
}
