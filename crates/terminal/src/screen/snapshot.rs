//! Snapshots: the bytes that paint a screen on another terminal.

use std::fmt::Write;

use alacritty_terminal::index::{Column, Line};
use alacritty_terminal::term::TermMode;
use alacritty_terminal::term::cell::{Cell, Flags};
use alacritty_terminal::vte::ansi::{CharsetIndex, Color, NamedColor, StandardCharset};

use super::{Screen, clusters::may_be_emoji};
use protocol::control::SNAPSHOT_BYTES_MAX;

/// The sequences before a snapshot. They begin an update and turn off modes that would disturb
/// painting: margins, insertion, other character sets, and line wrap.
const BEGIN: &str = "\x1b[?2026h\x1b[?25l\x1b[r\x1b[?6l\x1b[4l\x1b(B\x1b)B\x1b*B\x1b+B\x0f\x1b[?7l";
const END: &str = "\x1b[?2026l";

/// The attributes of a cell, and their codes in a sequence.
const ATTRIBUTES: [(Flags, &str); 11] = [
    (Flags::BOLD, ";1"),
    (Flags::DIM, ";2"),
    (Flags::ITALIC, ";3"),
    (Flags::UNDERLINE, ";4"),
    (Flags::DOUBLE_UNDERLINE, ";4:2"),
    (Flags::UNDERCURL, ";4:3"),
    (Flags::DOTTED_UNDERLINE, ";4:4"),
    (Flags::DASHED_UNDERLINE, ";4:5"),
    (Flags::INVERSE, ";7"),
    (Flags::HIDDEN, ";8"),
    (Flags::STRIKEOUT, ";9"),
];

/// The modes that a program sets and that remain set after the snapshot, with the bytes that turn
/// each mode on and off.
const MODES: [(TermMode, &str, &str); 11] = [
    (TermMode::LINE_WRAP, "\x1b[?7h", "\x1b[?7l"),
    (TermMode::INSERT, "\x1b[4h", "\x1b[4l"),
    (TermMode::APP_CURSOR, "\x1b[?1h", "\x1b[?1l"),
    (TermMode::APP_KEYPAD, "\x1b=", "\x1b>"),
    (TermMode::BRACKETED_PASTE, "\x1b[?2004h", "\x1b[?2004l"),
    (TermMode::FOCUS_IN_OUT, "\x1b[?1004h", "\x1b[?1004l"),
    (TermMode::MOUSE_REPORT_CLICK, "\x1b[?1000h", "\x1b[?1000l"),
    (TermMode::MOUSE_DRAG, "\x1b[?1002h", "\x1b[?1002l"),
    (TermMode::MOUSE_MOTION, "\x1b[?1003h", "\x1b[?1003l"),
    (TermMode::UTF8_MOUSE, "\x1b[?1005h", "\x1b[?1005l"),
    (TermMode::SGR_MOUSE, "\x1b[?1006h", "\x1b[?1006l"),
];

impl Screen {
    /// Returns the bytes that paint this screen on a terminal of any size: as much as fits, and
    /// always the cursor's row. If the sizes are equal, later output of the program continues from
    /// there.
    #[must_use]
    pub fn snapshot(&self, columns: usize, rows: usize) -> String {
        let (own_columns, own_rows) = self.size();
        let cursor = self.cursor();
        let (columns, shown) = (columns.max(1), rows.clamp(1, own_rows));
        let top = (cursor.row + 1).saturating_sub(shown);
        let mut snapshot = Snapshot { text: BEGIN.to_owned(), style: None };
        snapshot.add(if self.alternate() { "\x1b[?1049h" } else { "\x1b[?1049l" });
        for index in 0..shown {
            snapshot.row(self, top + index, index, columns.min(own_columns));
        }
        snapshot.set_style(&Cell::default());
        if shown < rows {
            snapshot.add(&format!("\x1b[{};1H\x1b[J", shown + 1));
        }
        for (mode, on, off) in MODES {
            snapshot.add(if self.term.mode().contains(mode) { on } else { off });
        }
        if let Some(is_on) = self.state.alternate_scroll {
            snapshot.add(if is_on { "\x1b[?1007h" } else { "\x1b[?1007l" });
        }
        snapshot.keyboard(self);
        let row = cursor.row - top;
        snapshot.put_cursor(self, row, columns);
        if cursor.visible && cursor.column < columns {
            snapshot.add("\x1b[?25h");
        }
        snapshot.add(END);
        snapshot.text
    }
}

/// A snapshot that is being written.
struct Snapshot {
    text: String,
    /// The sequence for the terminal's attributes at this point.
    style: Option<String>,
}

impl Snapshot {
    fn add(&mut self, text: &str) {
        self.text.push_str(text);
    }

    fn row(&mut self, screen: &Screen, line: usize, at: usize, columns: usize) {
        let row = &screen.term.grid()[Line(line as i32)];
        self.add(&format!("\x1b[{};1H", at + 1));
        self.set_style(&Cell::default());
        self.add("\x1b[K");
        let is_painted = |cell: &Cell| {
            *cell != Cell::default() && cell.c != '\0' || {
                cell.bg != Cell::default().bg || !cell.flags.is_empty()
            }
        };
        let end = (0..columns).rev().find(|&column| is_painted(&row[Column(column)]));
        let mut is_doubtful = false;
        for column in 0..end.map_or(0, |end| end + 1) {
            // The limit is reached only if a program paints millions of attributes.
            if self.text.len() > SNAPSHOT_BYTES_MAX {
                return;
            }
            let cell = &row[Column(column)];
            let is_cut = cell.flags.contains(Flags::WIDE_CHAR) && column + 1 == columns;
            if cell.flags.contains(Flags::WIDE_CHAR_SPACER) {
                continue;
            }
            if std::mem::take(&mut is_doubtful) {
                self.add(&format!("\x1b[{}G", column + 1));
            }
            if is_cut {
                self.set_style(cell);
                self.text.push(' ');
            } else {
                self.cell(cell);
                // Terminals disagree on the columns of an emoji, and of a cell with marks.
                is_doubtful = may_be_emoji(cell.c) || cell.zerowidth().is_some();
            }
        }
    }

    /// Sets the shown screen's keyboard modes, even on a terminal that has modes from an earlier
    /// snapshot.
    fn keyboard(&mut self, screen: &Screen) {
        let keyboard = &screen.state.keyboard;
        let modes = if screen.alternate() { &keyboard.alternate } else { &keyboard.primary };
        self.add("\x1b[<99u");
        for mode in modes {
            self.add(&format!("\x1b[>{}u", mode.bits()));
        }
        self.add(if keyboard.other_keys { "\x1b[>4;2m" } else { "\x1b[>4m" });
    }

    fn cell(&mut self, cell: &Cell) {
        self.set_style(cell);
        self.text.push(if cell.c < ' ' { ' ' } else { cell.c });
        self.text.extend(cell.zerowidth().unwrap_or_default());
    }

    /// Puts the cursor in its position, with its attributes and character sets.
    fn put_cursor(&mut self, screen: &Screen, row: usize, columns: usize) {
        let cursor = &screen.term.grid().cursor;
        let (cells, column) = (&screen.term.grid()[cursor.point.line], cursor.point.column.0);
        self.add(&format!("\x1b[{};{}H", row + 1, column.min(columns - 1) + 1));
        if cursor.input_needs_wrap && column + 1 == screen.size().0.min(columns) {
            // The program's next character wraps. To get the same state here, the row's last
            // character is painted again.
            let is_wide = cells[Column(column)].flags.contains(Flags::WIDE_CHAR_SPACER);
            let last = if is_wide { column - 1 } else { column };
            self.add(&format!("\x1b[{};{}H", row + 1, last + 1));
            self.cell(&cells[Column(last)]);
        }
        self.set_style(&cursor.template);
        for (index, lines) in [
            (CharsetIndex::G0, "\x1b(0"),
            (CharsetIndex::G1, "\x1b)0"),
            (CharsetIndex::G2, "\x1b*0"),
            (CharsetIndex::G3, "\x1b+0"),
        ] {
            if cursor.charsets[index] == StandardCharset::SpecialCharacterAndLineDrawing {
                self.add(lines);
            }
        }
    }

    /// Sets the attributes of `cell` for the following text.
    fn set_style(&mut self, cell: &Cell) {
        let mut style = String::from("\x1b[0");
        for (flag, code) in ATTRIBUTES {
            if cell.flags.contains(flag) {
                style.push_str(code);
            }
        }
        push_colour(&mut style, cell.fg, 30);
        push_colour(&mut style, cell.bg, 40);
        style.push('m');
        if self.style.as_ref() != Some(&style) {
            self.text.push_str(&style);
            self.style = Some(style);
        }
    }
}

/// Appends a colour's code. The codes of the other colours are counted from `black`.
fn push_colour(style: &mut String, colour: Color, black: u8) {
    let written = match colour {
        Color::Indexed(index) => write!(style, ";{};5;{index}", black + 8),
        Color::Spec(rgb) => write!(style, ";{};2;{};{};{}", black + 8, rgb.r, rgb.g, rgb.b),
        Color::Named(name) => match name as usize {
            index @ 0..8 => write!(style, ";{}", usize::from(black) + index),
            index @ 8..16 => write!(style, ";{}", usize::from(black) + 60 + index - 8),
            // Dim colours are written as plain ones. The faint attribute, set separately, dims
            // them.
            index => match index.checked_sub(NamedColor::DimBlack as usize) {
                Some(dim @ 0..8) => write!(style, ";{}", usize::from(black) + dim),
                _ => Ok(()),
            },
        },
    };
    written.expect("writing to a String cannot fail");
}

#[cfg(test)]
mod tests {
    use super::super::NoObserver;
    use super::*;
    use alacritty_terminal::grid::Dimensions;
    use proptest::prelude::*;

    fn painted(columns: usize, rows: usize, bytes: &[u8]) -> Screen {
        let mut screen = Screen::new(columns, rows);
        screen.feed(bytes, &mut NoObserver);
        screen
    }

    /// Returns the part of a screen's state that is visible or affects later output.
    fn visible_state(screen: &Screen) -> impl PartialEq + use<> {
        let grid = screen.term.grid();
        let shown = TermMode::SHOW_CURSOR | TermMode::ALT_SCREEN;
        let kept = MODES.iter().fold(shown, |modes, (mode, ..)| modes | *mode);
        let cells: Vec<_> = (0..grid.screen_lines() as i32)
            .flat_map(|line| (0..grid.columns()).map(move |column| (Line(line), Column(column))))
            .map(|(line, column)| {
                let cell = &grid[line][column];
                let character = if cell.c < ' ' { ' ' } else { cell.c };
                let flags = cell.flags - Flags::WRAPLINE - Flags::LEADING_WIDE_CHAR_SPACER;
                let marks = cell.zerowidth().unwrap_or_default().to_vec();
                (character, cell.fg, cell.bg, flags, marks)
            })
            .collect();
        let template = (grid.cursor.template.fg, grid.cursor.template.bg);
        let is_last = grid.cursor.point.column.0 + 1 == grid.columns();
        let wraps = grid.cursor.input_needs_wrap && is_last;
        let modes = *screen.term.mode() & kept;
        (cells, grid.cursor.point, template, grid.cursor.charsets, modes, wraps)
    }

    /// Checks that a snapshot looks the same on a terminal that shows `before`. `bytes` paint the
    /// screen of the snapshot.
    #[track_caller]
    fn check(before: &[u8], bytes: &[u8]) {
        let screen = painted(20, 5, bytes);
        let mut other = painted(20, 5, before);
        other.feed(screen.snapshot(20, 5).as_bytes(), &mut NoObserver);
        let (found, expected) = (visible_state(&other), visible_state(&screen));
        assert!(found == expected, "{}\n{}{}", bytes.escape_ascii(), screen.text(), other.text());
    }

    #[test]
    fn snapshot_paints_the_same_over_anything() {
        let before: [&[u8]; 3] = [
            b"",
            b"\x1b[?1049h\x1b[?1000h\x1b[2;3r\x1b[?6h\x1b[4h\x1b(0\x1b[41mxyz\x1b[?25l",
            b"many\r\nlines\r\nthat\r\nstood\r\nthere\x1b[7m\x1b[?2004h",
        ];
        for before in before {
            for bytes in [
                &b""[..],
                b"$ ls\r\n\x1b[1;34mdir\x1b[m  \x1b[38;5;200mfile\x1b[48;2;1;2;3m x \x1b[m\r\n$ ",
                b"\x1b[?1049h\x1b[2J\x1b[H\x1b[7mtop\x1b[m\x1b[5;1Hbottom\x1b[?25l\x1b[?1002h\x1b[?1006h",
                b"\x1b[?2004h\x1b[?1h\x1b=> \x1b[2mghost\x1b[m\x1b[1;3H",
                b"\x1b[44m\x1b[2J\x1b[3;3Hblue",
                b"01234567890123456789",
                b"\x1b[?7l01234567890123456789x",
                b"\x1b(0lqqk\x1b[95;101m",
                b"a\tb\tc",
                b"\x1b[4:3mcurly\x1b[4:2mdouble\x1b[9mgone\x1b[8mhidden",
                "\u{4e2d}\u{6587}e\u{301} \u{1f600}".as_bytes(),
                "012345678901234567\u{4e2d}".as_bytes(),
                "0123456789012345678e\u{301}".as_bytes(),
                "0123456789012345678\u{4e2d}".as_bytes(),
            ] {
                check(before, bytes);
            }
        }
    }

    #[test]
    fn smaller_terminal_shows_the_cursors_row() {
        let screen = painted(20, 5, "one\r\ntwo\r\nthree\r\n\u{4e2d}\u{6587}r\r\nfive".as_bytes());
        let shown = |columns, rows| {
            let mut other =
                painted(columns, rows, b"xxx\r\nxxx\r\nxxx\r\nxxx\r\nxxx\r\nxxx\r\nxxx");
            other.feed(screen.snapshot(columns, rows).as_bytes(), &mut NoObserver);
            other.text()
        };
        assert_eq!(shown(3, 2), "\u{4e2d}\nfiv\n");
        assert_eq!(shown(20, 1), "five\n");
        assert_eq!(shown(30, 7), "one\ntwo\nthree\n\u{4e2d}\u{6587}r\nfive\n\n\n");
        let top = painted(20, 5, b"\x1b[5;1Hlow\x1b[Htop");
        let mut other = painted(20, 2, b"");
        other.feed(top.snapshot(20, 2).as_bytes(), &mut NoObserver);
        assert_eq!(other.text(), "top\n\n");
    }

    #[test]
    fn snapshot_is_bounded() {
        let mut screen = painted(600, 250, b"");
        for row in 0..250 {
            for column in 0..600 {
                let (r, g) = (row % 256, column % 256);
                let cell =
                    format!("\x1b[38;2;{r};{g};1;48;2;{g};{r};2;1;3;4;9mx\u{301}\u{302}\u{303}");
                screen.feed(cell.as_bytes(), &mut NoObserver);
            }
        }
        assert!(screen.snapshot(600, 250).len() < SNAPSHOT_BYTES_MAX + 64 * 1024);
    }

    /// Generates output of programs, and noise. Leaves out wide characters, since a grid may keep
    /// half of an overwritten one, and combining characters, since their number is limited.
    fn pieces() -> impl Strategy<Value = Vec<u8>> {
        let numbers = prop::collection::vec(0_u16..110, 0..4);
        let ends = prop::sample::select(b"mHABCDJKLMPST@XrfGdhlbsuZ".to_vec());
        let private = [1_u16, 6, 7, 25, 47, 1000, 1002, 1004, 1006, 1049, 2004, 2026];
        prop_oneof![
            "[a-z \u{e9}\u{2588}]{0,25}".prop_map(String::into_bytes),
            prop::sample::select(vec!["\r\n", "\t", "\x08", "\x1bM", "\x1b7", "\x1b8", "\x1b(0"])
                .prop_map(|text| text.as_bytes().to_vec()),
            (numbers, ends).prop_map(|(numbers, end)| {
                let numbers: Vec<_> = numbers.iter().map(u16::to_string).collect();
                format!("\x1b[{}{}", numbers.join(";"), char::from(end)).into_bytes()
            }),
            (prop::sample::select(private.to_vec()), any::<bool>()).prop_map(|(mode, on)| {
                format!("\x1b[?{mode}{}", if on { 'h' } else { 'l' }).into_bytes()
            }),
            prop::collection::vec(prop_oneof![0_u8..0x80, 0xf8_u8..=0xff], 0..30),
        ]
    }

    proptest! {
        #[test]
        fn snapshot_of_any_bytes_is_the_same(
            pieces in prop::collection::vec(pieces(), 0..20),
        ) {
            check(b"before", &pieces.concat());
        }
    }
}
