//! Rejoining of long lines that a CLI wrapped to fit its screen.
//!
//! A row continues the row above if its first word would not have fitted into that row. Further
//! rules keep lists, quotes, tables and code apart. Each of these rules raises the number of test
//! bodies that are recovered exactly.

use super::body_row::BodyRow;
use unicode_width::{UnicodeWidthChar, UnicodeWidthStr};

/// How many columns narrower than the screen the widest row may be and still show where the CLI
/// wraps.
pub(super) const FULL_ROW_MARGIN: usize = 8;

/// How many columns too early CLIs sometimes wrap. It is only considered in a long line.
const EARLY_COLUMNS: usize = 2;

/// A line with at least this many rows counts as long.
const LONG_LINE_ROWS: usize = 5;

/// Two rows that begin with this many equal characters are a series, not a wrapped line.
const SERIES_CHARACTERS: usize = 6;

/// Returns the lines that were wrapped into these rows, with their indentation.
pub(super) fn rejoin(mut rows: Vec<BodyRow<'_>>, columns: usize) -> Vec<String> {
    rows.iter_mut().for_each(|row| row.text = row.text.trim_end());
    let widest = rows.iter().map(|row| row.width).max().unwrap_or(0);
    let limit = if widest + FULL_ROW_MARGIN >= columns { widest } else { columns };
    // The index of each line's first row, and the line.
    let mut lines: Vec<(usize, String)> = Vec::new();
    let mut item_column = None;
    for (index, row) in rows.iter().enumerate() {
        let above = index.checked_sub(1).map(|above| &rows[above]);
        if let (Some((first_row, line)), Some(above)) = (lines.last_mut(), above) {
            let is_long = index - *first_row >= LONG_LINE_ROWS;
            let early = if is_long { EARLY_COLUMNS } else { 0 };
            let continuation = Continuation { line, above, below: row, item_column, limit, early };
            if let Some(separator) = continuation.separator() {
                line.push_str(separator);
                line.push_str(quote_bar(row.text).map_or(row.text, |(_, rest)| rest));
                continue;
            }
        }
        item_column = item_column_after(item_column, row);
        lines.push((index, row.text.to_owned()));
    }
    lines.into_iter().map(|(first_row, line)| rows[first_row].indented(&line)).collect()
}

/// A row that may continue the row above it.
struct Continuation<'a> {
    /// The text of the line so far, including `above`.
    line: &'a str,
    above: &'a BodyRow<'a>,
    below: &'a BodyRow<'a>,
    /// The text column of the list item that contains `above`.
    item_column: Option<usize>,
    /// The number of columns that the CLI wraps at.
    limit: usize,
    /// How many columns too early the CLI may have wrapped the row.
    early: usize,
}

impl Continuation<'_> {
    /// Returns the text between the two rows if they belong to one line. `None` if `below` begins
    /// another line.
    fn separator(&self) -> Option<&'static str> {
        let Self { above, below, .. } = *self;
        if above.text.is_empty() || below.text.is_empty() {
            return None;
        }
        if below.indent != 0 && Some(below.indent) != self.item_column {
            return None;
        }
        let (bar_above, _) = quote_bar(self.line).unwrap_or_default();
        let (bar, text) = quote_bar(below.text).unwrap_or(("", below.text));
        let first_word = match bar.is_empty() {
            true => below.first_word,
            false => text.split_whitespace().next().map_or(0, UnicodeWidthStr::width),
        };
        let begins_line = bar != bar_above
            || text.is_empty()
            || begins_with_mark(text)
            || is_series(self.line, text, bar);
        let fits = above.width + 1 + first_word + self.early <= self.limit;
        (!begins_line && !fits).then(|| self.blank_or_nothing(text, first_word))
    }

    /// Returns the separator between two joined rows: a blank, or nothing if the CLI cut a long
    /// word or a line of wide characters.
    fn blank_or_nothing(&self, below: &str, first_word: usize) -> &'static str {
        let Self { above, limit, .. } = *self;
        let last_word = above.text.split_whitespace().next_back().map_or(0, UnicodeWidthStr::width);
        let cuts_word = above.width >= limit && last_word + first_word > limit;
        let is_wide = |c: Option<char>| c.and_then(char::width) == Some(2);
        let cuts_wide = above.width + 1 >= limit
            && is_wide(above.text.chars().next_back())
            && is_wide(below.chars().next());
        if cuts_word || cuts_wide { "" } else { " " }
    }
}

/// Returns the text column of the list item that contains a row, given the column for the row
/// above.
fn item_column_after(item_column: Option<usize>, row: &BodyRow<'_>) -> Option<usize> {
    match list_mark_columns(row.text) {
        Some(columns) => Some(row.indent + columns),
        None if row.text.is_empty() => item_column,
        None => item_column.filter(|&column| row.indent >= column),
    }
}

/// Whether both texts begin with the same characters, as rows of a log or repeated calls do.
fn is_series(line: &str, below: &str, bar: &str) -> bool {
    let head = |text: &str| text.chars().take(SERIES_CHARACTERS).collect::<String>();
    let (line, below) = (head(&line[bar.len()..]), head(below));
    line == below && line.chars().count() == SERIES_CHARACTERS
}

/// Whether a row begins with a mark of a list, quote, fence, table, heading or block.
fn begins_with_mark(text: &str) -> bool {
    let heading = text.trim_start_matches('#');
    let level = text.len() - heading.len();
    list_mark_columns(text).is_some()
        || quote_bar(text).is_some()
        || text.starts_with("```")
        || text.starts_with("~~~")
        || text.strip_prefix('|').is_some_and(|row| row.contains('|'))
        || matches!(text.trim_end(), "[[RELAY]]" | "[[/RELAY]]")
        || text.starts_with(|c: char| ('\u{2500}'..='\u{257f}').contains(&c))
        || ((1..=6).contains(&level) && heading.starts_with(' '))
}

/// Returns the number of columns from the beginning of a list item's mark to its text. `None` if
/// the row begins no list item.
fn list_mark_columns(text: &str) -> Option<usize> {
    let digits = text.bytes().take_while(u8::is_ascii_digit).count();
    let rest = match digits {
        0 => text.strip_prefix(['-', '*', '+', '•', '◦', '▪', '·'])?,
        1..=9 => text[digits..].strip_prefix(['.', ')'])?,
        _ => return None,
    };
    let after = rest.trim_start_matches(' ');
    (after.len() < rest.len()).then(|| text[..text.len() - after.len()].width())
}

/// Returns the quote bars that a row begins with, and the text after them.
fn quote_bar(text: &str) -> Option<(&str, &str)> {
    let rest = text.trim_start_matches(['>', '▎', '▌', '│', '┃', ' ']);
    let bar = &text[..text.len() - rest.len()];
    let is_table = bar.starts_with(['│', '┃']) && rest.contains(['│', '┃']);
    let has_bars = !bar.is_empty() && !bar.starts_with(' ');
    (has_bars && !is_table && (bar.ends_with(' ') || rest.is_empty())).then_some((bar, rest))
}
