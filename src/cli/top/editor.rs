//! The line that a person types in `top`.

use protocol::text::escaped;
use unicode_width::{UnicodeWidthChar as _, UnicodeWidthStr as _};

/// The longest line, in bytes.
pub(super) const BYTES_MAX: usize = 16 << 10;

/// A change of the line that is typed.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Edit {
    Insert(String),
    Backspace,
    Delete,
    Left,
    Right,
    Home,
    End,
    /// Removes the whole line.
    Clear,
    /// Removes the word before the cursor.
    Word,
}

/// A line of text with a cursor.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct Editor {
    text: String,
    /// The byte before which the cursor stands.
    cursor: usize,
}

impl Editor {
    /// A line with the cursor at its end.
    pub(super) fn new(text: String) -> Self {
        let cursor = text.len();
        Self { text, cursor }
    }

    pub(super) fn text(&self) -> &str {
        &self.text
    }

    /// Changes the line. Returns false if a text does not fit.
    pub(super) fn apply(&mut self, edit: &Edit) -> bool {
        let (before, after) = self.text.split_at(self.cursor);
        let last = before.chars().next_back().map_or(0, char::len_utf8);
        let next = after.chars().next().map_or(0, char::len_utf8);
        match edit {
            Edit::Insert(text) => return self.insert(text),
            Edit::Backspace => self.remove_before(self.cursor - last),
            Edit::Delete => drop(self.text.drain(self.cursor..self.cursor + next)),
            Edit::Left => self.cursor -= last,
            Edit::Right => self.cursor += next,
            Edit::Home => self.cursor = 0,
            Edit::End => self.cursor = self.text.len(),
            Edit::Clear => *self = Self::default(),
            Edit::Word => {
                let rest = before.trim_end_matches(' ');
                self.remove_before(rest.rfind(' ').map_or(0, |blank| blank + 1));
            }
        }
        true
    }

    /// Inserts a text, with its line breaks and tabs as blanks. Returns false if it does not fit.
    fn insert(&mut self, text: &str) -> bool {
        let line = text.replace("\r\n", " ").replace(['\r', '\n', '\t'], " ");
        if self.text.len() + line.len() > BYTES_MAX {
            return false;
        }
        self.text.insert_str(self.cursor, &line);
        self.cursor += line.len();
        true
    }

    fn remove_before(&mut self, start: usize) {
        self.text.drain(start..self.cursor);
        self.cursor = start;
    }

    /// The part of the line that fits into `width` columns, with the cursor's column in it. Hidden
    /// characters are escaped.
    pub(super) fn shown(&self, width: usize) -> (String, usize) {
        let before = escaped(&self.text[..self.cursor]);
        // The cursor needs a separate column.
        let mut room = width.saturating_sub(1);
        let mut start = before.len();
        for (at, character) in before.char_indices().rev() {
            let Some(left) = room.checked_sub(character.width().unwrap_or(0)) else { break };
            (room, start) = (left, at);
        }
        let before = &before[start..];
        (format!("{before}{}", escaped(&self.text[self.cursor..])), before.width())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn edited(text: &str, edits: &[Edit]) -> Editor {
        let mut editor = Editor::new(text.to_owned());
        assert!(edits.iter().all(|edit| editor.apply(edit)));
        editor
    }

    #[test]
    fn line_is_edited_at_the_cursor() {
        let insert = |text: &str| Edit::Insert(text.to_owned());
        for (edits, text, cursor) in [
            (&[Edit::Left, insert("x\r\ny")][..], "one 中x y文", 10),
            (&[Edit::Left, Edit::Backspace], "one 文", 4),
            (&[Edit::Home, Edit::Delete, Edit::Right], "ne 中文", 1),
            (&[Edit::Word], "one ", 4),
            (&[Edit::Word, Edit::Word, Edit::Word], "", 0),
            (&[Edit::Clear, Edit::Backspace, Edit::Delete, Edit::Left, Edit::Right], "", 0),
            (&[Edit::Home, Edit::Left, Edit::End], "one 中文", 10),
        ] {
            let editor = edited("one 中文", edits);
            assert_eq!((editor.text(), editor.cursor), (text, cursor), "{edits:?}");
        }
        let mut full = Editor::new("x".repeat(BYTES_MAX));
        assert!(!full.apply(&insert("y")) && !full.text().contains('y'));
    }

    #[test]
    fn cursor_stays_visible() {
        let editor = Editor::new("hello there".to_owned());
        assert_eq!(editor.shown(20), ("hello there".to_owned(), 11));
        assert_eq!(editor.shown(5), ("here".to_owned(), 4));
        assert_eq!(editor.shown(0), (String::new(), 0));
        let home = edited("a\u{1b}b", &[Edit::Home]);
        assert_eq!(home.shown(5), ("a\\u{1b}b".to_owned(), 0));
    }
}
