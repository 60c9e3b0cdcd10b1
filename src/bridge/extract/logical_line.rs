//! Logical lines: rows that the terminal itself broke are joined.
//!
//! The lines of a transcript are logical lines as well, each of one row.

use unicode_width::UnicodeWidthStr;

use crate::bridge::screen::Row;

/// Bytes at which a line is cut off. A message of this length is too large anyway.
const LINE_BYTES_MAX: usize = 2 << 20;

/// Bullets that CLIs draw in column 0 before the text of their agents.
pub(super) const BULLETS: [char; 6] = ['⏺', '●', '•', '✦', '◆', '○'];

/// A line of text, and the rows that it takes on the screen.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub(super) struct LogicalLine {
    /// The text.
    pub(super) text: String,
    /// Columns that the text fills, of all rows together.
    pub(super) width: usize,
    /// The terminal broke the line over several rows.
    pub(super) is_wrapped: bool,
    /// The number of its first row.
    pub(super) first_row: u64,
    /// The number of its last row.
    pub(super) last_row: u64,
    /// Columns that the row above it fills.
    pub(super) width_above: usize,
}

impl LogicalLine {
    /// A line of a text that is not on a screen.
    pub(super) fn off_screen(text: &str, number: u64) -> Self {
        Self {
            width: text.width(),
            text: text.to_owned(),
            is_wrapped: false,
            first_row: number,
            last_row: number,
            width_above: 0,
        }
    }
}

/// Joins rows that the terminal broke.
#[derive(Debug, Clone, Default)]
pub(super) struct RowJoiner {
    line: Option<LogicalLine>,
}

impl RowJoiner {
    /// Whether no line is unfinished.
    pub(super) fn is_empty(&self) -> bool {
        self.line.is_none()
    }

    /// Adds a row below one that fills `width_above` columns; returns the line that ends with it.
    pub(super) fn push(
        &mut self,
        row: &Row,
        number: u64,
        width_above: usize,
    ) -> Option<LogicalLine> {
        let begin = || LogicalLine { first_row: number, width_above, ..LogicalLine::default() };
        let line = self.line.get_or_insert_with(begin);
        if line.text.len() < LINE_BYTES_MAX {
            line.text.push_str(&row.text);
        }
        line.width = line.width.saturating_add(row.width);
        line.last_row = number;
        line.is_wrapped |= row.wraps;
        if row.wraps { None } else { self.flush() }
    }

    /// Takes an unfinished line: no more rows of it come.
    pub(super) fn flush(&mut self) -> Option<LogicalLine> {
        self.line.take()
    }
}

/// The beginning of a line, split off, where a message may begin.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct LineStart<'a> {
    /// The column where `rest` begins.
    pub(super) column: usize,
    /// The hanging indentation that a bullet in column 0 makes; 0 without one.
    pub(super) hang: usize,
    /// The text after indentation and bullet.
    pub(super) rest: &'a str,
}

impl<'a> LineStart<'a> {
    /// Splits off at most three blanks, or one bullet in column 0 and the blanks after it. `None`
    /// for a line that is indented further.
    pub(super) fn of(text: &'a str) -> Option<Self> {
        let rest = text.trim_start_matches(' ');
        let blanks = text.len() - rest.len();
        if blanks > 3 {
            return None;
        }
        if blanks > 0 || !text.starts_with(BULLETS) {
            return Some(Self { column: blanks, hang: 0, rest });
        }
        let rest = text.trim_start_matches(BULLETS);
        let bullet = &text[..text.len() - rest.len()];
        if bullet.chars().count() != 1 {
            return None;
        }
        let after = rest.trim_start_matches(' ');
        let hang = bullet.width() + rest.len() - after.len();
        Some(Self { column: hang, hang, rest: after })
    }
}

/// Whether a line that begins with this row can matter outside of messages, blocks and fences: it
/// has to begin one, or a frame. A cheap check for the sake of floods.
pub(super) fn may_matter(text: &str) -> bool {
    let rest = text.trim_start_matches([' ', '\t']);
    if rest.starts_with(|c: char| c.is_ascii_alphanumeric()) {
        return false;
    }
    let after_bullet = rest.trim_start_matches(BULLETS).trim_start();
    after_bullet.starts_with(['-', '`', '~', '[']) || text.contains("[relay ")
}
