//! The tail: the unfinished character or sequence at the end of a program's output.
//!
//! If a snapshot of the screen is sent in the middle of the output, these bytes must be sent again
//! after it. Otherwise a terminal would take the rest of the sequence for text.

use super::parser_input::unfinished_bytes;
use crate::escape::{ESC, Tokenizer};

/// How many bytes of an unfinished sequence are kept. Longer sequences are images or clipboard
/// contents.
const SEQUENCE_BYTES_MAX: usize = 1024;

/// The end of a program's output.
#[derive(Debug, Default)]
pub struct Tail {
    tokenizer: Tokenizer,
    /// The bytes from the sequence's `ESC` on, or from the character's first byte on.
    unfinished: Vec<u8>,
}

impl Tail {
    /// Reads more output.
    pub fn feed(&mut self, bytes: &[u8]) {
        // Every ESC begins a new sequence.
        let last_escape = bytes.iter().rposition(|&byte| byte == ESC);
        if last_escape.is_some() {
            self.tokenizer.reset();
            self.unfinished.clear();
        }
        let mut rest = &bytes[last_escape.unwrap_or(0)..];
        while let Some((&byte, after)) = rest.split_first() {
            if self.tokenizer.is_in_text() && byte != ESC {
                // A character has at most four bytes, so an unfinished character has at most three.
                self.unfinished.extend_from_slice(&rest[rest.len().saturating_sub(4)..]);
                let whole = self.unfinished.len() - unfinished_bytes(&self.unfinished);
                self.unfinished.drain(..whole);
                return;
            }
            rest = after;
            self.tokenizer.next(byte);
            if self.tokenizer.is_in_text() {
                self.unfinished.clear();
            } else if self.unfinished.len() <= SEQUENCE_BYTES_MAX {
                self.unfinished.push(byte);
            }
        }
    }

    /// Returns the unfinished bytes, or `None` if there are too many to send again.
    #[must_use]
    pub fn unfinished(&self) -> Option<&[u8]> {
        (self.unfinished.len() <= SEQUENCE_BYTES_MAX).then_some(&self.unfinished)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    /// Checks the unfinished bytes at the end of `text`, wherever the text is cut in two.
    #[track_caller]
    fn check(text: &[u8], unfinished: &[u8]) {
        for cut in 0..=text.len() {
            let mut tail = Tail::default();
            tail.feed(&text[..cut]);
            tail.feed(&text[cut..]);
            assert_eq!(tail.unfinished(), Some(unfinished), "{} cut at {cut}", text.escape_ascii());
        }
    }

    #[test]
    fn unfinished_bytes_are_known_after_any_cut() {
        check(b"", b"");
        check(b"text", b"");
        check(b"text\x1b", b"\x1b");
        check(b"\x1b[1mtext\x1b[38;5", b"\x1b[38;5");
        check(b"\x1b[38;5;1m", b"");
        check(b"\x1b(", b"\x1b(");
        check(b"\x1b(B", b"");
        check(b"\x1b]0;a title", b"\x1b]0;a title");
        check(b"\x1b]0;a title\x07x", b"");
        check(b"\x1b]0;a title\x1b\\x", b"");
        check(b"\x1b]0;a\x1b[2", b"\x1b[2");
        check("x\u{1f600}".as_bytes(), b"");
        check(&"x\u{1f600}".as_bytes()[..4], b"\xf0\x9f\x98");
        check(&"\x1b[1m\u{e9}".as_bytes()[..5], b"\xc3");
        check(b"\x80\x80\xff\xe2x", b"");
        check("\u{4e2d}".repeat(9).as_bytes(), b"");
    }

    #[test]
    fn long_sequence_is_not_kept() {
        let mut tail = Tail::default();
        tail.feed(b"\x1b]52;c;");
        for _ in 0..100 {
            tail.feed(&[b'x'; 100]);
            assert!(tail.unfinished.len() <= SEQUENCE_BYTES_MAX + 1);
        }
        assert_eq!(tail.unfinished(), None);
        tail.feed(b"\x07text");
        assert_eq!(tail.unfinished(), Some(&b""[..]));
    }

    proptest! {
        #![proptest_config(ProptestConfig { failure_persistence: None, ..ProptestConfig::default() })]

        #[test]
        fn cuts_do_not_change_the_unfinished_bytes(
            parts in prop::collection::vec("\x1b?[\\[\\]POX0-9;?m(\\r\x07\x18\\\\é字]{1,12}", 0..20),
            length in 1..9_usize,
        ) {
            let bytes = parts.concat().into_bytes();
            let (mut whole, mut cut) = (Tail::default(), Tail::default());
            whole.feed(&bytes);
            bytes.chunks(length).for_each(|piece| cut.feed(piece));
            prop_assert_eq!(cut.unfinished(), whole.unfinished());
        }
    }
}
