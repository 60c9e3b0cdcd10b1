//! Logical lines. A logical line joins the rows of a long line that the terminal wrapped.
//!
//! In a text that is not on a screen, each line is a logical line of one row.

use unicode_width::UnicodeWidthStr;

use crate::screen::Row;

/// The number of bytes where a line is cut off. A message of this length is too large anyway.
const LINE_BYTES_MAX: usize = 2 << 20;

/// The beginning of a message.
pub(super) const ARROW: &str = "->relay:";

/// Bullets that CLIs draw in column 0 before the text of their agents.
pub(super) const BULLETS: [char; 6] = ['⏺', '●', '•', '✦', '◆', '○'];

/// A line of text, and the rows that it takes on the screen.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub(super) struct LogicalLine {
    pub(super) text: String,
    /// The number of columns of the text, summed over its rows.
    pub(super) width: usize,
    /// Whether the terminal broke the line into several rows.
    pub(super) is_wrapped: bool,
    /// The number of the line's first row.
    pub(super) first_row: u64,
    /// The number of the line's last row.
    pub(super) last_row: u64,
    /// The number of columns that the row above the line fills.
    pub(super) width_above: usize,
}

impl LogicalLine {
    /// Returns a line of a text that is not on a screen.
    pub(super) fn off_screen(text: &str, number: u64) -> Self {
        Self {
            width: text.width(),
            text: text.to_owned(),
            first_row: number,
            last_row: number,
            ..Self::default()
        }
    }

    /// Adds the next row of a line that the terminal wrapped.
    pub(super) fn add(&mut self, row: &Row, number: u64) {
        if self.text.len() < LINE_BYTES_MAX {
            self.text.push_str(&row.text);
        }
        self.width = self.width.saturating_add(row.width);
        self.last_row = number;
        self.is_wrapped |= row.wraps;
    }

    /// Splits the line before this byte.
    pub(super) fn split_at(&self, byte: usize) -> (Self, Self) {
        let part = |text: &str| Self { width: text.width(), text: text.to_owned(), ..self.clone() };
        let (first, second) = self.text.split_at(byte);
        (part(first), Self { width_above: 0, ..part(second) })
    }
}

/// A line without its indentation or bullet, so that a message may begin at `rest`.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct LineStart<'a> {
    /// The column where `rest` begins.
    pub(super) column: usize,
    /// The columns of the hanging indent below a bullet in column 0; 0 without a bullet.
    pub(super) hang: usize,
    /// The text after indentation and bullet.
    pub(super) rest: &'a str,
}

impl<'a> LineStart<'a> {
    /// Splits off at most three blanks, or one bullet in column 0 and the blanks after it. Returns
    /// `None` for a line that is indented further.
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

/// Whether a line that begins with this row may begin a message, block, fence or frame. Other lines
/// do not matter outside of these. The check is cheap, so that a flood of output is read fast.
pub(super) fn may_matter(text: &str, reports_misplaced: bool) -> bool {
    if reports_misplaced && text.contains(ARROW) {
        return true;
    }
    let rest = text.trim_start_matches([' ', '\t']);
    if rest.starts_with(|c: char| c.is_ascii_alphabetic()) {
        return false;
    }
    let after_bullet = rest.trim_start_matches(BULLETS).trim_start();
    let is_item = after_bullet.starts_with(|c: char| c.is_ascii_digit() || matches!(c, '*' | '+'));
    let has_fence = || ["```", "~~~"].iter().any(|fence| text.contains(fence));
    after_bullet.starts_with(['-', '`', '~', '['])
        || (is_item && has_fence())
        || text.contains("[relay ")
        || text.contains("[/relay ")
}
