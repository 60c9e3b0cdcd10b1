//! An emulated terminal: the screen that a program's output paints.
//!
//! [`Screen`] passes bytes, in pieces of any size, through alacritty's parser to alacritty's grid.
//! It reports to a [`ScreenObserver`] which rows leave the top and which events interrupt the text.
//! No row is reported twice. All state that a program can make grow has a limit: size, history,
//! strings, combining characters, answers.

mod cleanup;
mod clusters;
mod colours;
mod observer;
mod painter;
mod parser_input;
mod rows;
mod snapshot;
pub mod tail;

pub use self::observer::{Discontinuity, NoObserver, ScreenObserver};
pub use self::rows::{Row, VisibleRows};

use alacritty_terminal::event::VoidListener;
use alacritty_terminal::grid::Dimensions;
use alacritty_terminal::index::{Column, Line};
use alacritty_terminal::term::cell::Flags;
use alacritty_terminal::term::test::TermSize;
use alacritty_terminal::term::{Config, Term, TermMode};
use alacritty_terminal::vte::ansi::Processor;

use self::painter::{HISTORY_ROWS_MAX, Painter, PainterState};
use self::parser_input::{CharacterBuffer, SequenceLimit, Unbuffered};

/// The limits for sizes. Real terminals are within them, and each cell takes memory.
const COLUMNS_MIN: usize = 2;
const COLUMNS_MAX: usize = 600;
const ROWS_MAX: usize = 250;

/// The cursor's position, counted from 0 at the top left.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Cursor {
    /// The row.
    pub row: usize,
    /// The column.
    pub column: usize,
    /// Whether the cursor is visible, because the program has not hidden it.
    pub visible: bool,
}

/// The character in one column of a row, with the attributes that CLIs use in their composers.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct StyledChar {
    /// The character; a blank in an empty column and in the second column of a wide character.
    pub(crate) character: char,
    /// Whether the character is faint, as suggestions are.
    pub(crate) dim: bool,
    /// Whether foreground and background are exchanged, as in selected entries and drawn cursors.
    pub(crate) inverse: bool,
}

/// A grid and the parser that paints it.
pub struct Screen {
    term: Term<VoidListener>,
    parser: Processor<Unbuffered>,
    characters: CharacterBuffer,
    limit: SequenceLimit,
    state: PainterState,
}

impl Screen {
    /// Returns an empty screen of this size, clamped to the allowed range.
    pub fn new(columns: usize, rows: usize) -> Self {
        let size = clamped(columns, rows);
        let config = Config { scrolling_history: HISTORY_ROWS_MAX, ..Config::default() };
        Self {
            term: Term::new(config, &size, VoidListener),
            parser: Processor::new(),
            characters: CharacterBuffer::default(),
            limit: SequenceLimit::default(),
            state: PainterState::default(),
        }
    }

    /// Paints a program's output.
    pub fn feed(&mut self, bytes: &[u8], observer: &mut impl ScreenObserver) {
        let Self { term, parser, characters, limit, state } = self;
        let mut painter = Painter { term, state, observer };
        characters.pass(bytes, |whole| {
            limit.pass(whole, |piece| parser.advance(&mut painter, piece));
        });
    }

    /// Changes the size. Rows that no longer fit scroll off.
    pub fn resize(&mut self, columns: usize, rows: usize, observer: &mut impl ScreenObserver) {
        let size = clamped(columns, rows);
        if (size.columns, size.screen_lines) == self.size() {
            return;
        }
        let mut painter = Painter { term: &mut self.term, state: &mut self.state, observer };
        painter.forget_history();
        painter.term.resize(size);
        painter.observer.discontinuity(Discontinuity::Resized);
        painter.report_history();
    }

    /// Leaves the alternate screen, as a terminal does when its program is gone.
    pub(crate) fn leave_alternate(&mut self, observer: &mut impl ScreenObserver) {
        Painter { term: &mut self.term, state: &mut self.state, observer }.show_primary();
    }

    /// Sets whether the program counts the columns of each code point of an emoji. Mode 2027 sets
    /// the same; the last one counts.
    pub(crate) fn count_code_points(&mut self, counts: bool) {
        self.state.counts_code_points = counts;
    }

    /// Returns the visible rows.
    pub(crate) fn visible_rows(&self) -> VisibleRows<'_> {
        VisibleRows(&self.term)
    }

    /// Returns the number of columns and rows.
    pub fn size(&self) -> (usize, usize) {
        (self.term.columns(), self.term.screen_lines())
    }

    /// Returns the cursor's position.
    pub fn cursor(&self) -> Cursor {
        let point = self.term.grid().cursor.point;
        Cursor {
            row: usize::try_from(point.line.0).unwrap_or(0),
            column: point.column.0,
            visible: self.term.mode().contains(TermMode::SHOW_CURSOR),
        }
    }

    /// Whether the alternate screen is shown, which full-screen programs use.
    pub fn alternate(&self) -> bool {
        self.term.mode().contains(TermMode::ALT_SCREEN)
    }

    /// Whether the program asked for reports of the focus.
    pub fn reports_focus(&self) -> bool {
        self.term.mode().contains(TermMode::FOCUS_IN_OUT)
    }

    /// Whether the program asked for bracketed pastes.
    pub(crate) fn bracketed_paste(&self) -> bool {
        self.term.mode().contains(TermMode::BRACKETED_PASTE)
    }

    /// Whether the program is within a synchronized update (DEC 2026).
    pub(crate) fn synchronizing(&self) -> bool {
        self.state.synchronizing
    }

    /// Returns a visible row, or an empty row for an index below the last row.
    pub fn row(&self, index: usize) -> Row {
        let is_visible = index < self.term.screen_lines();
        if is_visible { self.visible_rows().row(index) } else { Row::default() }
    }

    /// Returns the columns of a visible row, or nothing for an index below the last row.
    pub(crate) fn styled_row(&self, index: usize) -> Vec<StyledChar> {
        if index >= self.term.screen_lines() {
            return Vec::new();
        }
        let row = &self.term.grid()[Line(index as i32)];
        (0..self.term.columns())
            .map(|column| &row[Column(column)])
            .map(|cell| StyledChar {
                character: if cell.c < ' ' { ' ' } else { cell.c },
                dim: cell.flags.contains(Flags::DIM),
                inverse: cell.flags.contains(Flags::INVERSE),
            })
            .collect()
    }

    /// Returns the visible rows as text, each followed by a newline.
    pub fn text(&self) -> String {
        let rows = self.visible_rows().to_vec();
        rows.iter().flat_map(|row| [row.text.trim_end(), "\n"]).collect()
    }

    /// Takes the answers to the program's queries: device attributes, cursor position, size. The
    /// answers contain digits and no text from the screen. If there is a real terminal, it answers
    /// itself.
    pub fn take_answers(&mut self) -> Vec<u8> {
        std::mem::take(&mut self.state.answers)
    }
}

/// Returns a size within the allowed range.
fn clamped(columns: usize, rows: usize) -> TermSize {
    TermSize::new(columns.clamp(COLUMNS_MIN, COLUMNS_MAX), rows.clamp(1, ROWS_MAX))
}

#[cfg(test)]
mod tests;
