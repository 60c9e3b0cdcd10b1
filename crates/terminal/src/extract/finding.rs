//! The findings of the line scanner, with the rows on which they stand.

use super::extracted::{Extracted, Fault, Problem};
use super::logical_line::LogicalLine;
use super::target::shorten;

/// A finding: a message or problem, and the rows on which it stands.
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

/// The effect on a finding if the program added more text to its last row.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum IfExtended {
    /// No effect.
    Unchanged,
    /// The message would no longer end on this row, since its `>>>` would not be at the end of the
    /// line.
    Reopened,
    /// The arrow and the name on this row would become an opening line.
    Completed,
}

impl Finding {
    /// Returns a finding for a problem on these rows.
    pub(super) fn problem(problem: Problem, first_row: u64, last_row: u64) -> Self {
        let (first_line, second_line) = (problem.line.clone(), String::new());
        let (extracted, if_extended) = (Extracted::Problem(problem), IfExtended::Unchanged);
        Self { extracted, first_row, last_row, first_line, second_line, if_extended }
    }

    /// Whether the finding is a message.
    pub(super) fn is_message(&self) -> bool {
        matches!(self.extracted, Extracted::Message(_))
    }

    /// Whether the finding is a message that was never closed.
    pub(super) fn is_unclosed(&self) -> bool {
        self.has_fault(Fault::Unclosed)
    }

    /// Whether the finding is an overwritten message, which the program may paint again.
    pub(super) fn is_overwritten(&self) -> bool {
        self.has_fault(Fault::Overwritten)
    }

    fn has_fault(&self, fault: Fault) -> bool {
        matches!(&self.extracted, Extracted::Problem(problem) if problem.fault == fault)
    }

    /// Turns the finding into a problem: the message stands in a frame that the agent quotes.
    pub(super) fn into_quoted(self) -> Self {
        let reason = "stands in a frame that you quote; to send it, write it outside of the frame";
        let problem = message_problem(Fault::Quoted, self.first_line, reason);
        Self::problem(problem, self.first_row, self.last_row)
    }
}

/// Returns the problem of a message with this opening line.
pub(super) fn not_sent(fault: Fault, opening: &LogicalLine, reason: &str) -> Problem {
    message_problem(fault, shorten(opening.text.trim()), reason)
}

/// Returns the problem of a malformed opening line.
pub(super) fn malformed(line: &LogicalLine, reason: &str) -> Problem {
    let sentence = format!("Not sent: {reason}.");
    Problem { fault: Fault::OpeningLine, sentence, line: shorten(line.text.trim()) }
}

fn message_problem(fault: Fault, line: String, reason: &str) -> Problem {
    let sentence = format!("Not sent: the message that begins with `{line}` {reason}.");
    Problem { fault, sentence, line }
}
