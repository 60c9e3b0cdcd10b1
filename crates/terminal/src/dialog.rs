//! Recognition of questions on the screen that an Enter would answer.

/// The number of non-blank rows at the end of the screen that are searched for a menu.
const ROWS_SEARCHED: usize = 20;

/// Characters that programs draw in front of the menu entry that an Enter would select.
const POINTERS: [char; 6] = ['❯', '›', '▶', '➤', '→', '>'];

/// Whether the text before the cursor ends in a yes-or-no question.
#[must_use]
pub(crate) fn asks_yes_or_no(before_cursor: &str) -> bool {
    let end = before_cursor.trim_end().trim_end_matches([':', '?', ' ']).to_ascii_lowercase();
    ["(y/n)", "[y/n]", "(yes/no)", "[yes/no]", "(y/n/a)", "[y/n/a]"]
        .iter()
        .any(|q| end.ends_with(q))
}

/// Returns the row with a menu's pointer. A menu has several numbered entries, and no other pointer
/// below it, such as an input line's.
#[must_use]
pub(crate) fn menu_row(rows: &[&str]) -> Option<usize> {
    let rows: Vec<(usize, &str)> = rows
        .iter()
        .enumerate()
        .map(|(row, text)| (row, trim_border(text)))
        .filter(|(_, text)| !text.is_empty())
        .collect();
    let rows = &rows[rows.len().saturating_sub(ROWS_SEARCHED)..];
    let at = rows.iter().rposition(|(_, text)| pointed_at(text).is_some())?;
    let chosen = pointed_at(rows[at].1).and_then(entry_number)?;
    let has_next = rows.get(at + 1).and_then(|(_, text)| entry_number(text)) == Some(chosen + 1);
    let previous = at.checked_sub(1).and_then(|above| entry_number(rows[above].1));
    let is_entry = has_next || previous.is_some_and(|previous| previous + 1 == chosen);
    is_entry.then_some(rows[at].0)
}

/// The maximum number of rows of a dialog above its choices.
const TEXT_ROWS: usize = 24;

/// The number of blank rows that end a dialog's text without a frame.
const BLANK_ROWS: usize = 3;

/// The first number that is too high for a choice, since it has two digits.
const CHOICES_END: usize = 10;

/// The maximum size of a dialog, in bytes.
const BYTES_MAX: usize = 8 << 10;

/// The minimum width of a line that ends a dialog, in columns.
const LINE_COLUMNS: usize = 10;

/// The pointers that mark a dialog's choice. Most begin a row only in dialogs; Gemini CLI's may
/// also be a bullet.
const CHOICE_POINTERS: [char; 7] = ['❯', '›', '▶', '➤', '→', '>', '●'];

/// Returns the text and the numbered choices of the last dialog on a screen. `None` if there is
/// none, or if it is too long to distinguish it from another dialog.
#[must_use]
pub(crate) fn choices(rows: &[&str]) -> Option<(String, Vec<String>)> {
    let filled = rows.iter().enumerate().filter(|(_, row)| !trim_border(row).is_empty());
    let (pointed, _) = filled
        .rev()
        .take(ROWS_SEARCHED)
        .find(|(_, row)| trim_border(row).starts_with(CHOICE_POINTERS))?;
    let first = first_choice(rows, pointed)?;
    let mut choices: Vec<String> = Vec::new();
    let mut is_open = false;
    for row in &rows[first..] {
        let text = trim_border(row);
        match choice(row) {
            Some((CHOICES_END, _)) => break,
            Some((number, text)) if number == choices.len() + 1 => {
                choices.push(text.to_owned());
                is_open = true;
            }
            // A choice may continue in the rows below it.
            _ if is_open && !text.is_empty() => {
                let last = choices.last_mut()?;
                last.push(' ');
                last.push_str(text);
            }
            _ => is_open = false,
        }
    }
    let text = text_above(&rows[..first]);
    let bytes = text.len() + choices.iter().map(String::len).sum::<usize>();
    (choices.len() > 1 && bytes <= BYTES_MAX).then_some((text, choices))
}

/// Returns a choice's number and text.
fn choice(row: &str) -> Option<(usize, &str)> {
    let row = trim_border(row);
    let entry = row.strip_prefix(CHOICE_POINTERS).map_or(row, str::trim_start);
    let text = entry.split_once(['.', ')'])?.1.strip_prefix(' ')?;
    Some((entry_number(entry)? as usize, text.trim_start()))
}

/// Returns the row of choice 1, given the row of another choice.
fn first_choice(rows: &[&str], pointed: usize) -> Option<usize> {
    let (mut wanted, _) = choice(rows[pointed])?;
    for at in (0..=pointed).rev() {
        if choice(rows[at]).is_some_and(|(number, _)| number == wanted) {
            if wanted == 1 {
                return Some(at);
            }
            wanted = wanted.checked_sub(1)?;
        }
    }
    None
}

/// Returns the text of the dialog at the end of these rows, without blank rows.
fn text_above(rows: &[&str]) -> String {
    let mut text: Vec<&str> = Vec::new();
    let mut blank = 0;
    for row in rows.iter().rev().take(TEXT_ROWS) {
        let shown = trim_border(row);
        blank = if row.trim().is_empty() { blank + 1 } else { 0 };
        if is_top(row) || blank == BLANK_ROWS {
            break;
        }
        text.extend((!shown.is_empty()).then_some(shown));
    }
    text.reverse();
    text.join("\n")
}

/// Whether a row is the top line of a dialog's frame.
fn is_top(row: &str) -> bool {
    let row = row.trim();
    let lines = row.chars().filter(|c| matches!(c, '─' | '━' | '═')).count();
    lines >= LINE_COLUMNS && !row.starts_with(['│', '┃']) && trim_border(row).is_empty()
}

/// Returns a row without the border around it.
fn trim_border(row: &str) -> &str {
    row.trim_matches(|c: char| c == ' ' || ('\u{2500}'..='\u{257f}').contains(&c))
}

/// Returns the text after a pointer at the beginning of a row, or `None` for a row without a
/// pointer.
fn pointed_at(row: &str) -> Option<&str> {
    row.strip_prefix(POINTERS).map(str::trim_start)
}

/// Whether a text begins with a number, like a menu's entry.
#[must_use]
pub(crate) fn is_entry(text: &str) -> bool {
    entry_number(text).is_some()
}

/// Returns the number at the beginning of a menu entry, or `None` if the row is no entry.
fn entry_number(row: &str) -> Option<u32> {
    let digits = row.split_once(['.', ')'])?.0;
    digits.parse().ok().filter(|&number| number < 100)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn asks(screen: &str, before_cursor: &str) -> bool {
        let rows: Vec<_> = screen.lines().collect();
        menu_row(&rows).is_some() || asks_yes_or_no(before_cursor)
    }

    #[test]
    fn menu_with_a_pointer_asks() {
        assert!(asks(
            "Do you trust this folder?\n\n ❯ 1. Yes, proceed\n   2. No, exit\n\n Enter",
            ""
        ));
        assert!(asks(
            "│ Allow?        │\n│   1. Yes      │\n│ › 2. No       │\n╰───────────────╯",
            ""
        ));
        assert!(asks("> 1) Once\n  2) Always", ""));
    }

    #[test]
    fn list_above_an_input_line_does_not_ask() {
        assert!(!asks("❯ 1. do this\n  2. do that\n● Done.\n╭───╮\n│ ❯ │\n╰───╯", ""));
        assert!(!asks("1. one\n2. two\n> ", ""));
        assert!(!asks("> 1. one thing only\nthat is all", ""));
        assert!(!asks("", ""));
    }

    #[test]
    fn yes_or_no_question_asks() {
        for question in ["Overwrite? [y/N] ", "Sure (yes/no)? ", "Go on (Y/n): "] {
            assert!(asks("", question), "{question}");
        }
        assert!(!asks("", "Say (y/n) to go on> "));
    }
}
