//! Frames in the program's output or transcript.
//!
//! A whole frame in the agent's own text is a quotation, whoever typed it and in any run. On a
//! screen that is not the source of messages, a frame's rows are an echo of the typed text.

use crate::bounded;
use std::{
    collections::{HashMap, VecDeque},
    ops::Range,
};

/// How many frames of each kind are remembered.
const FRAMES_MAX: usize = 1024;

/// The maximum number of characters of a prompt (blanks, prompt signs, bars) before a frame.
const PROMPT_CHARACTERS_MAX: usize = 8;

/// The number of digits that identify a frame.
const HEX_DIGITS: usize = 6;

/// The frames that were typed recently.
#[derive(Debug, Clone, Default)]
pub(super) struct InjectedFrames {
    /// The digits of frames that were typed without escapes, and how many rows each takes at most
    /// on a narrow screen.
    plain: VecDeque<(String, usize)>,
    /// The digits of frames that were typed with all marks in them escaped.
    escaped: VecDeque<String>,
    /// Whether any six digits count as a frame's digits. Recordings need this: the digits of their
    /// frames are not known.
    accepts_any_digits: bool,
}

/// A frame that has not ended yet.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct OpenFrame {
    end: String,
    rows_left: usize,
}

impl InjectedFrames {
    /// Returns a memory that accepts any six digits as a known frame's.
    pub(super) fn with_any_digits() -> Self {
        Self { accepts_any_digits: true, ..Self::default() }
    }

    /// Remembers that `body` is typed between `[relay HEX` and `[/relay HEX]`.
    pub(super) fn remember(&mut self, hex: &str, body: &str) {
        let lines = body.lines().count();
        // A CLI may show only the beginning of a frame. The limit keeps the text that follows from
        // being taken for the frame.
        let rows_max = lines + body.len() / 20 + 8;
        bounded::push(&mut self.plain, FRAMES_MAX, (hex.to_owned(), rows_max));
    }

    /// Remembers that a frame with these digits is typed with all marks in it escaped.
    pub(super) fn remember_escaped(&mut self, hex: &str) {
        bounded::push(&mut self.escaped, FRAMES_MAX, hex.to_owned());
    }

    /// Returns the position after an escaped frame's last line, if the line shows all its digits.
    pub(super) fn end_of_escaped(&self, line: &str) -> Option<usize> {
        let (hex, after) = end_digits(line)?;
        let is_escaped = self.escaped.iter().any(|escaped| escaped == hex);
        is_escaped.then_some(line.len() - after.len())
    }

    /// Whether a line ends an escaped frame. On a narrow screen, the line may be cut off. A code
    /// fence that is open here was typed as a part of the frame, and ends with it.
    pub(super) fn ends_escaped_frame(&self, line: &str) -> bool {
        let Some((_, after)) = line.split_once("[/relay ") else { return false };
        let shown = after.split(']').next().unwrap_or_default().trim_end();
        !shown.is_empty() && self.escaped.iter().any(|hex| hex.starts_with(shown))
    }

    /// Returns the frame that a line opens, if it opens one.
    pub(super) fn opened_by(&self, line: &str) -> Option<OpenFrame> {
        let (hex, rest) = header(line)?;
        let end = format!("[/relay {hex}]");
        if self.accepts_any_digits {
            return is_header(hex, rest).then_some(OpenFrame { end, rows_left: usize::MAX });
        }
        let (_, rows_max) = self.plain.iter().rev().find(|(plain, _)| plain == hex)?;
        Some(OpenFrame { end, rows_left: *rows_max })
    }
}

impl OpenFrame {
    /// Reads the next line of the frame. Returns the frame if it continues after the line.
    pub(super) fn after(self, line: &str) -> Option<Self> {
        let rows_left = self.rows_left.saturating_sub(1);
        (rows_left > 0 && !line.contains(&self.end)).then_some(Self { rows_left, ..self })
    }
}

/// Returns the line numbers inside each whole frame of a text. A header without its end is no
/// frame.
pub(super) fn quoted_lines(text: &str) -> Vec<Range<u64>> {
    let (mut quoted, mut open) = (Vec::new(), HashMap::new());
    for (number, line) in (0..).zip(text.split('\n')) {
        if let Some((hex, _)) = header(line).filter(|(hex, rest)| is_header(hex, rest)) {
            open.insert(hex, number);
        } else if let Some(first) = end_digits(line).and_then(|(hex, _)| open.remove(hex)) {
            quoted.push(first + 1..number);
        }
    }
    quoted
}

/// Whether these are the digits of a frame's first line, followed by the rest of that line.
fn is_header(hex: &str, rest: &str) -> bool {
    hex.bytes().all(|byte| byte.is_ascii_hexdigit()) && rest.starts_with(" from ")
}

/// Returns the digits in a frame's first line, and the text after the digits.
fn header(line: &str) -> Option<(&str, &str)> {
    let (before, after) = line.split_once("[relay ")?;
    let is_prompt =
        before.chars().count() <= PROMPT_CHARACTERS_MAX && !before.contains(char::is_alphanumeric);
    after.split_at_checked(HEX_DIGITS).filter(|_| is_prompt)
}

/// Returns the digits in a frame's last line, and the text after the frame.
fn end_digits(line: &str) -> Option<(&str, &str)> {
    let (_, after) = line.split_once("[/relay ")?;
    let (hex, rest) = after.split_at_checked(HEX_DIGITS)?;
    Some((hex, rest.strip_prefix(']')?))
}
