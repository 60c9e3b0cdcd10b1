//! The findings of the line scanner, with their rows.

use super::extracted::{Extracted, Fault, Problem};
use super::logical_line::LogicalLine;
use super::target::shorten;

/// A finding: a message or problem, and its rows.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Finding {
    pub(super) extracted: Extracted,
    /// The number of the finding's first row.
    pub(super) first_row: u64,
    /// The number of the finding's last row.
    pub(super) last_row: u64,
    /// The beginning of the finding's first line.
    pub(super) first_line: String,
    /// The first letters of the finding's second line.
    pub(super) second_line: String,
    pub(super) if_extended: IfExtended,
}

/// How more text on a finding's last row would change the finding.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum IfExtended {
    /// No effect.
    Unchanged,
    /// The message would no longer end on this row, since its `>>>` would no longer end the line.
    Reopened,
    /// The arrow and the name on this row would become an opening line.
    Completed,
}

impl Finding {
    /// Returns a finding for a problem in this line.
    pub(super) fn problem(fault: Fault, line: &LogicalLine, sentence: String) -> Self {
        let first_line = shorten(line.text.trim());
        let problem = Problem { fault, sentence, line: first_line.clone() };
        Self {
            extracted: Extracted::Problem(problem),
            first_row: line.first_row,
            last_row: line.last_row,
            first_line,
            second_line: String::new(),
            if_extended: IfExtended::Unchanged,
        }
    }

    /// Returns the finding for a message with this opening line that is not sent.
    pub(super) fn not_sent(fault: Fault, opening: &LogicalLine, reason: &str) -> Self {
        Self::problem(fault, opening, sentence(&shorten(opening.text.trim()), reason))
    }

    /// Returns the finding for a malformed opening line.
    pub(super) fn malformed(line: &LogicalLine, reason: &str) -> Self {
        Self::problem(Fault::OpeningLine, line, format!("Not sent: {reason}."))
    }

    /// Whether the finding is a message.
    pub(super) fn is_message(&self) -> bool {
        matches!(self.extracted, Extracted::Message(_))
    }

    /// Whether the finding is a problem of this kind.
    pub(super) fn has_fault(&self, fault: Fault) -> bool {
        matches!(&self.extracted, Extracted::Problem(problem) if problem.fault == fault)
    }

    /// Turns the finding into a problem: the message is in a frame that the agent quotes.
    pub(super) fn into_quoted(self) -> Self {
        let reason = "is inside a frame that you quote; to send it, write it outside of the frame";
        let sentence = sentence(&self.first_line, reason);
        let problem = Problem { fault: Fault::Quoted, sentence, line: self.first_line.clone() };
        let (extracted, if_extended) = (Extracted::Problem(problem), IfExtended::Unchanged);
        Self { extracted, second_line: String::new(), if_extended, ..self }
    }
}

fn sentence(line: &str, reason: &str) -> String {
    format!("Not sent: the message that begins with `{line}` {reason}.")
}
