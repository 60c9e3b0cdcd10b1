//! The spot, which is the part of the screen around the cursor, where a text would be typed.

use crate::{
    dialog,
    screen::{Screen, StyledChar},
};

/// The number of rows above the cursor that are searched for a recipe's words. All rows below the
/// cursor are searched as well.
const ROWS_ABOVE: usize = 10;

/// The most blank rows between the cursor and the text above it. Such rows are Enters that a
/// composer took for line breaks.
const BLANK_ROWS: usize = 4;

/// The part of a screen from which a recipe decides whether a text may be typed.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Spot {
    /// The text before the cursor in its row.
    pub before: String,
    /// The character at the cursor.
    pub at: char,
    /// The text after the cursor in its row, without faint text and outer blanks.
    pub after: String,
    /// The nearest row above the cursor that is not blank, if it is near.
    pub above: String,
    /// The rows around the cursor.
    pub rows: Vec<String>,
    /// Whether the cursor is visible.
    pub cursor_visible: bool,
    /// Whether the alternate screen is shown.
    pub alternate: bool,
    /// Whether bracketed paste is on.
    pub bracketed_paste: bool,
    /// Whether the program is in the middle of a synchronized update.
    pub synchronizing: bool,
    /// Whether the program asks a question that an Enter would answer.
    pub asking: bool,
}

/// The text before the cursor in its row.
#[must_use]
pub(crate) fn text_before_cursor(screen: &Screen) -> String {
    let cursor = screen.cursor();
    text(&screen.styled_row(cursor.row), cursor.column)
}

fn text(row: &[StyledChar], end: usize) -> String {
    // Some prompts contain a no-break space.
    row.iter()
        .take(end)
        .map(|cell| cell.character)
        .map(|c| if c == '\u{a0}' { ' ' } else { c })
        .collect()
}

impl Spot {
    /// Returns the spot at a screen's cursor.
    #[must_use]
    pub fn of(screen: &Screen) -> Self {
        let cursor = screen.cursor();
        let row = screen.styled_row(cursor.row);
        let before = text(&row, cursor.column);
        let mut rows: Vec<_> = (0..screen.size().1).map(|index| screen.row(index).text).collect();
        let asking = dialog::is_asking(&rows, &before);
        let mut above = rows[..cursor.row.min(rows.len())].iter().rev().take(BLANK_ROWS + 1);
        let above = above.find(|row| !row.trim().is_empty()).cloned();
        rows.drain(..cursor.row.saturating_sub(ROWS_ABOVE));
        let after = after(&row[cursor.column.min(row.len())..]);
        Self {
            asking,
            before,
            after,
            above: above.unwrap_or_default(),
            rows,
            at: row.get(cursor.column).map_or(' ', |cell| cell.character),
            cursor_visible: cursor.visible,
            alternate: screen.alternate(),
            bracketed_paste: screen.bracketed_paste(),
            synchronizing: screen.synchronizing(),
        }
    }

    /// Returns the row that ends in a closing bracket which the cursor follows, in its row or above
    /// it. Some programs draw a cursor of their own and leave the terminal's cursor at the row's
    /// beginning, where it was before the paste.
    pub(super) fn bracketed_row(&self) -> Option<&str> {
        let is_blank = self.before.trim().is_empty();
        let rows = match self.after.is_empty() {
            true => [Some(&self.before), is_blank.then_some(&self.above)],
            false => [None, is_blank.then_some(&self.after)],
        };
        let is_end = |c: char| c.is_whitespace() || is_line(c);
        let mut rows = rows.into_iter().flatten().map(|row| row.trim_end_matches(is_end));
        rows.find(|row| row.ends_with(']'))
    }

    /// Whether a row around the cursor contains one of these words. A word that is written with `^`
    /// first must stand at the row's beginning.
    pub(super) fn shows(&self, words: &[String]) -> bool {
        words.iter().any(|words| match words.strip_prefix('^') {
            Some(words) => self.rows.iter().any(|row| row.trim_start().starts_with(words)),
            None => self.rows.iter().any(|row| row.contains(&**words)),
        })
    }

    /// Whether a shell's line editor waits for a command. A line editor turns bracketed paste on
    /// while it reads. A prompt that ends in `>` does not count: it may continue a command.
    pub(crate) fn is_shell(&self) -> bool {
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
        windows || ends_like_a_prompt(&self.before)
    }
}

fn ends_like_a_prompt(before: &str) -> bool {
    ["$ ", "# ", "% ", "❯ ", "➜ "].iter().any(|end| before.ends_with(end))
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

/// Whether this is a character with which programs draw frames.
fn is_line(c: char) -> bool {
    ('\u{2500}'..='\u{257f}').contains(&c)
}
