//! One screen's text as it is read: rows, numbered, into lines, into messages.
//!
//! A page is a value: rows that are final for good go into the page itself, rows that still stand on the
//! screen into a clone of it, again each time somebody looks.

use std::hash::{DefaultHasher, Hash, Hasher};

use super::line::{Rejoiner, may_matter};
use super::scan::{Item, Rules, Scanner};
use crate::bridge::screen::Row;

/// Where reading stands.
#[derive(Debug, Clone, Default)]
pub(super) struct Page {
    /// The number of the next row; those before it were read.
    top: u64,
    rows: Rejoiner,
    /// In the middle of a line that can't matter.
    skipping: bool,
    scanner: Scanner,
    ended: Option<Ended>,
}

/// Rows that stood there when a turn ended. The turn's last row is where they no longer stand so: a CLI
/// writes the next turn over its composer, which nothing else tells from what the agent said.
#[derive(Debug, Clone)]
struct Ended {
    first: u64,
    rows: Vec<u64>,
}

impl Page {
    /// The number of the next row.
    pub(super) fn top(&self) -> u64 {
        self.top
    }

    /// Reads the next row.
    pub(super) fn row(&mut self, row: &Row, rules: &Rules<'_>, out: &mut Vec<Item>) {
        let number = self.top;
        self.top += 1;
        if self.ended.as_ref().is_some_and(|ended| ended.before(number, row)) {
            self.end_turn(rules, out);
        }
        if self.rows.is_empty() && self.scanner.is_idle() {
            if self.skipping || !may_matter(&row.text) {
                self.skipping = row.wraps;
                return;
            }
        }
        if let Some(line) = self.rows.push(row, number) {
            self.scanner.line(line, rules, out);
        }
    }

    /// The turn ends before the next row, or at the end of the text.
    pub(super) fn end_turn(&mut self, rules: &Rules<'_>, out: &mut Vec<Item>) {
        self.ended = None;
        self.skipping = false;
        if let Some(line) = self.rows.flush() {
            self.scanner.line(line, rules, out);
        }
        self.scanner.end_turn(out);
    }

    /// The turn has ended, and these rows are the last of it.
    pub(super) fn mark_end<'a>(&mut self, rows: impl Iterator<Item = &'a Row>) {
        let mut rows: Vec<&Row> = rows.collect();
        while rows.last().is_some_and(|row| row.text.is_empty()) {
            rows.pop();
        }
        self.ended = Some(Ended { first: self.top, rows: rows.into_iter().map(digest).collect() });
    }

    /// What was read has gone, and comes again or not.
    pub(super) fn forget(&mut self) {
        *self = Self { top: self.top, ..Self::default() };
    }

    /// Rows that stood on the screen are gone or stand elsewhere.
    pub(super) fn tear(&mut self) {
        self.scanner.tear();
    }
}

impl Ended {
    /// Whether the turn ended before this row.
    fn before(&self, number: u64, row: &Row) -> bool {
        let Some(index) = number.checked_sub(self.first) else { return false };
        let stood = usize::try_from(index).ok().and_then(|index| self.rows.get(index));
        stood != Some(&digest(row))
    }
}

/// A number that stands for a value.
pub(super) fn digest(value: &(impl Hash + ?Sized)) -> u64 {
    let mut hasher = DefaultHasher::new();
    value.hash(&mut hasher);
    hasher.finish()
}
