//! What reaches the parser: whole characters, and nothing that a program may make as long as it likes.

use std::time::Duration;

use alacritty_terminal::vte::ansi::Timeout;

/// Bytes of a control string that reach the parser, which keeps them all. No string means anything here.
const STRING_BYTES_MAX: usize = 256;

/// Digits of a control sequence's number that reach the parser: who repeats a character more often than
/// 999 times only wants to keep it busy.
const NUMBER_DIGITS_MAX: usize = 3;

/// Synchronized updates are painted as they come: holding bytes back would make what is seen depend on
/// how they were cut. Who judges rows waits for the end of the picture instead.
#[derive(Default)]
pub(super) struct Unbuffered;

impl Timeout for Unbuffered {
    fn set_timeout(&mut self, _: Duration) {}

    fn clear_timeout(&mut self) {}

    fn pending_timeout(&self) -> bool {
        false
    }
}

/// Keeps a character that was cut in two until it is whole. The parser has a way of its own for that,
/// which swallows what follows where another one is cut within the next four bytes.
#[derive(Default)]
pub(super) struct WholeCharacters {
    bytes: [u8; 4],
    length: usize,
}

impl WholeCharacters {
    pub(super) fn pass(&mut self, mut bytes: &[u8], mut parse: impl FnMut(&[u8])) {
        while self.length > 0 {
            let Some((&next, rest)) = bytes.split_first() else { return };
            self.bytes[self.length] = next;
            match std::str::from_utf8(&self.bytes[..=self.length]) {
                Ok(character) => parse(character.as_bytes()),
                Err(error) if error.error_len().is_none() => {
                    self.length += 1;
                    bytes = rest;
                    continue;
                }
                Err(_) => {
                    parse("\u{fffd}".as_bytes());
                    self.length = 0;
                    continue;
                }
            }
            self.length = 0;
            bytes = rest;
        }
        let (whole, cut) = bytes.split_at(bytes.len() - Self::cut(bytes));
        self.bytes[..cut.len()].copy_from_slice(cut);
        self.length = cut.len();
        parse(whole);
    }

    /// How many bytes at the end begin a character and do not end it.
    fn cut(bytes: &[u8]) -> usize {
        let begins = |length: &usize| bytes[bytes.len() - length] >= 0xc0;
        (1..=bytes.len().min(3))
            .find(begins)
            .filter(|&length| {
                std::str::from_utf8(&bytes[bytes.len() - length..])
                    .is_err_and(|error| error.error_len().is_none())
            })
            .unwrap_or(0)
    }
}

/// Cuts what a program may make as long as it likes before it reaches the parser: operating system
/// commands, and the numbers of control sequences (not those that name a private mode).
#[derive(Default)]
pub(super) enum Limit {
    #[default]
    Text,
    Escape,
    String(usize),
    Number(usize),
    Private,
}

impl Limit {
    pub(super) fn pass(&mut self, bytes: &[u8], mut parse: impl FnMut(&[u8])) {
        let (mut start, mut at) = (0, 0);
        while at < bytes.len() {
            if matches!(self, Self::Text) {
                match bytes[at..].iter().position(|&byte| byte == 0x1b) {
                    Some(offset) => at += offset,
                    None => break,
                }
            }
            let (next, keeps) = self.after(bytes[at]);
            *self = next;
            if !keeps {
                parse(&bytes[start..at]);
                start = at + 1;
            }
            at += 1;
        }
        parse(&bytes[start..]);
    }

    /// What comes after a byte, and whether the parser gets it.
    fn after(&self, byte: u8) -> (Self, bool) {
        match (self, byte) {
            (_, 0x1b) => (Self::Escape, true),
            (_, 0x18 | 0x1a) | (Self::Text, _) => (Self::Text, true),
            (Self::Escape, b']') => (Self::String(0), true),
            (Self::Escape, b'[') => (Self::Number(0), true),
            (Self::Escape, 0x20..=0x7e) => (Self::Text, true),
            (Self::Escape, _) => (Self::Escape, true),
            (Self::String(_), 0x07) => (Self::Text, true),
            (&Self::String(length), _) => {
                (Self::String(length.saturating_add(1)), length < STRING_BYTES_MAX)
            }
            (Self::Number(_) | Self::Private, 0x40..=0x7e) => (Self::Text, true),
            (Self::Number(_) | Self::Private, 0x3c..=0x3f) | (Self::Private, _) => {
                (Self::Private, true)
            }
            (Self::Number(0), b'0') => (Self::Number(0), true),
            (&Self::Number(digits), b'0'..=b'9') => {
                (Self::Number(digits.saturating_add(1)), digits < NUMBER_DIGITS_MAX)
            }
            (Self::Number(_), b':' | b';') => (Self::Number(0), true),
            (&Self::Number(digits), _) => (Self::Number(digits), true),
        }
    }
}
