//! What stands at the end of a stream of a terminal's bytes and is not whole: a character, a sequence.
//!
//! Who paints a picture of the screen in the middle of the stream has to say it again after the
//! picture, or what follows would be read as text.

/// Longer sequences (pictures, what is put into the clipboard) are not kept.
const SEQUENCE_BYTES_MAX: usize = 1024;

/// The end of a stream.
#[derive(Debug, Default)]
pub struct Tail {
    state: State,
    /// From the sequence's Escape, or the character's first byte.
    begun: Vec<u8>,
}

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
enum State {
    #[default]
    Text,
    Escape,
    /// An escape sequence of more than one character.
    Intermediate,
    Control,
    String,
}

impl Tail {
    /// More bytes came.
    pub fn feed(&mut self, bytes: &[u8]) {
        // An Escape begins anew, whatever was begun.
        let from = bytes.iter().rposition(|&byte| byte == 0x1b);
        if from.is_some() {
            self.state = State::Text;
            self.begun.clear();
        }
        let mut rest = &bytes[from.unwrap_or(0)..];
        while let Some((&byte, after)) = rest.split_first() {
            if self.state == State::Text && byte != 0x1b {
                return self.end_in_text(rest);
            }
            rest = after;
            self.state = self.state.after(byte);
            if self.state == State::Text {
                self.begun.clear();
            } else if self.begun.len() <= SEQUENCE_BYTES_MAX {
                self.begun.push(byte);
            }
        }
    }

    /// What is not whole; `None` where it is too long to be said again.
    #[must_use]
    pub fn begun(&self) -> Option<&[u8]> {
        (self.begun.len() <= SEQUENCE_BYTES_MAX).then_some(&self.begun)
    }

    fn end_in_text(&mut self, text: &[u8]) {
        // At most three bytes of a character are not all of it.
        self.begun.extend_from_slice(&text[text.len().saturating_sub(4)..]);
        let begins = |&at: &usize| self.begun[at] >= 0xc0;
        let last = (self.begun.len().saturating_sub(3)..self.begun.len()).rfind(begins);
        let cut = last.filter(|&at| {
            std::str::from_utf8(&self.begun[at..]).is_err_and(|error| error.error_len().is_none())
        });
        self.begun.drain(..cut.unwrap_or(self.begun.len()));
    }
}

impl State {
    const fn after(self, byte: u8) -> Self {
        match (self, byte) {
            (_, 0x1b) => Self::Escape,
            (_, 0x18 | 0x1a) | (Self::String, 0x07) => Self::Text,
            (Self::Escape, b'[') => Self::Control,
            (Self::Escape, b']' | b'P' | b'_' | b'^' | b'X') => Self::String,
            (Self::Escape | Self::Intermediate, 0x20..=0x2f) => Self::Intermediate,
            // What controls the screen acts in the middle of a sequence, too.
            (Self::Escape | Self::Intermediate | Self::Control, 0x00..=0x1f) => self,
            (Self::Control, 0x20..=0x3f) => Self::Control,
            (Self::String, _) => Self::String,
            _ => Self::Text,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// What is begun after every cut of a text, as `whole|begun`.
    #[track_caller]
    fn ends(text: &[u8], begun: &[u8]) {
        for cut in 0..=text.len() {
            let mut tail = Tail::default();
            tail.feed(&text[..cut]);
            tail.feed(&text[cut..]);
            assert_eq!(tail.begun(), Some(begun), "{} cut at {cut}", text.escape_ascii());
        }
    }

    #[test]
    fn what_is_not_whole_is_known_wherever_it_was_cut() {
        ends(b"", b"");
        ends(b"text", b"");
        ends(b"text\x1b", b"\x1b");
        ends(b"\x1b[1mtext\x1b[38;5", b"\x1b[38;5");
        ends(b"\x1b[38;5;1m", b"");
        ends(b"\x1b(", b"\x1b(");
        ends(b"\x1b(B", b"");
        ends(b"\x1b]0;a title", b"\x1b]0;a title");
        ends(b"\x1b]0;a title\x07x", b"");
        ends(b"\x1b]0;a title\x1b\\x", b"");
        ends(b"\x1b]0;a\x1b[2", b"\x1b[2");
        ends("x\u{1f600}".as_bytes(), b"");
        ends(&"x\u{1f600}".as_bytes()[..4], b"\xf0\x9f\x98");
        ends(&"\x1b[1m\u{e9}".as_bytes()[..5], b"\xc3");
        ends(b"\x80\x80\xff\xe2x", b"");
        ends("\u{4e2d}".repeat(9).as_bytes(), b"");
    }

    #[test]
    fn a_sequence_that_is_too_long_is_not_said_again() {
        let mut tail = Tail::default();
        tail.feed(b"\x1b]52;c;");
        for _ in 0..100 {
            tail.feed(&[b'x'; 100]);
            assert!(tail.begun.len() <= SEQUENCE_BYTES_MAX + 1);
        }
        assert_eq!(tail.begun(), None);
        tail.feed(b"\x07text");
        assert_eq!(tail.begun(), Some(&b""[..]));
    }
}
