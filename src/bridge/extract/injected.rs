//! What the wrapper typed itself, and so never takes for a message.

use std::collections::VecDeque;

/// How many injected messages are remembered.
const REMEMBERED: usize = 32;

/// Bytes of one remembered body; of a longer one this much and its length are compared.
const BODY_BYTES_KEPT: usize = 64 << 10;

/// Blanks, prompts and bars that a CLI may draw before the text somebody typed.
const PROMPT_CHARACTERS_MAX: usize = 8;

/// What was injected lately.
#[derive(Debug, Clone, Default)]
pub(super) struct Injected {
    lately: VecDeque<Typed>,
    /// Any six digits make a frame: for recordings, of which nobody knows what was drawn.
    by_form: bool,
}

#[derive(Debug, Clone)]
struct Typed {
    hex: String,
    words: String,
    length: usize,
    rows_max: usize,
    /// Its end may come, too.
    ends: bool,
}

/// A frame that was opened and not closed yet.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Frame {
    end: String,
    rows_left: usize,
}

impl Injected {
    /// Knows frames by their form.
    pub(super) fn by_form() -> Self {
        Self { by_form: true, ..Self::default() }
    }

    /// `body` is typed between `[relay HEX` and `[/relay HEX]`.
    pub(super) fn remember(&mut self, hex: &str, body: &str) {
        if self.lately.len() == REMEMBERED {
            self.lately.pop_front();
        }
        let words = words(body);
        // Rows that the frame may take on a narrow screen; a CLI that shows only its beginning must not
        // make the wrapper deaf for long.
        let rows_max = body.lines().count() + body.len() / 20 + 8;
        let length = words.len();
        let (hex, words) = (hex.to_owned(), kept(words));
        self.lately.push_back(Typed { hex, words, length, rows_max, ends: true });
    }

    /// What is read from now on is this whole text: a frame whose end is not in it was not shown, but quoted.
    pub(super) fn expect(&mut self, text: &str) {
        for typed in &mut self.lately {
            typed.ends = text.contains(&end_of(&typed.hex));
        }
    }

    /// The frame that a line opens.
    pub(super) fn frame(&self, line: &str) -> Option<Frame> {
        let (before, after) = line.split_once("[relay ")?;
        let prompt = before.chars().count() <= PROMPT_CHARACTERS_MAX
            && !before.contains(char::is_alphanumeric);
        let (hex, rest) = after.split_at_checked(6).filter(|_| prompt)?;
        let end = end_of(hex);
        if self.by_form {
            let form =
                hex.bytes().all(|byte| byte.is_ascii_hexdigit()) && rest.starts_with(" from ");
            return form.then_some(Frame { end, rows_left: usize::MAX });
        }
        let typed = self.lately.iter().rev().find(|typed| typed.hex == hex && typed.ends)?;
        Some(Frame { end, rows_left: typed.rows_max })
    }

    /// Whether a text is one that was injected, however its blanks and lines fall.
    pub(super) fn holds(&self, text: &str) -> bool {
        if self.lately.is_empty() {
            return false;
        }
        let words = words(text);
        let length = words.len();
        if length == 0 {
            return false;
        }
        let words = kept(words);
        self.lately.iter().any(|typed| typed.length == length && typed.words == words)
    }
}

impl Frame {
    /// Takes the next line of the frame; whether the frame goes on.
    pub(super) fn goes_on(&mut self, line: &str) -> bool {
        self.rows_left = self.rows_left.saturating_sub(1);
        self.rows_left > 0 && !line.contains(&self.end)
    }
}

fn end_of(hex: &str) -> String {
    format!("[/relay {hex}]")
}

fn words(text: &str) -> String {
    text.split_whitespace().collect()
}

fn kept(mut words: String) -> String {
    let end = (0..=BODY_BYTES_KEPT.min(words.len())).rev().find(|&at| words.is_char_boundary(at));
    words.truncate(end.unwrap_or(0));
    words
}
