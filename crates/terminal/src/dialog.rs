//! Recognition of questions on the screen that an Enter would answer.

/// The number of rows at the end of the screen that are searched for a menu. Blank rows are not
/// counted.
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

/// Returns the row with the pointer of a menu: one of several numbered entries, with no other
/// pointer, such as that of an input line, below it.
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

/// Returns a row without the border around it.
fn trim_border(row: &str) -> &str {
    row.trim_matches(|c: char| c == ' ' || ('\u{2500}'..='\u{257f}').contains(&c))
}

/// Returns the text after a pointer at the beginning of a row, or `None` for a row without a
/// pointer.
fn pointed_at(row: &str) -> Option<&str> {
    row.strip_prefix(POINTERS).map(str::trim_start)
}

/// Whether a text begins as a menu's entry does, with a number.
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
