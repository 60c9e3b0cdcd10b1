//! A tokenizer that tells a terminal's escape sequences from text, byte by byte.
//!
//! All code in the terminal side that reads raw bytes uses this tokenizer: [`super::keys`] for
//! bytes from a terminal, `screen/parser_input.rs` and [`super::screen::tail`] for bytes from a
//! program. The tokenizer keeps its state between bytes, so tokens do not depend on how the bytes
//! were split. It keeps at most [`PARAMETER_BYTES_MAX`] bytes of a sequence.
//!
//! Keyboards and programs send the same kinds of sequences (ECMA-48). The two kinds of [`Sender`]
//! differ in these bytes:
//!
//! | bytes | from a keyboard | from a program |
//! |---|---|---|
//! | `ESC` + any byte but `[]PX^_` | that key with Alt | a sequence, perhaps with intermediates |
//! | `ESC O` | SS3: one byte follows | a whole sequence |
//! | a control in a sequence | a key: there was no sequence | acts at once; the sequence goes on |
//! | CAN, SUB in a sequence | a key, as above | cancels the sequence |
//!
//! An `ESC` from a keyboard may be the Escape key or the beginning of a sequence. Only the time
//! until the next byte tells which. The tokenizer has no clock, so `keys/decoder.rs` reads the
//! tokenizer's state and resets it.
//!
//! `vte`, the parser of the screen's grid, cannot be used here. It does not say whether a sequence
//! is unfinished, and reports no APC, PM and SOS strings and no SS3. It also stores a whole OSC
//! string in memory; `screen/parser_input.rs` has to prevent that.

pub(super) const ESC: u8 = 0x1b;
const BEL: u8 = 0x07;
const CAN: u8 = 0x18;
const SUB: u8 = 0x1a;

/// The maximum number of bytes of a control sequence that are kept. The rest of a longer sequence
/// is dropped.
pub(super) const PARAMETER_BYTES_MAX: usize = 64;

/// The sender of a stream of bytes: one of the two sides of a terminal.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) enum Sender {
    /// A terminal, which sends keys, answers and reports.
    Keyboard,
    /// A program that prints.
    #[default]
    Program,
}

/// The kinds of strings that a sequence can hold.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u8)]
pub(super) enum StringKind {
    /// `ESC ]`, an operating system command.
    Osc = b']',
    /// `ESC P`, a device control string.
    Dcs = b'P',
    /// `ESC _`, an application program command.
    Apc = b'_',
    /// `ESC ^`, a privacy message.
    Pm = b'^',
    /// `ESC X`, a start of string.
    Sos = b'X',
}

impl StringKind {
    /// Returns the kind of string that `ESC` followed by `byte` begins.
    fn introduced_by(byte: u8) -> Option<Self> {
        let kinds = [Self::Osc, Self::Dcs, Self::Apc, Self::Pm, Self::Sos];
        kinds.into_iter().find(|kind| *kind as u8 == byte)
    }
}

/// A complete unit of a stream of bytes: a byte of text, a control character, or a sequence.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Token<'a> {
    /// A byte of text: printable ASCII, or a part of a UTF-8 character.
    Text(u8),
    /// A control character.
    Control(u8),
    /// An escape sequence: `ESC`, any number of intermediate bytes, and this last byte.
    Escape(u8),
    /// A control sequence: `ESC [`, parameters and intermediate bytes, and the last byte.
    Csi { parameters: &'a [u8], last: u8 },
    /// A single shift from a keyboard: `ESC O` and this byte.
    Ss3(u8),
    /// A string up to its end, which is `ESC \` or BEL. The content is not stored.
    String(StringKind),
    /// The raw bytes that [`Tokenizer::expect_raw`] announced.
    Raw,
    /// A control character that ended an unfinished sequence.
    Aborted(u8),
}

/// The kind of sequence that the next byte belongs to.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) enum State {
    /// Text: no sequence is unfinished.
    #[default]
    Text,
    /// `ESC` was the last byte.
    Escape,
    /// `ESC` and intermediate bytes were the last bytes.
    Intermediate,
    /// A control sequence.
    Csi,
    /// `ESC O` from a keyboard.
    Ss3,
    /// A string.
    String(StringKind),
    /// `ESC` was the last byte of a string: a `\` ends it.
    StringEscape(StringKind),
    /// Raw bytes; this many are still to come.
    Raw(u8),
}

/// The tokenizer of one stream of bytes.
#[derive(Debug, Default)]
pub(super) struct Tokenizer {
    sender: Sender,
    state: State,
    /// Parameters and intermediates of the control sequence.
    parameters: Vec<u8>,
}

impl Tokenizer {
    /// Returns a tokenizer for a stream of bytes from `sender`, at the stream's first byte.
    pub(super) fn new(sender: Sender) -> Self {
        Self { sender, ..Self::default() }
    }

    /// Returns the kind of sequence that the next byte belongs to.
    pub(super) fn state(&self) -> State {
        self.state
    }

    /// Whether no sequence is unfinished.
    pub(super) fn is_in_text(&self) -> bool {
        self.state == State::Text
    }

    /// Drops an unfinished sequence. Returns the previous state.
    pub(super) fn reset(&mut self) -> State {
        std::mem::take(&mut self.state)
    }

    /// Declares that the next `count` bytes are raw data, as in an old mouse report.
    pub(super) fn expect_raw(&mut self, count: u8) {
        self.state = State::Raw(count);
    }

    /// Reads a byte; returns the token that it completes.
    pub(super) fn next(&mut self, byte: u8) -> Option<Token<'_>> {
        match self.state {
            State::Text if byte == ESC => self.enter(State::Escape),
            State::Text => Some(match byte {
                0x00..=0x1f | 0x7f => Token::Control(byte),
                _ => Token::Text(byte),
            }),
            State::StringEscape(kind) if byte == b'\\' => self.finish(Token::String(kind)),
            State::String(kind) if byte == BEL => self.finish(Token::String(kind)),
            State::String(kind) if byte == ESC => self.enter(State::StringEscape(kind)),
            _ if byte == ESC => self.enter(State::Escape),
            _ if byte < b' ' => self.control_in_sequence(byte),
            State::Escape | State::StringEscape(_) => self.after_escape(byte),
            State::Intermediate if (0x30..=0x7e).contains(&byte) => {
                self.finish(Token::Escape(byte))
            }
            State::Csi => self.in_csi(byte),
            State::Ss3 => self.finish(Token::Ss3(byte)),
            State::Intermediate | State::String(_) => None,
            State::Raw(0 | 1) => self.finish(Token::Raw),
            State::Raw(count) => self.enter(State::Raw(count - 1)),
        }
    }

    fn enter(&mut self, state: State) -> Option<Token<'_>> {
        self.state = state;
        None
    }

    fn finish<'a>(&mut self, token: Token<'a>) -> Option<Token<'a>> {
        self.state = State::Text;
        Some(token)
    }

    fn control_in_sequence(&mut self, byte: u8) -> Option<Token<'_>> {
        match (self.sender, self.state) {
            (Sender::Keyboard, State::Escape | State::StringEscape(_)) => {
                self.finish(Token::Escape(byte))
            }
            (Sender::Keyboard, _) => self.finish(Token::Aborted(byte)),
            (Sender::Program, _) if matches!(byte, CAN | SUB) => self.finish(Token::Aborted(byte)),
            (Sender::Program, State::String(_)) => None,
            (Sender::Program, State::Raw(_)) => self.finish(Token::Aborted(byte)),
            (Sender::Program, _) => Some(Token::Control(byte)),
        }
    }

    fn after_escape(&mut self, byte: u8) -> Option<Token<'_>> {
        if let Some(kind) = StringKind::introduced_by(byte) {
            return self.enter(State::String(kind));
        }
        match (self.sender, byte) {
            (_, b'[') => {
                self.parameters.clear();
                self.enter(State::Csi)
            }
            (Sender::Keyboard, b'O') => self.enter(State::Ss3),
            (Sender::Keyboard, _) => self.finish(Token::Escape(byte)),
            (Sender::Program, 0x20..=0x2f) => self.enter(State::Intermediate),
            (Sender::Program, 0x30..=0x7e) => self.finish(Token::Escape(byte)),
            // Inside an escape sequence, terminals ignore DEL and bytes outside of ASCII.
            (Sender::Program, _) => None,
        }
    }

    fn in_csi(&mut self, byte: u8) -> Option<Token<'_>> {
        if (0x40..=0x7e).contains(&byte) {
            self.state = State::Text;
            return Some(Token::Csi { parameters: &self.parameters, last: byte });
        }
        if self.parameters.len() < PARAMETER_BYTES_MAX {
            self.parameters.push(byte);
        }
        None
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    /// Returns all tokens of some bytes, and the tokenizer's state at their end.
    fn tokens(sender: Sender, bytes: &[u8]) -> (Vec<String>, State) {
        let mut tokenizer = Tokenizer::new(sender);
        let mut tokens = Vec::new();
        for &byte in bytes {
            tokens.extend(tokenizer.next(byte).map(shown));
        }
        (tokens, tokenizer.state())
    }

    fn shown(token: Token<'_>) -> String {
        match token {
            Token::Text(byte) => format!("text {}", byte.escape_ascii()),
            Token::Control(byte) => format!("control {}", byte.escape_ascii()),
            Token::Escape(last) => format!("escape {}", last.escape_ascii()),
            Token::Csi { parameters, last } => {
                format!("csi {} {}", parameters.escape_ascii(), last.escape_ascii())
            }
            Token::Ss3(last) => format!("ss3 {}", last.escape_ascii()),
            Token::String(kind) => format!("{kind:?}"),
            Token::Raw => "raw".to_owned(),
            Token::Aborted(byte) => format!("aborted {}", byte.escape_ascii()),
        }
    }

    #[track_caller]
    fn check(sender: Sender, bytes: &[u8], expected: &[&str], state: State) {
        let expected = expected.iter().map(|&token| token.to_owned()).collect();
        assert_eq!(tokens(sender, bytes), (expected, state), "{}", bytes.escape_ascii());
    }

    #[test]
    fn sequences_of_both_senders_are_the_same() {
        for sender in [Sender::Keyboard, Sender::Program] {
            let check =
                |bytes: &[u8], expected: &[&str]| check(sender, bytes, expected, State::Text);
            check(b"a\r\x7f\xc3", &["text a", "control \\r", "control \\x7f", "text \\xc3"]);
            check(b"\x1b7x", &["escape 7", "text x"]);
            check(b"\x1b[A\x1b[?2026;2$y", &["csi  A", "csi ?2026;2$ y"]);
            check(b"\x1b[1\x1b[2m", &["csi 2 m"]);
            check(b"\x1b]0;a\x07\x1b]0;b\x1b\\", &["Osc", "Osc"]);
            check(
                b"\x1bPa\x1b\\\x1b_a\x1b\\\x1b^a\x1b\\\x1bXa\x1b\\",
                &["Dcs", "Apc", "Pm", "Sos"],
            );
            check(b"\x1b]0;a\x1b[m", &["csi  m"]);
        }
    }

    #[test]
    fn unfinished_sequences_show_in_the_state() {
        for sender in [Sender::Keyboard, Sender::Program] {
            let check = |bytes: &[u8], state| check(sender, bytes, &[], state);
            check(b"\x1b", State::Escape);
            check(b"\x1b\x1b", State::Escape);
            check(b"\x1b[1;2", State::Csi);
            check(b"\x1b]0;a", State::String(StringKind::Osc));
            check(b"\x1bPa\x1b", State::StringEscape(StringKind::Dcs));
        }
        check(Sender::Program, b"\x1b(", &[], State::Intermediate);
        check(Sender::Keyboard, b"\x1bO", &[], State::Ss3);
    }

    #[test]
    fn keyboard_sends_alt_keys_and_single_shifts() {
        let check = |bytes: &[u8], expected: &[&str]| {
            check(Sender::Keyboard, bytes, expected, State::Text);
        };
        check(b"\x1b(B", &["escape (", "text B"]);
        check(b"\x1b\r\x1b\xc3", &["escape \\r", "escape \\xc3"]);
        check(b"\x1bOP", &["ss3 P"]);
        check(b"\x1b[1\x03x", &["aborted \\x03", "text x"]);
        check(b"\x1b]a\r\x1bO\t", &["aborted \\r", "aborted \\t"]);
    }

    #[test]
    fn program_controls_act_within_sequences_or_cancel_them() {
        let check = |bytes: &[u8], expected: &[&str]| {
            check(Sender::Program, bytes, expected, State::Text);
        };
        check(b"\x1b(B\x1bOP", &["escape B", "escape O", "text P"]);
        check(b"\x1b[1\r2m", &["control \\r", "csi 12 m"]);
        check(b"\x1b]a\rb\x07", &["Osc"]);
        check(b"\x1b[1\x18m\x1b]a\x1am", &["aborted \\x18", "text m", "aborted \\x1a", "text m"]);
        check(b"\x1b\xff7", &["escape 7"]);
    }

    #[test]
    fn raw_bytes_are_one_token() {
        let mut tokenizer = Tokenizer::new(Sender::Keyboard);
        tokenizer.expect_raw(3);
        assert!(b"[A".iter().all(|&byte| tokenizer.next(byte).is_none()));
        assert_eq!(tokenizer.next(0xff), Some(Token::Raw));
        assert!(tokenizer.is_in_text());
    }

    #[test]
    fn long_sequence_is_kept_in_part() {
        let mut tokenizer = Tokenizer::new(Sender::Keyboard);
        let bytes = [&b"\x1b["[..], &[b'1'; 10_000]].concat();
        assert!(bytes.iter().all(|&byte| tokenizer.next(byte).is_none()));
        let parameters = &[b'1'; PARAMETER_BYTES_MAX][..];
        assert_eq!(tokenizer.next(b'm'), Some(Token::Csi { parameters, last: b'm' }));
    }

    /// Generates the bytes of a complete token, identical for both senders, and the expected
    /// tokens.
    fn piece() -> impl Strategy<Value = (Vec<u8>, Vec<String>)> {
        let strings = prop::sample::select(vec![
            (']', "Osc"),
            ('P', "Dcs"),
            ('_', "Apc"),
            ('^', "Pm"),
            ('X', "Sos"),
        ]);
        let text = |bytes: &[u8]| -> Vec<String> {
            bytes.iter().map(|byte| format!("text {}", byte.escape_ascii())).collect()
        };
        prop_oneof![
            "\\PC{1,8}"
                .prop_map(move |string| (string.clone().into_bytes(), text(string.as_bytes()))),
            "[0-9;:?<=>]{0,12}[ !$]{0,2}[@-~]".prop_map(|csi| {
                let (parameters, last) = csi.split_at(csi.len() - 1);
                (
                    format!("\x1b[{csi}").into_bytes(),
                    vec![format!("csi {parameters} {}", last.as_bytes().escape_ascii())],
                )
            }),
            "[a-zA-NQ-W0-9=>]".prop_map(|last| {
                (format!("\x1b{last}").into_bytes(), vec![format!("escape {last}")])
            }),
            (strings, "\\PC{0,200}", prop::sample::select(vec!["\x07", "\x1b\\"])).prop_map(
                |((introducer, name), content, end)| {
                    (format!("\x1b{introducer}{content}{end}").into_bytes(), vec![name.to_owned()])
                }
            ),
        ]
    }

    proptest! {
        #![proptest_config(ProptestConfig { failure_persistence: None, ..ProptestConfig::default() })]

        /// The ESC of a new token cuts off an unfinished token, so the new token reads the same as
        /// alone.
        #[test]
        fn token_reads_the_same_after_a_cut_one(
            pieces in prop::collection::vec(piece(), 1..8),
            cut in any::<prop::sample::Index>(),
            is_keyboard in any::<bool>(),
        ) {
            let sender = if is_keyboard { Sender::Keyboard } else { Sender::Program };
            let (bytes, expected): (Vec<_>, Vec<_>) = pieces.into_iter().unzip();
            let (bytes, expected) = (bytes.concat(), expected.concat());
            prop_assert_eq!(tokens(sender, &bytes), (expected.clone(), State::Text));
            let cut = cut.index(bytes.len());
            let twice = [&bytes[..cut], b"\x1b[m", &bytes[..]].concat();
            let (found, state) = tokens(sender, &twice);
            prop_assert!(found.ends_with(&expected) && state == State::Text);
        }

        #[test]
        fn noise_keeps_memory_bounded(bytes in prop::collection::vec(any::<u8>(), 0..500), is_keyboard in any::<bool>()) {
            let sender = if is_keyboard { Sender::Keyboard } else { Sender::Program };
            let mut tokenizer = Tokenizer::new(sender);
            for byte in bytes {
                tokenizer.next(byte);
                prop_assert!(tokenizer.parameters.len() <= PARAMETER_BYTES_MAX);
            }
        }
    }
}
