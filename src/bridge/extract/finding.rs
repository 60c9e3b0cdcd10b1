//! The line scanner's findings, with the rows where they stand.

use super::extracted::{Extracted, Fault, Problem};
use super::logical_line::LogicalLine;
use super::target::shorten;

/// A message or problem, and the rows where it stands.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Finding {
    pub(super) extracted: Extracted,
    /// The number of its first row.
    pub(super) first_row: u64,
    /// The number of its last row.
    pub(super) last_row: u64,
    /// The beginning of its first line.
    pub(super) first_line: String,
    /// The first letters of its second line.
    pub(super) second_line: String,
    pub(super) if_extended: IfExtended,
}

/// The effect that more text on the last row would have on a finding.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum IfExtended {
    /// None.
    Unchanged,
    /// The message would not end there: its `>>>` would not be the end of the line.
    Reopened,
    /// The arrow and the name there would become an opening line.
    Completed,
}

impl Finding {
    /// A problem in these rows.
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

    /// Whether the finding is an overwritten message, which may be painted again.
    pub(super) fn is_overwritten(&self) -> bool {
        self.has_fault(Fault::Overwritten)
    }

    fn has_fault(&self, fault: Fault) -> bool {
        matches!(&self.extracted, Extracted::Problem(problem) if problem.fault == fault)
    }

    /// Turns the finding into the problem of a message inside a frame that the agent quotes.
    pub(super) fn into_quoted(self) -> Self {
        let reason = "stands in a frame that you quote; to send it, write it outside of the frame";
        let problem = message_problem(Fault::Quoted, self.first_line, reason);
        Self::problem(problem, self.first_row, self.last_row)
    }
}

/// The problem of the message with this opening line.
pub(super) fn not_sent(fault: Fault, opening: &LogicalLine, reason: &str) -> Problem {
    message_problem(fault, shorten(opening.text.trim()), reason)
}

/// The problem of an opening line.
pub(super) fn malformed(line: &LogicalLine, reason: &str) -> Problem {
    let sentence = format!("Not sent: {reason}.");
    Problem { fault: Fault::OpeningLine, sentence, line: shorten(line.text.trim()) }
}

fn message_problem(fault: Fault, line: String, reason: &str) -> Problem {
    let sentence = format!("Not sent: the message that begins with `{line}` {reason}.");
    Problem { fault, sentence, line }
}
