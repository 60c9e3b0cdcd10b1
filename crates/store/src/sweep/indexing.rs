//! Words and ids of stored messages go into their indices.

use super::{STEP_BYTES, STEP_ROWS, Sweep};
use crate::{
    error::StoreError,
    index,
    row::{self, number, signed},
};
use rusqlite::{Connection, OptionalExtension as _, params};

impl Sweep {
    /// Indexes the words of some messages. Returns false if all messages are indexed.
    pub(crate) fn index_some(&mut self, connection: &mut Connection) -> Result<bool, StoreError> {
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

    /// Adds the ids of some deliveries to the index of ids. Returns false if it lacks at most
    /// `max`.
    pub(super) fn list_some(
        &mut self,
        connection: &mut Connection,
        max: u64,
    ) -> Result<bool, StoreError> {
        if self.unlisted() <= max {
            return Ok(false);
        }
        let transaction = connection.transaction()?;
        let last = transaction
            .prepare_cached(
                "SELECT number FROM delivery WHERE number > ? ORDER BY number LIMIT 1 OFFSET ?",
            )?
            .query_row(params![signed(self.listed), STEP_ROWS as u32 - 1], |row| row.get(0))
            .optional()?
            .map_or(self.last_delivery, i64::cast_unsigned);
        index::list_ids(&transaction, self.listed, last)?;
        transaction.execute("UPDATE meta SET listed = ?", [signed(last)])?;
        transaction.commit()?;
        self.listed = last;
        Ok(true)
    }
}
