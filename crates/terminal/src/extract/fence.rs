//! Code fences. No text in a code fence is a message.

use super::logical_line::LineStart;

/// An open code fence.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Fence {
    mark: char,
    length: usize,
}

impl Fence {
    /// Returns the fence that a line opens, if it opens one. A bullet in column 0 may stand before
    /// the fence.
    pub(super) fn opened_by(line: &str) -> Option<Self> {
        let text = LineStart::of(line).map_or(line, |start| start.rest).trim_start();
        let mark = text.chars().next().filter(|mark| matches!(mark, '`' | '~'))?;
        let length = text.chars().take_while(|&c| c == mark).count();
        let is_fence = length >= 3 && !(mark == '`' && text[length..].contains('`'));
        is_fence.then_some(Self { mark, length })
    }

    /// Whether a line closes the fence: it consists of the fence's mark, at least as often as in
    /// the opening line.
    pub(super) fn closed_by(self, line: &str) -> bool {
        let text = line.trim();
        text.len() >= self.length && text.chars().all(|c| c == self.mark)
    }
}
