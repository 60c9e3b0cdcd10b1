//! Cleanup: the bytes that turn off all modes that a program left on in a terminal.

use std::collections::VecDeque;

use alacritty_terminal::term::TermMode;
use alacritty_terminal::term::cell::Cell;
use alacritty_terminal::vte::ansi::{CharsetIndex, KeyboardModes, StandardCharset};

use super::Screen;
use super::painter::{KeyboardState, REPORT_COLORS, REPORT_SIZE, WIN32_INPUT};

/// The sequences that turn off all kinds of mouse reports.
const MOUSE_OFF: &str = "\x1b[?1000l\x1b[?1002l\x1b[?1003l\x1b[?1006l";

/// The sequence that makes row numbers count from the screen's top again, rather than from the
/// upper margin. It moves the cursor to the top, and no terminal can restore the cursor's position.
/// So the next output is put below all rows, with [`BELOW_ALL_ROWS`].
const ORIGIN_OFF: &str = "\x1b[?6l";
const BELOW_ALL_ROWS: &str = "\x1b[999B\n";

impl Screen {
    /// Returns the bytes that turn off all modes that the program left on, for a terminal that
    /// shows this screen. Returns nothing if the program turned off all modes itself.
    pub fn cleanup(&self) -> String {
        let mode = self.term.mode();
        let KeyboardState { primary, alternate, other_keys } = &self.state.keyboard;
        let colours = &self.limit.colours;
        let template = &self.term.grid().cursor.template;
        let plain = Cell::default();
        let has_attributes =
            (template.fg, template.bg, template.flags) != (plain.fg, plain.bg, plain.flags);
        let pop = |pushed: &VecDeque<KeyboardModes>| format!("\x1b[<{}u", pushed.len());
        let is_alternate = mode.contains(TermMode::ALT_SCREEN);
        let origin_off = match is_alternate {
            true => ORIGIN_OFF.to_owned(),
            false => format!("\x1b[r{ORIGIN_OFF}{BELOW_ALL_ROWS}"),
        };
        let draws_lines =
            self.term.grid().cursor.charsets[CharsetIndex::G0] != StandardCharset::Ascii;
        let sequences = [
            (mode.intersects(TermMode::MOUSE_MODE), MOUSE_OFF.to_owned()),
            (mode.contains(TermMode::UTF8_MOUSE), "\x1b[?1005l".to_owned()),
            (mode.contains(TermMode::FOCUS_IN_OUT), "\x1b[?1004l".to_owned()),
            (is_alternate && !alternate.is_empty(), pop(alternate)),
            (mode.contains(TermMode::ORIGIN), origin_off),
            (is_alternate, "\x1b[?1049l".to_owned()),
            (self.state.has_margins, "\x1b7\x1b[r\x1b8".to_owned()),
            (!mode.contains(TermMode::LINE_WRAP), "\x1b[?7h".to_owned()),
            (mode.contains(TermMode::INSERT), "\x1b[4l".to_owned()),
            (!primary.is_empty(), pop(primary)),
            (*other_keys, "\x1b[>4m".to_owned()),
            (mode.contains(TermMode::BRACKETED_PASTE), "\x1b[?2004l".to_owned()),
            (self.state.reports_colors, format!("\x1b[?{REPORT_COLORS}l")),
            (self.state.reports_size, format!("\x1b[?{REPORT_SIZE}l")),
            (self.state.alternate_scroll == Some(true), "\x1b[?1007l".to_owned()),
            (colours.palette, "\x1b]104\x1b\\".to_owned()),
            (colours.foreground, "\x1b]110\x1b\\".to_owned()),
            (colours.background, "\x1b]111\x1b\\".to_owned()),
            (colours.cursor, "\x1b]112\x1b\\".to_owned()),
            (self.state.win32_input, format!("\x1b[?{WIN32_INPUT}l")),
            (mode.contains(TermMode::APP_CURSOR), "\x1b[?1l".to_owned()),
            (mode.contains(TermMode::APP_KEYPAD), "\x1b>".to_owned()),
            (!mode.contains(TermMode::SHOW_CURSOR), "\x1b[?25h".to_owned()),
            (self.state.has_cursor_style, "\x1b[0 q".to_owned()),
            (draws_lines, "\x1b(B".to_owned()),
            (self.state.uses_g1, "\x0f".to_owned()),
            (has_attributes, "\x1b[m".to_owned()),
        ];
        sequences.into_iter().filter(|(is_on, _)| *is_on).map(|(_, off)| off).collect()
    }
}
