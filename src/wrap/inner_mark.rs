//! The marks with which an inner `run` or `attach` tells the outer `run` where its output begins
//! and ends.
//!
//! A mark is an escape sequence that terminals ignore. It contains a number that only the programs
//! in the outer `run`'s terminal know, so that no file or message from elsewhere holds a valid
//! mark.

use platform::random;
use std::{env, io};

/// A random number, set for a wrapped command. An inner `run` or `attach` marks its own output with
/// it.
pub(super) const VARIABLE: &str = "AGENT_RELAY_INNER_MARK";

/// The number of hexadecimal digits of the number.
const DIGITS: usize = 16;

const ESC: u8 = 0x1b;
const BEGIN: char = 'b';
const END: char = 'e';
const LAST: char = '\x07';

/// The marks of one outer `run`.
#[derive(Clone)]
pub(super) struct InnerMarks {
    /// The value of [`VARIABLE`].
    pub(super) digits: String,
}

impl InnerMarks {
    /// Returns the marks for the programs in a new `run`.
    pub(super) fn new() -> io::Result<Self> {
        Ok(Self { digits: format!("{:016x}", u64::from_ne_bytes(random::bytes()?)) })
    }

    /// Returns the marks of the `run` in which this process is, if there is one.
    pub(super) fn of_outer_run() -> Option<Self> {
        env::var(VARIABLE).ok().and_then(|digits| Self::parse(&digits))
    }

    fn parse(digits: &str) -> Option<Self> {
        let is_valid =
            digits.len() == DIGITS && digits.bytes().all(|byte| byte.is_ascii_hexdigit());
        is_valid.then(|| Self { digits: digits.to_owned() })
    }

    pub(super) fn begin(&self) -> String {
        self.mark(BEGIN)
    }

    pub(super) fn end(&self) -> String {
        self.mark(END)
    }

    fn mark(&self, which: char) -> String {
        format!("{}{which}{LAST}", self.start())
    }

    /// Returns what both marks start with. It has one escape character, at its start.
    fn start(&self) -> String {
        format!("\x1b]7717;agent-relay;{};", self.digits)
    }
}

/// A mark that was found in output.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct Found {
    /// The number of bytes up to and including the mark.
    pub(super) length: usize,
    /// Whether the mark begins an inner `run`'s output.
    pub(super) begins: bool,
}

/// Finds marks in output that comes in pieces.
pub(super) struct InnerMarkFinder {
    start: Vec<u8>,
    /// The number of bytes of a mark that the output so far ends with.
    matched: usize,
    /// Whether these bytes, if they reach that far, say that an inner `run` begins.
    begins: bool,
}

impl InnerMarkFinder {
    pub(super) fn new(marks: &InnerMarks) -> Self {
        Self { start: marks.start().into_bytes(), matched: 0, begins: false }
    }

    /// Returns the first mark that ends in this piece.
    pub(super) fn find(&mut self, bytes: &[u8]) -> Option<Found> {
        let mut at = 0;
        while at < bytes.len() {
            if self.matched == 0 {
                at += memchr::memchr(ESC, &bytes[at..])?;
            }
            let is_whole = self.advance(bytes[at]);
            at += 1;
            if is_whole {
                return Some(Found { length: at, begins: self.begins });
            }
        }
        None
    }

    /// Compares one more byte. Returns whether it completes a mark.
    fn advance(&mut self, byte: u8) -> bool {
        let length = self.start.len();
        let fits = match self.matched.checked_sub(length) {
            None => byte == self.start[self.matched],
            Some(0) => [BEGIN, END].map(|which| which as u8).contains(&byte),
            Some(_) => byte == LAST as u8,
        };
        if !fits {
            self.matched = usize::from(byte == ESC);
            return false;
        }
        if self.matched == length {
            self.begins = byte == BEGIN as u8;
        }
        self.matched += 1;
        let is_whole = self.matched == length + 2;
        if is_whole {
            self.matched = 0;
        }
        is_whole
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const DIGITS: &str = "0123456789abcdef";

    /// Returns the kinds and ends of all marks in pieces of this length.
    fn find_all(bytes: &[u8], piece: usize) -> Vec<(usize, bool)> {
        let mut finder = InnerMarkFinder::new(&InnerMarks::parse(DIGITS).unwrap());
        let mut found = Vec::new();
        for (index, piece_bytes) in bytes.chunks(piece).enumerate() {
            let mut at = 0;
            while let Some(Found { length, begins }) = finder.find(&piece_bytes[at..]) {
                at += length;
                found.push((index * piece + at, begins));
            }
        }
        found
    }

    #[test]
    fn marks_are_found_at_their_ends_in_pieces_of_any_length() {
        let marks = InnerMarks::parse(DIGITS).unwrap();
        let other = InnerMarks::parse("fedcba9876543210").unwrap();
        let parts = [
            "a\x1b[1m\x1b\x1b".to_owned(),
            marks.begin(),
            other.end(),
            "inside".to_owned(),
            marks.start(),
            marks.end(),
            "after\x1b]7717;".to_owned(),
        ];
        let ends: Vec<usize> =
            (1..=parts.len()).map(|count| parts[..count].concat().len()).collect();
        let all = parts.concat();
        for piece in 1..=all.len() {
            assert_eq!(
                find_all(all.as_bytes(), piece),
                [(ends[1], true), (ends[5], false)],
                "{piece}"
            );
        }
    }

    #[test]
    fn variable_with_anything_but_a_number_gives_no_marks() {
        for wrong in ["", "0123456789abcde", "0123456789abcdef0", "0123456789abcde\x1b"] {
            assert!(InnerMarks::parse(wrong).is_none(), "{wrong:?}");
        }
    }
}
