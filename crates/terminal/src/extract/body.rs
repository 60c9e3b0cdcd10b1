//! Recovery of a message's body from the lines on which it stands.

use unicode_width::UnicodeWidthStr;

use super::logical_line::LogicalLine;
use super::rejoin::{WrappedRow, rejoin};

/// The number of columns between two tab stops.
const TAB_COLUMNS: usize = 8;

/// A line of a message, and the part of the line that belongs to the body.
pub(super) struct BodyLine<'a> {
    /// The whole line.
    pub(super) line: &'a LogicalLine,
    /// The part of the line's text that belongs to the body, with its indentation.
    pub(super) text: &'a str,
    /// The column at which `text` counts as beginning, if `text` follows an opening line's marks.
    pub(super) column: Option<usize>,
}

/// Whether a line closes a message: it ends with `>>>` without a backslash before, and perhaps
/// blanks.
pub(super) fn closes(text: &str) -> bool {
    text.trim_end().strip_suffix(">>>").is_some_and(|rest| !rest.ends_with('\\'))
}

/// Returns the text before the `>>>` of a line that closes a message.
pub(super) fn before_close(text: &str) -> &str {
    let text = text.trim_end();
    text.strip_suffix(">>>").unwrap_or(text)
}

/// Returns a body without common indentation, without hanging indentation (of `hang` columns), and
/// without the line breaks that a CLI inserted to fit the text into `columns`. `columns` is `None`
/// for a text that is not on a screen.
pub(super) fn recover_body(lines: &[BodyLine<'_>], hang: usize, columns: Option<usize>) -> String {
    let rows: Vec<IndentedText<'_>> =
        lines.iter().map(|line| IndentedText::of(line, hang)).collect();
    let texts = rows.iter().filter(|row| !row.text.is_empty());
    let shared = texts.map(|row| row.indent).min().unwrap_or(0);
    let is_wrapped = lines.iter().any(|line| line.line.is_wrapped);
    let text: Vec<String> = match columns {
        Some(columns) if !is_wrapped => rejoined(lines, &rows, shared, columns),
        _ => rows.iter().map(|row| row.without_indent(shared, row.text)).collect(),
    };
    text.join("\n").trim_matches([' ', '\t', '\r', '\n']).to_owned()
}

/// Returns the lines as they were before a CLI broke them.
fn rejoined(
    lines: &[BodyLine<'_>],
    rows: &[IndentedText<'_>],
    shared: usize,
    columns: usize,
) -> Vec<String> {
    let widest = lines.iter().map(|line| line.line.width).max().unwrap_or(0);
    let wrapped: Vec<WrappedRow<'_>> = std::iter::zip(lines, rows)
        .map(|(line, row)| WrappedRow {
            indent: row.indent.saturating_sub(shared),
            text: row.text.trim_end(),
            width: line.line.width,
            first_word: first_word_columns(line, row),
        })
        .collect();
    rejoin(&wrapped, widest, columns)
        .into_iter()
        .map(|line| rows[line.first_row].without_indent(shared, &line.text))
        .collect()
}

/// Returns the columns of a row's first word, including a `>>>` at the word's end.
fn first_word_columns(line: &BodyLine<'_>, row: &IndentedText<'_>) -> usize {
    let from = row.text.as_ptr() as usize - line.line.text.as_ptr() as usize;
    line.line.text[from..].split_whitespace().next().map_or(0, UnicodeWidthStr::width)
}

/// A text and its indentation.
struct IndentedText<'a> {
    /// The blanks and tabs before the text.
    lead: &'a str,
    /// The number of columns of `lead`, without `hang`.
    indent: usize,
    /// The number of columns of `lead` that are hanging indentation.
    hang: usize,
    text: &'a str,
}

impl<'a> IndentedText<'a> {
    fn of(line: &BodyLine<'a>, hang: usize) -> Self {
        let text = line.text.trim_start_matches([' ', '\t']);
        let lead = &line.text[..line.text.len() - text.len()];
        if let Some(column) = line.column {
            return Self { lead: "", indent: column.saturating_sub(hang), hang: 0, text };
        }
        let columns = lead.chars().fold(0, column_after);
        let hang = if columns >= hang { hang } else { 0 };
        Self { lead, indent: columns - hang, hang, text }
    }

    /// Returns `text` with this indentation, but without the hanging part and `shared` more
    /// columns.
    fn without_indent(&self, shared: usize, text: &str) -> String {
        if text.is_empty() {
            return String::new();
        }
        if self.lead.is_empty() {
            return " ".repeat(self.indent.saturating_sub(shared)) + text;
        }
        let mut lead = self.lead.chars();
        let (mut column, removed) = (0, self.hang + shared);
        while column < removed {
            let Some(c) = lead.next() else { break };
            column = column_after(column, c);
        }
        " ".repeat(column.saturating_sub(removed)) + lead.as_str() + text
    }
}

fn column_after(column: usize, c: char) -> usize {
    if c == '\t' { column + TAB_COLUMNS - column % TAB_COLUMNS } else { column + 1 }
}
