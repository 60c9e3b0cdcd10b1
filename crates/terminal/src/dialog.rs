//! Recognition of questions on the screen that an Enter would answer.

/// The number of rows at the end of the screen that are searched for a menu. Blank rows are not
/// counted.
const ROWS_SEARCHED: usize = 20;

/// Characters that programs draw in front of the menu entry that an Enter would select.
const POINTERS: [char; 6] = ['❯', '›', '▶', '➤', '→', '>'];

/// Whether the program asks the person a question that an Enter would answer.
///
/// The question is either a menu of numbered entries, with a pointer at one of them and no input
/// line below, or a yes-or-no question at the end of the text before the cursor.
#[must_use]
pub(crate) fn is_asking(rows: &[String], before_cursor: &str) -> bool {
    asks_yes_or_no(before_cursor) || is_menu(rows)
}

/// Whether the text before the cursor ends in a yes-or-no question.
fn asks_yes_or_no(before_cursor: &str) -> bool {
    let end = before_cursor.trim_end().trim_end_matches([':', '?', ' ']).to_ascii_lowercase();
    ["(y/n)", "[y/n]", "(yes/no)", "[yes/no]", "(y/n/a)", "[y/n/a]"]
        .iter()
        .any(|q| end.ends_with(q))
}

fn is_menu(rows: &[String]) -> bool {
    let rows: Vec<&str> =
        rows.iter().map(|row| trim_border(row)).filter(|row| !row.is_empty()).collect();
    let rows = &rows[rows.len().saturating_sub(ROWS_SEARCHED)..];
    let Some(at) = rows.iter().rposition(|row| pointed_at(row).is_some()) else { return false };
    let Some(chosen) = pointed_at(rows[at]).and_then(entry_number) else { return false };
    let has_next = rows.get(at + 1).and_then(|row| entry_number(row)) == Some(chosen + 1);
    let previous = at.checked_sub(1).and_then(|above| entry_number(rows[above]));
    has_next || previous.is_some_and(|previous| previous + 1 == chosen)
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

/// Returns the number at the beginning of a menu entry, or `None` if the row is no entry.
fn entry_number(row: &str) -> Option<u32> {
    let digits = row.split_once(['.', ')'])?.0;
    digits.parse().ok().filter(|&number| number < 100)
}

#[cfg(test)]
mod tests {
    use super::is_asking;

    fn asks(screen: &str, before_cursor: &str) -> bool {
        let rows: Vec<_> = screen.lines().map(str::to_owned).collect();
        is_asking(&rows, before_cursor)
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
