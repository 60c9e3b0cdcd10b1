//! Prepares bytes for the screen's parser: whole characters, and sequences of limited length.

use std::time::Duration;

use alacritty_terminal::vte::ansi::Timeout;

use super::colours::ChangedColours;
use crate::escape::{ESC, State, StringKind, Tokenizer};

/// How many bytes of an OSC string reach the parser. The parser stores all bytes of such a string,
/// and the painter uses none of them.
const STRING_BYTES_MAX: usize = 256;

/// How many digits of a control sequence's number reach the parser. The number can be a count of
/// repetitions, and a large one would keep the parser busy.
const NUMBER_DIGITS_MAX: usize = 3;

/// A [`Timeout`] that never holds back the bytes of a synchronized update.
///
/// With a timeout, the rows would depend on how the bytes were split. Instead, extraction waits for
/// the end of the update.
#[derive(Default)]
pub(super) struct Unbuffered;

impl Timeout for Unbuffered {
    fn set_timeout(&mut self, _: Duration) {}

    fn clear_timeout(&mut self) {}

    fn pending_timeout(&self) -> bool {
        false
    }
}

/// A buffer for a UTF-8 character that was split between two reads.
///
/// The parser's own buffer loses bytes if a second character is split within the next four bytes.
#[derive(Default)]
pub(super) struct CharacterBuffer {
    bytes: [u8; 4],
    length: usize,
}

impl CharacterBuffer {
    /// Calls `parse` with the buffered bytes and `bytes`. Buffers an unfinished character at the
    /// end instead.
    pub(super) fn pass(&mut self, mut bytes: &[u8], mut parse: impl FnMut(&[u8])) {
        while self.length > 0 {
            let Some((&next, rest)) = bytes.split_first() else { return };
            self.bytes[self.length] = next;
            let unfinished = std::mem::take(&mut self.length);
            match std::str::from_utf8(&self.bytes[..=unfinished]) {
                Ok(character) => parse(character.as_bytes()),
                Err(error) if error.error_len().is_none() => self.length = unfinished + 1,
                Err(_) => {
                    parse("\u{fffd}".as_bytes());
                    continue;
                }
            }
            bytes = rest;
        }
        let (whole, cut) = bytes.split_at(bytes.len() - unfinished_bytes(bytes));
        self.bytes[..cut.len()].copy_from_slice(cut);
        self.length = cut.len();
        parse(whole);
    }
}

/// Returns how many bytes at the end belong to an unfinished character.
pub(super) fn unfinished_bytes(bytes: &[u8]) -> usize {
    let begins = |length: &usize| bytes[bytes.len() - length] >= 0xc0;
    let last = (1..=bytes.len().min(3)).find(begins);
    let is_unfinished = |length: &usize| {
        let character = std::str::from_utf8(&bytes[bytes.len() - length..]);
        character.is_err_and(|error| error.error_len().is_none())
    };
    last.filter(is_unfinished).unwrap_or(0)
}

/// A filter that shortens OSC strings and the numbers in control sequences. Numbers of private
/// modes are not shortened.
#[derive(Default)]
pub(super) struct SequenceLimit {
    tokenizer: Tokenizer,
    /// The number of bytes of the string, or digits of the number, so far.
    pub(super) length: usize,
    /// Whether the control sequence names a private mode.
    is_private: bool,
    /// The colours that the strings change.
    pub(super) colours: ChangedColours,
}

impl SequenceLimit {
    /// Calls `parse` with the permitted part of `bytes`.
    pub(super) fn pass(&mut self, bytes: &[u8], mut parse: impl FnMut(&[u8])) {
        let (mut start, mut at) = (0, 0);
        while at < bytes.len() {
            if self.tokenizer.is_in_text() {
                match bytes[at..].iter().position(|&byte| byte == ESC) {
                    Some(offset) => at += offset,
                    None => break,
                }
            }
            if !self.keeps(bytes[at]) {
                parse(&bytes[start..at]);
                start = at + 1;
            }
            at += 1;
        }
        parse(&bytes[start..]);
    }

    /// Whether the parser may get the next byte.
    fn keeps(&mut self, byte: u8) -> bool {
        let before = self.tokenizer.state();
        self.tokenizer.next(byte);
        match (before, self.tokenizer.state()) {
            (State::String(StringKind::Osc), State::String(StringKind::Osc)) => {
                self.colours.add(byte);
                self.length = self.length.saturating_add(1);
                self.length <= STRING_BYTES_MAX
            }
            (State::String(StringKind::Osc), _) => {
                self.colours.end();
                self.restart()
            }
            (State::Csi, State::Csi) => self.keeps_parameter(byte),
            (State::Escape, State::Text) if byte == b'c' => {
                self.colours = ChangedColours::default();
                self.restart()
            }
            _ => self.restart(),
        }
    }

    /// Begins a new sequence, or text.
    fn restart(&mut self) -> bool {
        self.length = 0;
        self.is_private = false;
        true
    }

    fn keeps_parameter(&mut self, byte: u8) -> bool {
        match byte {
            b'<'..=b'?' => self.is_private = true,
            _ if self.is_private => {}
            b'0' if self.length == 0 => {}
            b'0'..=b'9' => {
                self.length = self.length.saturating_add(1);
                return self.length <= NUMBER_DIGITS_MAX;
            }
            b':' | b';' => self.length = 0,
            _ => {}
        }
        true
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn passed<'a>(pieces: impl Iterator<Item = &'a [u8]>) -> Vec<u8> {
        let (mut limit, mut passed) = (SequenceLimit::default(), Vec::new());
        pieces.for_each(|piece| limit.pass(piece, |bytes| passed.extend_from_slice(bytes)));
        passed
    }

    #[test]
    fn numbers_are_shortened_except_in_private_modes() {
        for (bytes, short) in [
            ("\x1b[65535b", "\x1b[655b"),
            ("\x1b[00012345;0006789H", "\x1b[000123;000678H"),
            ("\x1b[38:2:12345m", "\x1b[38:2:123m"),
            ("\x1b[?2026h\x1b[12345A", "\x1b[?2026h\x1b[123A"),
            ("12345\x1b(012345", "12345\x1b(012345"),
        ] {
            assert_eq!(passed([bytes.as_bytes()].into_iter()), short.as_bytes(), "{bytes:?}");
        }
    }

    #[test]
    fn only_osc_strings_are_shortened() {
        let long = "x".repeat(5000);
        let short = format!("\x1b]{}\x07y", &long[..STRING_BYTES_MAX]);
        assert_eq!(passed([format!("\x1b]{long}\x07y").as_bytes()].into_iter()), short.as_bytes());
        for introducer in ["P", "_", "^", "X"] {
            let bytes = format!("\x1b{introducer}{long}\x1b\\y");
            assert_eq!(passed([bytes.as_bytes()].into_iter()), bytes.as_bytes());
        }
    }

    proptest! {
        #![proptest_config(ProptestConfig { failure_persistence: None, ..ProptestConfig::default() })]

        #[test]
        fn cuts_do_not_change_the_output(
            parts in prop::collection::vec("\x1b?[\\[\\]PX0-9;?m\x07\x18\\\\]{1,12}", 0..20),
            length in 1..9_usize,
        ) {
            let bytes = parts.concat().into_bytes();
            prop_assert_eq!(passed(bytes.chunks(length)), passed([&bytes[..]].into_iter()));
        }
    }
}
