//! The row scanner, which joins a screen's rows to logical lines for a [`LineScanner`].
//!
//! The scanner itself reads the rows that have scrolled off the screen. At each sample, a clone of
//! it reads the visible rows, which may still change.

use super::{
    finding::Finding,
    line_scanner::LineScanner,
    logical_line::{LogicalLine, may_matter},
    rules::Rules,
    seen::hash,
};
use crate::{bounded, screen::Row};
use std::collections::VecDeque;

/// How many ends of turns are remembered while their rows are visible.
const ENDED_TURNS_MAX: usize = 16;

/// A scanner, with its state after the rows read so far.
#[derive(Debug, Clone, Default)]
pub(super) struct RowScanner {
    /// The number of the next row.
    pub(super) next_row: u64,
    /// The line that still lacks its last row.
    line: Option<LogicalLine>,
    /// The width of the last row, in columns.
    width_above: usize,
    /// Whether the scanner is within a logical line that cannot matter and is skipped.
    is_skipping: bool,
    /// Whether the rows show the output of a command.
    is_in_output: bool,
    pub(super) lines: LineScanner,
    ended_turns: VecDeque<EndedTurn>,
}

/// The visible rows at the end of a turn that left a message, block, fence or frame open.
///
/// The turn's rows are those above the first row that has changed since. A CLI writes the next turn
/// over its composer, which may look like the agent's text.
#[derive(Debug, Clone)]
struct EndedTurn {
    /// The number of the row that began the open message, block, fence or frame.
    opened: u64,
    /// The number of the first of `rows`.
    first_row: u64,
    /// The hashes of the visible rows.
    rows: Vec<u64>,
}

impl RowScanner {
    /// Reads the next row, and appends the findings that it completes.
    pub(super) fn read(&mut self, row: &Row, rules: &Rules, out: &mut Vec<Finding>) {
        let number = self.next_row;
        self.next_row += 1;
        let turns = self.ended_turns.len();
        self.ended_turns.retain(|turn| !turn.ended_before(number, row));
        if self.ended_turns.len() < turns {
            self.end_turn(rules, out);
        }
        let row = &*rules.without_margin(row);
        let width_above = std::mem::replace(&mut self.width_above, row.width);
        let is_idle = self.line.is_none() && self.lines.is_idle();
        if let Some(follows) = rules.command_output.follows(&row.text).filter(|_| is_idle) {
            self.is_in_output = follows;
        }
        if self.is_in_output {
            return;
        }
        if is_idle && (self.is_skipping || !may_matter(&row.text, rules.reports_misplaced)) {
            self.is_skipping = row.wraps;
            return;
        }
        let begin = || LogicalLine { first_row: number, width_above, ..LogicalLine::default() };
        self.line.get_or_insert_with(begin).add(row, number);
        if !row.wraps {
            self.end_line(rules, out);
        }
    }

    fn end_line(&mut self, rules: &Rules, out: &mut Vec<Finding>) {
        if let Some(line) = self.line.take() {
            self.lines.read(line, rules, out);
        }
    }

    /// Ends the turn, or the text, before the next row.
    pub(super) fn end_turn(&mut self, rules: &Rules, out: &mut Vec<Finding>) {
        self.is_skipping = false;
        self.end_line(rules, out);
        self.lines.end_turn(out);
    }

    /// Remembers the hashes of the visible rows at the end of a turn that left something open. The
    /// open part began in row `opened`.
    pub(super) fn mark_turn_end(&mut self, opened: u64, rows: Vec<u64>) {
        let turn = EndedTurn { opened, first_row: self.next_row, rows };
        bounded::push(&mut self.ended_turns, ENDED_TURNS_MAX, turn);
    }

    /// Starts again after all rows were erased. Returns the open message as an overwritten one.
    pub(super) fn reset(&mut self) -> Option<Finding> {
        let open = self.lines.drop_open();
        *self = Self { next_row: self.next_row, ..Self::default() };
        open
    }

    /// Notes that visible rows were erased or moved.
    pub(super) fn rows_disturbed(&mut self) {
        self.ended_turns.clear();
        self.lines.rows_disturbed();
    }

    /// Drops the open message, since the rows below do not continue it. Returns it as an
    /// overwritten one.
    pub(super) fn drop_open(&mut self) -> Option<Finding> {
        self.rows_disturbed();
        self.lines.drop_open()
    }
}

impl EndedTurn {
    /// Whether the turn ended before this row: the row differs from the row in its position at the
    /// turn's end.
    fn ended_before(&self, number: u64, row: &Row) -> bool {
        let Some(index) = number.checked_sub(self.first_row) else { return false };
        let stood = usize::try_from(index).ok().and_then(|index| self.rows.get(index));
        number > self.opened && stood != Some(&hash(row))
    }
}
