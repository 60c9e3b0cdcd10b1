//! The overlay: a wrapper's additions to a program's output for a person's terminal.
//!
//! The terminal's title distinguishes the agents: a sign for the agent's state, its name, then the
//! program's own title. The program's sequences that set, save and restore the title are replaced,
//! and focus reports stay on when the program turns them off.

use crate::{
    escape::{ESC, State, StringKind, Token, Tokenizer},
    screen::tail::Tail,
};
use std::{collections::VecDeque, mem};

/// How many bytes of an unfinished title are held back. A longer title passes unchanged.
const HELD_BYTES_MAX: usize = 4096;

/// The maximum length of a program's title on display, in characters.
const TITLE_CHARACTERS_MAX: usize = 256;

/// How many titles a program can save. Beyond that, its oldest is dropped.
const SAVED_MAX: usize = 10;

/// The sequence that makes a terminal save its title.
pub const SAVE_TITLE: &str = "\x1b[22;0t";
/// The sequence that makes a terminal restore its saved title.
pub const RESTORE_TITLE: &str = "\x1b[23;0t";

/// The sequences that turn a terminal's focus reports on and off.
const FOCUS_ON: &[u8] = b"\x1b[?1004h";
const FOCUS_OFF: &[u8] = b"\x1b[?1004l";

/// An agent's state as shown in its terminal's title.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Sign {
    /// The agent waits for its person.
    Waits,
    /// The agent works.
    Works,
    /// The agent has finished, and its person has not looked since.
    Finished,
}

impl Sign {
    /// The character before the name.
    #[must_use]
    pub const fn as_char(self) -> char {
        match self {
            Self::Waits => '!',
            Self::Works => '•',
            Self::Finished => '✓',
        }
    }
}

/// The overlay of one terminal.
#[derive(Debug)]
pub struct Overlay {
    /// The agent's name; `None` if the terminal's title is not changed.
    name: Option<String>,
    reports_focus: bool,
    sign: Option<Sign>,
    /// The program's own title.
    own: String,
    /// The titles that the program has saved, the oldest first.
    saved: VecDeque<String>,
    tokenizer: Tokenizer,
    /// The bytes of an unfinished sequence that may concern the title, from its `ESC` on.
    held: Vec<u8>,
    /// The end of the output that was passed on.
    tail: Tail,
    /// Whether the terminal does not show the current title yet.
    is_title_due: bool,
    /// An alert that was not sent to the terminal yet.
    alert: Vec<u8>,
}

impl Overlay {
    /// Returns a terminal's overlay. Unless `name` is `None`, the title shows the agent with this
    /// name. With `reports_focus`, the terminal reports its focus.
    #[must_use]
    pub fn new(name: Option<String>, reports_focus: bool) -> Self {
        Self {
            name,
            reports_focus,
            sign: None,
            own: String::new(),
            saved: VecDeque::new(),
            tokenizer: Tokenizer::default(),
            held: Vec::new(),
            tail: Tail::default(),
            is_title_due: false,
            alert: Vec::new(),
        }
    }

    /// Appends the bytes to send before the program's output.
    pub fn begin(&self, out: &mut Vec<u8>) {
        out.extend_from_slice(SAVE_TITLE.as_bytes());
        self.append_state(out);
    }

    /// Appends the bytes to send after a snapshot of the program's screen.
    pub fn append_state(&self, out: &mut Vec<u8>) {
        self.append_title(out);
        if self.reports_focus {
            out.extend_from_slice(FOCUS_ON);
        }
    }

    /// Whether the terminal is asked to report its focus.
    #[must_use]
    pub fn reports_focus(&self) -> bool {
        self.reports_focus
    }

    /// Appends the bytes that undo the overlay's changes.
    pub fn end(&self, out: &mut Vec<u8>) {
        if self.reports_focus {
            out.extend_from_slice(FOCUS_OFF);
        }
        out.extend_from_slice(RESTORE_TITLE.as_bytes());
    }

    /// Appends the bytes to send for a piece of the program's output.
    pub fn pass(&mut self, bytes: &[u8], out: &mut Vec<u8>) {
        let begin = out.len();
        let mut rest = bytes;
        loop {
            if self.tokenizer.is_in_text() {
                let text = rest.iter().position(|&byte| byte == ESC).unwrap_or(rest.len());
                out.extend_from_slice(&rest[..text]);
                rest = &rest[text..];
            }
            let Some((&byte, after)) = rest.split_first() else { break };
            rest = after;
            self.step(byte, out);
        }
        self.tail.feed(&out[begin..]);
        self.append_due(out);
    }

    /// Changes the sign in the title. Appends the title as soon as the output allows it: now, or
    /// after the unfinished sequence.
    pub fn set_sign(&mut self, sign: Option<Sign>, out: &mut Vec<u8>) {
        if mem::replace(&mut self.sign, sign) != sign {
            self.is_title_due = self.name.is_some();
            self.append_due(out);
        }
    }

    /// Appends an alert, such as a bell, as soon as the output allows it. If two alerts have to
    /// wait, the later one counts.
    pub fn alert(&mut self, alert: &[u8], out: &mut Vec<u8>) {
        alert.clone_into(&mut self.alert);
        self.append_due(out);
    }

    /// Appends the sequence that sets the title.
    fn append_title(&self, out: &mut Vec<u8>) {
        let Some(name) = &self.name else { return };
        out.extend_from_slice(b"\x1b]0;");
        if let Some(sign) = self.sign {
            out.extend_from_slice(format!("{} ", sign.as_char()).as_bytes());
        }
        out.extend_from_slice(name.as_bytes());
        if !self.own.is_empty() {
            out.extend_from_slice(format!(" · {}", self.own).as_bytes());
        }
        out.push(b'\x07');
    }

    /// Appends the waiting title and alert, unless a sequence or a character is unfinished.
    fn append_due(&mut self, out: &mut Vec<u8>) {
        if self.tail.unfinished().is_none_or(|unfinished| !unfinished.is_empty()) {
            return;
        }
        if mem::take(&mut self.is_title_due) {
            self.append_title(out);
        }
        out.append(&mut self.alert);
    }

    /// Reads a byte of a sequence.
    fn step(&mut self, byte: u8, out: &mut Vec<u8>) {
        let before = self.tokenizer.state();
        self.held.push(byte);
        let Some(token) = self.tokenizer.next(byte) else {
            // An ESC begins a new sequence, except before the `\` that ends a string.
            let new = match (before, self.tokenizer.state()) {
                (_, State::Escape) => 1,
                (State::StringEscape(_), _) => 2,
                _ => self.held.len(),
            };
            let old = self.held.len().saturating_sub(new);
            out.extend(self.held.drain(..old));
            if !may_concern_title(&self.held) {
                out.append(&mut self.held);
            }
            return;
        };
        let turns_reports_off = match token {
            Token::String(StringKind::Osc) => return self.read_title(out),
            Token::Csi { parameters: b"22" | b"22;0" | b"22;2", last: b't' } => {
                return self.save_title(out);
            }
            Token::Csi { parameters: b"23" | b"23;0" | b"23;2", last: b't' } => {
                return self.restore_title(out);
            }
            Token::Csi { parameters: [b'?', modes @ ..], last: b'l' } => {
                modes.split(|&byte| byte == b';').any(|mode| mode == b"1004")
            }
            // A reset of the terminal.
            Token::Escape(b'c') => true,
            _ => false,
        };
        out.append(&mut self.held);
        if turns_reports_off && self.reports_focus {
            out.extend_from_slice(FOCUS_ON);
        }
    }

    /// Handles an operating system command, which may set the title.
    fn read_title(&mut self, out: &mut Vec<u8>) {
        match own_title(&self.held).filter(|_| self.name.is_some()) {
            Some(own) => {
                self.own = own;
                self.held.clear();
                self.append_title(out);
            }
            None => out.append(&mut self.held),
        }
    }

    fn save_title(&mut self, out: &mut Vec<u8>) {
        if self.name.is_none() {
            return out.append(&mut self.held);
        }
        self.held.clear();
        if self.saved.len() == SAVED_MAX {
            self.saved.pop_front();
        }
        self.saved.push_back(self.own.clone());
    }

    fn restore_title(&mut self, out: &mut Vec<u8>) {
        if self.name.is_none() {
            return out.append(&mut self.held);
        }
        self.held.clear();
        if let Some(own) = self.saved.pop_back() {
            self.own = own;
            self.append_title(out);
        }
    }
}

/// Whether an unfinished sequence may set, save or restore the title.
fn may_concern_title(held: &[u8]) -> bool {
    let is_sequence = match held {
        [ESC] | [ESC, b']'] | [ESC, b'[', ..] => true,
        [ESC, b']', b'0' | b'2', rest @ ..] => rest.first().is_none_or(|&byte| byte == b';'),
        _ => false,
    };
    is_sequence && held.len() <= HELD_BYTES_MAX
}

/// Returns the title that a whole operating system command sets, if it sets one.
fn own_title(command: &[u8]) -> Option<String> {
    let [ESC, b']', b'0' | b'2', b';', rest @ ..] = command else { return None };
    let text = rest.strip_suffix(b"\x07").or_else(|| rest.strip_suffix(b"\x1b\\"))?;
    let text = String::from_utf8_lossy(text);
    Some(text.chars().filter(|c| !c.is_control()).take(TITLE_CHARACTERS_MAX).collect())
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn overlay() -> Overlay {
        Overlay::new(Some("web-3".into()), true)
    }

    fn passed(overlay: &mut Overlay, bytes: &str) -> String {
        let mut out = Vec::new();
        overlay.pass(bytes.as_bytes(), &mut out);
        String::from_utf8(out).unwrap()
    }

    fn signed(overlay: &mut Overlay, sign: Option<Sign>) -> String {
        let mut out = Vec::new();
        overlay.set_sign(sign, &mut out);
        String::from_utf8(out).unwrap()
    }

    /// Checks the bytes for a terminal, wherever the output is cut in two.
    #[track_caller]
    fn check(bytes: &str, expected: &str) {
        for cut in (0..=bytes.len()).filter(|&cut| bytes.is_char_boundary(cut)) {
            let mut overlay = overlay();
            let mut out = passed(&mut overlay, &bytes[..cut]);
            out.push_str(&passed(&mut overlay, &bytes[cut..]));
            assert_eq!(out, expected, "{bytes:?} cut at {cut}");
        }
    }

    #[test]
    fn title_of_the_program_follows_sign_and_name() {
        let mut overlay = overlay();
        let mut first = Vec::new();
        overlay.begin(&mut first);
        assert_eq!(first, b"\x1b[22;0t\x1b]0;web-3\x07\x1b[?1004h");
        let title = passed(&mut overlay, "a\x1b]0;✳ fix tests\x07b");
        assert_eq!(title, "a\x1b]0;web-3 · ✳ fix tests\x07b");
        let waits = signed(&mut overlay, Some(Sign::Waits));
        assert_eq!(waits, "\x1b]0;! web-3 · ✳ fix tests\x07");
        assert_eq!(signed(&mut overlay, Some(Sign::Waits)), "");
        assert_eq!(passed(&mut overlay, "\x1b]2;\x1b\\"), "\x1b]0;! web-3\x07");
        let mut last = Vec::new();
        overlay.end(&mut last);
        assert_eq!(last, b"\x1b[?1004l\x1b[23;0t");
    }

    #[test]
    fn other_output_passes_unchanged() {
        for same in [
            "text",
            "\x1b[31mred\x1b[m",
            "\x1b]8;;http://x\x1b\\link\x1b]8;;\x07",
            "\x1b]1;icon\x07",
            "\x1b]02;x\x07",
            "\x1bPq#0~\x1b\\after",
            "\x1b]52;c;eA==\x1b\\",
            "\x1b[22;1t\x1b[1;1H\x1b[?1004h",
            "\x1b]0;cut off\x18\x1b[m",
            "\x1b]0;cut off\x1b[m",
            "\x1b[2\x1b[m",
        ] {
            check(same, same);
        }
        let long = format!("\x1b]0;{}\x07", "x".repeat(HELD_BYTES_MAX));
        assert_eq!(passed(&mut overlay(), &long), long);
    }

    #[test]
    fn title_is_found_across_any_cut() {
        check("\x1b]0;a\x1b]2;b\x07c", "\x1b]0;a\x1b]0;web-3 · b\x07c");
        check("\x1b\x1b]2;b\x1b\\", "\x1b\x1b]0;web-3 · b\x07");
        check("\x1bPx\x1b]2;b\x07", "\x1bPx\x1b]0;web-3 · b\x07");
        check("\x1b]0;a\rb\u{85}c\x07", "\x1b]0;web-3 · abc\x07");
    }

    #[test]
    fn titles_that_the_program_saves_are_its_own() {
        check(
            "\x1b]2;a\x07\x1b[22;0t\x1b]2;b\x07\x1b[23;0t\x1b[23t",
            "\x1b]0;web-3 · a\x07\x1b]0;web-3 · b\x07\x1b]0;web-3 · a\x07",
        );
        let mut overlay = overlay();
        for n in 0..100 {
            passed(&mut overlay, &format!("\x1b]2;{n}\x07\x1b[22t"));
        }
        assert_eq!(overlay.saved.len(), SAVED_MAX);
    }

    #[test]
    fn reports_of_the_focus_stay_on() {
        check("\x1b[?1004l", "\x1b[?1004l\x1b[?1004h");
        check("\x1b[?25;1004l", "\x1b[?25;1004l\x1b[?1004h");
        check("\x1bc", "\x1bc\x1b[?1004h");
        let mut without = Overlay::new(None, false);
        let same = "\x1b[?1004l\x1bc\x1b]0;a\x07\x1b[22;0t\x1b[23;0t";
        assert_eq!(passed(&mut without, same), same);
        assert_eq!(signed(&mut without, Some(Sign::Works)), "");
    }

    #[test]
    fn sign_and_alert_wait_for_the_end_of_a_sequence() {
        let mut overlay = overlay();
        assert_eq!(passed(&mut overlay, "\x1b]52;c;"), "\x1b]52;c;");
        assert_eq!(signed(&mut overlay, Some(Sign::Works)), "");
        let mut out = Vec::new();
        overlay.alert(b"\x07", &mut out);
        assert!(out.is_empty());
        assert_eq!(passed(&mut overlay, "x\x1b\\"), "x\x1b\\\x1b]0;• web-3\x07\x07");
        // Bytes that are held back do not make the sign wait.
        assert_eq!(passed(&mut overlay, "\x1b]0;tit"), "");
        assert_eq!(signed(&mut overlay, None), "\x1b]0;web-3\x07");
        overlay.pass(&"é".as_bytes()[..1], &mut Vec::new());
        overlay.pass(b"\x1b[m", &mut Vec::new());
        overlay.pass(&"é".as_bytes()[..1], &mut Vec::new());
        assert_eq!(signed(&mut overlay, Some(Sign::Finished)), "");
    }

    proptest! {
        #![proptest_config(ProptestConfig { failure_persistence: None, ..ProptestConfig::default() })]

        /// Output without titles passes unchanged, however it is cut, and held bytes are bounded.
        #[test]
        fn noise_passes(
            parts in prop::collection::vec("\x1b?[\\[\\]POX13-9;?m(\\r\x07\x18\\\\é字]{1,12}", 0..20),
            length in 1..9_usize,
        ) {
            let mut overlay = Overlay::new(None, false);
            let bytes = parts.concat().into_bytes();
            let mut out = Vec::new();
            for piece in bytes.chunks(length) {
                overlay.pass(piece, &mut out);
                prop_assert!(overlay.held.len() <= HELD_BYTES_MAX + 1);
            }
            out.extend_from_slice(&overlay.held);
            prop_assert_eq!(out, bytes);
        }
    }
}
