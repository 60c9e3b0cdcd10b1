//! The search for the deliveries with an id, in small steps.
//!
//! Thousands of deliveries can have one id: those of a SEND to many, and those of SENDs to which
//! their senders gave the same id.

use super::{
    error::StoreError,
    query::{self, Found},
    row::{self, IdForm, number},
};
use protocol::record::DeliveryRow;
use rusqlite::Connection;
use std::ops::{Range, RangeInclusive};
use uuid::Uuid;

/// The most deliveries found by one id, and the most bytes of these deliveries.
const SAME_ID_MAX: usize = 4_096;
const SAME_ID_BYTES_MAX: usize = 16 << 20;

/// The digits of the beginning of an id.
const PREFIX_DIGITS: RangeInclusive<usize> = 4..=31;

/// The latest messages among which the ids of SENDs are looked for: no index has these.
pub(super) const SEND_IDS: u64 = 65_536;

/// The most rows that a step reads, and the most beginnings of ids that it looks up.
const ROWS_MAX: u64 = 256;
const BEGINNINGS_MAX: u64 = 1_024;

/// A search for the deliveries with an id, or else those of the latest SENDs with this id, or else
/// those whose id, or whose SEND's id, begins with it. Of the ones by a SEND's id or a beginning,
/// only those that the viewer has sent or gets, if there is one. If there are none of these, one
/// of others.
#[derive(Debug)]
pub(super) struct IdSearch {
    id: String,
    viewer: Option<u64>,
    /// The most deliveries to find.
    limit: usize,
    stage: Stage,
    /// The deliveries that were found; in the last stage, those that are still to be read.
    numbers: Vec<u64>,
}

/// The next part of the search.
#[derive(Clone, Debug)]
enum Stage {
    /// Looks for the delivery with this whole id.
    Whole,
    /// Looks for deliveries whose ids have their first digits in this range.
    Beginnings(Range<u64>),
    /// Looks for SENDs among the messages in this range, the newest first; `None` before the first
    /// step.
    Sends(Option<Range<u64>>),
    /// Reads what was found.
    Rows,
}

impl IdSearch {
    pub(super) const fn new(id: String, viewer: Option<u64>) -> Self {
        Self { id, viewer, limit: SAME_ID_MAX, stage: Stage::Whole, numbers: Vec::new() }
    }

    /// Does a step, which looks at `width` messages at most. Returns true once the search is over.
    /// A step that fails changes nothing.
    pub(super) fn step(
        &mut self,
        connection: &Connection,
        width: u64,
        found: &mut Found,
    ) -> Result<bool, StoreError> {
        self.stage = match &self.stage {
            Stage::Whole => self.whole(connection)?,
            Stage::Beginnings(left) => self.beginnings(connection, left.clone(), width)?,
            Stage::Sends(left) => self.sends(connection, left.clone(), width)?,
            Stage::Rows => return self.rows(connection, width, found),
        };
        if matches!(self.stage, Stage::Rows) {
            self.numbers.sort_unstable();
            self.numbers.dedup();
        }
        Ok(false)
    }

    fn whole(&mut self, connection: &Connection) -> Result<Stage, StoreError> {
        let ids = IdForm::read(connection)?;
        let (whole, prefix) = (Uuid::parse_str(&self.id).ok(), prefix_of(&self.id));
        let Some(range) = whole.map(|id| [id, id]).or(prefix) else {
            return Ok(Stage::Sends(None));
        };
        let viewer = self.viewer.filter(|_| whole.is_none());
        let old = query::of_old_delivers(connection, &ids, range, viewer, SAME_ID_MAX + 1)?;
        let [first, last] = range.map(|id| u64::from(id.as_fields().0));
        if whole.is_none() {
            self.numbers = old;
            return Ok(Stage::Beginnings(first..last + 1));
        }
        self.numbers = query::of_delivers(connection, &ids, range, first..last + 1, None)?;
        self.numbers.extend(old);
        Ok(if self.numbers.is_empty() { Stage::Sends(None) } else { Stage::Rows })
    }

    fn beginnings(
        &mut self,
        connection: &Connection,
        left: Range<u64>,
        width: u64,
    ) -> Result<Stage, StoreError> {
        let is_over = left.is_empty() || self.numbers.len() > self.limit;
        let Some(range) = prefix_of(&self.id).filter(|_| !is_over) else {
            return Ok(Stage::Sends(None));
        };
        let upto = left.end.min(left.start + width.min(BEGINNINGS_MAX));
        let (ids, digits) = (IdForm::read(connection)?, left.start..upto);
        self.numbers.extend(query::of_delivers(connection, &ids, range, digits, self.viewer)?);
        Ok(Stage::Beginnings(upto..left.end))
    }

    fn sends(
        &mut self,
        connection: &Connection,
        left: Option<Range<u64>>,
        width: u64,
    ) -> Result<Stage, StoreError> {
        let left = match left {
            Some(left) => left,
            None => {
                let sql = "SELECT message FROM meta";
                let end = row::read_single(connection, sql, |row| number(row, 0))? + 1;
                end.saturating_sub(SEND_IDS)..end
            }
        };
        let missing = (self.limit + 1).saturating_sub(self.numbers.len());
        if left.is_empty() || missing == 0 {
            return Ok(Stage::Rows);
        }
        let window = left.end.saturating_sub(width).max(left.start)..left.end;
        let last = prefix_of(&self.id).map(|_| format!("{}{}", self.id, char::MAX));
        let ids = [self.id.as_str(), last.as_deref().unwrap_or(&self.id)];
        let rest = left.start..window.start;
        self.numbers.extend(query::of_sends(connection, ids, self.viewer, window, missing)?);
        Ok(Stage::Sends(Some(rest)))
    }

    fn rows(
        &mut self,
        connection: &Connection,
        width: u64,
        found: &mut Found,
    ) -> Result<bool, StoreError> {
        let left = self.numbers.len().saturating_sub(width.min(ROWS_MAX) as usize);
        let next = self.numbers[left..].to_vec();
        found.add(connection, next, self.limit, SAME_ID_BYTES_MAX)?;
        self.numbers.truncate(left);
        let rows = &mut found.result.rows;
        if !self.numbers.is_empty() && !found.result.more {
            return Ok(false);
        }
        if rows.is_empty() && self.viewer.is_some() {
            // Whether others have the id, for which one delivery is enough.
            *self = Self { limit: 1, ..Self::new(self.id.clone(), None) };
            return Ok(false);
        }
        let is_whole = |row: &DeliveryRow| *row.message.send_id == *self.id;
        if rows.iter().any(is_whole) {
            rows.retain(is_whole);
        }
        Ok(true)
    }
}

/// Returns the first and the last id that begin like this; `None` for a text that is no beginning
/// of an id.
fn prefix_of(id: &str) -> Option<[Uuid; 2]> {
    let digits = id.replace('-', "").to_ascii_lowercase();
    let is_hex = digits.bytes().all(|digit| digit.is_ascii_hexdigit());
    if !is_hex || !PREFIX_DIGITS.contains(&digits.len()) {
        return None;
    }
    let filled = |digit: &str| {
        let filled = digits.clone() + &digit.repeat(32 - digits.len());
        Uuid::parse_str(&filled).unwrap_or_default()
    };
    Some([filled("0"), filled("f")])
}
