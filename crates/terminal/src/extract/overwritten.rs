//! Messages that were overwritten on the screen before they were closed.
//!
//! A program often repaints such a message, so that it can be read completely. The agent is
//! notified only if the program has not done so by the end of the turn.

use std::collections::VecDeque;

use super::extracted::{Extracted, Fault};
use super::finding::Finding;
use crate::bounded;

/// How many overwritten messages, and how many read messages, are remembered. Older ones are
/// forgotten.
const REMEMBERED_MAX: usize = 256;

/// The beginning of a message: its first line, and as much of its second line as was read.
type Beginning = (String, String);

/// The overwritten messages of a turn.
#[derive(Debug, Default)]
pub(super) struct OverwrittenMessages {
    /// The beginnings of messages not read completely yet, with the problems to report.
    pending: VecDeque<(Beginning, Extracted)>,
    /// The beginnings of messages that were recently read completely or reported.
    read: VecDeque<Beginning>,
}

impl OverwrittenMessages {
    /// Returns the finding, unless it is an overwritten message; that is remembered instead. A
    /// message that was read completely, or reported for its own fault, no longer counts as
    /// overwritten.
    pub(super) fn filter(&mut self, finding: Finding) -> Option<Finding> {
        if finding.has_fault(Fault::Overwritten) {
            self.add(finding);
            return None;
        }
        let own_faults = [Fault::Unclosed, Fault::Empty, Fault::TooLarge];
        if finding.is_message() || own_faults.into_iter().any(|fault| finding.has_fault(fault)) {
            let beginning = (finding.first_line.clone(), finding.second_line.clone());
            self.pending.retain(|(overwritten, _)| !may_be_same(overwritten, &beginning));
            if !self.read.contains(&beginning) {
                bounded::push(&mut self.read, REMEMBERED_MAX, beginning);
            }
        }
        Some(finding)
    }

    /// Remembers an overwritten message.
    pub(super) fn add(&mut self, finding: Finding) {
        let beginning = (finding.first_line, finding.second_line);
        let is_known = self.read.iter().any(|read| may_be_same(&beginning, read))
            || self.pending.iter().any(|(overwritten, _)| *overwritten == beginning);
        if !is_known {
            bounded::push(&mut self.pending, REMEMBERED_MAX, (beginning, finding.extracted));
        }
    }

    /// Takes the problems to report at the end of a turn.
    pub(super) fn end_turn(&mut self) -> Vec<Extracted> {
        let (reported, problems): (Vec<_>, Vec<_>) = self.pending.drain(..).unzip();
        for beginning in reported {
            bounded::push(&mut self.read, REMEMBERED_MAX, beginning);
        }
        problems
    }
}

/// Whether an overwritten message may be the message that begins with `other`.
fn may_be_same(overwritten: &Beginning, other: &Beginning) -> bool {
    overwritten.0 == other.0 && other.1.starts_with(&*overwritten.1)
}
