//! The question that Windows's pseudo console asks at first.
//!
//! It asks the terminal where the cursor is, and holds the command back until it is told. We are the
//! terminal, so we answer; the question must not go on to whoever shows the output, who would answer
//! it a second time, into the command's input.

/// Where is the cursor?
const QUESTION: &[u8] = b"\x1b[6n";
/// The question comes among the first bytes or not at all.
const WATCHED_BYTES: usize = 1024;

/// Watches the start of the output for the question, also where reads cut it.
#[derive(Debug, Default)]
pub(crate) struct Handshake {
    /// So many bytes of a question were seen and held back at the end of the last read.
    held: usize,
    seen: usize,
    over: bool,
}

/// What to do with a read's bytes.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct Verdict {
    /// So many bytes at the buffer's start are output.
    pub(crate) output: usize,
    /// The question was asked (and taken out).
    pub(crate) answer: bool,
}

impl Handshake {
    pub(crate) fn is_over(&self) -> bool {
        self.over && self.held == 0
    }

    /// Puts what was held back at the buffer's start, and says how long it is: the next read goes
    /// behind it. A buffer with no room for that gets it back as output, and the watch is over.
    pub(crate) fn prepare(&mut self, buffer: &mut [u8]) -> usize {
        let length = self.held.min(buffer.len());
        buffer[..length].copy_from_slice(&QUESTION[self.held - length..self.held][..length]);
        length
    }

    /// Looks at a buffer that begins with what was held back and goes on with `read` new bytes; none
    /// is the output's end.
    pub(crate) fn look(&mut self, buffer: &mut [u8], read: usize) -> Verdict {
        let filled = self.held + read;
        self.held = 0;
        self.seen += read;
        let text = &buffer[..filled];
        if let Some(at) = text.windows(QUESTION.len()).position(|bytes| bytes == QUESTION) {
            self.over = true;
            buffer.copy_within(at + QUESTION.len()..filled, at);
            return Verdict { output: filled - QUESTION.len(), answer: true };
        }
        self.over = read == 0 || self.seen > WATCHED_BYTES;
        if !self.over {
            let begun = |length: &usize| text.ends_with(&QUESTION[..*length]);
            self.held = (1..QUESTION.len()).rev().find(begun).unwrap_or(0);
        }
        Verdict { output: filled - self.held, answer: false }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// What comes out of reads of these pieces, and how often it was answered.
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
            let verdict = handshake.look(&mut buffer, piece.len());
            output.extend_from_slice(&buffer[..verdict.output]);
            answers += usize::from(verdict.answer);
        }
        (output, answers)
    }

    #[test]
    fn the_question_is_answered_once_and_taken_out_wherever_reads_cut_it() {
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
    fn what_only_begins_like_it_goes_through() {
        assert_eq!(play(&[b"\x1b[", b"6m", b"\x1b", b"x"]), (b"\x1b[6m\x1bx".to_vec(), 0));
        assert_eq!(play(&[b"\x1b[6"]), (b"\x1b[6".to_vec(), 0));
    }

    #[test]
    fn a_later_question_is_the_commands_own() {
        let pieces = vec![&[b'x'; 60][..]; 20];
        let (output, answers) = play(&[&pieces[..], &[&b"\x1b[6n"[..]]].concat());
        assert_eq!((output.len(), answers), (1204, 0));
    }
}
