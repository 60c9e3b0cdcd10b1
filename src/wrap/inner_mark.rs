//! The marks that an inner `run` or `attach` prints to show the outer `run` the beginning and end
//! of its output.
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

    /// Returns the marks of the `run` around this process, if there is one.
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
    begin: Vec<u8>,
    end: Vec<u8>,
    /// The beginning of a mark at the end of the output so far.
    seen: Vec<u8>,
}

impl InnerMarkFinder {
    pub(super) fn new(marks: &InnerMarks) -> Self {
        let (begin, end) = (marks.begin().into_bytes(), marks.end().into_bytes());
        Self { begin, end, seen: Vec::new() }
    }

    /// Returns the first mark that ends in this piece.
    pub(super) fn find(&mut self, bytes: &[u8]) -> Option<Found> {
        let mut at = 0;
        while at < bytes.len() {
            if self.seen.is_empty() {
                at += memchr::memchr(ESC, &bytes[at..])?;
            }
            self.seen.push(bytes[at]);
            at += 1;
            let begins = self.seen == self.begin;
            if begins || self.seen == self.end {
                self.seen.clear();
                return Some(Found { length: at, begins });
            }
            if !self.begin.starts_with(&self.seen) && !self.end.starts_with(&self.seen) {
                // Another mark can only begin with this byte.
                self.seen.clear();
                self.seen.extend(Some(bytes[at - 1]).filter(|byte| *byte == ESC));
            }
        }
        None
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
