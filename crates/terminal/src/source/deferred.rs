//! The deferred records of one transcript. They wait until it is known whether the transcript is
//! the child's.

use crate::transcript::Record;
use std::collections::VecDeque;

/// The maximum number of deferred records. Beyond this number, the oldest records are dropped.
const RECORDS_MAX: usize = 256;

/// The maximum size of the texts in deferred records, in bytes. Beyond this number, the oldest
/// records are dropped.
const BYTES_MAX: usize = 4 << 20;

/// The deferred records of one transcript.
#[derive(Default)]
pub(super) struct Deferred {
    /// The records. The second part says whether the record's turn may be the child's even if
    /// another agent previously used the conversation.
    records: VecDeque<(Record, bool)>,
    bytes: usize,
}

impl Deferred {
    pub(super) fn push(&mut self, record: Record, may_be_own: bool) {
        self.bytes += record.text().len();
        self.records.push_back((record, may_be_own));
        while self.records.len() > RECORDS_MAX || self.bytes > BYTES_MAX {
            let Some((oldest, _)) = self.records.pop_front() else { return };
            self.bytes -= oldest.text().len();
        }
    }

    /// Marks the records of the last turn as another agent's.
    pub(super) fn disown_last_turn(&mut self) {
        for (record, may_be_own) in self.records.iter_mut().rev() {
            *may_be_own = false;
            if matches!(record, Record::Prompt(_)) {
                return;
            }
        }
    }

    /// Returns all deferred records.
    pub(super) fn all(self) -> Vec<Record> {
        self.records.into_iter().map(|(record, _)| record).collect()
    }

    /// Returns the deferred records, without those of another agent's turns.
    pub(super) fn own(self) -> Vec<Record> {
        let own = self.records.into_iter().filter(|(_, may_be_own)| *may_be_own);
        own.map(|(record, _)| record).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn oldest_records_beyond_the_bounds_are_dropped() {
        let mut deferred = Deferred::default();
        let reply = |letter: &str| Record::Reply(letter.repeat(BYTES_MAX / 4));
        for letter in ["a", "b", "c", "d", "e", "f"] {
            deferred.push(reply(letter), true);
        }
        assert!(deferred.all() == ["c", "d", "e", "f"].map(reply));
        let mut deferred = Deferred::default();
        deferred.push(Record::Prompt("the oldest".to_owned()), true);
        for _ in 0..RECORDS_MAX {
            deferred.push(Record::TurnOver, true);
        }
        assert_eq!(deferred.all(), vec![Record::TurnOver; RECORDS_MAX]);
    }
}
