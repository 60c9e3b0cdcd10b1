//! What the child's bytes paint: a terminal's grid without a terminal.
//!
//! [`Screen`] feeds bytes, in pieces of any size, through alacritty's parser to its grid and tells a
//! [`Watch`], in order and at the very operation, which rows leave the top and what else breaks the
//! thread of the text. So nothing depends on how the bytes were cut, and no row is read twice.
//! Everything a program can make grow is bounded: size, history, control strings, marks on a cell, answers.

mod painter;
mod parser_input;
mod picture;
pub mod tail;

use alacritty_terminal::event::VoidListener;
use alacritty_terminal::grid::{Dimensions, Grid};
use alacritty_terminal::index::{Column, Line};
use alacritty_terminal::term::cell::{Cell, Flags};
use alacritty_terminal::term::{Config, Term, TermMode};
use alacritty_terminal::vte::ansi::{CharsetIndex, Processor, StandardCharset};

use self::painter::{HISTORY_ROWS_MAX, Keyboard, Notes, Painter, REPORT_COLORS, SPELL_KEYS};
use self::parser_input::{CharacterBuffer, SequenceLimit, Unbuffered};

/// Sizes beyond these are clamped: nobody reads such a terminal, and its cells cost memory.
const COLUMNS_MIN: usize = 2;
const COLUMNS_MAX: usize = 600;
const ROWS_MAX: usize = 250;

/// No reports of the mouse, in whichever way.
const MOUSE_OFF: &str = "\x1b[?1000l\x1b[?1002l\x1b[?1003l\x1b[?1006l";

/// Rows count from the screen's top again, and not from the upper margin. The cursor goes there, and no
/// terminal can put it back; so what comes next stands below all the others.
const ORIGIN_OFF: &str = "\x1b[?6l";
const BELOW: &str = "\x1b[999B\n";

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
    /// The size changes: what has no place in the new one scrolls off now.
    Resized,
    /// The alternate screen is shown from here on, empty.
    AlternateShown,
    /// The primary screen is shown again, as it was left.
    PrimaryShown,
    /// The alternate screen is painted from its top again, or scrolled back, by a program that does not
    /// say when its picture is whole.
    TopPainted,
    /// The primary screen's first row was erased, as programs do that paint all rows again.
    TopErased,
    /// All rows of the primary screen were erased, each by itself, down to the last, as programs do that go on at
    /// another place of their text.
    RowsErased,
}

/// Who reads along.
pub trait Watch {
    /// So many rows are about to be seen to leave the top of this screen.
    fn scrolling_off(&mut self, _view: View<'_>, _rows: usize) {}

    /// A row left the top of the screen for good.
    fn scrolled_off(&mut self, row: &Row);

    /// The program says that its picture of the alternate screen is whole.
    fn pictured(&mut self, _: View<'_>) {}

    /// The alternate screen is about to be left; this is its last picture.
    fn leaving_alternate(&mut self, screen: View<'_>);

    /// The thread broke; rows that scroll off from here on come after it.
    fn broken(&mut self, cause: Break);
}

/// The visible rows of a screen.
#[derive(Clone, Copy)]
pub struct View<'a>(&'a Term<VoidListener>);

impl View<'_> {
    /// All visible rows.
    pub fn all(&self) -> Vec<Row> {
        let mut row = Row::default();
        let read = |index| {
            self.read(index, &mut row);
            row.clone()
        };
        (0..self.rows()).map(read).collect()
    }

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
    characters: CharacterBuffer,
    limit: SequenceLimit,
    notes: Notes,
}

impl Screen {
    /// An empty screen of this size, clamped to what is sane.
    pub fn new(columns: usize, rows: usize) -> Self {
        let size = Size::clamped(columns, rows);
        let config = Config { scrolling_history: HISTORY_ROWS_MAX, ..Config::default() };
        Self {
            term: Term::new(config, &size, VoidListener),
            parser: Processor::new(),
            characters: CharacterBuffer::default(),
            limit: SequenceLimit::default(),
            notes: Notes::default(),
        }
    }

    /// Paints `bytes`, and tells `watch` what happens on the way.
    pub fn feed(&mut self, bytes: &[u8], watch: &mut impl Watch) {
        let Self { term, parser, characters, limit, notes } = self;
        let mut painter = Painter { term, notes, watch };
        characters.pass(bytes, |whole| {
            limit.pass(whole, |piece| parser.advance(&mut painter, piece));
        });
    }

    /// Changes the size; rows that no longer fit scroll off.
    pub fn resize(&mut self, columns: usize, rows: usize, watch: &mut impl Watch) {
        let size = Size::clamped(columns, rows);
        if (size.columns, size.rows) == self.size() {
            return;
        }
        let mut painter = Painter { term: &mut self.term, notes: &mut self.notes, watch };
        painter.forget_history();
        painter.term.resize(size);
        painter.watch.broken(Break::Resized);
        painter.read_history();
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

    /// What turns off again, in a terminal that shows this screen, all that the program left on: nothing
    /// where it has cleaned up behind itself.
    pub fn undo(&self) -> String {
        let mode = self.term.mode();
        let Keyboard { primary, alternate, other_keys } = self.notes.keyboard;
        let template = &self.term.grid().cursor.template;
        let plain = Cell::default();
        let is_painting =
            (template.fg, template.bg, template.flags) != (plain.fg, plain.bg, plain.flags);
        let pop = |pushed: u16| format!("\x1b[<{pushed}u");
        let is_alternate = mode.contains(TermMode::ALT_SCREEN);
        let origin =
            if is_alternate { ORIGIN_OFF.to_owned() } else { format!("\x1b[r{ORIGIN_OFF}{BELOW}") };
        let draws_lines =
            self.term.grid().cursor.charsets[CharsetIndex::G0] != StandardCharset::Ascii;
        let left = [
            (mode.intersects(TermMode::MOUSE_MODE), MOUSE_OFF.to_owned()),
            (mode.contains(TermMode::UTF8_MOUSE), "\x1b[?1005l".to_owned()),
            (mode.contains(TermMode::FOCUS_IN_OUT), "\x1b[?1004l".to_owned()),
            (is_alternate && alternate > 0, pop(alternate)),
            (mode.contains(TermMode::ORIGIN), origin),
            (is_alternate, "\x1b[?1049l".to_owned()),
            (self.notes.has_margins, "\x1b7\x1b[r\x1b8".to_owned()),
            (!mode.contains(TermMode::LINE_WRAP), "\x1b[?7h".to_owned()),
            (mode.contains(TermMode::INSERT), "\x1b[4l".to_owned()),
            (primary > 0, pop(primary)),
            (other_keys, "\x1b[>4m".to_owned()),
            (mode.contains(TermMode::BRACKETED_PASTE), "\x1b[?2004l".to_owned()),
            (self.notes.reports_colors, format!("\x1b[?{REPORT_COLORS}l")),
            (self.notes.spells_keys, format!("\x1b[?{SPELL_KEYS}l")),
            (mode.contains(TermMode::APP_CURSOR), "\x1b[?1l".to_owned()),
            (mode.contains(TermMode::APP_KEYPAD), "\x1b>".to_owned()),
            (!mode.contains(TermMode::SHOW_CURSOR), "\x1b[?25h".to_owned()),
            (self.notes.shapes_cursor, "\x1b[0 q".to_owned()),
            (draws_lines, "\x1b(B".to_owned()),
            (self.notes.shifts_out, "\x0f".to_owned()),
            (is_painting, "\x1b[m".to_owned()),
        ];
        left.into_iter().filter(|(on, _)| *on).map(|(_, off)| off).collect()
    }

    /// What a terminal owes its child by now: device attributes, cursor position, size; digits and
    /// nothing that stood on the screen. Only for a wrapper without a real terminal, which answers itself.
    pub fn take_answers(&mut self) -> Vec<u8> {
        std::mem::take(&mut self.notes.answers)
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

/// Reads one row of a grid; `line` may lie in its history.
fn read_row(grid: &Grid<Cell>, line: Line, row: &mut Row) {
    let cells = &grid[line][..Column(grid.columns())];
    row.text.clear();
    row.wraps = cells.last().is_some_and(|cell| cell.flags.contains(Flags::WRAPLINE));
    let blank = |cell: &Cell| matches!(cell.c, ' ' | '\t' | '\0') && cell.zerowidth().is_none();
    let end = match row.wraps {
        true => cells.len(),
        false => cells.iter().rposition(|cell| !blank(cell)).map_or(0, |last| last + 1),
    };
    let cells = &cells[..end];
    let wide = cells.last().is_some_and(|cell| cell.flags.contains(Flags::WIDE_CHAR));
    row.width = end + usize::from(wide);
    let mut column = 0;
    while let Some(cell) = cells.get(column) {
        column += 1;
        if cell.flags.intersects(Flags::WIDE_CHAR_SPACER | Flags::LEADING_WIDE_CHAR_SPACER) {
            continue;
        }
        row.text.push(if cell.c == '\0' { ' ' } else { cell.c });
        if cell.c == '\t' {
            // A tab stands in its first column; the blanks up to the next stop are its own.
            while column % 8 != 0 && cells.get(column).is_some_and(|cell| cell.c == ' ') {
                column += 1;
            }
        }
        if let Some(marks) = cell.zerowidth() {
            row.text.extend(marks);
        }
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::painter::ANSWER_BYTES_MAX;
    use super::*;

    /// Writes down what happens.
    #[derive(Default, Debug, PartialEq)]
    struct Log(Vec<String>);

    impl Watch for Log {
        fn scrolled_off(&mut self, row: &Row) {
            self.0.push(row.text.clone());
        }

        fn leaving_alternate(&mut self, screen: View<'_>) {
            let mut row = Row::default();
            screen.read(0, &mut row);
            self.0.push(format!("leaving {}", row.text));
        }

        fn broken(&mut self, cause: Break) {
            self.0.push(format!("{cause:?}"));
        }
    }

    fn painted(bytes: &[u8]) -> (Screen, Log) {
        let (mut screen, mut log) = (Screen::new(10, 3), Log::default());
        screen.feed(bytes, &mut log);
        (screen, log)
    }

    fn log(bytes: &str) -> Vec<String> {
        painted(bytes.as_bytes()).1.0
    }

    #[test]
    fn rows_are_seen_to_leave_once_and_in_order() {
        assert_eq!(log("a\r\nb\r\nc\r\nd\r\ne"), ["a", "b"]);
        assert_eq!(log("a\r\nb\r\nc\x1b[2S"), ["a", "b"]);
        assert_eq!(log("0123456789abcdefghij0123456789x"), ["0123456789"]);
        assert_eq!(log("a\r\nb\r\nfixed\x1b[1;2r\x1b[2;1H\nx\ny"), ["a", "b"]);
        let many: String = (0..5000).map(|n| format!("{n}\r\n")).collect();
        assert_eq!(log(&many).len(), 4998);
        assert_eq!(log("a\x1b[65535b").len(), 656 / 10 - 2);
    }

    #[test]
    fn what_is_erased_or_deleted_does_not_leave() {
        assert_eq!(log("a\r\nb\x1b[2J"), ["ScreenCleared"]);
        assert_eq!(log("a\r\nb\x1b[H\x1b[J"), ["ScreenCleared"]);
        let rows = "\x1b[2K\x1b[1B".repeat(3);
        assert_eq!(log(&format!("a\r\nb\x1b[H{rows}")), ["TopErased", "RowsErased"]);
        assert_eq!(log("a\r\nb\x1b[3;1H\x1b[2K"), Vec::<String>::new());
        assert_eq!(log("a\r\nb\x1b[H\x1b[2Mx"), Vec::<String>::new());
        assert_eq!(log("a\r\nb\x1b[1J"), Vec::<String>::new());
        assert_eq!(painted(b"a\r\nb\x1b[1Jc").0.text(), "\n c\n\n");
        assert_eq!(log("a\x1b[3J\x1bc"), ["HistoryCleared", "Reset"]);
    }

    #[test]
    fn the_alternate_screen_comes_and_goes() {
        let events = log("a\x1b[?1049h\x1b[Hb\r\nc\r\nd\r\ne\x1b[?1049l");
        assert_eq!(events, ["AlternateShown", "TopPainted", "b", "leaving c", "PrimaryShown"]);
        let (screen, _) = painted(b"a\x1b[?1049hb");
        assert!(screen.alternate());
        let (screen, _) = painted(b"a\x1b[?1049hb\x1bc");
        assert!(!screen.alternate());
        assert_eq!(screen.text(), "\n\n\n");
    }

    #[test]
    fn a_row_tells_how_it_was_broken() {
        let (screen, _) = painted("0123456 89ab\r\n字字字字 字x".as_bytes());
        let row = |text: &str, width, wraps| Row { text: text.to_owned(), width, wraps };
        assert_eq!(screen.row(0), row("ab", 2, false));
        assert_eq!(screen.row(1), row("字字字字 ", 10, true));
        assert_eq!(screen.row(2), row("字x", 3, false));
        let (screen, _) = painted("\tx\r\ne\u{301}a\u{200d}".as_bytes());
        assert_eq!(screen.row(0), row("\tx", 9, false));
        assert_eq!(screen.row(1), row("e\u{301}a\u{200d}", 2, false));
    }

    #[test]
    fn characters_cut_in_two_are_whole_again() {
        let text = "éx🎉字é🎉xé\u{1b}[1m字";
        for cut in 1..8 {
            let (mut screen, mut log) = (Screen::new(40, 3), Log::default());
            text.as_bytes().chunks(cut).for_each(|piece| screen.feed(piece, &mut log));
            assert_eq!(screen.row(0).text, "éx🎉字é🎉xé字", "{cut}");
        }
        for broken in
            [&b"\xe2a\xe2\x82b\xf0\x9f\x98\xc3\xa9\xff\xe2\x1b[mc"[..], b"\xe2\xe2\xe2\x82\xacd"]
        {
            let (mut screen, mut log) = (Screen::new(40, 3), Log::default());
            screen.feed(broken, &mut log);
            let whole = screen.row(0);
            for cut in 1..5 {
                let (mut screen, mut log) = (Screen::new(40, 3), Log::default());
                broken.chunks(cut).for_each(|piece| screen.feed(piece, &mut log));
                assert_eq!(screen.row(0), whole, "{cut}");
            }
        }
    }

    #[test]
    fn only_harmless_questions_are_answered() {
        let (mut screen, _) = painted(b"x\x1b[c\x1b[6n\x1b[18t");
        assert_eq!(screen.take_answers(), b"\x1b[?6c\x1b[1;2R\x1b[8;3;10t");
        let nasty = b"\x1b]0;rm -rf\x07\x1b[21t\x1b]52;c;?\x07\x1b]10;?\x07\x1bP$qm\x1b\\\x1b[?u\x1b[?2026$p\x1b[14t\x1b[>c";
        assert_eq!(painted(nasty).0.take_answers(), b"");
        let flood = b"\x1b[6n".repeat(100_000);
        assert!(painted(&flood).0.take_answers().len() < 2 * ANSWER_BYTES_MAX);
    }

    #[test]
    fn modes_and_looks_are_told() {
        let (screen, _) = painted(b"\x1b[?2004h\x1b[?25l\x1b[?2026h\x1b[2mgh\x1b[0;7mi");
        assert!(screen.bracketed_paste() && screen.synchronizing());
        assert_eq!(screen.cursor(), Cursor { row: 0, column: 3, visible: false });
        let look = screen.look(0);
        assert!(look[0].dim && !look[0].inverse && look[2].inverse && !look[2].dim);
        assert_eq!((look[2].character, look.len()), ('i', 10));
    }

    #[test]
    fn what_a_program_left_on_is_turned_off() {
        let undo = |bytes: &str| painted(bytes.as_bytes()).0.undo().replace('\x1b', "\\e");
        let all = "\x1b[?1002h\x1b[?1006h\x1b[?1004h\x1b[>4;2m\x1b[>1u\x1b[?1049h\x1b[>3u\x1b[>1u\x1b[<u\
            \x1b[?2004h\x1b[?2031h\x1b[?9001h\x1b[?1h\x1b=\x1b[?25l\x1b[31m";
        assert_eq!(
            undo(all),
            "\\e[?1000l\\e[?1002l\\e[?1003l\\e[?1006l\\e[?1004l\\e[<1u\\e[?1049l\\e[<1u\\e[>4m\\e[?2004l\
             \\e[?2031l\\e[?9001l\\e[?1l\\e>\\e[?25h\\e[m"
        );
        let tidy = "\x1b[?1002l\x1b[?1004l\x1b[<9u\x1b[?1049l\x1b[<u\x1b[>4m\x1b[?2004l\x1b[?2031l\x1b[?9001l\x1b[?1l\x1b>\x1b[?25h\x1b[0m";
        assert_eq!(undo(&format!("{all}{tidy}")), "");
        assert_eq!(undo(&format!("{all}\x1bc")), "");
        assert_eq!(undo("just text\r\n"), "");
    }

    #[test]
    fn what_would_spoil_the_lines_of_whoever_comes_next_is_turned_off() {
        let undo = |bytes: &str| painted(bytes.as_bytes()).0.undo().replace('\x1b', "\\e");
        for (on, undone, off) in [
            // Margins, without moving the cursor; a line that starts over instead of wrapping; insertion.
            ("\x1b[1;2r", "\\e7\\e[r\\e8", "\x1b[r"),
            ("\x1b[2r", "\\e7\\e[r\\e8", "\x1b[1;3r"),
            ("\x1b[?7l", "\\e[?7h", "\x1b[?7h"),
            ("\x1b[4h", "\\e[4l", "\x1b[4l"),
            // Rows that count from the margin: the way back moves the cursor to the top.
            ("\x1b[?6h", "\\e[r\\e[?6l\\e[999B\n", "\x1b[?6l"),
            ("\x1b[?1049h\x1b[?6h", "\\e[?6l\\e[?1049l", "\x1b[?6l\x1b[?1049l"),
            // Line drawing; the mouse's columns as characters; the cursor's shape.
            ("\x1b(0", "\\e(B", "\x1b(B"),
            ("\x1b)0\x0e", "\\x0f", "\x0f"),
            ("\x1b[?1005h", "\\e[?1005l", "\x1b[?1005l"),
            ("\x1b[5 q", "\\e[0 q", "\x1b[0 q"),
        ] {
            assert_eq!(undo(on).replace('\x0f', "\\x0f"), undone, "{on:?}");
            assert_eq!(undo(&format!("{on}{off}")), "", "{on:?}");
            assert_eq!(undo(&format!("{on}\x1bc")), "", "{on:?}");
        }
        // Not every terminal takes margins away when its size changes.
        let (mut screen, mut log) = painted(b"\x1b[1;2r");
        screen.resize(10, 5, &mut log);
        assert_eq!(screen.undo(), "\x1b7\x1b[r\x1b8");
    }

    #[test]
    fn sizes_are_clamped() {
        let (mut screen, mut log) = painted(b"abc");
        for (columns, rows) in [(0, 0), (usize::MAX, usize::MAX), (1, 1), (80, 24)] {
            screen.resize(columns, rows, &mut log);
            screen.feed("字text\r\n".repeat(30).as_bytes(), &mut log);
        }
        assert_eq!(screen.size(), (80, 24));
    }

    #[test]
    fn a_narrower_screen_loses_no_rows() {
        let (mut screen, mut log) = (Screen::new(80, 24), Log::default());
        let rows: String = (0..24).map(|n| format!("{n:02}{}\r\n", "x".repeat(70))).collect();
        screen.feed(rows.as_bytes(), &mut log);
        screen.resize(4, 5, &mut log);
        screen.feed(b"\r\n".repeat(10).as_slice(), &mut log);
        let text: String = log.0.concat();
        for n in 0..24 {
            assert!(text.contains(&format!("{n:02}xx")), "row {n} is gone");
        }
    }

    #[test]
    fn strings_and_marks_that_never_end_cost_nothing() {
        let (mut screen, mut log) = (Screen::new(80, 24), Log::default());
        screen.feed(b"\x1b]0;", &mut log);
        for _ in 0..200 {
            screen.feed(&[b'x'; 65536], &mut log);
            screen.feed(b";\x9d\x9c", &mut log);
        }
        assert!(screen.limit.length > 13_000_000);
        screen.feed(b"\x07seen\x1b]8;;http://x\x1b\\link", &mut log);
        screen.feed("\u{301}".repeat(100_000).as_bytes(), &mut log);
        assert!(screen.row(0).text.starts_with("seenlink"));
        assert!(screen.row(0).text.len() < 100);
    }

    #[test]
    fn a_long_string_leaves_what_follows_alone() {
        for length in [0, 1, 250, 255, 256, 257, 258, 300, 5000] {
            for end in ["\x07", "\x1b\\", "\x18", "\x1a"] {
                let bytes = format!("a\x1b]0;{}{end}b\r\n", "x".repeat(length));
                for cut in [1, 3, 100, 10_000] {
                    let (mut screen, mut log) = (Screen::new(10, 3), Log::default());
                    bytes.as_bytes().chunks(cut).for_each(|piece| screen.feed(piece, &mut log));
                    assert_eq!(screen.text(), "ab\n\n\n", "{length} {end:?} {cut}");
                }
            }
        }
    }

    /// Bytes as terminals see them: text, controls, and sequences of all kinds, whole and broken.
    fn noise() -> impl Strategy<Value = Vec<u8>> {
        let text = prop_oneof![
            "[a-z ]{0,12}",
            "\\PC{0,6}",
            Just("\r\n".to_owned()),
            Just("\t".to_owned()),
            Just("\u{1b}[2J".to_owned()),
            Just("\u{1b}[3J".to_owned()),
            Just("\u{1b}[?1049h".to_owned()),
            Just("\u{1b}[?1049l".to_owned()),
            Just("\u{1b}c".to_owned()),
            Just("\u{1b}M".to_owned()),
            "\u{1b}\\[[0-9;?]{0,8}[A-Za-z@`]",
            "\u{1b}\\][0-9];[a-z]{0,300}\u{7}",
        ];
        let piece = prop_oneof![8 => text.prop_map(String::into_bytes), 1 => prop::collection::vec(any::<u8>(), 0..20)];
        prop::collection::vec(piece, 0..60).prop_map(|pieces| pieces.concat())
    }

    proptest! {
        #![proptest_config(ProptestConfig { failure_persistence: None, ..ProptestConfig::with_cases(200) })]

        #[test]
        fn noise_never_panics(bytes in noise(), sizes in prop::collection::vec((0usize..40, 0usize..12), 1..5)) {
            let (mut screen, mut log) = (Screen::new(7, 3), Log::default());
            for (piece, (columns, rows)) in std::iter::zip(bytes.chunks(37), sizes.into_iter().cycle()) {
                screen.feed(piece, &mut log);
                screen.resize(columns, rows, &mut log);
                let answers = screen.take_answers();
                prop_assert!(answers.iter().all(|b| b"\x1b[?0123456789;cRt".contains(b)));
            }
            screen.text();
        }
    }
}
