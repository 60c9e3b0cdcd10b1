//! Code fences. Nothing inside a code fence is a message.

use super::logical_line::LineStart;

/// An open code fence.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Fence {
    mark: char,
    length: usize,
}

impl Fence {
    /// Returns the fence that a line opens, if any. The line may begin with a CLI's bullet in
    /// column 0 and with marks of list items.
    pub(super) fn opened_by(line: &str) -> Option<Self> {
        let text = LineStart::of(line).map_or(line, |start| start.rest);
        let text = without_list_marks(text);
        let mark = text.chars().next().filter(|mark| matches!(mark, '`' | '~'))?;
        let length = text.chars().take_while(|&c| c == mark).count();
        let is_fence = length >= 3 && !(mark == '`' && text[length..].contains('`'));
        is_fence.then_some(Self { mark, length })
    }

    /// Whether a line closes the fence: it consists of the fence's mark, repeated at least as often
    /// as in the opening line.
    pub(super) fn closed_by(self, line: &str) -> bool {
        let text = line.trim();
        text.len() >= self.length && text.chars().all(|c| c == self.mark)
    }
}

/// Returns a line without the marks of list items at its beginning: `-`, `*`, `+`, `1.` or `1)`.
fn without_list_marks(line: &str) -> &str {
    let text = line.trim_start();
    let digits = text.len() - text.trim_start_matches(|c: char| c.is_ascii_digit()).len();
    let marks: &[char] = if digits == 0 { &['-', '*', '+'] } else { &['.', ')'] };
    match text[digits..].strip_prefix(marks) {
        Some(rest) if rest.starts_with([' ', '\t']) => without_list_marks(rest),
        _ => text,
    }
}
