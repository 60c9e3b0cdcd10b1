//! The spot where something would be typed: what of the screen a recipe looks at.

use crate::bridge::{
    dialog,
    screen::{Screen, StyledChar},
};

/// Rows above the cursor that a recipe's words are looked for in; below it all are.
const ROWS_ABOVE: usize = 10;

/// Rows that are blank since as many Enters were taken for line breaks.
const BLANK_ROWS: usize = 4;

/// What of a screen a recipe looks at.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Spot {
    /// The cursor's row, up to the cursor.
    pub before: String,
    /// The character at the cursor.
    pub at: char,
    /// What follows on the cursor's row, but what is faint, and blanks at its ends.
    pub after: String,
    /// The next row above the cursor's that is not blank, of some.
    pub above: String,
    /// The rows around the cursor.
    pub rows: Vec<String>,
    /// The program has not hidden the cursor.
    pub cursor_visible: bool,
    /// A full screen is shown.
    pub alternate: bool,
    /// The program wants pastes marked.
    pub bracketed_paste: bool,
    /// The program is in the middle of a picture.
    pub synchronizing: bool,
    /// The program asks something that an Enter would answer.
    pub asking: bool,
}

/// What stands on the cursor's row, up to the cursor.
#[must_use]
pub fn before(screen: &Screen) -> String {
    let cursor = screen.cursor();
    text(&screen.styled_row(cursor.row), cursor.column)
}

fn text(row: &[StyledChar], end: usize) -> String {
    // Some programs keep their prompt together with a blank that doesn't break.
    row.iter()
        .take(end)
        .map(|look| look.character)
        .map(|c| if c == '\u{a0}' { ' ' } else { c })
        .collect()
}

impl Spot {
    /// Looks at a screen.
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
            at: row.get(cursor.column).map_or(' ', |look| look.character),
            cursor_visible: cursor.visible,
            alternate: screen.alternate(),
            bracketed_paste: screen.bracketed_paste(),
            synchronizing: screen.synchronizing(),
        }
    }

    /// Whether the last thing before the cursor is a bracket, on its row or above it. Some programs leave
    /// the cursor in the row's beginning, where it was before a paste, and draw one of their own.
    pub(super) fn follows_bracket(&self) -> bool {
        let ends = |row: &str| {
            row.trim_end_matches(|c: char| c.is_whitespace() || is_line(c)).ends_with(']')
        };
        let is_blank = self.before.trim().is_empty();
        match self.after.is_empty() {
            true => ends(&self.before) || (is_blank && ends(&self.above)),
            false => is_blank && ends(&self.after),
        }
    }

    /// Whether one of these stands in the rows around the cursor; with `^` first, at the beginning of one.
    pub(super) fn shows(&self, words: &[String]) -> bool {
        words.iter().any(|words| match words.strip_prefix('^') {
            Some(words) => self.rows.iter().any(|row| row.trim_start().starts_with(words)),
            None => self.rows.iter().any(|row| row.contains(&**words)),
        })
    }

    /// A shell's line editor waits for a line to begin: it asks for marked pastes while it reads,
    /// and `>` at the prompt's end may be that of an unfinished command.
    pub(crate) fn is_shell(&self) -> bool {
        let prompt = self.before.trim_end();
        self.at == ' ' && self.bracketed_paste && !prompt.is_empty() && !prompt.ends_with('>')
    }

    /// A prompt of Python's, or of its debugger.
    pub(super) fn ends_like_python(&self) -> bool {
        [">>> ", "... ", "(Pdb) "].iter().any(|end| self.before.ends_with(end))
            || (self.before.starts_with("In [") && self.before.ends_with("]: "))
    }

    /// A prompt behind which what is typed runs, of some shell.
    pub(super) fn ends_like_a_shell(&self) -> bool {
        let windows = self.before.trim_end().ends_with('>')
            && (self.before.starts_with("PS ") || self.before[..].get(1..3) == Some(":\\"));
        windows || ends_like_a_prompt(&self.before)
    }
}

fn ends_like_a_prompt(before: &str) -> bool {
    ["$ ", "# ", "% ", "❯ ", "➜ "].iter().any(|end| before.ends_with(end))
}

/// What follows the cursor, but a suggestion. One is faint, but for its first letter where the program
/// draws its cursor on it.
fn after(row: &[StyledChar]) -> String {
    let suggests = row.iter().any(|look| look.dim && look.character != ' ');
    let drawn = row.first().is_some_and(|look| look.inverse) && suggests;
    let after = row.iter().skip(usize::from(drawn)).filter(|look| !look.dim);
    let after: String = after.map(|look| look.character).collect();
    after.trim_matches(|c: char| c.is_whitespace() || is_line(c)).to_owned()
}

/// What frames are drawn with.
fn is_line(c: char) -> bool {
    ('\u{2500}'..='\u{257f}').contains(&c)
}
