//! The spot: the cursor's position for typing a text, and the rows of the screen.

use crate::{
    dialog,
    screen::{Screen, StyledChar},
};

/// How many rows above the cursor are searched for words that may be anywhere.
const ROWS_NEAR: usize = 10;

/// The maximum number of blank rows between the cursor and the text above it. A composer that takes
/// Enter for a line break leaves such rows.
const BLANK_ROWS: usize = 4;

/// The maximum number of rows that a frame's end mark takes.
pub(super) const MARK_ROWS: usize = 3;

/// Some prompts contain it. It counts as a blank.
const NO_BREAK_SPACE: char = '\u{a0}';

/// The cursor's surroundings. From them, a recipe decides whether a text may be typed.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Spot {
    /// The text before the cursor in its row.
    pub before: String,
    /// The character at the cursor.
    pub at: char,
    /// The text after the cursor in its row, without faint text and outer blanks.
    pub after: String,
    /// The screen's rows.
    pub rows: Vec<String>,
    /// The cursor's row.
    pub row: usize,
    /// Whether the cursor is visible.
    pub cursor_visible: bool,
    /// Whether the alternate screen is shown.
    pub alternate: bool,
    /// Whether bracketed paste is on.
    pub bracketed_paste: bool,
    /// Whether the program is in the middle of a synchronized update.
    pub synchronizing: bool,
    /// Whether the text before the cursor ends in a yes-or-no question.
    pub yes_or_no: bool,
}

/// The text before the cursor in its row.
#[must_use]
pub(crate) fn text_before_cursor(screen: &Screen) -> String {
    let cursor = screen.cursor();
    text(&screen.styled_row(cursor.row), cursor.column)
}

fn text(row: &[StyledChar], end: usize) -> String {
    row.iter()
        .take(end)
        .map(|cell| cell.character)
        .map(|c| if c == NO_BREAK_SPACE { ' ' } else { c })
        .collect()
}

impl Spot {
    /// Returns the spot at a screen's cursor.
    #[must_use]
    pub fn of(screen: &Screen) -> Self {
        let cursor = screen.cursor();
        let row = screen.styled_row(cursor.row);
        let before = text(&row, cursor.column);
        let rows = (0..screen.size().1).map(|index| screen.row(index).text);
        Self {
            yes_or_no: dialog::asks_yes_or_no(&before),
            before,
            after: after(&row[cursor.column.min(row.len())..]),
            rows: rows.map(|row| row.replace(NO_BREAK_SPACE, " ")).collect(),
            row: cursor.row,
            at: row.get(cursor.column).map_or(' ', |cell| cell.character),
            cursor_visible: cursor.visible,
            alternate: screen.alternate(),
            bracketed_paste: screen.bracketed_paste(),
            synchronizing: screen.synchronizing(),
        }
    }

    /// Returns the row with a closing bracket just before the cursor, in the cursor's row or above,
    /// and its text up to the cursor. Some programs draw their own cursor and leave the terminal's
    /// cursor at the row's beginning, where it was before the paste.
    pub(super) fn bracketed_row(&self) -> Option<(usize, &str)> {
        let is_end = |c: char| c.is_whitespace() || is_line(c);
        let is_bracketed = |text: &str| text.trim_end_matches(is_end).ends_with(']');
        let is_blank = self.before.trim().is_empty();
        if !self.after.is_empty() {
            return (is_blank && is_bracketed(&self.after)).then_some((self.row, &*self.after));
        }
        if is_bracketed(&self.before) {
            return Some((self.row, &*self.before));
        }
        let above = (0..self.row).rev().take(BLANK_ROWS + 1).filter(|_| is_blank);
        let mut above = above.map(|row| (row, &*self.rows[row]));
        let nearest = above.find(|(_, text)| !text.trim().is_empty());
        nearest.filter(|(_, text)| is_bracketed(text))
    }

    /// Returns the first of the rows near the cursor.
    pub(super) fn near(&self) -> usize {
        self.row.saturating_sub(ROWS_NEAR).min(self.rows.len())
    }

    /// Returns the first of the rows near the last row with text at or above the cursor.
    pub(super) fn near_text(&self) -> usize {
        let above = &self.rows[..self.rows.len().min(self.row + 1)];
        let last = above.iter().rposition(|row| !row.trim().is_empty()).unwrap_or_default();
        last.saturating_sub(ROWS_NEAR)
    }

    /// Returns the rows, with blank rows in place of the frames with these digits. If only a
    /// frame's first row is visible, the frame may continue in any row, so only that row is
    /// blanked.
    pub(crate) fn without(&self, frames: &[&str]) -> Vec<&str> {
        let mut rows: Vec<&str> = self.rows.iter().map(String::as_str).collect();
        if frames.is_empty() {
            return rows;
        }
        let solid: Vec<String> = rows.iter().map(|row| solid(row)).collect();
        for hex in frames {
            let begin = format!("[relay {hex} ");
            let first = self.rows.iter().rposition(|row| row.contains(&begin));
            let last = last_row_of(hex, &solid, first.unwrap_or_default());
            match (first, last) {
                (first, Some(last)) => rows[first.unwrap_or_default()..=last].fill(""),
                (Some(first), None) => rows[first] = "",
                (None, None) => {}
            }
        }
        rows
    }

    /// Whether a shell's line editor waits for a command. A line editor turns bracketed paste on
    /// while it reads. A prompt that ends in `>` does not count: it may continue a command.
    pub(crate) fn line_editor_waits(&self) -> bool {
        let prompt = self.before.trim_end();
        self.at == ' ' && self.bracketed_paste && !prompt.is_empty() && !prompt.ends_with('>')
    }

    /// Whether the text before the cursor is a prompt of Python or its debugger.
    pub(super) fn ends_like_python(&self) -> bool {
        [">>> ", "... ", "(Pdb) "].iter().any(|end| self.before.ends_with(end))
            || (self.before.starts_with("In [") && self.before.ends_with("]: "))
    }

    /// Whether the text before the cursor ends like a shell's prompt.
    pub(super) fn ends_like_a_shell(&self) -> bool {
        let windows = self.before.trim_end().ends_with('>')
            && (self.before.starts_with("PS ") || self.before[..].get(1..3) == Some(":\\"));
        windows || ["$ ", "# ", "% ", "❯ ", "➜ "].iter().any(|end| self.before.ends_with(end))
    }
}

/// Returns the text after the cursor, without a suggestion. A suggestion is faint, except for its
/// first letter if the program draws its cursor there.
fn after(row: &[StyledChar]) -> String {
    let suggests = row.iter().any(|cell| cell.dim && cell.character != ' ');
    let has_drawn_cursor = row.first().is_some_and(|cell| cell.inverse) && suggests;
    let after = row.iter().skip(usize::from(has_drawn_cursor)).filter(|cell| !cell.dim);
    let after: String = after.map(|cell| cell.character).collect();
    after.trim_matches(|c: char| c.is_whitespace() || is_line(c)).to_owned()
}

/// Returns a row without blanks and the lines of frames around it.
fn solid(row: &str) -> String {
    row.chars().filter(|c| !c.is_whitespace() && !is_line(*c)).collect()
}

/// Returns the row where a frame's end mark ends, at or below the row `from`. A narrow program
/// splits the mark.
fn last_row_of(hex: &str, rows: &[String], from: usize) -> Option<usize> {
    let end = format!("[/relay{hex}]");
    (from..rows.len()).find(|last| {
        let first = last.saturating_sub(MARK_ROWS - 1).max(from);
        rows[*last].ends_with(']') && rows[first..=*last].concat().contains(&end)
    })
}

/// Whether one of these rows contains one of these words. A word written with `^` first must be at
/// the row's beginning.
pub(super) fn shows<'a>(rows: impl IntoIterator<Item = &'a str>, words: &[String]) -> bool {
    rows.into_iter().any(|row| {
        words.iter().any(|words| match words.strip_prefix('^') {
            Some(words) => row.trim_start().starts_with(words),
            None => row.contains(&**words),
        })
    })
}

/// Whether programs draw frames with this character.
pub(super) fn is_line(c: char) -> bool {
    ('\u{2500}'..='\u{257f}').contains(&c)
}
