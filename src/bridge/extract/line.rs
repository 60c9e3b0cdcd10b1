//! Rows of a terminal into lines: what the terminal itself broke is put together again.
//!
//! A [`Line`] is what everything after this reads; a transcript's lines are the same without rows.

use unicode_width::UnicodeWidthStr;

use crate::bridge::screen::Row;

/// A line longer than any message is cut off here; what it would have said is too large anyway.
const LINE_BYTES_MAX: usize = 2 << 20;

/// Bullets that CLIs draw in column 0 before what their agent says.
pub(super) const BULLETS: [char; 6] = ['⏺', '●', '•', '✦', '◆', '○'];

/// One line of text and the rows it stood on.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub(super) struct Line {
    /// The text.
    pub(super) text: String,
    /// Columns it fills, as it stands.
    pub(super) width: usize,
    /// The terminal broke it over several rows.
    pub(super) joined: bool,
    /// The number of its first row.
    pub(super) first: u64,
    /// The number of its last row.
    pub(super) last: u64,
    /// Columns that the row right above it fills.
    pub(super) above: usize,
}

impl Line {
    /// A line that stands on no terminal.
    pub(super) fn plain(text: &str, number: u64) -> Self {
        Self {
            width: text.width(),
            text: text.to_owned(),
            joined: false,
            first: number,
            last: number,
            above: 0,
        }
    }
}

/// Puts rows that the terminal broke together.
#[derive(Debug, Clone, Default)]
pub(super) struct Rejoiner {
    pending: Option<Line>,
}

impl Rejoiner {
    /// Nothing is half read.
    pub(super) fn is_empty(&self) -> bool {
        self.pending.is_none()
    }

    /// Takes the next row, below one that fills so many columns; a line where one ends with it.
    pub(super) fn push(&mut self, row: &Row, number: u64, above: usize) -> Option<Line> {
        let begins = || Line { first: number, above, ..Line::default() };
        let line = self.pending.get_or_insert_with(begins);
        if line.text.len() < LINE_BYTES_MAX {
            line.text.push_str(&row.text);
        }
        line.width = line.width.saturating_add(row.width);
        line.last = number;
        line.joined |= row.wraps;
        if row.wraps { None } else { self.flush() }
    }

    /// The line that is half read, as no more of it comes.
    pub(super) fn flush(&mut self) -> Option<Line> {
        self.pending.take()
    }
}

/// The beginning of a line where something may stand that is a message's.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Start<'a> {
    /// The column where the text begins.
    pub(super) column: usize,
    /// How far a bullet in column 0 pushes the text in; 0 without one.
    pub(super) hang: usize,
    /// The text.
    pub(super) rest: &'a str,
}

impl<'a> Start<'a> {
    /// After at most three blanks, or after one bullet in column 0 and the blanks that follow it.
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

/// Whether a line that begins with this row can matter where nothing is open: it has to begin with an
/// arrow, a block, a fence, or a frame of the wrapper's own. A cheap look that lets floods pass.
pub(super) fn may_matter(text: &str) -> bool {
    let begins = text.trim_start_matches([' ', '\t']);
    if begins.starts_with(|c: char| c.is_ascii_alphanumeric()) {
        return false;
    }
    let after_bullet = begins.trim_start_matches(BULLETS).trim_start();
    after_bullet.starts_with(['-', '`', '~', '[']) || text.contains("[relay ")
}
