//! The rules for extraction: settings and facts that hold for all lines of a source.

use std::borrow::Cow;
use std::ops::Range;

use unicode_width::UnicodeWidthStr;

use super::{injected_frames::InjectedFrames, logical_line::LogicalLine, rejoin::FULL_ROW_MARGIN};
use crate::{recipe::CommandOutput, screen::Row};

/// The rules for the lines of a source.
#[derive(Default)]
pub(super) struct Rules {
    /// The terminal's columns; `None` for a text that is not on a screen.
    pub(super) columns: Option<usize>,
    /// The number of blanks that the program leaves before its agent's text.
    pub(super) margin: usize,
    /// The marks of command output, which is skipped.
    pub(super) command_output: CommandOutput,
    /// Whether the one-line form is allowed.
    pub(super) allows_inline: bool,
    /// Whether an arrow after other text is a problem.
    pub(super) reports_misplaced: bool,
    /// Frames that may be echoed on the screen.
    pub(super) frames: InjectedFrames,
    /// The numbers of the lines in whole frames that the agent quotes.
    pub(super) quoted_lines: Vec<Range<u64>>,
    /// Whether lines in a code fence within a body are text of the body. Not so on a screen, since
    /// programs do not show the fences there.
    pub(super) has_body_fences: bool,
    /// The first line numbers of messages without this treatment of fences.
    pub(super) bodies_without_fences: Vec<u64>,
}

impl Rules {
    /// Whether a line is in a frame that the agent quotes.
    pub(super) fn is_quoted(&self, line: &LogicalLine) -> bool {
        self.quoted_lines.iter().any(|lines| lines.contains(&line.first_row))
    }

    /// Whether a line may continue the line above: its first word had no room there.
    pub(super) fn may_continue_above(&self, line: &LogicalLine) -> bool {
        let word = line.text.split_whitespace().next().map_or(0, UnicodeWidthStr::width);
        let needed = line.width_above + 1 + word + FULL_ROW_MARGIN;
        line.width_above > 0 && self.text_columns().is_some_and(|columns| needed > columns)
    }

    /// Returns the number of columns available to the agent's text.
    pub(super) fn text_columns(&self) -> Option<usize> {
        self.columns.map(|columns| columns.saturating_sub(self.margin))
    }

    /// Returns the row without its margin, if the row has one.
    pub(super) fn without_margin<'a>(&self, row: &'a Row) -> Cow<'a, Row> {
        match row.text.split_at_checked(self.margin) {
            Some((margin, text)) if !margin.is_empty() && margin.bytes().all(|b| b == b' ') => {
                let width = row.width - self.margin;
                Cow::Owned(Row { text: text.to_owned(), width, wraps: row.wraps })
            }
            _ => Cow::Borrowed(row),
        }
    }
}
