//! Frames that the wrapper typed, where their text is typed as it is.
//!
//! In what the agent says a whole frame is a quotation. On a screen that is looked at and not read,
//! a frame's rows are what was typed.

use std::{
    collections::{HashMap, VecDeque},
    ops::Range,
};

/// How many frames are remembered.
const REMEMBERED: usize = 1024;

/// Blanks, prompts and bars that may stand before the text that somebody typed.
const PROMPT_CHARACTERS_MAX: usize = 8;

/// A frame's digits.
const HEX_DIGITS: usize = 6;

/// The frames that were typed lately.
#[derive(Debug, Clone, Default)]
pub(super) struct Injected {
    lately: VecDeque<Typed>,
    /// The digits of frames that stand on a screen with their marks escaped.
    escaped: VecDeque<String>,
    /// Any six digits make a frame: for recordings, of which nobody knows what was drawn.
    by_form: bool,
}

#[derive(Debug, Clone)]
struct Typed {
    hex: String,
    /// Lines that a quotation of it may have.
    lines_max: u64,
    /// Rows that it may take on a narrow screen.
    rows_max: usize,
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
        let lines = body.lines().count();
        // A CLI that shows only its beginning must not make the wrapper deaf for long.
        let rows_max = lines + body.len() / 20 + 8;
        self.lately.push_back(Typed {
            hex: hex.to_owned(),
            lines_max: 2 * lines as u64 + 8,
            rows_max,
        });
    }

    /// A frame with these digits is typed with all its marks escaped.
    pub(super) fn remember_escaped(&mut self, hex: &str) {
        if self.escaped.len() == REMEMBERED {
            self.escaped.pop_front();
        }
        self.escaped.push_back(hex.to_owned());
    }

    /// Whether a line ends such a frame, or does so up to where a narrow screen cuts it. What a
    /// fence has begun above it was typed, and ends there.
    pub(super) fn ends_escaped(&self, line: &str) -> bool {
        let Some((_, after)) = line.split_once("[/relay ") else { return false };
        let shown = after.split(']').next().unwrap_or_default().trim_end();
        !shown.is_empty() && self.escaped.iter().any(|hex| hex.starts_with(shown))
    }

    /// The lines that stand in whole frames of a text, between their first and last ones. A header
    /// without an end, or far from it, is no frame.
    pub(super) fn quotes(&self, text: &str) -> Vec<Range<u64>> {
        let (mut quotes, mut open) = (Vec::new(), HashMap::new());
        for (number, line) in (0..).zip(text.split('\n')) {
            if let Some(typed) = header(line).and_then(|(hex, _)| self.typed(hex)) {
                open.insert(typed.hex.as_str(), number);
                continue;
            }
            let Some(typed) = end(line).and_then(|hex| self.typed(hex)) else { continue };
            if let Some(first) = open.remove(typed.hex.as_str())
                && number - first <= typed.lines_max
            {
                quotes.push(first + 1..number);
            }
        }
        quotes
    }

    /// The frame that a line opens.
    pub(super) fn frame(&self, line: &str) -> Option<Frame> {
        let (hex, rest) = header(line)?;
        let end = format!("[/relay {hex}]");
        if self.by_form {
            let form =
                hex.bytes().all(|byte| byte.is_ascii_hexdigit()) && rest.starts_with(" from ");
            return form.then_some(Frame { end, rows_left: usize::MAX });
        }
        Some(Frame { end, rows_left: self.typed(hex)?.rows_max })
    }

    fn typed(&self, hex: &str) -> Option<&Typed> {
        self.lately.iter().rev().find(|typed| typed.hex == hex)
    }
}

impl Frame {
    /// Takes the next line of the frame; whether the frame goes on.
    pub(super) fn goes_on(&mut self, line: &str) -> bool {
        self.rows_left = self.rows_left.saturating_sub(1);
        self.rows_left > 0 && !line.contains(&self.end)
    }
}

/// The digits in a frame's first line, and what follows them.
fn header(line: &str) -> Option<(&str, &str)> {
    let (before, after) = line.split_once("[relay ")?;
    let prompt =
        before.chars().count() <= PROMPT_CHARACTERS_MAX && !before.contains(char::is_alphanumeric);
    after.split_at_checked(HEX_DIGITS).filter(|_| prompt)
}

/// The digits in a line that ends a frame.
fn end(line: &str) -> Option<&str> {
    let (_, after) = line.split_once("[/relay ")?;
    let (hex, rest) = after.split_at_checked(HEX_DIGITS)?;
    rest.starts_with(']').then_some(hex)
}
