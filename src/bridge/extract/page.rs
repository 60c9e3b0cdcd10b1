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
    /// Columns that the last row fills.
    above: usize,
    /// In the middle of a line that can't matter.
    skipping: bool,
    scanner: Scanner,
    ended: Vec<Ended>,
}

/// Rows that stood there when a turn ended with something open. The turn's last row is where they no
/// longer stand so: a CLI writes the next turn over its composer, which nothing else tells from what
/// the agent said.
#[derive(Debug, Clone)]
struct Ended {
    /// Where what was left open began.
    opened: u64,
    first: u64,
    rows: Vec<u64>,
}

/// Turns whose end is kept in mind while their rows stand on the screen.
const ENDED_MAX: usize = 16;

impl Page {
    /// The number of the next row.
    pub(super) fn top(&self) -> u64 {
        self.top
    }

    /// Reads the next row.
    pub(super) fn row(&mut self, row: &Row, rules: &Rules, out: &mut Vec<Item>) {
        let number = self.top;
        self.top += 1;
        let turns = self.ended.len();
        self.ended.retain(|ended| !ended.before(number, row));
        if self.ended.len() < turns {
            self.end_turn(rules, out);
        }
        let row = &*rules.without_margin(row);
        let above = std::mem::replace(&mut self.above, row.width);
        let idle = self.rows.is_empty() && self.scanner.is_idle();
        if idle && (self.skipping || !may_matter(&row.text)) {
            self.skipping = row.wraps;
            return;
        }
        if let Some(line) = self.rows.push(row, number, above) {
            self.scanner.line(line, rules, out);
        }
    }

    /// The turn ends before the next row, or at the end of the text.
    pub(super) fn end_turn(&mut self, rules: &Rules, out: &mut Vec<Item>) {
        self.skipping = false;
        if let Some(line) = self.rows.flush() {
            self.scanner.line(line, rules, out);
        }
        self.scanner.end_turn(out);
    }

    /// The row where what is open began.
    pub(super) fn open_since(&self) -> Option<u64> {
        self.scanner.open_since()
    }

    /// A message or block is open.
    pub(super) fn gathers(&self) -> bool {
        self.scanner.gathers()
    }

    /// A turn has ended with something open that began in row `opened`; these rows are the last of it.
    pub(super) fn mark_end<'a>(&mut self, opened: u64, rows: impl Iterator<Item = &'a Row>) {
        let mut rows: Vec<&Row> = rows.collect();
        while rows.last().is_some_and(|row| row.text.is_empty()) {
            rows.pop();
        }
        if self.ended.len() == ENDED_MAX {
            self.ended.remove(0);
        }
        let rows = rows.into_iter().map(digest).collect();
        self.ended.push(Ended { opened, first: self.top, rows });
    }

    /// What was read has gone, and comes again or not, as what was open may.
    pub(super) fn forget(&mut self) -> Option<Item> {
        let open = self.scanner.drop_open();
        *self = Self { top: self.top, ..Self::default() };
        open
    }

    /// Rows that stood on the screen are gone or stand elsewhere.
    pub(super) fn tear(&mut self) {
        self.ended.clear();
        self.scanner.tear();
    }

    /// All rows are broken elsewhere.
    pub(super) fn resize(&mut self) -> Option<Item> {
        self.tear();
        self.scanner.drop_open()
    }
}

impl Ended {
    /// Whether the turn ended before this row.
    fn before(&self, number: u64, row: &Row) -> bool {
        let Some(index) = number.checked_sub(self.first) else { return false };
        let stood = usize::try_from(index).ok().and_then(|index| self.rows.get(index));
        number > self.opened && stood != Some(&digest(row))
    }
}

/// A number that stands for a value.
pub(super) fn digest(value: &(impl Hash + ?Sized)) -> u64 {
    let mut hasher = DefaultHasher::new();
    value.hash(&mut hasher);
    hasher.finish()
}
