//! What the person types: whether a line has been begun and not sent off.
//!
//! Keys alone don't say it (an arrow may bring a line back from the history, a backspace may empty it
//! again), and the screen alone doesn't either (a password is not shown). So both count.
//!
//! A second terminal that shows the same screen answers what the program asks the first: [`Keystrokes`]
//! leaves such answers out.

use crate::protocol::Moment;
use std::collections::VecDeque;

/// An Escape whose rest does not follow within this time is the key of that name.
const ESCAPE_MS: u64 = 50;

/// What begins like a longer sequence is a key pressed with Alt, unless all of it is there within this time.
const SEQUENCE_MS: u64 = 250;

/// Looks of an empty line that are remembered.
const LOOKS_MAX: usize = 8;

/// The longest escape sequence whose parts matter, in bytes.
const SEQUENCE_BYTES_MAX: usize = 64;

/// A terminal's answer is not longer, in bytes.
const ANSWER_BYTES_MAX: usize = 4096;

/// The line the person is at.
#[derive(Debug, Default)]
pub struct Line {
    decoder: Decoder,
    begun: Option<Begun>,
    /// A key was pressed after which a line editor may take text for commands.
    moded: bool,
    /// What stood before the cursor when a line was known to be empty.
    empty_looks: VecDeque<String>,
    /// What was pressed last is not whole so far.
    unfinished: Option<Unfinished>,
}

/// What may be a key, or the beginning of a longer one or of a terminal's answer.
#[derive(Debug)]
struct Unfinished {
    at: Moment,
    /// What stood before the cursor then.
    before: String,
}

/// What was among the keys that arrived.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Pressed {
    /// Any of a person's at all: a terminal answers and reports on the same way.
    pub any: bool,
    /// One that sends the line off, as far as one can know.
    pub submit: bool,
}

/// A line that was begun.
#[derive(Debug)]
struct Begun {
    /// What stood before the cursor when it was begun.
    from: String,
    /// What stood there before what was typed last, and that the screen has not shown that so far.
    before_text: String,
    unseen: bool,
    /// It has a line break, so what stands before the cursor is not all of it.
    several_rows: bool,
}

impl Line {
    /// Keys arrive; `before` is what stands before the cursor, and `line_feed_breaks` says what a line feed
    /// is there: a line break, or an Enter.
    pub fn press(
        &mut self,
        now: Moment,
        bytes: &[u8],
        before: &str,
        line_feed_breaks: bool,
    ) -> Pressed {
        self.settle(now);
        let was_amid = self.decoder.is_amid();
        let mut pressed = Pressed::default();
        for &byte in bytes {
            let key = match self.decoder.next(now, byte) {
                None => continue,
                Some(Key::LineFeed) if line_feed_breaks => Key::Break,
                Some(Key::LineFeed) => Key::Submit,
                Some(key) => key,
            };
            pressed.any |= key != Key::Report;
            pressed.submit |= matches!(key, Key::Submit | Key::BreakOrSubmit);
            self.take(key, before);
        }
        match (was_amid, self.decoder.is_amid()) {
            (_, false) => self.unfinished = None,
            (false, true) => {
                self.unfinished = Some(Unfinished { at: now, before: before.to_owned() });
            }
            (true, true) => {}
        }
        // Nothing followed so far: it is as good as the Escape key itself.
        pressed.any |= !bytes.is_empty() && self.decoder.ends_in_escape();
        pressed
    }

    /// What was begun and has not gone on for too long is a key: says when that was pressed.
    pub fn settle(&mut self, now: Moment) -> Option<Moment> {
        let key = self.decoder.give_up(now)?;
        let Unfinished { at, before } = self.unfinished.take()?;
        self.take(key, &before);
        Some(at)
    }

    /// Whether something was begun that may be a terminal's answer as well as a key.
    #[must_use]
    pub fn is_in_doubt(&self) -> bool {
        self.unfinished.is_some() && !self.decoder.ends_in_escape()
    }

    /// Whether a line editor may take text for commands, as vi does after Escape, or for the rest of a
    /// key that it waits for.
    #[must_use]
    pub fn may_command(&self) -> bool {
        self.moded || self.unfinished.is_some()
    }

    /// The keys so far went to another program than the line's.
    pub fn was_elsewhere(&mut self) {
        self.moded = false;
        self.unfinished = None;
    }

    /// The screen stands like this now.
    pub fn see(&mut self, before: &str) {
        if let Some(begun) = &mut self.begun {
            begun.unseen &= before == begun.before_text;
        }
    }

    /// Whether nothing is begun, whatever the screen shows.
    #[must_use]
    pub fn is_known_empty(&self) -> bool {
        self.begun.is_none() && !self.is_in_doubt()
    }

    /// Whether nothing is begun, given what stands before the cursor.
    #[must_use]
    pub fn is_empty(&self, before: &str) -> bool {
        match &self.begun {
            None => !self.is_in_doubt(),
            Some(begun) => {
                let looks_empty = before == begun.from && !before.trim().is_empty();
                let looks_empty = looks_empty || self.empty_looks.iter().any(|look| look == before);
                looks_empty && !begun.unseen && !begun.several_rows
            }
        }
    }

    /// Remembers how an empty line looks; called when it is empty and the screen stands still.
    pub fn remember_empty(&mut self, before: &str) {
        if before.trim().is_empty() || self.empty_looks.iter().any(|look| look == before) {
            return;
        }
        if self.empty_looks.len() == LOOKS_MAX {
            self.empty_looks.pop_front();
        }
        self.empty_looks.push_back(before.to_owned());
    }

    /// Its program, whose empty line is known, shows it long after the last key. Only a line of several rows may
    /// have one that is empty.
    pub fn was_seen_empty(&mut self) {
        self.begun = self.begun.take().filter(|begun| begun.several_rows);
    }

    fn take(&mut self, key: Key, before: &str) {
        let (unseen, several_rows) = match key {
            Key::Report | Key::Other => return,
            Key::Submit | Key::LineFeed | Key::Abandon => {
                self.begun = None;
                self.moded = false;
                return;
            }
            Key::Text => (true, false),
            Key::Break | Key::BreakOrSubmit => (true, true),
            Key::Move => (false, false),
            Key::Escape => {
                self.moded = true;
                return;
            }
            Key::Mode => {
                self.moded = true;
                (false, false)
            }
        };
        let from = || Begun {
            from: self.unfinished.as_ref().map_or(before, |it| &it.before).to_owned(),
            before_text: String::new(),
            unseen: false,
            several_rows: false,
        };
        let begun = self.begun.get_or_insert_with(from);
        if unseen {
            before.clone_into(&mut begun.before_text);
            begun.unseen = true;
        }
        begun.several_rows |= several_rows;
    }
}

/// What a person pressed, without what his terminal answers to a program that asked another one.
///
/// A modified F3 looks in some terminals like the place of a cursor, and is left out as well.
#[derive(Debug, Default)]
pub struct Keystrokes {
    decoder: Decoder,
    /// The sequence that is not whole.
    begun: Vec<u8>,
}

impl Keystrokes {
    /// What of these bytes goes to the program; sequences may come in pieces.
    pub fn of(&mut self, now: Moment, bytes: &[u8]) -> Vec<u8> {
        let mut pressed = self.late(now);
        for &byte in bytes {
            self.begun.push(byte);
            match self.decoder.next(now, byte) {
                Some(Key::Report) if is_answer(&self.begun) => self.begun.clear(),
                Some(_) => pressed.append(&mut self.begun),
                // Nobody misses the middle of an answer that is left out.
                None if self.begun.len() == ANSWER_BYTES_MAX => self.begun.truncate(1),
                None => {}
            }
        }
        // Nothing followed so far: it is as good as the Escape key itself.
        if self.decoder.ends_in_escape() {
            pressed.append(&mut self.begun);
        }
        pressed
    }

    /// When what is kept back is no answer, unless the rest of one has come by then.
    #[must_use]
    pub fn deadline(&self) -> Option<Moment> {
        self.decoder.gives_up_at().filter(|_| !self.begun.is_empty())
    }

    /// What was kept back and is no answer.
    pub fn late(&mut self, now: Moment) -> Vec<u8> {
        match self.decoder.give_up(now) {
            Some(_) => std::mem::take(&mut self.begun),
            None => Vec::new(),
        }
    }
}

/// An answer rather than a report of the mouse or the focus, which are as good as keys.
fn is_answer(report: &[u8]) -> bool {
    match report {
        [0x1b, b'[', .., last] => matches!(last, b'R' | b'c' | b'n' | b't' | b'y' | b'u'),
        // The rest of one whose Escape was taken for the key.
        [b'[', .., last] => matches!(last, b'R' | b'c' | b'n' | b't' | b'y' | b'u'),
        // A string, or the rest of one.
        [0x1b | b']' | b'P' | b'_' | b'^' | b'X', ..] => true,
        _ => false,
    }
}

/// What a key does to a line, as far as one can know.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Key {
    /// Adds to it.
    Text,
    /// Adds a line break to it.
    Break,
    /// The one or the other: an Enter behind a backslash.
    BreakOrSubmit,
    /// May change it.
    Move,
    /// May change what the keys after it mean, and the line.
    Mode,
    /// May change that as well, but not the line.
    Escape,
    /// Sends it off.
    Submit,
    /// The one or the other, as its program takes it.
    LineFeed,
    /// Throws it away.
    Abandon,
    /// Leaves it as it is.
    Other,
    /// No key: the terminal answers, or reports the mouse or the focus.
    Report,
}

impl Key {
    /// What a character is by itself.
    fn plain(byte: u8) -> Self {
        match byte {
            0x03 => Self::Abandon,
            // End of file, redraw, flow control, suspend.
            0x04 | 0x0c | 0x11 | 0x13 | 0x1a => Self::Other,
            // What comes next is taken as it is, or is the rest of a command.
            0x16 | 0x18 | 0x1d => Self::Mode,
            0x00..=0x1f | 0x7f => Self::Move,
            _ => Self::Text,
        }
    }
}

/// Tells keys, and what a terminal sends by itself, apart; sequences may come in pieces.
#[derive(Debug, Default)]
struct Decoder {
    state: State,
    /// When the Escape came that the state began with.
    since: Moment,
    pasting: bool,
    backslash: bool,
    /// What the characters say that a Windows console spells out as keys.
    spelled: Option<Box<Self>>,
}

#[derive(Debug, Default)]
enum State {
    #[default]
    Ground,
    Escape,
    /// A control sequence, so far.
    Control(Vec<u8>),
    /// One more character after ESC O.
    Single,
    /// A string, up to its end.
    String {
        escape: bool,
    },
    /// So many bytes of an old mouse report.
    Mouse(u8),
}

impl Decoder {
    /// Something is not whole.
    fn is_amid(&self) -> bool {
        let spelled = self.spelled.as_ref().is_some_and(|spelled| spelled.is_amid());
        spelled || !matches!(self.state, State::Ground)
    }

    /// What came last is an Escape that may be the key itself.
    fn ends_in_escape(&self) -> bool {
        match (&self.state, &self.spelled) {
            (State::Ground, Some(spelled)) => spelled.ends_in_escape(),
            (state, _) => matches!(state, State::Escape),
        }
    }

    /// When what is not whole is no longer waited for.
    fn gives_up_at(&self) -> Option<Moment> {
        match (&self.state, &self.spelled) {
            (State::Ground, spelled) => spelled.as_ref()?.gives_up_at(),
            (State::Escape, _) => Some(self.since.plus(ESCAPE_MS)),
            _ => Some(self.since.plus(SEQUENCE_MS)),
        }
    }

    /// The key that was pressed, where its rest has not come in time.
    fn give_up(&mut self, now: Moment) -> Option<Key> {
        self.gives_up_at().filter(|&at| at <= now)?;
        match std::mem::take(&mut self.state) {
            State::Ground => self.spelled.as_mut()?.give_up(now),
            State::Escape => Some(Key::Escape),
            _ => Some(Key::Mode),
        }
    }

    fn next(&mut self, now: Moment, byte: u8) -> Option<Key> {
        match &mut self.state {
            State::Ground => self.ground(now, byte),
            State::Escape => {
                self.state = State::Ground;
                self.after_escape(now, byte)
            }
            State::String { escape: false } if byte == 0x07 => {
                self.state = State::Ground;
                Some(Key::Report)
            }
            State::String { escape } if !*escape && byte == 0x1b => {
                *escape = true;
                None
            }
            State::String { escape: true } => {
                self.state = State::Ground;
                if byte == b'\\' { Some(Key::Report) } else { self.after_escape(now, byte) }
            }
            _ if byte < b' ' => self.broken_off(now, byte),
            State::String { .. } => None,
            State::Single => {
                self.state = State::Ground;
                Some(if byte == b'M' { Key::Submit } else { Key::Move })
            }
            State::Control(sequence) => {
                if (0x40..=0x7e).contains(&byte) {
                    let sequence = std::mem::take(sequence);
                    self.state = State::Ground;
                    return Some(self.control(now, &sequence, byte));
                }
                if sequence.len() < SEQUENCE_BYTES_MAX {
                    sequence.push(byte);
                }
                None
            }
            State::Mouse(left) => {
                *left -= 1;
                if *left > 0 {
                    return None;
                }
                self.state = State::Ground;
                Some(Key::Report)
            }
        }
    }

    /// No sequence has a control character: what began like one was a key, and this is the next.
    fn broken_off(&mut self, now: Moment, byte: u8) -> Option<Key> {
        self.state = State::Ground;
        match self.ground(now, byte)? {
            key @ (Key::Submit | Key::LineFeed | Key::Abandon) => Some(key),
            _ => Some(Key::Mode),
        }
    }

    fn ground(&mut self, now: Moment, byte: u8) -> Option<Key> {
        let escaped = std::mem::replace(&mut self.backslash, byte == b'\\');
        Some(match byte {
            0x1b => {
                self.state = State::Escape;
                self.since = now;
                return None;
            }
            b'\r' | b'\n' if self.pasting => Key::Break,
            b'\r' | b'\n' if escaped => Key::BreakOrSubmit,
            b'\r' => Key::Submit,
            b'\n' => Key::LineFeed,
            _ => Key::plain(byte),
        })
    }

    fn after_escape(&mut self, now: Moment, byte: u8) -> Option<Key> {
        match byte {
            b'[' => self.state = State::Control(Vec::new()),
            b'O' => self.state = State::Single,
            b']' | b'P' | b'_' | b'^' | b'X' => self.state = State::String { escape: false },
            0x1b => {
                self.state = State::Escape;
                self.since = now;
            }
            b'\r' | b'\n' => return Some(Key::Break),
            _ => return Some(Key::Mode),
        }
        None
    }

    fn control(&mut self, now: Moment, sequence: &[u8], last: u8) -> Key {
        match (sequence, last) {
            (b"200", b'~') => self.pasting = true,
            (b"201", b'~') => self.pasting = false,
            (b"", b'M') => {
                self.state = State::Mouse(3);
                return Key::Report;
            }
            ([b'?' | b'>' | b'=' | b'<', ..], _) => return Key::Report,
            (_, b'R' | b'c' | b'n' | b't' | b'y' | b'I' | b'O') => return Key::Report,
            _ if is_release(sequence) => return Key::Other,
            (_, b'u' | b'~') => {
                let other = if last == b'u' { Key::Text } else { Key::Move };
                return SpelledKey::of(sequence, last).map_or(other, SpelledKey::meaning);
            }
            (_, b'_') => {
                return WindowsKey::of(sequence).map_or(Key::Report, |key| self.spelled(now, key));
            }
            _ => {}
        }
        Key::Move
    }

    /// A key's character may be one of a sequence, as those of a paste are.
    fn spelled(&mut self, now: Moment, key: WindowsKey) -> Key {
        let Some(character) = key.character else {
            return if key.is_modifier() { Key::Other } else { Key::Move };
        };
        match (key.has(WindowsKey::ALT) && !key.has(WindowsKey::CTRL), character) {
            (true, '\r') => return Key::Break,
            (true, _) => return Key::Mode,
            (false, '\r') if key.has(WindowsKey::SHIFT) => return Key::Break,
            (false, _) => {}
        }
        let spelled = self.spelled.get_or_insert_default();
        let mut bytes = [0; 4];
        let bytes = character.encode_utf8(&mut bytes).bytes();
        bytes.filter_map(|byte| spelled.next(now, byte)).last().unwrap_or(Key::Other)
    }
}

/// A key as terminals spell it for programs that ask them to: `CSI 92;5u`, or `CSI 27;5;92~`.
#[derive(Clone, Copy, Debug)]
pub struct SpelledKey {
    code: u32,
    held: u32,
}

impl SpelledKey {
    /// Ctrl is held.
    pub const CTRL: u32 = 0b100;
    const SHIFT: u32 = 0b1;
    const ALT: u32 = 0b10;
    /// What can be held: all but the locks.
    const HELD: u32 = 0b11_1111;

    const ENTER: u32 = 13;
    const ESCAPE: u32 = 27;
    const C_J: u32 = b'j' as u32;

    /// What stands between `CSI` and this last byte; nothing where a key was let go.
    #[must_use]
    pub fn of(sequence: &[u8], last: u8) -> Option<Self> {
        let mut parts = str::from_utf8(sequence).ok()?.split(';');
        let (code, held) = match last {
            b'u' => (parts.next()?, parts.next()),
            b'~' if parts.next() == Some("27") => {
                let held = parts.next();
                (parts.next()?, held)
            }
            _ => return None,
        };
        let code = code.split(':').next()?.parse().ok()?;
        let held = held.and_then(|held| held.split(':').next()?.parse().ok()).unwrap_or(1_u32);
        let held = held.saturating_sub(1) & Self::HELD;
        (!is_release(sequence)).then_some(Self { code, held })
    }

    /// Whether it is the key of this character, and just this was held.
    #[must_use]
    pub fn is(self, character: char, held: u32) -> bool {
        (self.code, self.held) == (character.into(), held)
    }

    fn meaning(self) -> Key {
        let letter = u8::try_from(self.code).ok();
        match (self.code, self.held) {
            (Self::ENTER, 0) => Key::Submit,
            (Self::ENTER, _) | (Self::C_J, Self::CTRL) => Key::Break,
            (Self::ESCAPE, 0) => Key::Escape,
            // The locks, and what is held with others, by itself.
            (57358..=57363 | 57441..=57454, _) => Key::Other,
            (_, held) if held & Self::ALT != 0 => Key::Mode,
            (_, Self::CTRL) => {
                let letter = letter.filter(|byte| matches!(byte, b'a'..=b'z' | b']'));
                letter.map_or(Key::Move, |letter| Key::plain(letter & 0x1f))
            }
            (_, held) if held & !Self::SHIFT != 0 => Key::Move,
            _ => letter.map_or(Key::Text, Key::plain),
        }
    }
}

/// Whether this control sequence tells that a key was let go: `CSI 97;1:3u`, `CSI 1;1:3A`.
fn is_release(sequence: &[u8]) -> bool {
    let held = sequence.split(|&byte| byte == b';').nth(1);
    held.and_then(|held| held.split(|&byte| byte == b':').nth(1)) == Some(b"3")
}

/// A key as Windows' consoles spell it where a program asks them to (`CSI ? 9001 h`):
/// `CSI Vk ; Sc ; Uc ; Kd ; Cs ; Rc _`, the virtual key, its scan code, its character as a UTF-16 unit, whether it
/// went down, what was held with it, and how often it repeats.
#[derive(Clone, Copy, Debug)]
pub struct WindowsKey {
    key: u32,
    /// None of it, or half of one: a surrogate.
    character: Option<char>,
    held: u32,
}

impl WindowsKey {
    /// Either Alt is held.
    pub const ALT: u32 = 0x3;
    /// Either Ctrl is held; with Alt it is AltGr.
    pub const CTRL: u32 = 0xc;
    const SHIFT: u32 = 0x10;

    /// Alt's release has the character that was typed as a number with it.
    const VK_MENU: u32 = 0x12;
    /// Shift, Ctrl, Alt; Caps Lock; the Windows keys; Num Lock and Scroll Lock.
    const MODIFIERS: [u32; 8] = [0x10, 0x11, 0x12, 0x14, 0x5b, 0x5c, 0x90, 0x91];

    /// What stands between `CSI` and `_`; nothing where a key was let go.
    #[must_use]
    pub fn of(sequence: &[u8]) -> Option<Self> {
        let text = str::from_utf8(sequence).ok()?;
        let mut numbers = text.split(';').map(|number| number.parse::<u32>().unwrap_or(0));
        let [key, _, unit, down, held] = std::array::from_fn(|_| numbers.next().unwrap_or(0));
        if down == 0 && (key != Self::VK_MENU || unit == 0) {
            return None;
        }
        let is_half = (0xd800..0xe000).contains(&unit);
        let unit = if is_half { u32::from(char::REPLACEMENT_CHARACTER) } else { unit };
        Some(Self { key, character: char::from_u32(unit).filter(|&c| c != '\0'), held })
    }

    /// What is typed with it.
    #[must_use]
    pub fn character(self) -> Option<char> {
        self.character
    }

    /// Whether one of these was held.
    #[must_use]
    pub fn has(self, held: u32) -> bool {
        self.held & held != 0
    }

    fn is_modifier(self) -> bool {
        Self::MODIFIERS.contains(&self.key)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// As a console spells keys without anything held.
    fn spelled(characters: &str) -> String {
        let unit = |c: char| format!("\x1b[65;30;{0};1;0;1_\x1b[65;30;{0};0;0;1_", u32::from(c));
        characters.chars().map(unit).collect()
    }

    #[test]
    fn keys_that_windows_spells_out_are_those_keys() {
        let typed =
            |keys: &str, after: &'static str| is_empty(&[(&spelled(keys), after)], after.len() < 3);
        typed("l", "> l");
        typed("l\r", "> ");
        typed("l\x03", "> ");
        is_empty(&[(&spelled("ls"), "> ls"), (&spelled("\r"), "")], true);
        // Shift and Enter, Alt and Enter; a paste.
        is_empty(&[("\x1b[13;28;13;1;16;1_", "> ")], false);
        is_empty(&[("\x1b[13;28;13;1;2;1_", "> ")], false);
        is_empty(&[(&spelled("\x1b[200~a\rb\x1b[201~"), "> b"), ("", "> ")], false);
        is_empty(&[(&spelled("\x1b[200~a\rb\x1b[201~\r"), "> ")], true);
        // An arrow; Shift alone; a key that is let go.
        is_empty(&[("\x1b[38;72;0;1;256;1_", "> ls")], false);
        is_empty(&[("\x1b[16;42;0;1;16;1_", "> ")], true);
        for (keys, touched, may_command) in [
            ("\x1b[16;42;0;1;16;1_", true, false),
            ("\x1b[65;30;97;0;0;1_", false, false),
            ("\x1b[_", false, false),
            (&spelled("\x1b"), true, true),
            ("\x1b[66;48;98;1;2;1_", true, true),
            // AltGr.
            ("\x1b[81;16;64;1;9;1_", true, false),
            // Alt and 132.
            ("\x1b[18;56;228;0;0;1_", true, false),
        ] {
            let mut line = Line::default();
            assert_eq!(
                line.press(Moment(0), keys.as_bytes(), "> ", false).any,
                touched,
                "{keys:?}"
            );
            assert_eq!(line.may_command(), may_command, "{keys:?}");
        }
    }

    /// Each step: keys, and what stands before the cursor afterwards.
    #[track_caller]
    fn is_empty(steps: &[(&str, &str)], expected: bool) {
        let mut line = Line::default();
        line.remember_empty("> ");
        let mut before = "> ";
        for (second, (keys, after)) in (1..).zip(steps) {
            line.press(Moment(1000 * second), keys.as_bytes(), before, false);
            line.see(after);
            before = after;
        }
        assert_eq!(line.is_empty(before), expected, "{steps:?}");
    }

    #[test]
    fn a_line_is_begun_by_typing_and_ended_by_enter() {
        is_empty(&[], true);
        is_empty(&[("l", "> l")], false);
        is_empty(&[("l", "> l"), ("s\r", "")], true);
        is_empty(&[("ls\n", "")], true);
        is_empty(&[("ls", "> ls"), ("\x03", "> ")], true);
        is_empty(&[("ls", "> ls"), ("\x1bOM", "> ")], true);
        is_empty(&[("ls", "> ls"), ("\x1b[13u", "> ")], true);
    }

    #[test]
    fn an_enter_is_told_however_it_is_spelled() {
        let submits =
            |keys: &str| Line::default().press(Moment(0), keys.as_bytes(), "> ", false).submit;
        for keys in ["\r", "ls\r", "\n", "\x1bOM", "\x1b[13u", "\x1b[13;28;13;1;0;1_", "a\\\r"] {
            assert!(submits(keys), "{keys:?}");
        }
        for keys in ["ls", "\x1b\r", "\x1b[13;2u", "\x1b[200~a\rb\x1b[201~", "\x1b[13;28;13;0;0;1_"]
        {
            assert!(!submits(keys), "{keys:?}");
        }
    }

    #[test]
    fn keys_that_are_spelled_out_are_those_keys_and_let_go_they_are_none() {
        for (keys, empty, may_command) in [
            // Escape; let go: a letter, an Enter, an arrow; Shift alone; Ctrl-L.
            ("\x1b[27u", true, true),
            ("\x1b[97;1:3u", true, false),
            ("\x1b[13;1:3u", true, false),
            ("\x1b[1;1:3A", true, false),
            ("\x1b[57441;2u", true, false),
            ("\x1b[108;5u", true, false),
            ("\x1b[97u", false, false),
            ("\x1b[97;3u", false, true),
            ("\x1b[27;2;65~", false, false),
            // The locks count for nothing.
            ("ls\x1b[13;129u", true, false),
            ("ls\x1b[99;197u", true, false),
            ("ls\x1b[27;5;99~", true, false),
            ("ls\x1b[13;1:1u\x1b[115;1:3u", true, false),
        ] {
            let mut line = Line::default();
            let pressed = line.press(Moment(0), keys.as_bytes(), "> ", false);
            assert!(pressed.any, "{keys:?}");
            assert_eq!(
                (line.is_empty("> x"), line.may_command()),
                (empty, may_command),
                "{keys:?}"
            );
            assert_eq!(Keystrokes::default().of(Moment(0), keys.as_bytes()), keys.as_bytes());
        }
    }

    #[test]
    fn what_the_screen_shows_to_be_gone_is_gone() {
        is_empty(&[("l", "> l"), ("\x7f", "> ")], true);
        is_empty(&[("l", "> l"), ("\x7f", "> x")], false);
        is_empty(&[("\x1b[A", "> ls")], false);
        is_empty(&[("\x1b[A", "> ls"), ("\x1b[B", "> ")], true);
        is_empty(&[("\x1b[A", "> ")], true);
        // A dialog came up, was answered with a key, and the composer is back.
        is_empty(&[("1", "Allow? "), ("", "> ")], true);
    }

    #[test]
    fn what_is_not_shown_is_typed_all_the_same() {
        is_empty(&[("secret", "> ")], false);
        is_empty(&[("secret", "> "), ("\r", "> ")], true);
    }

    #[test]
    fn after_escape_text_may_be_commands_until_the_line_is_sent_off() {
        let may_command = |steps: &[&str], pause_ms: u64| {
            let mut line = Line::default();
            for (at, keys) in (1..).zip(steps) {
                line.press(Moment(at * pause_ms), keys.as_bytes(), "$ ", false);
            }
            line.may_command()
        };
        for steps in [&["\x1b"][..], &["\x1b", "k"], &["ls", "\x1b", "dd"], &["\x1bb"], &["\x16"]] {
            assert!(may_command(steps, ESCAPE_MS - 1), "{steps:?}");
            assert!(may_command(steps, ESCAPE_MS), "{steps:?}");
        }
        for steps in [&["\x1b", "\r"][..], &["\x1b", "k", "\x03"], &["\x1b[A"], &["ls"]] {
            assert!(!may_command(steps, ESCAPE_MS), "{steps:?}");
        }
        assert!(!may_command(&["\x1b", "[A"], ESCAPE_MS - 1));
        assert!(may_command(&["\x1b", "[A"], ESCAPE_MS));
    }

    /// What else these characters would begin: a string, a control sequence, one more character.
    #[test]
    fn an_escape_whose_rest_does_not_follow_is_the_key() {
        for key in ["P", "X", "^", "_", "]", "O", "["] {
            let mut line = Line::default();
            assert!(line.press(Moment(0), b"\x1b", "> ", false).any);
            assert!(line.is_empty("> "));
            assert!(line.press(Moment(ESCAPE_MS), key.as_bytes(), "> ", false).any, "{key}");
            line.see(&format!("> {key}"));
            assert!(!line.is_empty(&format!("> {key}")), "{key}");
            assert!(line.press(Moment(5000), b"lease\r", "", false).any, "{key}");
            assert!(line.is_empty(""), "{key}");
        }
    }

    #[test]
    fn a_key_that_begins_like_an_answer_is_in_doubt_and_then_a_key() {
        for key in ["\x1bP", "\x1bX", "\x1b^", "\x1b_", "\x1b]", "\x1bO", "\x1b["] {
            let mut line = Line::default();
            line.remember_empty("$ ");
            assert!(!line.press(Moment(0), key.as_bytes(), "$ ", false).any, "{key:?}");
            assert!(
                !line.is_known_empty() && !line.is_empty("$ ") && line.may_command(),
                "{key:?}"
            );
            assert_eq!(line.settle(Moment(SEQUENCE_MS - 1)), None, "{key:?}");
            assert_eq!(line.settle(Moment(SEQUENCE_MS)), Some(Moment(0)), "{key:?}");
            assert!(!line.is_in_doubt() && line.may_command(), "{key:?}");
            assert!(!line.is_empty("$ file"), "{key:?}");
            assert!(line.press(Moment(1000), b"x", "$ file", false).any, "{key:?}");
            assert!(line.press(Moment(1001), b"\r", "$ file", false).any, "{key:?}");
            assert!(line.is_empty("") && !line.may_command(), "{key:?}");
        }
    }

    #[test]
    fn no_answer_has_a_control_character_or_goes_on_behind_an_arrow() {
        for (key, empty) in [("\r", true), ("\x03", true), ("\x01", false), ("\x1b[A", false)] {
            for begun in ["\x1bP", "\x1b]", "\x1b["] {
                let (mut line, mut keys) = (Line::default(), Keystrokes::default());
                let bytes = format!("{begun}lease{key}");
                assert!(line.press(Moment(0), bytes.as_bytes(), "$ ", false).any, "{bytes:?}");
                assert_eq!(line.is_empty("$ x"), empty, "{bytes:?}");
                assert_eq!(keys.of(Moment(0), bytes.as_bytes()), bytes.as_bytes());
            }
        }
    }

    #[test]
    fn a_line_of_several_rows_is_sent_off_as_a_whole() {
        is_empty(&[("a\\\r", "> ")], false);
        is_empty(&[("a\x1b\r", "> ")], false);
        is_empty(&[("a\x1b[13;2u", "> x"), ("", "> ")], false);
        is_empty(&[("\x1b[200~a\nb\r\x1b[201~", "> b"), ("", "> ")], false);
        is_empty(&[("\x1b[200~a\nb\r\x1b[201~\r", "> ")], true);
    }

    /// Pieces that come one after another, so many milliseconds apart.
    fn pressed(pieces: &[&[u8]], pause_ms: u64) -> Vec<u8> {
        let mut keys = Keystrokes::default();
        let pieces = (0..).zip(pieces);
        pieces.flat_map(|(at, piece)| keys.of(Moment(at * pause_ms), piece)).collect()
    }

    #[test]
    fn answers_of_a_second_terminal_are_left_out() {
        for answer in [
            "\x1b[?62;4c",
            "\x1b[12;40R",
            "\x1b]11;rgb:0000/0000/0000\x07",
            "\x1b]11;rgb:0000/0000/0000\x1b\\",
            "\x1bP>|term 1\x1b\\",
            "\x1b[?2026;2$y",
            "\x1b[?1u",
            "\x1b[8;24;80t",
        ] {
            for cut in 1..answer.len() {
                let (one, two) = answer.as_bytes().split_at(cut);
                let expected = if cut == 1 { &b"a\x1bb"[..] } else { b"ab" };
                let pressed = pressed(&[b"a", one, two, b"b"], ESCAPE_MS - 1);
                assert_eq!(pressed, expected, "{answer:?} cut at {cut}");
            }
        }
        for keys in [
            "ls -l\r",
            "\x1b[A\x1bOP\x1b[1;5D",
            "\x1b",
            "\x1bf",
            "\x1b[<0;10;20M\x1b[<0;10;20m",
            "\x1b[M !!",
            "\x1b[I\x1b[O",
            "\x1b[200~a\nb\x1b[201~",
            "\x1b[99;5u\x1b[13;2u",
            "\u{4e2d}\u{1f600}",
        ] {
            for cut in 0..keys.len() {
                let (one, two) = keys.as_bytes().split_at(cut);
                for pause_ms in [0, ESCAPE_MS, SEQUENCE_MS] {
                    let pressed = pressed(&[one, two], pause_ms);
                    assert_eq!(pressed, keys.as_bytes(), "{keys:?} cut at {cut}");
                }
            }
        }
        let endless = [&b"\x1b]"[..], &[b'x'; 10_000]].concat();
        let mut keys = Keystrokes::default();
        assert_eq!(keys.of(Moment(0), &endless), b"");
        assert!(keys.begun.len() < ANSWER_BYTES_MAX);
        assert_eq!(keys.of(Moment(0), b"x\x07y"), b"y");
    }

    #[test]
    fn keys_that_begin_like_an_answer_are_kept_back_for_a_moment_only() {
        for key in ["P", "X", "^", "_", "]", "O", "["] {
            // The Escape key, and then this one.
            assert_eq!(
                pressed(&[b"\x1b", key.as_bytes()], ESCAPE_MS),
                format!("\x1b{key}").as_bytes()
            );
            // This one with Alt.
            let (mut keys, alt) = (Keystrokes::default(), format!("\x1b{key}"));
            assert_eq!(
                (keys.of(Moment(9), alt.as_bytes()), keys.deadline()),
                (vec![], Some(Moment(9 + SEQUENCE_MS)))
            );
            assert_eq!(keys.late(Moment(9 + SEQUENCE_MS - 1)), b"");
            assert_eq!(
                (keys.late(Moment(9 + SEQUENCE_MS)), keys.deadline()),
                (alt.into_bytes(), None)
            );
            assert_eq!(keys.of(Moment(300), b"x\x03"), b"x\x03");
        }
    }

    #[test]
    fn a_terminals_own_words_are_no_typing() {
        for report in [
            "\x1b[?62;4c",
            "\x1b[12;40R",
            "\x1b[I",
            "\x1b[O",
            "\x1b[<0;10;20M",
            "\x1b[<0;10;20m",
            "\x1b[M !!",
            "\x1b]11;rgb:0000/0000/0000\x07",
            "\x1b]11;rgb:0000/0000/0000\x1b\\",
            "\x1bP>|term 1\x1b\\",
            "\x1b[?2026;2$y",
            "\x1b[?1u",
            "\x1b[8;24;80t",
        ] {
            for cut in 0..report.len() {
                let mut line = Line::default();
                let touched = line.press(Moment(0), &report.as_bytes()[..cut], "> ", false).any;
                assert_eq!(touched, cut == 1, "{report:?}");
                let later = Moment(ESCAPE_MS - 1);
                assert!(
                    !line.press(later, &report.as_bytes()[cut..], "> ", false).any,
                    "{report:?}"
                );
                assert!(line.is_empty("> "), "{report:?}");
            }
        }
        assert!(Line::default().press(Moment(0), b"\x1b[A", "", false).any);
        assert!(Line::default().press(Moment(0), b"\x1b", "", false).any, "the Escape key itself");
    }
}
