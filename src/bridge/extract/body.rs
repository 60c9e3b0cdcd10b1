//! What a message says, out of the lines it stood on.

use std::borrow::Cow;

use unicode_width::UnicodeWidthStr;

use super::line::Line;
use super::rejoin::{Piece, rejoin};

/// Where a terminal's tabs stop.
const TAB_COLUMNS: usize = 8;

/// A line of a message, seen as it stands.
pub(super) struct Stretch<'a> {
    /// The line.
    pub(super) line: &'a Line,
    /// What of its text belongs to the body, with the blanks before it.
    pub(super) text: &'a str,
    /// The column where `text` counts as standing, where an opener stands before it.
    pub(super) column: Option<usize>,
}

/// Whether a line ends a message: `>>>` at its end, blanks after it or none, not escaped.
pub(super) fn closes(text: &str) -> bool {
    text.trim_end().strip_suffix(">>>").is_some_and(|rest| !rest.ends_with('\\'))
}

/// A closing line's text before its `>>>`.
pub(super) fn before_close(text: &str) -> &str {
    let text = text.trim_end();
    text.strip_suffix(">>>").unwrap_or(text)
}

/// The text of a body whose opener's bullet had this `hang`; `columns` where it stood on a terminal.
pub(super) fn recover(stretches: &[Stretch<'_>], hang: usize, columns: Option<usize>) -> String {
    let rows: Vec<Indented<'_>> = stretches.iter().map(|s| Indented::of(s, hang)).collect();
    let shared = rows.iter().filter(|r| !r.text.is_empty()).map(|r| r.indent).min().unwrap_or(0);
    let joined = stretches.iter().any(|s| s.line.joined);
    let lines: Vec<Cow<'_, str>> = match columns {
        Some(columns) if !joined => rejoined(stretches, &rows, shared, columns),
        _ => rows.iter().map(|row| row.without(shared, row.text)).collect(),
    };
    lines.join("\n").trim_matches([' ', '\t', '\r', '\n']).to_owned()
}

/// The lines as they were before the CLI broke them.
fn rejoined<'a>(
    stretches: &[Stretch<'a>],
    rows: &[Indented<'a>],
    shared: usize,
    columns: usize,
) -> Vec<Cow<'a, str>> {
    let widest = stretches.iter().map(|s| s.line.width).max().unwrap_or(0);
    let pieces: Vec<Piece<'_>> = std::iter::zip(stretches, rows)
        .map(|(stretch, row)| Piece {
            indent: row.indent.saturating_sub(shared),
            text: row.text.trim_end(),
            width: stretch.line.width,
            first_word: first_word(stretch, row),
        })
        .collect();
    rejoin(&pieces, widest, columns)
        .into_iter()
        .map(|line| Cow::Owned(rows[line.piece].without(shared, &line.text).into_owned()))
        .collect()
}

/// Columns of a row's first word, a `>>>` that stands at its end included.
fn first_word(stretch: &Stretch<'_>, row: &Indented<'_>) -> usize {
    let from = row.text.as_ptr() as usize - stretch.line.text.as_ptr() as usize;
    stretch.line.text[from..].split_whitespace().next().map_or(0, UnicodeWidthStr::width)
}

/// A row's text and how far it is pushed in.
struct Indented<'a> {
    lead: &'a str,
    /// Columns of `lead`, less the bullet's hang.
    indent: usize,
    /// What of the lead's columns is the bullet's.
    hang: usize,
    text: &'a str,
}

impl<'a> Indented<'a> {
    fn of(stretch: &Stretch<'a>, hang: usize) -> Self {
        let text = stretch.text.trim_start_matches([' ', '\t']);
        let lead = &stretch.text[..stretch.text.len() - text.len()];
        if let Some(column) = stretch.column {
            return Self { lead: "", indent: column.saturating_sub(hang), hang: 0, text };
        }
        let columns = columns_of(lead);
        let hang = if columns >= hang { hang } else { 0 };
        Self { lead, indent: columns - hang, hang, text }
    }

    /// The row with `text` for its own and `shared` columns of its indentation gone.
    fn without<'t>(&self, shared: usize, text: &'t str) -> Cow<'t, str> {
        if text.is_empty() {
            return Cow::Borrowed("");
        }
        if self.lead.is_empty() {
            let indent = self.indent.saturating_sub(shared);
            return if indent == 0 {
                Cow::Borrowed(text)
            } else {
                Cow::Owned(" ".repeat(indent) + text)
            };
        }
        let mut lead = self.lead.char_indices();
        let (mut column, gone) = (0, self.hang + shared);
        while column < gone {
            let Some((_, c)) = lead.next() else { break };
            column += if c == '\t' { TAB_COLUMNS - column % TAB_COLUMNS } else { 1 };
        }
        Cow::Owned(" ".repeat(column.saturating_sub(gone)) + lead.as_str() + text)
    }
}

fn columns_of(lead: &str) -> usize {
    lead.chars().fold(0, |column, c| {
        if c == '\t' { column + TAB_COLUMNS - column % TAB_COLUMNS } else { column + 1 }
    })
}
