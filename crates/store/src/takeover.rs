//! The takeover of a file of an older version: its content is written into a new file, which then
//! gets its name. The older file is kept as it was.
//!
//! A crash leaves the older file alone, or both files complete, and the next start goes on.

use super::{
    error::StoreError,
    file::{self, with_suffix},
    holder::Charges,
    row::{self, IdForm, OfMessage, Stored, number, signed},
    save::{remove, sync_names},
    schema::{self, CURRENT, FIRST},
};
use platform::paths::open_private_file;
use protocol::record::{
    AgentRecord, DedupRecord, NoticeRecord, QuestionRecord, SessionRecord, StreamRecord,
};
use rusqlite::{Connection, Row, Rows, params_from_iter, types::Value};
use std::{
    fs,
    path::{Path, PathBuf},
};

/// How far a takeover is.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Progress {
    /// The rows that are in the new file.
    pub done: u64,
    /// About how many the older file has.
    pub all: u64,
}

/// A receiver of the progress.
pub(super) type Progressed<'a> = &'a mut dyn FnMut(Progress);

/// The number of rows between two reports of the progress.
const REPORT_EVERY: u64 = 4_096;

/// The suffix of the new file while it is written.
const DRAFT: &str = ".taking-over";

/// Writes the content of a file of the version `found` into a new one, which gets its name. A
/// failure changes nothing.
pub(super) fn take_over(
    old: Connection,
    path: &Path,
    found: u32,
    progressed: Progressed<'_>,
) -> Result<TakenOver, StoreError> {
    let draft = with_suffix(path, DRAFT);
    remove(&draft)?;
    let complete = complete(path, found);
    let size = fs::metadata(path)?.len();
    let taken = write_draft(&old, found, &draft, progressed)
        // The last checkpoint empties the log, so that the older file has everything.
        .and_then(|skipped| file::close(old).map(|()| skipped))
        .and_then(|skipped| Ok(fs::rename(&draft, &complete).map(|()| skipped)?));
    let skipped = taken.map_err(|error| {
        // That error says more than one of the removal.
        drop(fs::remove_file(&draft));
        if error.is_full() { StoreError::NoRoom(size) } else { error }
    })?;
    sync_names(path)?;
    let kept = file::unused_name(path, &kept_suffix(found));
    file::rename_all(path, &kept)?;
    // The older file has left its place on the disk, too, before another takes that.
    sync_names(path)?;
    fs::rename(&complete, path)?;
    sync_names(path)?;
    Ok(TakenOver { kept, skipped })
}

/// An older file that was taken over.
pub(super) struct TakenOver {
    /// The path at which it is kept.
    pub(super) kept: PathBuf,
    /// The number of ended deliveries that could not be read.
    pub(super) skipped: u64,
}

/// The path of a complete new file that has the content of a file of this version.
fn complete(path: &Path, found: u32) -> PathBuf {
    with_suffix(path, &format!(".of-v{found}"))
}

/// The suffix of an older file that is kept.
fn kept_suffix(found: u32) -> String {
    format!(".before-v{found}")
}

/// Goes on after a takeover that was cut short. A new file is used only if the older one is gone
/// from its place: the older version may have written to it since. Returns the path at which the
/// older file is kept, if its content was taken over.
pub(super) fn resume(path: &Path) -> Result<Option<PathBuf>, StoreError> {
    remove(&with_suffix(path, DRAFT))?;
    let Some(found) = (1..FIRST).find(|found| complete(path, *found).exists()) else {
        return Ok(None);
    };
    if path.exists() {
        remove(&complete(path, found))?;
        return Ok(None);
    }
    fs::rename(complete(path, found), path)?;
    sync_names(path)?;
    Ok(file::last_name(path, &kept_suffix(found)))
}

fn write_draft(
    old: &Connection,
    found: u32,
    draft: &Path,
    progressed: Progressed<'_>,
) -> Result<u64, StoreError> {
    let mut new = file::create_draft(draft)?;
    let mut older = Older { old, found, progressed, progress: Progress::default(), skipped: 0 };
    older.write_into(&mut new)?;
    new.close().map_err(|(_, error)| error)?;
    older.tell();
    open_private_file(draft)?.sync_all()?;
    older.tell();
    Ok(older.skipped)
}

/// An older file, and its version.
///
/// - Version 1 had no notices and no questions.
/// - Version 2 had no checksums of deliveries, and its history no times.
/// - Version 4 had no keys of guests, and no former tokens.
/// - Version 5 had open deliveries in the table `delivery`, and moved them to `history` after their
///   end.
struct Older<'a> {
    old: &'a Connection,
    found: u32,
    progressed: Progressed<'a>,
    progress: Progress,
    /// The number of rows that could not be read.
    skipped: u64,
}

/// The consequence of a row that cannot be read.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Unreadable {
    /// The file is damaged, as it always was with such a row.
    Fails,
    /// It is left out: no older version read it at a start.
    IsSkipped,
}

impl Older<'_> {
    fn write_into(&mut self, new: &mut Connection) -> Result<(), StoreError> {
        schema::create(new, &CURRENT)?;
        let (clock, last) = row::find_meta(self.old)?;
        self.count_rows()?;
        let transaction = new.transaction()?;
        self.copy_table::<AgentRecord>(&transaction)?;
        self.copy_table::<SessionRecord>(&transaction)?;
        self.copy_table::<StreamRecord>(&transaction)?;
        self.copy_table::<DedupRecord>(&transaction)?;
        if self.found > 1 {
            self.copy_table::<NoticeRecord>(&transaction)?;
            self.copy_table::<QuestionRecord>(&transaction)?;
        }
        // The ids of these deliveries do not tell their numbers.
        let ids = IdForm { old: last.delivery, ..IdForm::read(&transaction)? };
        ids.write(&transaction)?;
        for (which, unreadable) in [
            ("WHERE number IN (SELECT message FROM delivery WHERE ending = 0)", Unreadable::Fails),
            ("", Unreadable::IsSkipped),
        ] {
            let select = row::select_messages_where(which);
            self.copy(&select, &transaction, &row::insert_message(), unreadable)?;
        }
        let mut charges = Charges::default();
        let open = self.copy_deliveries(&transaction, OPEN, Unreadable::Fails, &mut charges)?;
        for ended in [ENDED, HISTORY] {
            self.copy_deliveries(&transaction, ended, Unreadable::IsSkipped, &mut charges)?;
        }
        charges.write(&transaction)?;
        let open = i64::try_from(open).unwrap_or(i64::MAX);
        transaction.execute(row::UPDATE_META, row::meta_values(clock, &last, open))?;
        self.tell();
        Ok(transaction.commit()?)
    }

    /// Counts the rows of the large tables, for the progress.
    fn count_rows(&mut self) -> Result<(), StoreError> {
        const ALL: &str = "SELECT (SELECT count(*) FROM history)
            + (SELECT count(*) FROM delivery) + (SELECT count(*) FROM message)
            + (SELECT count(*) FROM double)";
        self.progress.all = row::read_single(self.old, ALL, |row| number(row, 0)).unwrap_or(0);
        self.tell();
        Ok(())
    }

    fn tell(&mut self) {
        (self.progressed)(self.progress);
    }

    /// Counts a row.
    fn step(&mut self) {
        self.progress.done += 1;
        if self.progress.done.is_multiple_of(REPORT_EVERY) {
            self.tell();
        }
    }

    /// Copies the rows of a table, also those that are damaged.
    fn copy_table<T: Stored>(&mut self, new: &Connection) -> Result<(), StoreError> {
        // Version 7 has the earlier names of agents.
        let mut select = T::select().replace("earlier", "NULL");
        if self.found < 5 {
            select = select.replace("guest_key", "NULL").replace("former", "NULL");
        }
        self.copy(&select, new, &T::insert(), Unreadable::Fails)
    }

    fn copy(
        &mut self,
        select: &str,
        new: &Connection,
        insert: &str,
        unreadable: Unreadable,
    ) -> Result<(), StoreError> {
        let mut select = self.old.prepare(select)?;
        let mut insert = new.prepare(insert)?;
        let columns = select.column_count();
        let mut rows = select.query([])?;
        while let Some(row) = self.next(&mut rows, unreadable)? {
            let Some(values) = self.read(values(row, columns), unreadable)? else { continue };
            // A message that is copied already is not copied again.
            if insert.execute(params_from_iter(values))? > 0 {
                self.step();
            }
        }
        Ok(())
    }

    /// Copies the deliveries of a part of a table, but for those whose numbers are there. Returns
    /// how many.
    fn copy_deliveries(
        &mut self,
        new: &Connection,
        part: Part,
        unreadable: Unreadable,
        charges: &mut Charges,
    ) -> Result<u64, StoreError> {
        let mut insert = new.prepare(row::INSERT_ROW)?;
        let mut select = self.old.prepare(&self.select_deliveries(part))?;
        let mut rows = select.query([])?;
        let mut count = 0;
        while let Some(row) = self.next(&mut rows, unreadable)? {
            let read = self.delivery(row);
            let Some((values, sender, bytes)) = self.read(read, unreadable)? else { continue };
            if insert.execute(params_from_iter(values))? > 0 {
                count += 1;
                if part != OPEN {
                    charges.add(&sender, bytes);
                }
            }
            self.step();
        }
        Ok(count)
    }

    /// The next row. If it cannot be read and may be left out, so are those after it.
    fn next<'r>(
        &mut self,
        rows: &'r mut Rows<'_>,
        unreadable: Unreadable,
    ) -> Result<Option<&'r Row<'r>>, StoreError> {
        match rows.next() {
            Ok(row) => Ok(row),
            Err(error) => self.read(Err(error.into()), unreadable).map(|_: Option<()>| None),
        }
    }

    /// Returns a value that was read, or `None` if that failed and its row is left out.
    fn read<T>(
        &mut self,
        outcome: Result<T, StoreError>,
        unreadable: Unreadable,
    ) -> Result<Option<T>, StoreError> {
        match outcome {
            Ok(read) => Ok(Some(read)),
            Err(error) if unreadable == Unreadable::Fails => Err(error),
            Err(_) => {
                self.skipped += 1;
                Ok(None)
            }
        }
    }

    /// The values of a delivery's row in the new file, its sender's name, and what the sender is
    /// charged with.
    fn delivery(&self, row: &Row<'_>) -> Result<(Vec<Value>, String, i64), StoreError> {
        let shared = row::optional_blob(row, SHARED)?.unwrap_or_default();
        let checksum = row::integer(row, SHARED + 2)? as u32;
        let of_message = OfMessage::new(checksum, shared, number(row, SHARED + 1)?);
        let values = self.values(row, &of_message)?.collect();
        Ok((values, of_message.sender_name.to_owned(), signed(of_message.bytes)))
    }

    /// The statement that reads the deliveries of a table: their columns, the moments of their
    /// ends, and then of their messages the shared part, the number of deliveries, and the checksum.
    fn select_deliveries(&self, (table, condition): Part) -> String {
        let has_times = self.found > 2;
        let columns = match has_times {
            true => row::DELIVERY.to_owned(),
            false => row::DELIVERY.replace("checksum", "0"),
        };
        // At most thirty days, in case the wall clock had another time.
        let ended = match table {
            "history" if has_times => "moved",
            _ => {
                "(SELECT max(0, monotonic - min(max(unix_ms - ended_ms, 0), 2592000000)) FROM meta)"
            }
        };
        format!(
            "SELECT row.*, shared, coalesce(hot + cold, 1), coalesce(message.checksum, 0)
             FROM (SELECT {columns}, {ended} FROM {table} WHERE {condition} ORDER BY number) AS row
             LEFT JOIN message ON message.number = row.message"
        )
    }

    /// The values of a row of the new file.
    fn values(
        &self,
        row: &Row<'_>,
        of_message: &OfMessage<'_>,
    ) -> Result<impl Iterator<Item = Value>, StoreError> {
        let mut values = values(row, SHARED)?;
        let delivery = row::read_delivery(row);
        values[row::CHECKSUM] = match delivery {
            Ok(delivery) if self.found < 3 || row::is_whole(row, &delivery, None)? => {
                row::delivery_checksum(&delivery, Some(of_message.checksum)).into()
            }
            // No checksum is negative, so the delivery stays damaged.
            _ => Value::Integer(-1),
        };
        let OfMessage { sender_name, topic, bytes, .. } = of_message;
        let topic = topic.as_deref().map_or(Value::Null, |topic| topic.to_owned().into());
        let own = [Value::from((*sender_name).to_owned()), topic, signed(*bytes).into()];
        Ok(values.into_iter().chain(own))
    }
}

/// A table with deliveries, and which of these are meant.
type Part = (&'static str, &'static str);

const OPEN: Part = ("delivery", "ending = 0");
const ENDED: Part = ("delivery", "ending <> 0");
const HISTORY: Part = ("history", "TRUE");

/// The place of the shared part of a delivery's message.
const SHARED: usize = 16;

/// The first values of a row.
fn values(row: &Row<'_>, columns: usize) -> Result<Vec<Value>, StoreError> {
    Ok((0..columns).map(|column| row.get(column)).collect::<Result<_, _>>()?)
}
