//! A row of a message's body, and its indentation.

use unicode_width::UnicodeWidthStr;

use super::logical_line::LogicalLine;

/// The distance between two tab stops, in columns.
const TAB_COLUMNS: usize = 8;

/// A line of a message, and the part of the line that belongs to the body.
pub(super) struct BodyLine<'a> {
    /// The whole line.
    pub(super) line: &'a LogicalLine,
    /// The part of the line's text that belongs to the body, with its indentation.
    pub(super) text: &'a str,
    /// The column where `text` begins, if `text` follows an opening line's marks.
    pub(super) column: Option<usize>,
}

/// A row of a body.
pub(super) struct BodyRow<'a> {
    /// The blanks and tabs before the text.
    lead: &'a str,
    /// The number of columns of `lead` that do not belong to the body.
    pub(super) removed: usize,
    /// The number of columns between the body's left edge and the text.
    pub(super) indent: usize,
    /// The text; empty for a blank row.
    pub(super) text: &'a str,
    /// The number of columns that the row fills on the screen.
    pub(super) width: usize,
    /// The number of columns of the row's first word on the screen, including a `>>>` at its end.
    pub(super) first_word: usize,
}

impl<'a> BodyRow<'a> {
    /// Returns the row of a line. A hanging indent of `hang` columns does not belong to the body.
    pub(super) fn of(line: &BodyLine<'a>, hang: usize) -> Self {
        let text = line.text.trim_start_matches([' ', '\t']);
        let lead = &line.text[..line.text.len() - text.len()];
        let columns = lead.chars().fold(0, column_after);
        let (lead, removed, indent) = match line.column {
            Some(column) => ("", 0, column.saturating_sub(hang)),
            None if columns >= hang => (lead, hang, columns - hang),
            None => (lead, 0, columns),
        };
        let from = text.as_ptr() as usize - line.line.text.as_ptr() as usize;
        let first_word = line.line.text[from..].split_whitespace().next();
        let first_word = first_word.map_or(0, UnicodeWidthStr::width);
        Self { lead, removed, indent, text, width: line.line.width, first_word }
    }

    /// Returns `text` with this row's indentation.
    pub(super) fn indented(&self, text: &str) -> String {
        if text.is_empty() {
            return String::new();
        }
        if self.lead.is_empty() {
            return " ".repeat(self.indent) + text;
        }
        let (mut lead, mut column) = (self.lead.chars(), 0);
        while column < self.removed {
            let Some(c) = lead.next() else { break };
            column = column_after(column, c);
        }
        " ".repeat(column.saturating_sub(self.removed)) + lead.as_str() + text
    }
}

fn column_after(column: usize, c: char) -> usize {
    if c == '\t' { column + TAB_COLUMNS - column % TAB_COLUMNS } else { column + 1 }
}
