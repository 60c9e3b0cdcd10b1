//! A filter that passes a person's keys and drops a terminal's answers.

use super::decoder::KeyDecoder;
use super::key::Key;
use crate::bridge::escape::ESC;
use crate::protocol::Moment;

/// Bytes of an answer that are kept while its end has not come; of a longer one, the beginning.
pub(super) const ANSWER_BYTES_MAX: usize = 4096;

/// A filter for the bytes of a second terminal, which also answers what a program asked the first.
///
/// A modified F3 looks in some terminals like a cursor position report, and is dropped as well.
#[derive(Debug, Default)]
pub struct KeystrokeFilter {
    decoder: KeyDecoder,
    /// The bytes of the unfinished sequence.
    pub(super) unfinished: Vec<u8>,
}

impl KeystrokeFilter {
    /// The bytes among `bytes` that go to the program; sequences may come in pieces.
    pub fn keys(&mut self, now: Moment, bytes: &[u8]) -> Vec<u8> {
        let mut keys = self.expired_keys(now);
        for &byte in bytes {
            self.unfinished.push(byte);
            match self.decoder.next(now, byte) {
                Some(Key::Report) if is_answer(&self.unfinished) => self.unfinished.clear(),
                Some(_) => keys.append(&mut self.unfinished),
                // The middle of an answer is not needed: all of it will be dropped.
                None if self.unfinished.len() == ANSWER_BYTES_MAX => self.unfinished.truncate(1),
                None => {}
            }
        }
        // An ESC passes at once: it may be the Escape key.
        if self.decoder.ends_in_escape() {
            keys.append(&mut self.unfinished);
        }
        keys
    }

    /// When an unfinished sequence turns out to be a key.
    #[must_use]
    pub fn deadline(&self) -> Option<Moment> {
        self.decoder.expires_at().filter(|_| !self.unfinished.is_empty())
    }

    /// The unfinished sequence, if its time is over: it was a key.
    pub fn expired_keys(&mut self, now: Moment) -> Vec<u8> {
        match self.decoder.expire(now) {
            Some(_) => std::mem::take(&mut self.unfinished),
            None => Vec::new(),
        }
    }
}

/// Whether a report is an answer. Reports of the mouse and the focus are not: they are input.
fn is_answer(report: &[u8]) -> bool {
    match report {
        // The bytes of an old mouse report can be any characters.
        [ESC, b'[', b'M', ..] | [b'[', b'M', ..] => false,
        [ESC, b'[', .., last] => matches!(last, b'R' | b'c' | b'n' | b't' | b'y' | b'u'),
        // The same, after its ESC has passed as the Escape key.
        [b'[', .., last] => matches!(last, b'R' | b'c' | b'n' | b't' | b'y' | b'u'),
        // A string, with or without its ESC.
        [ESC | b']' | b'P' | b'_' | b'^' | b'X', ..] => true,
        _ => false,
    }
}
