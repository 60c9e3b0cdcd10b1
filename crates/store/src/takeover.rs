//! The takeover of a file of an older version: its content is written into a new file, which then
//! gets its name. The older file is kept as it was.
//!
//! A crash leaves the older file alone, or both files complete, and the next start goes on.

use super::{
    error::StoreError,
    file::{self, with_suffix},
    holder::Charges,
    query,
    row::{self, OfMessage, Stored, number, signed},
    save::{remove, sync_names},
    schema::{self, CURRENT, FIRST},
};
use platform::paths::open_private_file;
use protocol::record::{
    AgentRecord, DedupRecord, NoticeRecord, QuestionRecord, SessionRecord, StreamRecord,
};
use rusqlite::{Connection, Row, params_from_iter, types::Value};
use std::{
    fs, io,
    path::{Path, PathBuf},
};

/// How far a takeover is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Progress {
    /// The deliveries that are in the new file.
    pub done: u64,
    /// The deliveries of the older file.
    pub all: u64,
}

/// A receiver of the progress.
pub(super) type Progressed<'a> = &'a mut dyn FnMut(Progress);

/// The number of deliveries between two reports of the progress.
const REPORT_EVERY: u64 = 4_096;

/// The suffix of the new file while it is written.
const DRAFT: &str = ".taking-over";

/// Writes the content of a file of the version `found` into a new one, which gets its name. Returns
/// the path at which the older file is kept. A failure changes nothing.
pub(super) fn take_over(
    old: Connection,
    path: &Path,
    found: u32,
    progressed: Progressed<'_>,
) -> Result<PathBuf, StoreError> {
    let draft = with_suffix(path, DRAFT);
    remove(&draft)?;
    if let Err(error) = write_draft(&Older { connection: &old, found }, &draft, progressed) {
        // That error says more than one of the removal.
        drop(fs::remove_file(&draft));
        return Err(match error.is_full() {
            true => StoreError::NoRoom(fs::metadata(path)?.len()),
            false => error,
        });
    }
    // The last checkpoint empties the log, so that the file has everything.
    file::close(old)?;
    fs::rename(&draft, complete(path, found))?;
    sync_names(path)?;
    finish(path)?.ok_or_else(|| StoreError::Io(io::Error::other("its new file has gone")))
}

/// The path of a complete new file that has the content of a file of this version.
fn complete(path: &Path, found: u32) -> PathBuf {
    with_suffix(path, &format!(".of-v{found}"))
}

/// Gives the new file its name, if a takeover has come that far. Returns the path at which the
/// older file is kept.
pub(super) fn finish(path: &Path) -> Result<Option<PathBuf>, StoreError> {
    let Some(found) = (1..FIRST).find(|found| complete(path, *found).exists()) else {
        return Ok(None);
    };
    let kept = file::unused_name(path, &format!(".before-v{found}"));
    file::rename_all(path, &kept)?;
    fs::rename(complete(path, found), path)?;
    sync_names(path)?;
    Ok(Some(kept))
}

fn write_draft(
    older: &Older<'_>,
    draft: &Path,
    progressed: Progressed<'_>,
) -> Result<(), StoreError> {
    let mut new = file::create_draft(draft)?;
    older.write_into(&mut new, progressed)?;
    new.close().map_err(|(_, error)| error)?;
    Ok(open_private_file(draft)?.sync_all()?)
}

/// An older file, and its version.
///
/// - Version 1 had no notices and no questions.
/// - Version 2 had no checksums of deliveries, and its history no times.
/// - Version 4 had no keys of guests, and no former tokens.
/// - Version 5 had open deliveries in the table `delivery`, and moved them to `history` after their
///   end.
struct Older<'a> {
    connection: &'a Connection,
    found: u32,
}

impl Older<'_> {
    fn write_into(
        &self,
        new: &mut Connection,
        progressed: Progressed<'_>,
    ) -> Result<(), StoreError> {
        schema::create(new, &CURRENT)?;
        let (clock, last) = row::find_meta(self.connection)?;
        let transaction = new.transaction()?;
        self.copy_table::<AgentRecord>(&transaction)?;
        self.copy_table::<SessionRecord>(&transaction)?;
        self.copy_table::<StreamRecord>(&transaction)?;
        self.copy_table::<DedupRecord>(&transaction)?;
        if self.found > 1 {
            self.copy_table::<NoticeRecord>(&transaction)?;
            self.copy_table::<QuestionRecord>(&transaction)?;
        }
        self.copy(&row::select_all_messages(), &transaction, &row::insert_message())?;
        // The ids of these deliveries do not tell their numbers.
        let which = query::old_ids(last.delivery);
        let index = format!("CREATE INDEX delivery_old_id ON delivery (id) WHERE {which}");
        transaction.execute_batch(&index)?;
        transaction.execute("UPDATE meta SET old_ids = ?", [signed(last.delivery)])?;
        let open = self.copy_deliveries(&transaction, progressed)?;
        transaction.execute(row::UPDATE_META, row::meta_values(clock, &last, open))?;
        Ok(transaction.commit()?)
    }

    /// Copies the rows of a table, also those that are damaged.
    fn copy_table<T: Stored>(&self, new: &Connection) -> Result<(), StoreError> {
        let mut select = T::select();
        if self.found < 5 {
            select = select.replace("guest_key", "NULL").replace("former", "NULL");
        }
        self.copy(&select, new, &T::insert())
    }

    fn copy(&self, select: &str, new: &Connection, insert: &str) -> Result<(), StoreError> {
        let mut select = self.connection.prepare(select)?;
        let mut insert = new.prepare(insert)?;
        let columns = select.column_count();
        let mut rows = select.query([])?;
        while let Some(row) = rows.next()? {
            insert.execute(params_from_iter(values(row, columns)?))?;
        }
        Ok(())
    }

    /// Copies open and ended deliveries. Returns how many are open.
    fn copy_deliveries(
        &self,
        new: &Connection,
        progressed: Progressed<'_>,
    ) -> Result<i64, StoreError> {
        const ALL: &str = "SELECT (SELECT count(*) FROM history) + (SELECT count(*) FROM delivery)";
        let all = row::read_single(self.connection, ALL, |row| number(row, 0))?;
        let mut insert = new.prepare(row::INSERT_ROW)?;
        let (mut charges, mut open, mut done) = (Charges::default(), 0, 0);
        for table in ["history", "delivery"] {
            let mut select = self.connection.prepare(&self.select_deliveries(table))?;
            let mut rows = select.query([])?;
            while let Some(row) = rows.next()? {
                if done % REPORT_EVERY == 0 {
                    progressed(Progress { done, all });
                }
                let shared = row::optional_blob(row, SHARED)?.unwrap_or_default();
                let checksum = row::integer(row, SHARED + 2)? as u32;
                let of_message = OfMessage::new(checksum, shared, number(row, SHARED + 1)?);
                insert.execute(params_from_iter(self.values(row, &of_message)?))?;
                if row::is_open(row, 10)? {
                    open += 1;
                } else {
                    charges.add(of_message.sender_name, signed(of_message.bytes));
                }
                done += 1;
            }
        }
        charges.write(new)?;
        progressed(Progress { done, all });
        Ok(open)
    }

    /// The statement that reads the deliveries of a table: their columns, the moments of their ends,
    /// and then of their messages the shared part, the number of deliveries, and the checksum.
    fn select_deliveries(&self, table: &str) -> String {
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
             FROM (SELECT {columns}, {ended} FROM {table} ORDER BY number) AS row
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

/// The place of the shared part of a delivery's message.
const SHARED: usize = 16;

/// The first values of a row.
fn values(row: &Row<'_>, columns: usize) -> Result<Vec<Value>, StoreError> {
    Ok((0..columns).map(|column| row.get(column)).collect::<Result<_, _>>()?)
}
