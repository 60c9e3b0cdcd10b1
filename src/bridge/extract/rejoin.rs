//! Undoes what a CLI did that broke long lines to fit its screen.
//!
//! Row B continues row A if B's first word would not have fitted into A. The rest of the rules keep
//! lists, quotes, tables and code apart; each was kept because it made more wrapped bodies right.

use unicode_width::{UnicodeWidthChar, UnicodeWidthStr};

/// How far the widest row may stay behind the columns and still tell where the CLI breaks.
pub(super) const MARGIN_MAX: usize = 8;

/// So many columns early do CLIs break a row now and then, which counts where the line has already gone on
/// over so many rows.
const EARLY: usize = 2;
const LONG_ROWS: usize = 5;

/// As many equal characters at the beginning of two rows mean a series, not a broken line.
const SERIES_CHARACTERS: usize = 6;

/// One row of a body.
#[derive(Debug, Clone, Copy)]
pub(super) struct Piece<'a> {
    /// Columns between the body's left edge and the text.
    pub(super) indent: usize,
    /// The text; empty for a blank row.
    pub(super) text: &'a str,
    /// Columns the row fills as it stands.
    pub(super) width: usize,
    /// Columns of its first word as it stands.
    pub(super) first_word: usize,
}

/// A line put together: the piece it begins with, and its text.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct Joined {
    pub(super) piece: usize,
    pub(super) text: String,
}

/// The lines that were broken into these rows; `widest` counts rows outside the body as well.
pub(super) fn rejoin(pieces: &[Piece<'_>], widest: usize, columns: usize) -> Vec<Joined> {
    let limit = if widest + MARGIN_MAX >= columns { widest } else { columns };
    let mut lines: Vec<Joined> = Vec::new();
    let mut item = None;
    for (index, piece) in pieces.iter().enumerate() {
        let above = index.checked_sub(1).map(|above| &pieces[above]);
        if let Some(line) = lines.last_mut()
            && let Some(above) = above
            && let Some(glue) =
                continues(line, above, piece, item, limit, early(index - line.piece))
        {
            line.text.push_str(glue);
            line.text.push_str(quote_bar(piece.text).map_or(piece.text, |(_, rest)| rest));
            continue;
        }
        item = item_after(item, piece);
        lines.push(Joined { piece: index, text: piece.text.to_owned() });
    }
    lines
}

/// How many columns early a row may have been broken that goes on a line of so many.
fn early(rows: usize) -> usize {
    if rows >= LONG_ROWS { EARLY } else { 0 }
}

/// What joins `below` to the line that ends with `above`, where it continues it.
fn continues(
    line: &Joined,
    above: &Piece<'_>,
    below: &Piece<'_>,
    item: Option<usize>,
    limit: usize,
    early: usize,
) -> Option<&'static str> {
    if above.text.is_empty() || below.text.is_empty() {
        return None;
    }
    if below.indent != 0 && Some(below.indent) != item {
        return None;
    }
    let (bar_above, _) = quote_bar(&line.text).unwrap_or_default();
    let (bar, text) = quote_bar(below.text).unwrap_or(("", below.text));
    let first_word = match bar.is_empty() {
        true => below.first_word,
        false => text.split_whitespace().next().map_or(0, UnicodeWidthStr::width),
    };
    let begins_anew =
        bar != bar_above || text.is_empty() || marked(text) || series(&line.text, text, bar);
    let fits = above.width + 1 + first_word + early <= limit;
    (!begins_anew && !fits).then(|| glue(above, text, first_word, limit))
}

/// A blank, or nothing where a word or a line of wide characters was cut.
fn glue(above: &Piece<'_>, below: &str, first_word: usize, limit: usize) -> &'static str {
    let last_word = above.text.split_whitespace().next_back().map_or(0, UnicodeWidthStr::width);
    let cut_word = above.width >= limit && last_word + first_word > limit;
    let wide = |c: Option<char>| c.and_then(char::width) == Some(2);
    let cut_wide = above.width + 1 >= limit
        && wide(above.text.chars().next_back())
        && wide(below.chars().next());
    if cut_word || cut_wide { "" } else { " " }
}

/// The text column of the list item that a row belongs to, known the one of the row above.
fn item_after(item: Option<usize>, piece: &Piece<'_>) -> Option<usize> {
    match list_mark(piece.text) {
        Some(width) => Some(piece.indent + width),
        None if piece.text.is_empty() => item,
        None => item.filter(|&column| piece.indent >= column),
    }
}

/// Whether both begin with the same characters, as rows of a log or of repeated calls do.
fn series(line: &str, below: &str, bar: &str) -> bool {
    let head = |text: &str| text.chars().take(SERIES_CHARACTERS).collect::<String>();
    let (line, below) = (head(&line[bar.len()..]), head(below));
    line == below && line.chars().count() == SERIES_CHARACTERS
}

/// Whether a row begins with a mark of a list, quote, fence, table, heading or block.
fn marked(text: &str) -> bool {
    let heading = text.trim_start_matches('#');
    let level = text.len() - heading.len();
    list_mark(text).is_some()
        || quote_bar(text).is_some()
        || text.starts_with("```")
        || text.starts_with("~~~")
        || text.strip_prefix('|').is_some_and(|row| row.contains('|'))
        || matches!(text.trim_end(), "[[RELAY]]" | "[[/RELAY]]")
        || text.starts_with(|c: char| ('\u{2500}'..='\u{257f}').contains(&c))
        || ((1..=6).contains(&level) && heading.starts_with(' '))
}

/// How far a list item's text stands behind the beginning of its mark.
fn list_mark(text: &str) -> Option<usize> {
    let digits = text.bytes().take_while(u8::is_ascii_digit).count();
    let rest = match digits {
        0 => text.strip_prefix(['-', '*', '+', '•', '◦', '▪', '·'])?,
        1..=9 => text[digits..].strip_prefix(['.', ')'])?,
        _ => return None,
    };
    let after = rest.trim_start_matches(' ');
    (after.len() < rest.len()).then(|| text[..text.len() - after.len()].width())
}

/// The quote bars a row begins with, and what stands behind them.
fn quote_bar(text: &str) -> Option<(&str, &str)> {
    let rest = text.trim_start_matches(['>', '▎', '▌', '│', '┃', ' ']);
    let bar = &text[..text.len() - rest.len()];
    let table = bar.starts_with(['│', '┃']) && rest.contains(['│', '┃']);
    let only_bars = !bar.is_empty() && !bar.starts_with(' ');
    (only_bars && !table && (bar.ends_with(' ') || rest.is_empty())).then_some((bar, rest))
}
