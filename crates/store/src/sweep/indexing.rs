//! Words of stored messages go into their index.

use super::{STEP_BYTES, STEP_READ_BYTES, STEP_ROWS, Sweep};
use crate::{
    error::StoreError,
    row::{self, number, signed},
    words,
};
use rusqlite::Connection;

impl Sweep {
    /// Indexes the words of some messages, and begins the index with the first ones. Returns false
    /// if all messages are indexed.
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
            let (mut count, mut indexed, mut read) = (0, 0, 0);
            while let Some(row) = rows.next()? {
                let (number, shared) = (number(row, 0)?, row::blob(row, 1)?);
                indexed += words::index(&transaction, number, shared)?;
                (count, read) = (count + 1, read + shared.len());
                if count >= STEP_ROWS || indexed >= STEP_BYTES || read >= STEP_READ_BYTES {
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
}
