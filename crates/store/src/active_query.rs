//! A query under way.
//!
//! A query is answered in slices. Each slice is a read transaction of its own, since an open one
//! keeps the log from starting over. A list goes through windows of the deliveries' numbers, the
//! newest first; a window that takes too long is given up, and a narrower one is tried. So does the
//! search for an id, in its steps.

use super::{
    error::StoreError,
    id_search::{IdSearch, SEND_IDS},
    job::{Cancel, Process},
    query::{self, Found, Search, Window},
};
use protocol::record::{Filter, Query, QueryResult};
use rusqlite::Connection;
use std::time::{Duration, Instant};

/// The time after which a slice ends, and the time after which its window is given up.
const SLICE: Duration = Duration::from_millis(20);
const SLICE_MAX: Duration = Duration::from_millis(50);

/// The time after which a slice with windows of the least width fails.
const NARROW_MAX: Duration = Duration::from_millis(200);

/// The number of SQLite's instructions between two looks at the clock. A few of them can read a
/// long text. Tests without time need all those of a statement with the least width.
const INSTRUCTIONS: i32 = if cfg!(test) { 1_000 } else { 100 };

/// Windows become wider if they take less than the first time, and narrower if more than the
/// second.
const QUICK: Duration = Duration::from_millis(3);
const SLOW: Duration = Duration::from_millis(12);

/// The width of the first window, and the least width. Tests have few deliveries.
const WIDTH: u64 = if cfg!(test) { 2 } else { 4_096 };
const WIDTH_MIN: u64 = if cfg!(test) { 1 } else { 64 };

/// The most messages with the wanted words that are looked up in a single window.
const RARE_MAX: u32 = if cfg!(test) { 4 } else { 2_048 };

/// A query, what it has found, and where it continues.
#[derive(Debug)]
pub(super) struct ActiveQuery {
    /// The number that identifies the answer.
    pub(super) number: u64,
    /// The process that asks.
    pub(super) process: Process,
    /// The time that the last slice took.
    pub(super) slice_time: Duration,
    /// The switch that cancels the query.
    pub(super) cancel: Cancel,
    /// The number of slices that failed since the last one that did not.
    pub(super) failures: u32,
    query: Query,
    /// The search, if the query is for an id.
    ids: Option<IdSearch>,
    found: Found,
    /// Deliveries from this number on have been searched; `None` at first.
    before: Option<u64>,
    /// The numbers in the next window.
    width: u64,
}

impl ActiveQuery {
    /// A query that has found nothing yet.
    pub(super) fn new(number: u64, process: Process, query: Query, cancel: Cancel) -> Self {
        let ids = match &query {
            Query::Id(id) => Some(IdSearch::new(id.clone(), None)),
            Query::OwnId(id, viewer) => Some(IdSearch::new(id.clone(), Some(*viewer))),
            Query::List(_) => None,
        };
        let found = Found::default();
        Self {
            number,
            process,
            slice_time: Duration::ZERO,
            cancel,
            failures: 0,
            query,
            ids,
            found,
            before: None,
            width: WIDTH,
        }
    }

    /// Whether the query searches for words.
    pub(super) const fn searches(&self) -> bool {
        matches!(self.query, Query::List(Filter { search: Some(_), .. }))
    }

    /// The rows that were found.
    pub(super) fn into_result(self) -> QueryResult {
        self.found.result
    }

    /// Continues for the time of a slice. Returns true once the query is answered or cancelled.
    /// After a failure, the next slice begins where this one began.
    pub(super) fn slice(&mut self, connection: &mut Connection) -> Result<bool, StoreError> {
        let start = Instant::now();
        let outcome = self.slice_within(connection, SLICE_MAX, NARROW_MAX);
        self.slice_time = start.elapsed();
        outcome
    }

    /// As [`slice`](Self::slice), with these limits: the second one applies if the slice begins
    /// with the least width.
    pub(super) fn slice_within(
        &mut self,
        connection: &mut Connection,
        max: Duration,
        narrow_max: Duration,
    ) -> Result<bool, StoreError> {
        if self.cancel.is_cancelled() {
            return Ok(true);
        }
        let start = Instant::now();
        let max = if self.width <= WIDTH_MIN { narrow_max } else { max };
        let is_late = move || start.elapsed() >= max;
        let cancel = self.cancel.clone();
        let is_over = move || cancel.is_cancelled() || is_late();
        connection.progress_handler(INSTRUCTIONS, Some(is_over))?;
        let outcome = self.windows(connection, start);
        connection.progress_handler(0, None::<fn() -> bool>)?;
        match outcome {
            Err(error) if !error.is_interruption() => Err(error),
            Err(_) if self.cancel.is_cancelled() => Ok(true),
            // The width may have changed in the slice.
            Err(_) if is_late() && self.width > WIDTH_MIN => {
                self.width = (self.width.min(self.before.unwrap_or(SEND_IDS)) / 8).max(WIDTH_MIN);
                Ok(false)
            }
            Err(_) if is_late() => Err(StoreError::TooSlow(max)),
            outcome => outcome,
        }
    }

    fn windows(&mut self, connection: &Connection, start: Instant) -> Result<bool, StoreError> {
        let transaction = connection.unchecked_transaction()?;
        if self.ids.is_some() {
            return self.search_ids(&transaction, start);
        }
        let Query::List(filter) = &self.query else { return Ok(true) };
        let filter = filter.clone();
        let search = match &filter.search {
            None => None,
            Some(text) => match Search::new(&transaction, text)? {
                None => return Ok(true),
                search => search,
            },
        };
        if self.before.is_none() {
            self.begin(&transaction, &filter, search.as_ref())?;
        }
        while !self.window(&transaction, &filter, search.as_ref())? {
            if start.elapsed() >= SLICE {
                return Ok(false);
            }
        }
        Ok(true)
    }

    fn search_ids(&mut self, connection: &Connection, start: Instant) -> Result<bool, StoreError> {
        let Some(mut ids) = self.ids.take() else { return Ok(true) };
        let outcome = loop {
            let begun = Instant::now();
            let outcome = ids.step(connection, self.width, &mut self.found);
            if !matches!(outcome, Ok(false)) || start.elapsed() >= SLICE {
                break outcome;
            }
            self.adapt(begun.elapsed());
        };
        self.ids = Some(ids);
        outcome
    }

    fn begin(
        &mut self,
        connection: &Connection,
        filter: &Filter,
        search: Option<&Search>,
    ) -> Result<(), StoreError> {
        let last = query::last(connection)?;
        self.before = Some(filter.before.unwrap_or(u64::MAX).min(last + 1));
        if let Some(search) = search
            && search.is_rare(connection, RARE_MAX)?
        {
            self.width = u64::MAX;
        }
        Ok(())
    }

    /// Searches a window. Returns true once the page is full or no window is left.
    fn window(
        &mut self,
        connection: &Connection,
        filter: &Filter,
        search: Option<&Search>,
    ) -> Result<bool, StoreError> {
        let start = Instant::now();
        let before = self.before.unwrap_or(0);
        let window = Window { filter, search, from: before.saturating_sub(self.width), before };
        let limit = filter.limit.max(1);
        let numbers = window.find(connection, limit + 1 - self.found.result.rows.len())?;
        self.found.add(connection, numbers, limit, filter.bytes_max)?;
        self.before = Some(window.from);
        self.adapt(start.elapsed());
        Ok(self.found.result.more || window.from == 0)
    }

    /// Makes the next window wider or narrower, after one that took this time.
    fn adapt(&mut self, time: Duration) {
        if time < QUICK {
            self.width = self.width.saturating_mul(2);
        } else if time > SLOW {
            self.width = (self.width / 2).max(WIDTH_MIN);
        }
    }
}

#[cfg(test)]
mod inspect {
    use super::*;

    impl ActiveQuery {
        /// Makes the next window as narrow as possible.
        pub(crate) const fn narrow(&mut self) {
            self.width = WIDTH_MIN;
        }
    }
}
