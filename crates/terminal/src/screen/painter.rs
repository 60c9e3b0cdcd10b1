//! The painter, which carries out the parser's operations on the grid and reports events to the
//! observer.

use std::collections::VecDeque;
use std::io::Write;

use alacritty_terminal::event::VoidListener;
use alacritty_terminal::grid::Dimensions;
use alacritty_terminal::index::{Column, Line, Point};
use alacritty_terminal::term::{Term, TermMode};
use alacritty_terminal::vte::ansi::{
    Attr, CharsetIndex, ClearMode, CursorStyle, Handler, KeyboardModes, KeyboardModesApplyBehavior,
    LineClearMode, Mode, ModifyOtherKeys, NamedPrivateMode, PrivateMode, StandardCharset,
    TabulationClearMode,
};
use unicode_width::UnicodeWidthChar;

use super::observer::{Discontinuity, ScreenObserver};
use super::rows::{Row, VisibleRows, read_row};
use crate::bounded;

/// The history is emptied at this number of rows. Each row is reported immediately, so the number
/// has no other effect.
const HISTORY_ROWS_KEPT: usize = 64;

/// The capacity of the history in rows. One operation, such as a resize, cannot scroll off more
/// rows.
pub(super) const HISTORY_ROWS_MAX: usize = 4096;

/// The maximum number of combining characters on one cell.
const MARKS_MAX: usize = 16;

/// The maximum number of keyboard modes on a terminal's stack.
const KEYBOARD_MODES_MAX: usize = 99;

/// The private mode that makes an emoji of several code points take two columns.
const CLUSTERS: u16 = 2027;

/// The private mode that makes a terminal report changes of its size.
pub(super) const REPORT_SIZE: u16 = 2048;

/// The private mode that makes a terminal report changes of its colours.
pub(super) const REPORT_COLORS: u16 = 2031;

/// The private mode that makes a terminal send keys like a Windows console. Windows' pseudo
/// consoles turn the mode on, and not all of them turn it off.
pub(super) const WIN32_INPUT: u16 = 9001;

/// With this many bytes of unread answers, further queries are not answered.
pub(super) const ANSWER_BYTES_MAX: usize = 1024;

/// The parser's handler.
pub(super) struct Painter<'a, O> {
    pub(super) term: &'a mut Term<VoidListener>,
    pub(super) state: &'a mut PainterState,
    pub(super) observer: &'a mut O,
}

/// The state of the terminal that is not in the grid.
#[derive(Default)]
pub(super) struct PainterState {
    /// The number of rows of the grid's history that were reported to the observer.
    reported: usize,
    /// Whether a synchronized update is in progress.
    pub(super) synchronizing: bool,
    /// Whether the program counts the columns of each code point of an emoji.
    pub(super) counts_code_points: bool,
    /// The cursor's position after the last character.
    pub(super) after_input: Option<Point>,
    /// Whether the program asked for reports of colour changes.
    pub(super) reports_colors: bool,
    /// Whether the program asked for reports of the size.
    pub(super) reports_size: bool,
    /// Whether the mouse wheel sends keys on the alternate screen, if the program has set that.
    pub(super) alternate_scroll: Option<bool>,
    /// Whether the program asked for keys like those of a Windows console.
    pub(super) win32_input: bool,
    /// Whether only a part of the rows scrolls.
    pub(super) has_margins: bool,
    /// Whether the character set G1 is active.
    pub(super) uses_g1: bool,
    /// Whether the program has changed the cursor's shape.
    pub(super) has_cursor_style: bool,
    pub(super) keyboard: KeyboardState,
    pub(super) answers: Vec<u8>,
    row: Row,
}

/// The keyboard modes that a program has turned on.
#[derive(Clone, Default)]
pub(super) struct KeyboardState {
    /// The modes on the stack of the primary screen.
    pub(super) primary: VecDeque<KeyboardModes>,
    /// The modes on the stack of the alternate screen.
    pub(super) alternate: VecDeque<KeyboardModes>,
    /// Whether keys with modifiers are sent as control sequences (modifyOtherKeys).
    pub(super) other_keys: bool,
}

impl<O: ScreenObserver> Painter<'_, O> {
    /// Reports the rows that went into the grid's history, and empties the history in time for more
    /// rows.
    #[inline]
    pub(super) fn report_history(&mut self) {
        let size = self.term.grid().history_size();
        if size == self.state.reported {
            return;
        }
        self.observer.rows_scrolling_off(VisibleRows(self.term), size - self.state.reported);
        for line in (1..=(size - self.state.reported) as i32).rev() {
            read_row(self.term.grid(), Line(-line), &mut self.state.row);
            self.observer.row_scrolled_off(&self.state.row);
        }
        self.state.reported = size;
        if size > HISTORY_ROWS_KEPT {
            self.forget_history();
        }
    }

    /// Empties the history. Its rows were reported, or were deleted without scrolling off.
    pub(super) fn forget_history(&mut self) {
        self.term.grid_mut().clear_history();
        self.state.reported = 0;
    }

    fn show_alternate(&mut self) {
        if self.term.mode().contains(TermMode::ALT_SCREEN) {
            return;
        }
        self.forget_history();
        self.term.swap_alt();
        // By default the alternate grid has no history. With one, its rows are reported, too.
        self.term.grid_mut().update_history(HISTORY_ROWS_MAX);
        self.observer.discontinuity(Discontinuity::AlternateShown);
    }

    pub(super) fn show_primary(&mut self) {
        if !self.term.mode().contains(TermMode::ALT_SCREEN) {
            return;
        }
        self.observer.leaving_alternate(VisibleRows(self.term));
        self.forget_history();
        self.term.swap_alt();
        self.observer.discontinuity(Discontinuity::PrimaryShown);
        self.report_history();
    }

    fn switch_private_mode(&mut self, mode: PrivateMode, is_on: bool) {
        match mode {
            PrivateMode::Named(NamedPrivateMode::SwapScreenAndSetRestoreCursor)
            | PrivateMode::Unknown(47 | 1047) => match is_on {
                true => self.show_alternate(),
                false => self.show_primary(),
            },
            PrivateMode::Named(NamedPrivateMode::SyncUpdate) => match is_on {
                true => self.state.synchronizing = true,
                false => self.end_update(),
            },
            PrivateMode::Unknown(REPORT_COLORS) => self.state.reports_colors = is_on,
            PrivateMode::Unknown(REPORT_SIZE) => self.state.reports_size = is_on,
            PrivateMode::Unknown(CLUSTERS) => self.state.counts_code_points = !is_on,
            PrivateMode::Named(NamedPrivateMode::AlternateScroll) => {
                self.state.alternate_scroll = Some(is_on);
            }
            PrivateMode::Unknown(WIN32_INPUT) => self.state.win32_input = is_on,
            PrivateMode::Named(_) | PrivateMode::Unknown(_) => match is_on {
                true => self.term.set_private_mode(mode),
                false => self.term.unset_private_mode(mode),
            },
        }
    }

    /// Reports that the alternate screen may be repainted, if it is shown with the cursor in the
    /// first row: repaints begin there.
    fn alternate_may_be_repainted(&mut self) {
        if self.term.mode().contains(TermMode::ALT_SCREEN)
            && self.term.grid().cursor.point.line == Line(0)
        {
            self.discontinuity(Discontinuity::AlternateRepainted);
        }
    }

    /// Whether the screen is empty.
    fn is_blank(&self) -> bool {
        let grid = self.term.grid();
        let is_blank = |line| grid[Line(line)].into_iter().all(|cell| cell.c == ' ');
        (0..grid.screen_lines() as i32).all(is_blank)
    }

    fn end_update(&mut self) {
        let was_updating = std::mem::take(&mut self.state.synchronizing);
        if was_updating && self.term.mode().contains(TermMode::ALT_SCREEN) {
            self.observer.update_completed(VisibleRows(self.term));
        }
    }

    /// Reports a discontinuity, except within a synchronized update of the alternate screen: there,
    /// only the rows at the update's end count.
    fn discontinuity(&mut self, cause: Discontinuity) {
        if !(self.state.synchronizing && self.term.mode().contains(TermMode::ALT_SCREEN)) {
            self.observer.discontinuity(cause);
        }
    }

    /// Returns the keyboard modes on the stack of the screen that is shown.
    fn keyboard_modes(&mut self) -> &mut VecDeque<KeyboardModes> {
        match self.term.mode().contains(TermMode::ALT_SCREEN) {
            true => &mut self.state.keyboard.alternate,
            false => &mut self.state.keyboard.primary,
        }
    }

    fn answer(&mut self, answer: std::fmt::Arguments<'_>) {
        if self.state.answers.len() < ANSWER_BYTES_MAX {
            self.state.answers.write_fmt(answer).expect("writing to memory cannot fail");
        }
    }

    /// Whether `c` is a combining character and its cell already has the maximum number of them.
    fn exceeds_marks(&self, c: char) -> bool {
        if c.is_ascii() || c.width() != Some(0) {
            return false;
        }
        let cursor = &self.term.grid().cursor;
        let row = &self.term.grid()[cursor.point.line];
        let is_full = |back: usize| {
            let column = Column(cursor.point.column.0.saturating_sub(back));
            row[column].zerowidth().is_some_and(|marks| marks.len() >= MARKS_MAX)
        };
        is_full(0) || is_full(1) || is_full(2)
    }
}

/// Passes all painting operations on to the grid.
///
/// Titles, clipboard, hyperlinks, most mode reports and pixel sizes are ignored: they only take
/// memory, or are answered with text from the screen.
impl<O: ScreenObserver> Handler for Painter<'_, O> {
    #[inline]
    fn input(&mut self, c: char) {
        if self.exceeds_marks(c) || self.joins(c) {
            return;
        }
        self.term.input(c);
        self.state.after_input = Some(self.term.grid().cursor.point);
        // Only a character at the beginning of a row can have scrolled the screen.
        if self.term.grid().cursor.point.column.0 <= 2 {
            self.report_history();
        }
    }

    #[inline]
    fn linefeed(&mut self) {
        self.term.linefeed();
        self.report_history();
    }

    fn newline(&mut self) {
        self.term.newline();
        self.report_history();
    }

    fn scroll_up(&mut self, lines: usize) {
        self.term.scroll_up(lines);
        self.report_history();
    }

    fn delete_lines(&mut self, lines: usize) {
        self.term.delete_lines(lines);
        if self.term.grid().history_size() != self.state.reported {
            self.forget_history();
        }
    }

    fn scroll_down(&mut self, lines: usize) {
        self.term.scroll_down(lines);
        if self.term.mode().contains(TermMode::ALT_SCREEN) {
            self.discontinuity(Discontinuity::AlternateRepainted);
        }
    }

    fn reverse_index(&mut self) {
        self.alternate_may_be_repainted();
        self.term.reverse_index();
    }

    fn insert_blank_lines(&mut self, lines: usize) {
        self.alternate_may_be_repainted();
        self.term.insert_blank_lines(lines);
    }

    fn goto(&mut self, line: i32, column: usize) {
        self.term.goto(line, column);
        self.alternate_may_be_repainted();
    }

    fn goto_line(&mut self, line: i32) {
        self.term.goto_line(line);
        self.alternate_may_be_repainted();
    }

    fn put_tab(&mut self, count: u16) {
        self.term.put_tab(count);
        self.report_history();
    }

    fn clear_screen(&mut self, mode: ClearMode) {
        match mode {
            // The grid's own method would push the rows into the history, as if they had scrolled
            // off.
            ClearMode::All => {
                self.term.grid_mut().reset_region(..);
                self.discontinuity(Discontinuity::ScreenCleared);
            }
            ClearMode::Saved => {
                self.forget_history();
                self.discontinuity(Discontinuity::HistoryCleared);
            }
            ClearMode::Above => {
                let line = self.term.grid().cursor.point.line;
                // The grid's own method does not erase the first row while the cursor is in the
                // second.
                if line > Line(0) {
                    self.term.grid_mut().reset_region(..line);
                }
                self.term.clear_screen(mode);
            }
            ClearMode::Below => {
                let point = self.term.grid().cursor.point;
                self.term.clear_screen(mode);
                if point.line == Line(0) && point.column == Column(0) {
                    self.discontinuity(Discontinuity::ScreenCleared);
                }
            }
        }
    }

    fn reset_state(&mut self) {
        self.show_primary();
        self.term.reset_state();
        let PainterState { answers, row, counts_code_points, .. } = std::mem::take(self.state);
        *self.state = PainterState { answers, row, counts_code_points, ..PainterState::default() };
        self.observer.discontinuity(Discontinuity::Reset);
    }

    fn set_private_mode(&mut self, mode: PrivateMode) {
        self.switch_private_mode(mode, true);
    }

    fn unset_private_mode(&mut self, mode: PrivateMode) {
        self.switch_private_mode(mode, false);
    }

    fn identify_terminal(&mut self, intermediate: Option<char>) {
        if intermediate.is_none() {
            self.answer(format_args!("\x1b[?62;22c"));
        }
    }

    fn device_status(&mut self, question: usize) {
        if question == 6 {
            let point = self.term.grid().cursor.point;
            self.answer(format_args!("\x1b[{};{}R", point.line + 1, point.column + 1));
        }
    }

    fn text_area_size_chars(&mut self) {
        let (rows, columns) = (self.term.screen_lines(), self.term.columns());
        self.answer(format_args!("\x1b[8;{rows};{columns}t"));
    }

    fn report_private_mode(&mut self, mode: PrivateMode) {
        if mode == PrivateMode::Unknown(CLUSTERS) {
            let state = if self.state.counts_code_points { 2 } else { 1 };
            self.answer(format_args!("\x1b[?{CLUSTERS};{state}$y"));
        }
    }

    fn push_keyboard_mode(&mut self, mode: KeyboardModes) {
        bounded::push(self.keyboard_modes(), KEYBOARD_MODES_MAX, mode);
    }

    fn set_keyboard_mode(&mut self, mode: KeyboardModes, how: KeyboardModesApplyBehavior) {
        let modes = self.keyboard_modes();
        let before = modes.pop_back().unwrap_or(KeyboardModes::NO_MODE);
        modes.push_back(match how {
            KeyboardModesApplyBehavior::Replace => mode,
            KeyboardModesApplyBehavior::Union => before | mode,
            KeyboardModesApplyBehavior::Difference => before & !mode,
        });
    }

    fn pop_keyboard_modes(&mut self, count: u16) {
        let modes = self.keyboard_modes();
        modes.truncate(modes.len().saturating_sub(count.into()));
    }

    fn set_modify_other_keys(&mut self, mode: ModifyOtherKeys) {
        self.state.keyboard.other_keys = mode != ModifyOtherKeys::Reset;
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
        let is_whole = matches!(mode, LineClearMode::All);
        self.term.clear_line(mode);
        let line = self.term.grid().cursor.point.line;
        if !is_whole || self.term.mode().contains(TermMode::ALT_SCREEN) {
            return;
        }
        if line == Line(0) {
            self.discontinuity(Discontinuity::FirstRowErased);
        }
        if line > Line(0) && line == self.term.bottommost_line() && self.is_blank() {
            self.discontinuity(Discontinuity::AllRowsErased);
        }
    }

    fn clear_tabs(&mut self, mode: TabulationClearMode) {
        self.term.clear_tabs(mode);
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
            self.state.has_margins = top > 1 || bottom < rows;
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
        self.state.uses_g1 = index != CharsetIndex::G0;
    }

    fn configure_charset(&mut self, index: CharsetIndex, charset: StandardCharset) {
        self.term.configure_charset(index, charset);
    }

    fn set_cursor_style(&mut self, style: Option<CursorStyle>) {
        self.state.has_cursor_style = style.is_some();
    }

    fn decaln(&mut self) {
        // Filling the screen with E, as the operation does, would take too long. The screen is
        // cleared instead.
        self.clear_screen(ClearMode::All);
    }
}
