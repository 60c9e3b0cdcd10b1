//! A filter that passes a person's keys and drops the terminal's answers.

use super::{decoder::KeyDecoder, key::Key};
use crate::escape::ESC;
use protocol::Moment;

/// How many bytes of an unfinished answer are kept at most. Only the beginning of a longer answer
/// is kept.
pub(super) const ANSWER_BYTES_MAX: usize = 4096;

/// A filter for a second terminal's bytes. That terminal also answers the queries that a program
/// sent to the first terminal.
///
/// Some terminals encode F3 with a modifier like a cursor position report. Such a key is dropped,
/// too.
#[derive(Debug, Default)]
pub struct KeystrokeFilter {
    decoder: KeyDecoder,
    /// The bytes of the unfinished sequence.
    pub(super) unfinished: Vec<u8>,
}

impl KeystrokeFilter {
    /// Returns the keys among `bytes`, to be passed to the program. Sequences may come in pieces.
    pub fn keys(&mut self, now: Moment, bytes: &[u8]) -> Vec<u8> {
        let mut keys = self.expired_keys(now);
        for &byte in bytes {
            self.unfinished.push(byte);
            match self.decoder.next(now, byte) {
                Some(Key::Report) if is_answer(&self.unfinished) => self.unfinished.clear(),
                Some(_) => keys.append(&mut self.unfinished),
                // The whole answer will be dropped, so its middle need not be kept.
                None if self.unfinished.len() == ANSWER_BYTES_MAX => self.unfinished.truncate(1),
                None => {}
            }
        }
        // An ESC passes at once, since it may be the Escape key.
        if self.decoder.ends_in_escape() {
            keys.append(&mut self.unfinished);
        }
        keys
    }

    /// When an unfinished sequence begins to count as a key.
    #[must_use]
    pub fn deadline(&self) -> Option<Moment> {
        self.decoder.expires_at().filter(|_| !self.unfinished.is_empty())
    }

    /// Returns the unfinished sequence on timeout: it was a key.
    pub fn expired_keys(&mut self, now: Moment) -> Vec<u8> {
        self.decoder.expire(now).map(|_| std::mem::take(&mut self.unfinished)).unwrap_or_default()
    }
}

/// Whether a report answers a query. Reports of the mouse and of the focus do not: they are input.
fn is_answer(report: &[u8]) -> bool {
    match report {
        // The bytes of an old mouse report can be any characters.
        [ESC, b'[', b'M', ..] | [b'[', b'M', ..] => false,
        // The second form is an answer whose ESC has already passed as the Escape key.
        [ESC, b'[', .., last] | [b'[', .., last] => {
            matches!(last, b'R' | b'c' | b'n' | b't' | b'y' | b'u')
        }
        // A string, with or without its ESC.
        [ESC | b']' | b'P' | b'_' | b'^' | b'X', ..] => true,
        _ => false,
    }
}
