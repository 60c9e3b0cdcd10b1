//! Paints what the parser read on the grid, and watches what the grid does.

use std::io::Write;

use alacritty_terminal::event::VoidListener;
use alacritty_terminal::grid::Dimensions;
use alacritty_terminal::index::{Column, Line};
use alacritty_terminal::term::{Term, TermMode};
use alacritty_terminal::vte::ansi::{
    Attr, CharsetIndex, ClearMode, CursorStyle, Handler, KeyboardModes, LineClearMode, Mode,
    ModifyOtherKeys, NamedPrivateMode, PrivateMode, StandardCharset, TabulationClearMode,
};
use unicode_width::UnicodeWidthChar;

use super::{Break, Row, View, Watch, read_row};

/// Rows of history after which it is emptied; they are read at once, so this only says how often.
const HISTORY_ROWS_KEPT: usize = 64;

/// Rows of history there is room for: what one operation can scroll off, a narrower screen's rows included.
pub(super) const HISTORY_ROWS_MAX: usize = 4096;

/// Combining characters on one cell.
const MARKS_MAX: usize = 16;

/// Keyboard modes that a terminal keeps for a program, at most.
const KEYBOARD_MODES_MAX: u16 = 99;

/// The private mode in which a terminal tells when its colours change.
pub(super) const REPORT_COLORS: u16 = 2031;

/// The private mode in which a terminal spells out keys as Windows' consoles know them. Its pseudo consoles ask for
/// it, and not all of them take that back.
pub(super) const SPELL_KEYS: u16 = 9001;

/// Bytes of answers that wait; later questions go unanswered until they are taken.
pub(super) const ANSWER_BYTES_MAX: usize = 1024;

/// Paints for the parser, and watches what the grid does.
pub(super) struct Painter<'a, W> {
    pub(super) term: &'a mut Term<VoidListener>,
    pub(super) notes: &'a mut Notes,
    pub(super) watch: &'a mut W,
}

/// What the painter keeps beside the grid.
#[derive(Default)]
pub(super) struct Notes {
    /// How many rows of the grid's history were handed to the watch.
    seen: usize,
    pub(super) synchronizing: bool,
    /// The program wants to be told when the terminal's colours change.
    pub(super) reports_colors: bool,
    /// It has the terminal spell out keys.
    pub(super) spells_keys: bool,
    /// Only a part of the rows scrolls.
    pub(super) has_margins: bool,
    /// It paints with the second set of characters.
    pub(super) shifts_out: bool,
    /// It has given the cursor a shape.
    pub(super) shapes_cursor: bool,
    pub(super) keyboard: Keyboard,
    pub(super) answers: Vec<u8>,
    row: Row,
}

/// What a program asked of the keyboard, which the grid knows nothing of.
#[derive(Clone, Copy, Default)]
pub(super) struct Keyboard {
    /// Modes pushed on the primary screen and not taken back.
    pub(super) primary: u16,
    /// And on the alternate one.
    pub(super) alternate: u16,
    /// Keys with modifiers are spelled out.
    pub(super) other_keys: bool,
}

impl<W: Watch> Painter<'_, W> {
    /// Hands over the rows that went into the grid's history, and keeps room for a screenful more.
    #[inline]
    pub(super) fn read_history(&mut self) {
        let size = self.term.grid().history_size();
        if size == self.notes.seen {
            return;
        }
        self.watch.scrolling_off(View(self.term), size - self.notes.seen);
        for line in (1..=(size - self.notes.seen) as i32).rev() {
            read_row(self.term.grid(), Line(-line), &mut self.notes.row);
            self.watch.scrolled_off(&self.notes.row);
        }
        self.notes.seen = size;
        if size > HISTORY_ROWS_KEPT {
            self.forget_history();
        }
    }

    /// What is in the history was read, or has not scrolled off but was deleted.
    pub(super) fn forget_history(&mut self) {
        self.term.grid_mut().clear_history();
        self.notes.seen = 0;
    }

    fn show_alternate(&mut self) {
        if self.term.mode().contains(TermMode::ALT_SCREEN) {
            return;
        }
        self.forget_history();
        self.term.swap_alt();
        // The alternate grid has no history of its own; it gets one so that its rows, too, are seen to leave.
        self.term.grid_mut().update_history(HISTORY_ROWS_MAX);
        self.watch.broken(Break::AlternateShown);
    }

    pub(super) fn show_primary(&mut self) {
        if !self.term.mode().contains(TermMode::ALT_SCREEN) {
            return;
        }
        self.watch.leaving_alternate(View(self.term));
        self.forget_history();
        self.term.swap_alt();
        self.watch.broken(Break::PrimaryShown);
        self.read_history();
    }

    /// An alternate screen that is written from the top again shows a new picture.
    fn top_painted(&mut self) {
        if self.term.mode().contains(TermMode::ALT_SCREEN)
            && self.term.grid().cursor.point.line == Line(0)
        {
            self.broken(Break::TopPainted);
        }
    }

    /// Whether nothing stands on the screen.
    fn is_blank(&self) -> bool {
        let grid = self.term.grid();
        let is_blank = |line| grid[Line(line)].into_iter().all(|cell| cell.c == ' ');
        (0..grid.screen_lines() as i32).all(is_blank)
    }

    fn end_picture(&mut self) {
        let painted = std::mem::take(&mut self.notes.synchronizing);
        if painted && self.term.mode().contains(TermMode::ALT_SCREEN) {
            self.watch.pictured(View(self.term));
        }
    }

    /// The thread broke; within a picture of the alternate screen only its end says how.
    fn broken(&mut self, cause: Break) {
        if !(self.notes.synchronizing && self.term.mode().contains(TermMode::ALT_SCREEN)) {
            self.watch.broken(cause);
        }
    }

    /// The count of keyboard modes that the shown screen has.
    fn pushed(&mut self) -> &mut u16 {
        match self.term.mode().contains(TermMode::ALT_SCREEN) {
            true => &mut self.notes.keyboard.alternate,
            false => &mut self.notes.keyboard.primary,
        }
    }

    fn answer(&mut self, answer: std::fmt::Arguments<'_>) {
        if self.notes.answers.len() < ANSWER_BYTES_MAX {
            self.notes.answers.write_fmt(answer).expect("writing to memory cannot fail");
        }
    }

    /// Whether `c` only adds to a cell that has enough of such.
    fn one_mark_too_many(&self, c: char) -> bool {
        if c.is_ascii() || c.width() != Some(0) {
            return false;
        }
        let cursor = &self.term.grid().cursor;
        let row = &self.term.grid()[cursor.point.line];
        let full = |back: usize| {
            let column = Column(cursor.point.column.0.saturating_sub(back));
            row[column].zerowidth().is_some_and(|marks| marks.len() >= MARKS_MAX)
        };
        full(0) || full(1) || full(2)
    }
}

/// Everything that paints goes on to the grid. Left out, as it would only grow or answer with text of
/// the screen's own: titles, clipboard, colours, hyperlinks, keyboard modes, mode reports, pixel sizes.
impl<W: Watch> Handler for Painter<'_, W> {
    #[inline]
    fn input(&mut self, c: char) {
        if self.one_mark_too_many(c) {
            return;
        }
        self.term.input(c);
        // Only a character that began a row can have scrolled.
        if self.term.grid().cursor.point.column.0 <= 2 {
            self.read_history();
        }
    }

    #[inline]
    fn linefeed(&mut self) {
        self.term.linefeed();
        self.read_history();
    }

    fn newline(&mut self) {
        self.term.newline();
        self.read_history();
    }

    fn scroll_up(&mut self, lines: usize) {
        self.term.scroll_up(lines);
        self.read_history();
    }

    fn delete_lines(&mut self, lines: usize) {
        self.term.delete_lines(lines);
        if self.term.grid().history_size() != self.notes.seen {
            self.forget_history();
        }
    }

    fn scroll_down(&mut self, lines: usize) {
        self.term.scroll_down(lines);
        if self.term.mode().contains(TermMode::ALT_SCREEN) {
            self.broken(Break::TopPainted);
        }
    }

    fn reverse_index(&mut self) {
        self.top_painted();
        self.term.reverse_index();
    }

    fn insert_blank_lines(&mut self, lines: usize) {
        self.top_painted();
        self.term.insert_blank_lines(lines);
    }

    fn goto(&mut self, line: i32, column: usize) {
        self.term.goto(line, column);
        self.top_painted();
    }

    fn goto_line(&mut self, line: i32) {
        self.term.goto_line(line);
        self.top_painted();
    }

    fn put_tab(&mut self, count: u16) {
        self.term.put_tab(count);
        self.read_history();
    }

    fn clear_screen(&mut self, mode: ClearMode) {
        match mode {
            // The grid's own way would push the rows into the history, where they'd look like final ones.
            ClearMode::All => {
                self.term.grid_mut().reset_region(..);
                self.broken(Break::ScreenCleared);
            }
            ClearMode::Saved => {
                self.forget_history();
                self.broken(Break::HistoryCleared);
            }
            ClearMode::Above => {
                let line = self.term.grid().cursor.point.line;
                // The grid's own way spares the first row while the cursor is in the second.
                if line > Line(0) {
                    self.term.grid_mut().reset_region(..line);
                }
                self.term.clear_screen(mode);
            }
            ClearMode::Below => {
                let point = self.term.grid().cursor.point;
                self.term.clear_screen(mode);
                if point.line == Line(0) && point.column == Column(0) {
                    self.broken(Break::ScreenCleared);
                }
            }
        }
    }

    fn reset_state(&mut self) {
        self.show_primary();
        self.term.reset_state();
        let Notes { answers, row, .. } = std::mem::take(self.notes);
        *self.notes = Notes { answers, row, ..Notes::default() };
        self.watch.broken(Break::Reset);
    }

    fn set_private_mode(&mut self, mode: PrivateMode) {
        match mode {
            PrivateMode::Named(NamedPrivateMode::SwapScreenAndSetRestoreCursor)
            | PrivateMode::Unknown(47 | 1047) => self.show_alternate(),
            PrivateMode::Named(NamedPrivateMode::SyncUpdate) => self.notes.synchronizing = true,
            PrivateMode::Unknown(REPORT_COLORS) => self.notes.reports_colors = true,
            PrivateMode::Unknown(SPELL_KEYS) => self.notes.spells_keys = true,
            PrivateMode::Named(_) | PrivateMode::Unknown(_) => self.term.set_private_mode(mode),
        }
    }

    fn unset_private_mode(&mut self, mode: PrivateMode) {
        match mode {
            PrivateMode::Named(NamedPrivateMode::SwapScreenAndSetRestoreCursor)
            | PrivateMode::Unknown(47 | 1047) => self.show_primary(),
            PrivateMode::Named(NamedPrivateMode::SyncUpdate) => self.end_picture(),
            PrivateMode::Unknown(REPORT_COLORS) => self.notes.reports_colors = false,
            PrivateMode::Unknown(SPELL_KEYS) => self.notes.spells_keys = false,
            PrivateMode::Named(_) | PrivateMode::Unknown(_) => self.term.unset_private_mode(mode),
        }
    }

    fn identify_terminal(&mut self, intermediate: Option<char>) {
        if intermediate.is_none() {
            self.answer(format_args!("\x1b[?6c"));
        }
    }

    fn device_status(&mut self, what: usize) {
        if what == 6 {
            let point = self.term.grid().cursor.point;
            self.answer(format_args!("\x1b[{};{}R", point.line + 1, point.column + 1));
        }
    }

    fn text_area_size_chars(&mut self) {
        let (rows, columns) = (self.term.screen_lines(), self.term.columns());
        self.answer(format_args!("\x1b[8;{rows};{columns}t"));
    }

    fn push_keyboard_mode(&mut self, _: KeyboardModes) {
        let pushed = self.pushed();
        *pushed = pushed.saturating_add(1).min(KEYBOARD_MODES_MAX);
    }

    fn pop_keyboard_modes(&mut self, count: u16) {
        let pushed = self.pushed();
        *pushed = pushed.saturating_sub(count);
    }

    fn set_modify_other_keys(&mut self, mode: ModifyOtherKeys) {
        self.notes.keyboard.other_keys = mode != ModifyOtherKeys::Reset;
    }

    fn goto_col(&mut self, column: usize) {
        self.term.goto_col(column);
    }

    fn insert_blank(&mut self, count: usize) {
        self.term.insert_blank(count);
    }

    fn move_up(&mut self, rows: usize) {
        self.term.move_up(rows);
    }

    fn move_down(&mut self, rows: usize) {
        self.term.move_down(rows);
    }

    fn move_forward(&mut self, columns: usize) {
        self.term.move_forward(columns);
    }

    fn move_backward(&mut self, columns: usize) {
        self.term.move_backward(columns);
    }

    fn move_down_and_cr(&mut self, rows: usize) {
        self.term.move_down_and_cr(rows);
    }

    fn move_up_and_cr(&mut self, rows: usize) {
        self.term.move_up_and_cr(rows);
    }

    fn backspace(&mut self) {
        self.term.backspace();
    }

    fn carriage_return(&mut self) {
        self.term.carriage_return();
    }

    fn set_horizontal_tabstop(&mut self) {
        self.term.set_horizontal_tabstop();
    }

    fn erase_chars(&mut self, count: usize) {
        self.term.erase_chars(count);
    }

    fn delete_chars(&mut self, count: usize) {
        self.term.delete_chars(count);
    }

    fn move_backward_tabs(&mut self, count: u16) {
        self.term.move_backward_tabs(count);
    }

    fn move_forward_tabs(&mut self, count: u16) {
        self.term.move_forward_tabs(count);
    }

    fn save_cursor_position(&mut self) {
        self.term.save_cursor_position();
    }

    fn restore_cursor_position(&mut self) {
        self.term.restore_cursor_position();
    }

    fn clear_line(&mut self, mode: LineClearMode) {
        let whole = matches!(mode, LineClearMode::All);
        self.term.clear_line(mode);
        let line = self.term.grid().cursor.point.line;
        if !whole || self.term.mode().contains(TermMode::ALT_SCREEN) {
            return;
        }
        if line == Line(0) {
            self.broken(Break::TopErased);
        }
        if line > Line(0) && line == self.term.bottommost_line() && self.is_blank() {
            self.broken(Break::RowsErased);
        }
    }

    fn clear_tabs(&mut self, mode: TabulationClearMode) {
        self.term.clear_tabs(mode);
    }

    fn set_tabs(&mut self, interval: u16) {
        self.term.set_tabs(interval);
    }

    #[inline]
    fn terminal_attribute(&mut self, attribute: Attr) {
        self.term.terminal_attribute(attribute);
    }

    fn set_mode(&mut self, mode: Mode) {
        self.term.set_mode(mode);
    }

    fn unset_mode(&mut self, mode: Mode) {
        self.term.unset_mode(mode);
    }

    fn set_scrolling_region(&mut self, top: usize, bottom: Option<usize>) {
        self.term.set_scrolling_region(top, bottom);
        let rows = self.term.screen_lines();
        let bottom = bottom.unwrap_or(rows);
        if top < bottom {
            self.notes.has_margins = top > 1 || bottom < rows;
        }
    }

    fn set_keypad_application_mode(&mut self) {
        self.term.set_keypad_application_mode();
    }

    fn unset_keypad_application_mode(&mut self) {
        self.term.unset_keypad_application_mode();
    }

    fn set_active_charset(&mut self, index: CharsetIndex) {
        self.term.set_active_charset(index);
        self.notes.shifts_out = index != CharsetIndex::G0;
    }

    fn configure_charset(&mut self, index: CharsetIndex, charset: StandardCharset) {
        self.term.configure_charset(index, charset);
    }

    fn set_cursor_style(&mut self, style: Option<CursorStyle>) {
        self.notes.shapes_cursor = style.is_some();
    }

    fn decaln(&mut self) {
        // A screen full of E, for adjusting a tube, costs too much to paint.
        self.clear_screen(ClearMode::All);
    }
}
