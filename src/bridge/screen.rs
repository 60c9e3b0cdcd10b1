//! (being written)

/// What the child's bytes have painted.
pub struct Screen {}

/// A row as it stands.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Row {
    /// Its text without the blanks at its end.
    pub text: String,
    /// How many columns the text fills.
    pub width: usize,
    /// The terminal itself broke the line here: it goes on in the next row.
    pub wraps: bool,
}

/// Where the cursor stands; 0, 0 is the top left.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Cursor {
    /// The row.
    pub row: usize,
    /// The column.
    pub column: usize,
    /// The program has not hidden it.
    pub visible: bool,
}

/// One column of a row, for those who look at a CLI's composer.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Look {
    /// The character, a blank where nothing was written.
    pub character: char,
    /// Faint, as ghost suggestions are.
    pub dim: bool,
    /// Colours exchanged, as selected entries and drawn cursors are.
    pub inverse: bool,
}

impl Screen {
    /// Columns and rows.
    pub fn size(&self) -> (usize, usize) {
        (80, 24)
    }
    /// Where the cursor stands.
    pub fn cursor(&self) -> Cursor {
        Cursor { row: 0, column: 0, visible: true }
    }
    /// A full-screen program's screen is shown.
    pub fn alternate(&self) -> bool {
        false
    }
    /// The program wants pastes marked.
    pub fn bracketed_paste(&self) -> bool {
        false
    }
    /// The program is in the middle of a picture (DEC 2026).
    pub fn synchronizing(&self) -> bool {
        false
    }
    /// A visible row; an empty one below the last.
    pub fn row(&self, _index: usize) -> Row {
        Row::default()
    }
    /// The columns of a visible row.
    pub fn look(&self, _index: usize) -> Vec<Look> {
        Vec::new()
    }
    /// The visible rows, joined by newlines.
    pub fn text(&self) -> String {
        String::new()
    }
    /// What a terminal owes its child by now (device attributes, cursor position, size), nothing else.
    /// Empties. Only for a wrapper without a real terminal; a real one answers by itself.
    pub fn take_answers(&mut self) -> Vec<u8> {
        Vec::new()
    }
}
