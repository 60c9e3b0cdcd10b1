//! Recovers a message's body from the lines that contain it.

use super::body_row::{BodyLine, BodyRow};
use super::rejoin::rejoin;

/// Whether a line closes a message: it ends with `>>>`, perhaps followed by blanks, and without a
/// backslash before it.
pub(super) fn closes(text: &str) -> bool {
    text.trim_end().strip_suffix(">>>").is_some_and(|rest| !rest.ends_with('\\'))
}

/// Returns the text before the `>>>` of a line that closes a message.
pub(super) fn before_close(text: &str) -> &str {
    let text = text.trim_end();
    text.strip_suffix(">>>").unwrap_or(text)
}

/// Returns a body without common indentation, without a hanging indent of `hang` columns, and
/// without line breaks that a CLI inserted to fit the text into `columns`. `columns` is `None` for
/// a text that is not on a screen.
pub(super) fn recover_body(lines: &[BodyLine<'_>], hang: usize, columns: Option<usize>) -> String {
    let mut rows: Vec<BodyRow<'_>> = lines.iter().map(|line| BodyRow::of(line, hang)).collect();
    let texts = rows.iter().filter(|row| !row.text.is_empty());
    let shared = texts.map(|row| row.indent).min().unwrap_or(0);
    for row in &mut rows {
        row.indent = row.indent.saturating_sub(shared);
        row.removed += shared;
    }
    let is_wrapped = lines.iter().any(|line| line.line.is_wrapped);
    let text: Vec<String> = match columns {
        Some(columns) if !is_wrapped => rejoin(rows, columns),
        _ => rows.iter().map(|row| row.indented(row.text)).collect(),
    };
    text.join("\n").trim_matches([' ', '\t', '\r', '\n']).to_owned()
}
