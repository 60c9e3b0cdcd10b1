//! The time that the queries of each process have used. The process that has used least goes first.
//!
//! A process cannot save time up: it begins where a process stands that has just got its share. So
//! processes that come and go do not stop one that stays.

use super::job::Process;
use std::{
    collections::{BTreeMap, BTreeSet},
    time::Duration,
};

/// The time that processes have used.
#[derive(Debug, Default)]
pub(super) struct TimeShares {
    /// The time of a process that has got its share since the first query.
    share: Duration,
    /// The times of the processes that have queries, or have got more than their share.
    used: BTreeMap<Process, Duration>,
}

impl TimeShares {
    /// Adds a process that has a query.
    pub(super) fn add(&mut self, process: Process) {
        self.used.entry(process).or_insert(self.share);
    }

    /// The time of a process.
    pub(super) fn used(&self, process: Process) -> Duration {
        self.used.get(&process).copied().unwrap_or(self.share)
    }

    /// Charges a process for its slice. Others had waiting queries at its end.
    pub(super) fn charge(
        &mut self,
        process: Process,
        time: Duration,
        waiting: impl Iterator<Item = Process>,
    ) {
        let mut active: BTreeSet<_> = waiting.collect();
        active.insert(process);
        self.used.insert(process, self.used(process) + time);
        self.share += time / active.len() as u32;
        self.used.retain(|process, used| *used > self.share || active.contains(process));
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::iter;

    #[test]
    fn processes_that_come_and_go_do_not_stop_one_that_stays() {
        const STAYS: Process = Some(0);
        let slice = Duration::from_millis(20);
        let mut shares = TimeShares::default();
        shares.add(STAYS);
        shares.charge(STAYS, 10 * slice, iter::once(Some(1)));
        let goes_first = |pid: &u32| {
            shares.add(Some(*pid));
            let is_first = shares.used(Some(*pid)) < shares.used(STAYS);
            shares.charge(Some(*pid), slice, iter::once(STAYS));
            is_first
        };
        assert_eq!((1..1_000).take_while(goes_first).count(), 10);
        assert!(shares.used.len() < 10, "{shares:?}");
    }
}
