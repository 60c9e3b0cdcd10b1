//! The holders: senders as they are charged for ended deliveries. When the store is full, those of
//! the holder with the most bytes are deleted first.

use super::{
    error::StoreError,
    row::{integer, text},
};
use rusqlite::{Connection, OptionalExtension as _, Row, Statement, params};
use std::{borrow::Cow, collections::BTreeMap};

/// The holder that all guests are together. Only their names begin like this.
pub(super) const GUESTS: &str = "@guest";

/// Returns the holder that a sender belongs to. Names that differ only in case are one.
fn holder_of(sender_name: &str) -> Cow<'_, str> {
    if sender_name.starts_with(GUESTS) {
        Cow::Borrowed(GUESTS)
    } else if sender_name.bytes().any(|byte| byte.is_ascii_uppercase()) {
        Cow::Owned(sender_name.to_ascii_lowercase())
    } else {
        Cow::Borrowed(sender_name)
    }
}

/// The condition under which a delivery is of the holder with the name ?1.
pub(super) fn has_sender(holder: &str) -> &'static str {
    match holder {
        GUESTS => "sender_name BETWEEN ?1 AND ?1 || '~'",
        _ => "sender_name = ?1",
    }
}

/// The changes of a transaction to the sums by holder.
#[derive(Debug, Default)]
pub(super) struct Charges(BTreeMap<String, i64>);

impl Charges {
    /// Charges for a delivery that is about to end. Returns false if it is over already. `find_open`
    /// is [`FIND_OPEN`](super::row::FIND_OPEN).
    pub(super) fn charge(
        &mut self,
        find_open: &mut Statement<'_>,
        delivery: i64,
    ) -> Result<bool, StoreError> {
        let mut rows = find_open.query([delivery])?;
        let Some(row) = rows.next()? else { return Ok(false) };
        self.add(text(row, 0)?, integer(row, 1)?);
        Ok(true)
    }

    /// Takes back the charge for a delivery that is open again, or gone. `row` has its sender's name
    /// and its bytes.
    pub(super) fn release(&mut self, row: &Row<'_>) -> Result<(), StoreError> {
        self.add(text(row, 0)?, integer(row, 1)?.saturating_neg());
        Ok(())
    }

    /// Adds to the bytes that a sender's holder is charged with.
    pub(super) fn add(&mut self, sender_name: &str, bytes: i64) {
        let holder = holder_of(sender_name);
        match self.0.get_mut(&*holder) {
            Some(sum) => *sum = sum.saturating_add(bytes),
            None => drop(self.0.insert(holder.into_owned(), bytes)),
        }
    }

    /// Writes the changed sums.
    pub(super) fn write(&self, connection: &Connection) -> rusqlite::Result<()> {
        for (holder, bytes) in self.0.iter().filter(|(_, bytes)| **bytes != 0) {
            connection
                .prepare_cached(
                    "INSERT INTO holder VALUES (?, ?)
                     ON CONFLICT DO UPDATE SET bytes = bytes + excluded.bytes",
                )?
                .execute(params![holder, bytes])?;
            if *bytes < 0 {
                connection
                    .prepare_cached("DELETE FROM holder WHERE name = ? AND bytes <= 0")?
                    .execute([holder])?;
            }
        }
        Ok(())
    }
}

/// The holder of the most bytes, if there is one.
pub(super) fn largest(connection: &Connection) -> rusqlite::Result<Option<String>> {
    connection
        .prepare_cached("SELECT name FROM holder ORDER BY bytes DESC LIMIT 1")?
        .query_row([], |row| row.get(0))
        .optional()
}

/// Removes a holder that has no ended delivery left, although its sum is not zero.
pub(super) fn remove(connection: &Connection, holder: &str) -> rusqlite::Result<()> {
    connection.prepare_cached("DELETE FROM holder WHERE name = ?")?.execute([holder]).map(drop)
}
