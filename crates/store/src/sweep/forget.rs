//! Deleted texts and words leave the index of words and the log.

use super::{HOUR_MS, Sweep};
use crate::{error::StoreError, file};
use protocol::Moment;
use rusqlite::Connection;

/// The length of the log, in pages, from which no query begins before a checkpoint.
const LOG_PAGES_MAX: u32 = if cfg!(test) { 64 } else { file::CHECKPOINT_PAGES };

/// The pages of the index of words that a step rewrites.
const MERGE_PAGES: i32 = 64;

impl Sweep {
    /// Whether deleted words are to be forgotten, which is done once an hour at most.
    pub(super) fn is_merge_due(&self, now: Moment) -> bool {
        (self.has_deleted || self.emptying) && self.merged != Some(now.0 / HOUR_MS)
    }

    /// Rewrites a part of the index without deleted words. When all is done, empties the log,
    /// which may have deleted texts. Returns false if nothing is to be forgotten.
    pub(super) fn forget_words(
        &mut self,
        connection: &Connection,
        now: Moment,
    ) -> Result<bool, StoreError> {
        if !self.is_merge_due(now) {
            return Ok(false);
        }
        if self.indexed == 0 {
            (self.has_deleted, self.emptying) = (false, true);
        }
        if self.emptying {
            self.empty_log(connection, now)?;
            return Ok(true);
        }
        // A negative number begins to merge all, a positive one goes on.
        let pages = if self.merging { MERGE_PAGES } else { -MERGE_PAGES };
        let before = connection.total_changes();
        connection
            .prepare_cached("INSERT INTO words (words, rank) VALUES ('merge', ?)")?
            .execute([pages])?;
        // FTS5 changes one row even if there is nothing to merge.
        self.merging = connection.total_changes() - before >= 2;
        if !self.merging {
            (self.has_deleted, self.emptying) = (false, true);
            self.empty_log(connection, now)?;
        }
        Ok(true)
    }

    /// Empties the log, which has deleted texts. Does it later if a query is reading it.
    pub(super) fn empty_log(
        &mut self,
        connection: &Connection,
        now: Moment,
    ) -> Result<(), StoreError> {
        if file::truncate_log(connection)? {
            (self.emptying, self.merged, self.logged) = (false, Some(now.0 / HOUR_MS), 0);
        }
        Ok(())
    }

    /// Shortens the log if it is long or has deleted texts, while no query reads it.
    pub(crate) fn shorten_log(
        &mut self,
        connection: &Connection,
        now: Moment,
    ) -> Result<(), StoreError> {
        if self.emptying {
            self.empty_log(connection, now)?;
        } else if file::log_pages(connection)? > LOG_PAGES_MAX {
            file::checkpoint(connection)?;
        }
        Ok(())
    }
}
