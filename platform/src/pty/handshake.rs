//! The first question of Windows's pseudo console.
//!
//! The pseudo console asks its terminal for the cursor's position, and starts the command only
//! after the answer. This process is the terminal that answers. The question must not reach the
//! terminal that shows the output, which would answer again, into the command's input.

/// The request for the cursor's position.
const QUESTION: &[u8] = b"\x1b[6n";
/// The length of the part at the start of the output that is searched for the question, in bytes.
const WATCHED_BYTES: usize = 1024;

/// A search for the question at the start of the output, also if it is split over several reads.
#[derive(Debug, Default)]
pub(crate) struct Handshake {
    /// The number of bytes of a possible question held back at the end of the last read.
    held: usize,
    seen: usize,
    over: bool,
}

/// The result of the search for the question in the bytes of a read.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct SearchResult {
    /// The number of bytes at the buffer's start that are output.
    pub(crate) output: usize,
    /// Whether the question was found (and removed).
    pub(crate) has_question: bool,
}

impl Handshake {
    pub(crate) fn is_over(&self) -> bool {
        self.over && self.held == 0
    }

    /// Puts the bytes held back at the buffer's start, and returns their number. The next read must
    /// go behind them. If they fill the buffer, they are output, and the caller ends the search.
    pub(crate) fn prepare(&mut self, buffer: &mut [u8]) -> usize {
        let length = self.held.min(buffer.len());
        buffer[..length].copy_from_slice(&QUESTION[self.held - length..self.held][..length]);
        length
    }

    /// Searches for the question in a buffer of the bytes held back and `read` new bytes. A `read`
    /// of 0 means the end of the output.
    pub(crate) fn search(&mut self, buffer: &mut [u8], read: usize) -> SearchResult {
        let filled = self.held + read;
        self.held = 0;
        self.seen += read;
        let text = &buffer[..filled];
        if let Some(at) = text.windows(QUESTION.len()).position(|bytes| bytes == QUESTION) {
            self.over = true;
            buffer.copy_within(at + QUESTION.len()..filled, at);
            return SearchResult { output: filled - QUESTION.len(), has_question: true };
        }
        self.over = read == 0 || self.seen > WATCHED_BYTES;
        if !self.over {
            let begun = |length: &usize| text.ends_with(&QUESTION[..*length]);
            self.held = (1..QUESTION.len()).rev().find(begun).unwrap_or(0);
        }
        SearchResult { output: filled - self.held, has_question: false }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The output for reads of these pieces, and the number of answers.
    fn play(pieces: &[&[u8]]) -> (Vec<u8>, usize) {
        let (mut handshake, mut output, mut answers) = (Handshake::default(), Vec::new(), 0);
        for piece in pieces.iter().copied().chain([&b""[..]]) {
            let mut buffer = [0; 64];
            if handshake.is_over() {
                output.extend_from_slice(piece);
                continue;
            }
            let start = handshake.prepare(&mut buffer);
            buffer[start..start + piece.len()].copy_from_slice(piece);
            let found = handshake.search(&mut buffer, piece.len());
            output.extend_from_slice(&buffer[..found.output]);
            answers += usize::from(found.has_question);
        }
        (output, answers)
    }

    #[test]
    fn question_is_answered_once_and_removed_wherever_split() {
        let text = b"ab\x1b[6ncd\x1b[6n";
        for first in 0..=text.len() {
            for second in first..=text.len() {
                let pieces: Vec<_> = [&text[..first], &text[first..second], &text[second..]]
                    .into_iter()
                    .filter(|piece| !piece.is_empty())
                    .collect();
                assert_eq!(play(&pieces), (b"abcd\x1b[6n".to_vec(), 1), "{pieces:?}");
            }
        }
    }

    #[test]
    fn incomplete_question_passes_through() {
        assert_eq!(play(&[b"\x1b[", b"6m", b"\x1b", b"x"]), (b"\x1b[6m\x1bx".to_vec(), 0));
        assert_eq!(play(&[b"\x1b[6"]), (b"\x1b[6".to_vec(), 0));
    }

    #[test]
    fn later_question_passes_through() {
        let pieces = vec![&[b'x'; 60][..]; 20];
        let (output, answers) = play(&[&pieces[..], &[&b"\x1b[6n"[..]]].concat());
        assert_eq!((output.len(), answers), (1204, 0));
    }
}
