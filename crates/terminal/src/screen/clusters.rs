//! Emoji of several code points, such as a keycap, or a person with a skin tone.
//!
//! The grid gives each code point its own columns. Programs other than line editors of shells count
//! the whole emoji as two columns, and so do today's terminals (mode 2027). Later output of such a
//! program would be misplaced on the grid, so the code points are joined here.

use alacritty_terminal::index::{Column, Point};
use alacritty_terminal::term::cell::{Cell, Flags};
use alacritty_terminal::vte::ansi::Handler as _;
use unicode_width::UnicodeWidthStr;

use super::observer::ScreenObserver;
use super::painter::Painter;

const JOINER: char = '\u{200d}';
const EMOJI_STYLE: char = '\u{fe0f}';
const KEYCAP: char = '\u{20e3}';
const SKIN_TONES: std::ops::RangeInclusive<char> = '\u{1f3fb}'..='\u{1f3ff}';

impl<O: ScreenObserver> Painter<'_, O> {
    /// Paints a character that belongs to the emoji before it. Returns `false` for any other
    /// character, which is not painted yet.
    pub(super) fn joins(&mut self, c: char) -> bool {
        if c.is_ascii() || self.state.counts_code_points || !self.follows_input() {
            return false;
        }
        let Some(at) = self.last_cell() else { return false };
        let cell = &self.term.grid()[at];
        let is_wide = cell.flags.contains(Flags::WIDE_CHAR);
        let ends_joined = cell.zerowidth().is_some_and(|marks| marks.last() == Some(&JOINER));
        let joins = match c {
            EMOJI_STYLE | KEYCAP => has_two_columns(cell, c),
            c if SKIN_TONES.contains(&c) => is_wide && has_two_columns(cell, c),
            c => is_wide && ends_joined && may_be_emoji(c),
        };
        if !joins {
            return false;
        }
        self.term.grid_mut()[at].push_zerowidth(c);
        if !is_wide {
            self.widen(at);
        }
        true
    }

    /// Whether nothing has moved the cursor since the last character.
    fn follows_input(&self) -> bool {
        self.state.after_input == Some(self.term.grid().cursor.point)
    }

    /// The cell of the last character.
    fn last_cell(&self) -> Option<Point> {
        let cursor = &self.term.grid().cursor;
        let Point { line, column } = cursor.point;
        let column = column.0.checked_sub(usize::from(!cursor.input_needs_wrap))?;
        let cell = &self.term.grid()[line][Column(column)];
        let is_spacer = cell.flags.contains(Flags::WIDE_CHAR_SPACER);
        Some(Point::new(line, Column(column.checked_sub(usize::from(is_spacer))?)))
    }

    /// Gives the last character its second column, if there is one.
    fn widen(&mut self, at: Point) {
        if self.term.grid().cursor.input_needs_wrap {
            return;
        }
        self.term.grid_mut()[at].flags.insert(Flags::WIDE_CHAR);
        self.term.grid_mut().cursor.template.flags.insert(Flags::WIDE_CHAR_SPACER);
        self.term.input(' ');
        self.term.grid_mut().cursor.template.flags.remove(Flags::WIDE_CHAR_SPACER);
        self.state.after_input = Some(self.term.grid().cursor.point);
    }
}

/// Whether a cell takes two columns after this character joins it.
fn has_two_columns(cell: &Cell, joined: char) -> bool {
    let marks = cell.zerowidth().unwrap_or_default().iter().copied();
    let text: String = std::iter::once(cell.c).chain(marks).chain([joined]).collect();
    text.width() == 2
}

/// Whether a character is in a Unicode block with emoji.
pub(super) fn may_be_emoji(c: char) -> bool {
    matches!(c, '\u{2190}'..='\u{24ff}' | '\u{25a0}'..='\u{2bff}' | '\u{1f000}'..='\u{1faff}')
}

#[cfg(test)]
mod tests {
    use crate::screen::{NoObserver, Screen};

    /// The row and the cursor's column after these bytes.
    fn painted(bytes: &str, counts_code_points: bool) -> (String, usize) {
        let mut screen = Screen::new(30, 3);
        screen.count_code_points(counts_code_points);
        screen.feed(bytes.as_bytes(), &mut NoObserver);
        (screen.row(0).text, screen.cursor().column)
    }

    #[test]
    fn emoji_of_several_code_points_takes_two_columns() {
        for emoji in [
            "\u{26a0}\u{fe0f}",
            "1\u{fe0f}\u{20e3}",
            "\u{1f469}\u{200d}\u{1f4bb}",
            "\u{1f44d}\u{1f3fd}",
            "\u{2705}",
            "\u{1f469}\u{1f3fd}\u{200d}\u{2764}\u{fe0f}\u{200d}\u{1f468}\u{1f3ff}",
            "\u{1f3f3}\u{fe0f}\u{200d}\u{1f308}",
        ] {
            let over = format!("abcdefgh\x1b[1;3H{emoji}\x1b[1;5H!");
            assert_eq!(painted(&over, false), (format!("ab{emoji}!fgh"), 5), "{emoji}");
            assert_eq!(painted(&format!("{emoji}x"), false).1, 3, "{emoji}");
        }
    }

    #[test]
    fn other_characters_are_not_joined() {
        for (text, columns) in [
            ("e\u{301}x", 2),
            ("\u{4e16}\u{754c}", 4),
            ("a\u{200d}b", 2),
            ("x\u{fe0f}y", 2),
            ("\u{1f1e9}\u{1f1ea}", 2),
        ] {
            assert_eq!(painted(text, false), (text.to_owned(), columns), "{text}");
        }
        // The cursor was moved in between.
        assert_eq!(painted("\u{26a0}\x1b[1;9H\x1b[1;3H\u{fe0f}x", false).1, 3);
    }

    #[test]
    fn code_points_are_counted_one_by_one_for_line_editors() {
        for (emoji, columns) in [
            ("\u{26a0}\u{fe0f}", 1),
            ("1\u{fe0f}\u{20e3}", 1),
            ("\u{1f469}\u{200d}\u{1f4bb}", 4),
            ("\u{1f44d}\u{1f3fd}", 4),
        ] {
            assert_eq!(painted(emoji, true), (emoji.to_owned(), columns), "{emoji}");
        }
    }

    #[test]
    fn program_sets_the_mode_itself_and_asks_for_it() {
        let mut screen = Screen::new(30, 3);
        screen.count_code_points(true);
        let asks = "\x1b[?2027$p";
        let emoji = "\u{26a0}\u{fe0f}";
        screen.feed(format!("{asks}\x1b[?2027h{asks}{emoji}").as_bytes(), &mut NoObserver);
        assert_eq!(screen.take_answers(), b"\x1b[?2027;2$y\x1b[?2027;1$y");
        assert_eq!(screen.cursor().column, 2);
        screen.feed(format!("\x1b[?2027l\r\n{emoji}").as_bytes(), &mut NoObserver);
        assert_eq!(screen.cursor().column, 1);
    }

    #[test]
    fn emoji_at_the_edge_stays_in_its_row() {
        let mut screen = Screen::new(4, 3);
        screen.feed("abc\u{26a0}\u{fe0f}d".as_bytes(), &mut NoObserver);
        assert_eq!(screen.row(0).text, "abc\u{26a0}\u{fe0f}");
        assert_eq!(screen.row(1).text, "d");
    }
}
