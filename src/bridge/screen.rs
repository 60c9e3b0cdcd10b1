//! What the child's bytes paint: a terminal's grid without a terminal.
//!
//! [`Screen`] feeds bytes, in pieces of any size, through alacritty's parser to its grid and tells a
//! [`Watch`], in order and at the very operation, which rows leave the top and what else breaks the
//! thread of the text. So nothing depends on how the bytes were cut, and no row is read twice.
//! Everything a program can make grow is bounded: size, history, control strings, marks on a cell, answers.

use std::io::Write;
use std::time::Duration;

use alacritty_terminal::event::VoidListener;
use alacritty_terminal::grid::{Dimensions, Grid};
use alacritty_terminal::index::{Column, Line};
use alacritty_terminal::term::cell::{Cell, Flags};
use alacritty_terminal::term::{Config, Term, TermMode};
use alacritty_terminal::vte::ansi::{
    Attr, CharsetIndex, ClearMode, Handler, LineClearMode, Mode, NamedPrivateMode, PrivateMode,
    Processor, StandardCharset, TabulationClearMode, Timeout,
};
use unicode_width::UnicodeWidthChar;

/// Sizes beyond these are clamped: nobody reads such a terminal, and its cells cost memory.
const COLUMNS_MIN: usize = 2;
const COLUMNS_MAX: usize = 1000;
const ROWS_MAX: usize = 500;

/// Rows of history after which it is emptied; they are read at once, so this only says how often.
const HISTORY_ROWS_KEPT: usize = 64;

/// Rows of history there is room for: what one operation can scroll off, a narrower screen's rows included.
const HISTORY_ROWS_MAX: usize = 4096;

/// Bytes of a control string that reach the parser, which keeps them all. No string means anything here.
const STRING_BYTES_MAX: usize = 256;

/// Combining characters on one cell.
const MARKS_MAX: usize = 16;

/// Bytes of answers that wait; later questions go unanswered until they are taken.
const ANSWER_BYTES_MAX: usize = 1024;

/// A row as it stands.
#[derive(Debug, Clone, PartialEq, Eq, Hash, Default)]
pub struct Row {
    /// Its text, without the blanks at its end unless it wraps.
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
    /// The character, a blank where nothing was written or the second half of a wide one stands.
    pub character: char,
    /// Faint, as ghost suggestions are.
    pub dim: bool,
    /// Colours exchanged, as selected entries and drawn cursors are.
    pub inverse: bool,
}

/// What breaks the thread between the rows before and the rows after.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Break {
    /// The whole screen was erased; the history stays.
    ScreenCleared,
    /// The history was erased.
    HistoryCleared,
    /// The terminal was reset.
    Reset,
    /// The size changed.
    Resized {
        /// As it is now.
        columns: usize,
        /// As they are now.
        rows: usize,
    },
    /// The alternate screen is shown from here on, empty.
    AlternateShown,
    /// The primary screen is shown again, as it was left.
    PrimaryShown,
    /// The alternate screen is painted from its top again, or scrolled back.
    TopPainted,
}

/// Who reads along.
pub trait Watch {
    /// A row left the top of the screen for good.
    fn scrolled_off(&mut self, row: &Row);

    /// The alternate screen is about to be left; this is its last picture.
    fn leaving_alternate(&mut self, screen: View<'_>);

    /// The thread broke; rows that scroll off from here on come after it.
    fn broken(&mut self, cause: Break);
}

/// The visible rows of a screen.
#[derive(Clone, Copy)]
pub struct View<'a>(&'a Term<VoidListener>);

impl View<'_> {
    /// How many rows there are.
    pub fn rows(&self) -> usize {
        self.0.screen_lines()
    }

    /// Reads a visible row into `row`.
    pub fn read(&self, index: usize, row: &mut Row) {
        read_row(self.0.grid(), Line(index as i32), row);
    }
}

/// A grid and the parser that paints it.
pub struct Screen {
    term: Term<VoidListener>,
    parser: Processor<Unbuffered>,
    strings: StringLimit,
    notes: Notes,
}

/// What the painter keeps beside the grid.
#[derive(Default)]
struct Notes {
    /// How many rows of the grid's history were handed to the watch.
    seen: usize,
    synchronizing: bool,
    answers: Vec<u8>,
    row: Row,
}

impl Screen {
    /// An empty screen of this size, clamped to what is sane.
    pub fn new(columns: usize, rows: usize) -> Self {
        let size = Size::clamped(columns, rows);
        let config = Config { scrolling_history: HISTORY_ROWS_MAX, ..Config::default() };
        Self {
            term: Term::new(config, &size, VoidListener),
            parser: Processor::new(),
            strings: StringLimit::default(),
            notes: Notes::default(),
        }
    }

    /// Paints `bytes`, and tells `watch` what happens on the way.
    pub fn feed(&mut self, bytes: &[u8], watch: &mut impl Watch) {
        let Self { term, parser, strings, notes } = self;
        let mut painter = Painter { term, notes, watch };
        strings.pass(bytes, |piece| parser.advance(&mut painter, piece));
    }

    /// Changes the size; rows that no longer fit scroll off.
    pub fn resize(&mut self, columns: usize, rows: usize, watch: &mut impl Watch) {
        let size = Size::clamped(columns, rows);
        if (size.columns, size.rows) == self.size() {
            return;
        }
        self.forget_history();
        self.term.resize(size);
        watch.broken(Break::Resized { columns: size.columns, rows: size.rows });
        Painter { term: &mut self.term, notes: &mut self.notes, watch }.read_history();
    }

    /// Leaves the alternate screen, as a terminal does when its program is gone.
    pub fn leave_alternate(&mut self, watch: &mut impl Watch) {
        Painter { term: &mut self.term, notes: &mut self.notes, watch }.show_primary();
    }

    /// The visible rows.
    pub fn view(&self) -> View<'_> {
        View(&self.term)
    }

    /// Columns and rows.
    pub fn size(&self) -> (usize, usize) {
        (self.term.columns(), self.term.screen_lines())
    }

    /// Where the cursor stands.
    pub fn cursor(&self) -> Cursor {
        let point = self.term.grid().cursor.point;
        Cursor {
            row: usize::try_from(point.line.0).unwrap_or(0),
            column: point.column.0,
            visible: self.term.mode().contains(TermMode::SHOW_CURSOR),
        }
    }

    /// A full-screen program's screen is shown.
    pub fn alternate(&self) -> bool {
        self.term.mode().contains(TermMode::ALT_SCREEN)
    }

    /// The program wants pastes marked.
    pub fn bracketed_paste(&self) -> bool {
        self.term.mode().contains(TermMode::BRACKETED_PASTE)
    }

    /// The program is in the middle of a picture (DEC 2026).
    pub fn synchronizing(&self) -> bool {
        self.notes.synchronizing
    }

    /// A visible row; an empty one below the last.
    pub fn row(&self, index: usize) -> Row {
        let mut row = Row::default();
        if index < self.term.screen_lines() {
            self.view().read(index, &mut row);
        }
        row
    }

    /// The columns of a visible row.
    pub fn look(&self, index: usize) -> Vec<Look> {
        if index >= self.term.screen_lines() {
            return Vec::new();
        }
        let row = &self.term.grid()[Line(index as i32)];
        (0..self.term.columns())
            .map(|column| &row[Column(column)])
            .map(|cell| Look {
                character: if cell.c < ' ' { ' ' } else { cell.c },
                dim: cell.flags.contains(Flags::DIM),
                inverse: cell.flags.contains(Flags::INVERSE),
            })
            .collect()
    }

    /// The visible rows, each ended by a newline.
    pub fn text(&self) -> String {
        let mut text = String::new();
        for index in 0..self.term.screen_lines() {
            text.push_str(self.row(index).text.trim_end());
            text.push('\n');
        }
        text
    }

    /// What a terminal owes its child by now: device attributes, cursor position, size; digits and
    /// nothing that stood on the screen. Only for a wrapper without a real terminal, which answers itself.
    pub fn take_answers(&mut self) -> Vec<u8> {
        std::mem::take(&mut self.notes.answers)
    }

    fn forget_history(&mut self) {
        self.term.grid_mut().clear_history();
        self.notes.seen = 0;
    }
}

/// A sane size.
#[derive(Clone, Copy)]
struct Size {
    columns: usize,
    rows: usize,
}

impl Size {
    fn clamped(columns: usize, rows: usize) -> Self {
        Self { columns: columns.clamp(COLUMNS_MIN, COLUMNS_MAX), rows: rows.clamp(1, ROWS_MAX) }
    }
}

impl Dimensions for Size {
    fn total_lines(&self) -> usize {
        self.rows
    }

    fn screen_lines(&self) -> usize {
        self.rows
    }

    fn columns(&self) -> usize {
        self.columns
    }
}

/// Synchronized updates are painted as they come: holding bytes back would make what is seen depend on
/// how they were cut. Who judges rows waits for the end of the picture instead.
#[derive(Default)]
struct Unbuffered;

impl Timeout for Unbuffered {
    fn set_timeout(&mut self, _: Duration) {}

    fn clear_timeout(&mut self) {}

    fn pending_timeout(&self) -> bool {
        false
    }
}

/// Cuts operating system commands short before they reach the parser.
#[derive(Default)]
enum StringLimit {
    #[default]
    Text,
    Escape,
    Inside(usize),
}

impl StringLimit {
    fn pass(&mut self, bytes: &[u8], mut parse: impl FnMut(&[u8])) {
        let mut start = 0;
        let mut at = 0;
        while at < bytes.len() {
            match *self {
                Self::Text => match bytes[at..].iter().position(|&byte| byte == 0x1b) {
                    Some(offset) => {
                        at += offset + 1;
                        *self = Self::Escape;
                    }
                    None => at = bytes.len(),
                },
                Self::Escape => {
                    *self = Self::after_escape(bytes[at]);
                    at += 1;
                }
                Self::Inside(length) if matches!(bytes[at], 0x07 | 0x18 | 0x1a | 0x1b) => {
                    *self = if bytes[at] == 0x1b { Self::Escape } else { Self::Text };
                    if length >= STRING_BYTES_MAX {
                        start = at;
                    }
                    at += 1;
                }
                Self::Inside(length) => {
                    if length == STRING_BYTES_MAX {
                        parse(&bytes[start..at]);
                    }
                    *self = Self::Inside(length.saturating_add(1));
                    at += 1;
                    if length >= STRING_BYTES_MAX {
                        start = at;
                    }
                }
            }
        }
        parse(&bytes[start..]);
    }

    fn after_escape(byte: u8) -> Self {
        match byte {
            b']' => Self::Inside(0),
            0x18 | 0x1a | 0x20..=0x7e => Self::Text,
            _ => Self::Escape,
        }
    }
}

/// Reads one row of a grid; `line` may lie in its history.
fn read_row(grid: &Grid<Cell>, line: Line, row: &mut Row) {
    let columns = grid.columns();
    let cells = &grid[line];
    row.text.clear();
    row.wraps = cells[Column(columns - 1)].flags.contains(Flags::WRAPLINE);
    let blank = |cell: &Cell| matches!(cell.c, ' ' | '\t' | '\0') && cell.zerowidth().is_none();
    let end = match row.wraps {
        true => columns,
        false => (0..columns).rev().find(|&c| !blank(&cells[Column(c)])).map_or(0, |c| c + 1),
    };
    let wide = end > 0 && cells[Column(end - 1)].flags.contains(Flags::WIDE_CHAR);
    row.width = end + usize::from(wide);
    let mut column = 0;
    while column < end {
        let cell = &cells[Column(column)];
        column += 1;
        if cell.flags.intersects(Flags::WIDE_CHAR_SPACER | Flags::LEADING_WIDE_CHAR_SPACER) {
            continue;
        }
        row.text.push(if cell.c == '\0' { ' ' } else { cell.c });
        if cell.c == '\t' {
            // A tab stands in its first column; the blanks up to the next stop are its own.
            while column < end && column % 8 != 0 && cells[Column(column)].c == ' ' {
                column += 1;
            }
        }
        if let Some(marks) = cell.zerowidth() {
            row.text.extend(marks);
        }
    }
}

/// Paints for the parser, and watches what the grid does.
struct Painter<'a, W> {
    term: &'a mut Term<VoidListener>,
    notes: &'a mut Notes,
    watch: &'a mut W,
}

impl<W: Watch> Painter<'_, W> {
    /// Hands over the rows that went into the grid's history, and keeps room for a screenful more.
    #[inline]
    fn read_history(&mut self) {
        let size = self.term.grid().history_size();
        if size == self.notes.seen {
            return;
        }
        for line in (1..=(size - self.notes.seen) as i32).rev() {
            read_row(self.term.grid(), Line(-line), &mut self.notes.row);
            self.watch.scrolled_off(&self.notes.row);
        }
        self.notes.seen = size;
        if size > HISTORY_ROWS_KEPT {
            self.skip_history();
        }
    }

    /// What went into the history did not scroll off: it was deleted.
    fn skip_history(&mut self) {
        self.term.grid_mut().clear_history();
        self.notes.seen = 0;
    }

    fn show_alternate(&mut self) {
        if self.term.mode().contains(TermMode::ALT_SCREEN) {
            return;
        }
        self.skip_history();
        self.term.swap_alt();
        // The alternate grid has no history of its own; it gets one so that its rows, too, are seen to leave.
        self.term.grid_mut().update_history(HISTORY_ROWS_MAX);
        self.watch.broken(Break::AlternateShown);
    }

    fn show_primary(&mut self) {
        if !self.term.mode().contains(TermMode::ALT_SCREEN) {
            return;
        }
        self.watch.leaving_alternate(View(self.term));
        self.skip_history();
        self.term.swap_alt();
        self.watch.broken(Break::PrimaryShown);
        self.read_history();
    }

    /// An alternate screen that is written from the top again shows a new picture.
    fn top_painted(&mut self) {
        if self.term.mode().contains(TermMode::ALT_SCREEN)
            && self.term.grid().cursor.point.line == Line(0)
        {
            self.watch.broken(Break::TopPainted);
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
            self.skip_history();
        }
    }

    fn scroll_down(&mut self, lines: usize) {
        self.term.scroll_down(lines);
        if self.term.mode().contains(TermMode::ALT_SCREEN) {
            self.watch.broken(Break::TopPainted);
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
                self.watch.broken(Break::ScreenCleared);
            }
            ClearMode::Saved => {
                self.skip_history();
                self.watch.broken(Break::HistoryCleared);
            }
            ClearMode::Above => {
                let line = self.term.grid().cursor.point.line;
                if line > Line(0) {
                    self.term.grid_mut().reset_region(..line);
                }
                self.term.clear_screen(mode);
            }
            ClearMode::Below => {
                let point = self.term.grid().cursor.point;
                self.term.clear_screen(mode);
                if point.line == Line(0) && point.column == Column(0) {
                    self.watch.broken(Break::ScreenCleared);
                }
            }
        }
    }

    fn reset_state(&mut self) {
        self.show_primary();
        self.term.reset_state();
        self.notes.seen = 0;
        self.notes.synchronizing = false;
        self.watch.broken(Break::Reset);
    }

    fn set_private_mode(&mut self, mode: PrivateMode) {
        match mode {
            PrivateMode::Named(NamedPrivateMode::SwapScreenAndSetRestoreCursor)
            | PrivateMode::Unknown(47 | 1047) => self.show_alternate(),
            PrivateMode::Named(NamedPrivateMode::SyncUpdate) => self.notes.synchronizing = true,
            PrivateMode::Named(_) | PrivateMode::Unknown(_) => self.term.set_private_mode(mode),
        }
    }

    fn unset_private_mode(&mut self, mode: PrivateMode) {
        match mode {
            PrivateMode::Named(NamedPrivateMode::SwapScreenAndSetRestoreCursor)
            | PrivateMode::Unknown(47 | 1047) => self.show_primary(),
            PrivateMode::Named(NamedPrivateMode::SyncUpdate) => self.notes.synchronizing = false,
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
        self.term.clear_line(mode);
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
    }

    fn set_keypad_application_mode(&mut self) {
        self.term.set_keypad_application_mode();
    }

    fn unset_keypad_application_mode(&mut self) {
        self.term.unset_keypad_application_mode();
    }

    fn set_active_charset(&mut self, index: CharsetIndex) {
        self.term.set_active_charset(index);
    }

    fn configure_charset(&mut self, index: CharsetIndex, charset: StandardCharset) {
        self.term.configure_charset(index, charset);
    }

    fn decaln(&mut self) {
        self.term.decaln();
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[derive(Default)]
    struct Seen(u64, Vec<String>, Vec<Break>);
    impl Watch for Seen {
        fn scrolled_off(&mut self, row: &Row) {
            self.0 += 1;
            if self.1.len() < 100 {
                self.1.push(row.text.clone());
            }
        }
        fn leaving_alternate(&mut self, _: View<'_>) {}
        fn broken(&mut self, cause: Break) {
            self.2.push(cause);
        }
    }

    #[test]
    fn speed() {
        for (name, text) in [
            (
                "plain",
                "The quick brown fox jumps over the lazy dog and runs away from there.\r\n"
                    .to_owned(),
            ),
            ("long", "x".repeat(8000) + "\r\n"),
            (
                "colour",
                "\x1b[32mok\x1b[0m some test name that passed in \x1b[1m12ms\x1b[0m\r\n".to_owned(),
            ),
            ("short", "y\r\n".to_owned()),
        ] {
            let block = text.repeat((1 << 16) / text.len());
            let mut screen = Screen::new(100, 40);
            let mut seen = Seen::default();
            let start = std::time::Instant::now();
            let rounds = 300;
            for _ in 0..rounds {
                screen.feed(block.as_bytes(), &mut seen);
            }
            let mb = (rounds * block.len()) as f64 / 1e6;
            println!("{name}: {:.0} MB/s rows {}", mb / start.elapsed().as_secs_f64(), seen.0);
        }
    }
}
