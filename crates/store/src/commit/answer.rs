//! Queries: the choice of the next slice, its connection, and the answers.

use super::{Committer, Reporter, recovery::error_sentence};
use crate::{
    active_query::ActiveQuery, error::StoreError, fault::FaultPoint, file, job::Report,
    queries::Slice, save::Files,
};
use protocol::record::QueryResult;
use rusqlite::Connection;
use std::io;

/// The number of consecutive failures after which a query is answered with the error.
const FAILURES_MAX: u32 = 2;

impl Committer {
    /// Adds a query. It finds all changes that were written before.
    pub(super) fn add_query(&mut self, query: ActiveQuery, report: Reporter<'_>) {
        self.look(report);
        self.queries.add(query);
    }

    /// Begins the next slice of a query, unless one is under way.
    pub(super) fn begin_slice(&mut self, report: Reporter<'_>) {
        self.end_cancelled(report);
        if self.queries.is_lent() {
            return;
        }
        if let Some(failing) = &self.failing {
            for waiting in self.queries.waiting.drain(..) {
                report(Report::Answer(waiting.number, Err(failing.why.clone())));
            }
            return;
        }
        let Some(next) = self.queries.next() else { return };
        if let Err(error) = self.prepare_for(&next) {
            self.fail(&error, report);
            return self.conclude(next, Err(error), report);
        }
        if let Some((query, outcome)) = self.run_slice(next) {
            self.conclude(query, outcome, report);
        }
    }

    /// Answers the cancelled queries that wait, so that they take no more turns.
    fn end_cancelled(&mut self, report: Reporter<'_>) {
        self.queries.waiting.retain(|query| {
            let is_cancelled = query.cancel.is_cancelled();
            if is_cancelled {
                report(Report::Answer(query.number, Ok(QueryResult::default())));
            }
            !is_cancelled
        });
    }

    /// Shortens the log while nobody reads it. The first search begins the index of words.
    fn prepare_for(&mut self, query: &ActiveQuery) -> Result<(), StoreError> {
        let connection = self.connection.as_mut().expect("it is open while nothing fails");
        self.sweep.shorten_log(connection, self.clock.0.monotonic)?;
        if query.searches() {
            self.faults.fail_if_due(FaultPoint::Index)?;
            self.sweep.begin_index(connection, &self.settings)?;
        }
        Ok(())
    }

    /// Begins a slice on the thread that answers queries. Runs it here if there is only one
    /// connection. Returns the outcome if it is known already.
    fn run_slice(
        &mut self,
        mut next: ActiveQuery,
    ) -> Option<(ActiveQuery, Result<bool, StoreError>)> {
        match self.reader() {
            Ok(Some(reader)) => {
                self.queries.lend(reader, next);
                None
            }
            Ok(None) => {
                let connection = self.connection.as_mut().expect("it is open while nothing fails");
                let outcome = self.faults.fail_if_due(FaultPoint::Query);
                let outcome = outcome.and_then(|()| next.slice(connection));
                Some((next, outcome))
            }
            Err(error) => Some((next, Err(error))),
        }
    }

    /// The connection that answers queries, opened if it is not.
    fn reader(&mut self) -> Result<Option<Connection>, StoreError> {
        if let Some(reader) = self.queries.reader.take() {
            return Ok(Some(reader));
        }
        let Some(reader) = file::connect_reader(&self.settings.path)? else { return Ok(None) };
        // The path may name another file by now.
        if !self.files.as_ref().map_or(Ok(true), Files::are_in_place)? {
            return Err(io::Error::other("its files were replaced").into());
        }
        self.queries.start(&self.faults)?;
        Ok(Some(reader))
    }

    /// Continues after a slice.
    pub(super) fn end_slice(&mut self, slice: Slice, report: Reporter<'_>) {
        let (query, outcome) = self.queries.take_back(slice);
        self.conclude(query, outcome, report);
        self.look(report);
    }

    fn conclude(
        &mut self,
        mut query: ActiveQuery,
        outcome: Result<bool, StoreError>,
        report: Reporter<'_>,
    ) {
        self.queries.charge(&query);
        let queries = &mut self.queries.waiting;
        match outcome {
            Ok(true) => self.answer(query.number, Ok(query.into_result()), report),
            Ok(false) => {
                query.failures = 0;
                queries.push_back(query);
            }
            Err(error) => {
                query.failures += 1;
                if query.failures < FAILURES_MAX {
                    queries.push_front(query);
                } else {
                    self.answer(query.number, Err(error), report);
                }
            }
        }
    }

    /// Reports an answer, after new damage that the query met.
    fn answer(
        &mut self,
        number: u64,
        outcome: Result<QueryResult, StoreError>,
        report: Reporter<'_>,
    ) {
        if let Some(what) = self.queries.note_damage(&outcome) {
            let path = self.settings.path.display();
            report(Report::Damaged(format!(
                "a query found damage in the store {path}: {what}; check the disk"
            )));
        }
        let outcome = outcome.map_err(|error| error_sentence(&self.settings, "read", &error));
        report(Report::Answer(number, outcome));
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{job::Cancel, tests::folder::Folder};
    use protocol::record::Query;

    #[test]
    fn only_consecutive_failures_of_a_query_count() {
        let folder = Folder::new();
        let mut committer = folder.open().store.0;
        let query = ActiveQuery::new(1, None, Query::Id(String::new()), Cancel::default());
        let mut waiting = Some(query);
        let mut reports = Vec::new();
        for _ in 0..2 * FAILURES_MAX {
            for outcome in [Err(io::Error::other("broken").into()), Ok(false)] {
                let slice = waiting.take().expect("the query is not answered");
                committer.conclude(slice, outcome, &mut |report| reports.push(report));
                waiting = committer.queries.waiting.pop_front();
            }
        }
        assert!(waiting.is_some() && reports.is_empty(), "{reports:?}");
    }
}
