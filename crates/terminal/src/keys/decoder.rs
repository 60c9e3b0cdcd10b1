//! The decoder, which turns a terminal's bytes into keys.

use super::{
    encoded::{CsiKey, Win32Key, is_release},
    key::Key,
};
use crate::escape::{ESC, Sender, State, StringKind, Token, Tokenizer};
use protocol::Moment;

/// How long a single `ESC` waits for more bytes before it counts as the Escape key.
pub(super) const ESCAPE_MS: u64 = 50;

/// How long the beginning of a longer sequence waits before it counts as a key with Alt.
pub(super) const SEQUENCE_MS: u64 = 250;

/// How long the rest of a terminal's answer may take: over a slow connection, an answer may come in
/// pieces. Meanwhile, typed keys count as a part of it.
pub(super) const ANSWER_MS: u64 = 2000;

/// The number of bytes after `CSI M`: the button, column and row of an old mouse report.
const MOUSE_REPORT_BYTES: u8 = 3;

/// A decoder of a terminal's bytes; sequences may come in pieces.
#[derive(Debug)]
pub(super) struct KeyDecoder {
    tokenizer: Tokenizer,
    /// When the `ESC` of the unfinished sequence arrived.
    escape_at: Moment,
    /// Whether the unfinished sequence can only be a terminal's answer.
    is_answer: bool,
    is_pasting: bool,
    /// Whether the last byte was a backslash.
    after_backslash: bool,
    /// The decoder for the characters that a Windows console encodes as keys. A paste is a sequence
    /// of such keys.
    win32: Option<Box<Self>>,
}

impl Default for KeyDecoder {
    fn default() -> Self {
        Self {
            tokenizer: Tokenizer::new(Sender::Keyboard),
            escape_at: Moment::default(),
            is_answer: false,
            is_pasting: false,
            after_backslash: false,
            win32: None,
        }
    }
}

impl KeyDecoder {
    /// Whether a sequence is unfinished.
    pub(super) fn is_unfinished(&self) -> bool {
        let in_win32 = self.win32.as_ref().is_some_and(|win32| win32.is_unfinished());
        in_win32 || !self.tokenizer.is_in_text()
    }

    /// Whether the last byte was an `ESC` that may be the Escape key.
    pub(super) fn ends_in_escape(&self) -> bool {
        match (self.tokenizer.state(), &self.win32) {
            (State::Text, Some(win32)) => win32.ends_in_escape(),
            (state, _) => state == State::Escape,
        }
    }

    /// Returns when the decoder stops waiting for the rest of an unfinished sequence.
    pub(super) fn expires_at(&self) -> Option<Moment> {
        match self.tokenizer.state() {
            State::Text => self.win32.as_ref()?.expires_at(),
            State::Escape => Some(self.escape_at.plus(ESCAPE_MS)),
            _ if self.is_answer => Some(self.escape_at.plus(ANSWER_MS)),
            _ => Some(self.escape_at.plus(SEQUENCE_MS)),
        }
    }

    /// Drops an unfinished sequence on timeout. Returns the key that it was.
    pub(super) fn expire(&mut self, now: Moment) -> Option<Key> {
        self.expires_at().filter(|&at| at <= now)?;
        match self.tokenizer.reset() {
            State::Text => self.win32.as_mut()?.expire(now),
            State::Escape => Some(Key::Escape),
            _ if self.is_answer => Some(Key::Report),
            _ => Some(Key::MayChangeMode),
        }
    }

    /// Reads a byte; returns the key that it completes.
    pub(super) fn next(&mut self, now: Moment, byte: u8) -> Option<Key> {
        let before = self.tokenizer.state();
        let token = self.tokenizer.next(byte);
        let key = match token {
            None => {
                self.continue_sequence(now, before, byte);
                return None;
            }
            Some(Token::Text(byte) | Token::Control(byte)) => self.character(byte),
            Some(Token::Escape(b'\r' | b'\n')) => Key::LineBreak,
            Some(Token::Escape(_)) => Key::MayChangeMode,
            // An old mouse report: its raw bytes follow and complete it.
            Some(Token::Csi { parameters: b"", last: b'M' }) => {
                self.tokenizer.expect_raw(MOUSE_REPORT_BYTES);
                return None;
            }
            Some(Token::Csi { parameters, last }) => {
                let parameters = parameters.to_vec();
                self.control_sequence(now, &parameters, last)
            }
            Some(Token::Ss3(b'M')) => Key::Submit,
            Some(Token::Ss3(_)) => Key::MayEdit,
            Some(Token::String(_) | Token::Raw) => Key::Report,
            // The beginning of the aborted sequence was a key pressed with Alt.
            Some(Token::Aborted(byte)) => match self.character(byte) {
                key @ (Key::Submit | Key::LineFeed | Key::Abandon) => key,
                _ => Key::MayChangeMode,
            },
        };
        Some(key)
    }

    /// Notes a byte of an unfinished sequence. Only a terminal sends the first byte of an answer's
    /// content immediately after the sequence's beginning.
    fn continue_sequence(&mut self, now: Moment, before: State, byte: u8) {
        let state = self.tokenizer.state();
        if byte == ESC {
            self.after_backslash = false;
            if state == State::Escape {
                (self.escape_at, self.is_answer) = (now, false);
            }
        }
        let is_content = match state {
            _ if before != state => false,
            State::String(StringKind::Osc) => byte.is_ascii_digit(),
            State::String(StringKind::Dcs) => b"0123456789>!+$".contains(&byte),
            State::String(StringKind::Apc) => byte == b'G',
            State::Csi => byte.is_ascii_digit() || b"?>=<".contains(&byte),
            _ => false,
        };
        self.is_answer |= is_content && now.since(self.escape_at) < ESCAPE_MS;
    }

    fn character(&mut self, byte: u8) -> Key {
        let after_backslash = std::mem::replace(&mut self.after_backslash, byte == b'\\');
        match byte {
            b'\r' | b'\n' if self.is_pasting => Key::LineBreak,
            b'\r' | b'\n' if after_backslash => Key::LineBreakOrSubmit,
            b'\r' => Key::Submit,
            b'\n' => Key::LineFeed,
            _ => Key::of_character(byte),
        }
    }

    fn control_sequence(&mut self, now: Moment, parameters: &[u8], last: u8) -> Key {
        match (parameters, last) {
            (b"200", b'~') => self.is_pasting = true,
            (b"201", b'~') => self.is_pasting = false,
            ([b'?' | b'>' | b'=' | b'<', ..], _) => return Key::Report,
            (_, b'R' | b'c' | b'n' | b't' | b'y' | b'I' | b'O') => return Key::Report,
            _ if is_release(parameters) => return Key::NoEffect,
            (_, b'u' | b'~') => {
                let other = if last == b'u' { Key::Text } else { Key::MayEdit };
                return CsiKey::parse(parameters, last).map_or(other, CsiKey::effect);
            }
            (_, b'_') => {
                let key = Win32Key::parse(parameters);
                return key.map_or(Key::Report, |key| self.win32_key(now, key));
            }
            _ => {}
        }
        Key::MayEdit
    }

    fn win32_key(&mut self, now: Moment, key: Win32Key) -> Key {
        let Some(character) = key.character else {
            return if key.is_modifier() { Key::NoEffect } else { Key::MayEdit };
        };
        match (key.has(Win32Key::ALT) && !key.has(Win32Key::CTRL), character) {
            (true, '\r') => return Key::LineBreak,
            (true, _) => return Key::MayChangeMode,
            (false, '\r') if key.has(Win32Key::SHIFT) => return Key::LineBreak,
            (false, _) => {}
        }
        let win32 = self.win32.get_or_insert_default();
        let mut bytes = [0; 4];
        let bytes = character.encode_utf8(&mut bytes).bytes();
        bytes.filter_map(|byte| win32.next(now, byte)).last().unwrap_or(Key::NoEffect)
    }
}
