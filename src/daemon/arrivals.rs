//! Arrivals: accepted connections whose readers are not started yet.
//!
//! Starting a reader is dearer than connecting. So each process has a queue, and the queues take
//! turns: a process that floods the daemon with connections waits for itself. Its readers are also
//! started slowly, so that the processor is free for the others.

use rustc_hash::FxHashMap;
use std::collections::VecDeque;

/// The most connections that wait.
pub(super) const WAITING_MAX: usize = 1_024;

/// The most waiting connections of a process that does not flood the daemon.
pub(super) const FLOOD: usize = 256;

/// A process's id, or `None` for all processes whose id the system does not tell.
pub(super) type Pid = Option<u32>;

/// Connections that wait for their readers, by the process at their other end.
#[derive(Debug)]
pub(super) struct Arrivals<T> {
    most: usize,
    waiting: usize,
    /// The waiting connections, in queues that are never empty.
    queues: FxHashMap<Pid, VecDeque<T>>,
    /// The processes in the order of their turns.
    turns: VecDeque<Pid>,
}

impl<T> Arrivals<T> {
    /// Room for `most` connections.
    pub(super) fn new(most: usize) -> Self {
        Self { most, waiting: 0, queues: FxHashMap::default(), turns: VecDeque::new() }
    }

    /// Adds a connection. If too many wait, removes and returns the newest one of the process that
    /// has most, which may be this one.
    pub(super) fn push(&mut self, pid: Pid, connection: T) -> Option<T> {
        let queue = self.queues.entry(pid).or_default();
        if queue.is_empty() {
            self.turns.push_back(pid);
        }
        queue.push_back(connection);
        let length = queue.len();
        self.waiting += 1;
        if self.waiting <= self.most {
            return None;
        }
        let longest = self.queues.iter().map(|(pid, queue)| (queue.len(), *pid)).max()?;
        // Removing another's newest gains nothing if this process has as many.
        let loser = if longest.0 > length { longest.1 } else { pid };
        let lost = self.take(loser, VecDeque::pop_back);
        if !self.queues.contains_key(&loser) {
            self.turns.retain(|other| *other != loser);
        }
        lost
    }

    /// Removes the oldest connection of the process whose turn it is, among those that flood the
    /// daemon or among the others.
    pub(super) fn pop(&mut self, floods: bool) -> Option<T> {
        let turn = self.turns.iter().position(|pid| self.is_flood(*pid) == floods)?;
        let pid = self.turns.remove(turn)?;
        let connection = self.take(pid, VecDeque::pop_front);
        if self.queues.contains_key(&pid) {
            self.turns.push_back(pid);
        }
        connection
    }

    /// Whether a process floods the daemon.
    pub(super) fn is_flood(&self, pid: Pid) -> bool {
        self.queues.get(&pid).is_some_and(|queue| queue.len() > FLOOD)
    }

    pub(super) const fn is_empty(&self) -> bool {
        self.waiting == 0
    }

    fn take(&mut self, pid: Pid, end: impl FnOnce(&mut VecDeque<T>) -> Option<T>) -> Option<T> {
        let queue = self.queues.get_mut(&pid)?;
        let taken = end(queue)?;
        self.waiting -= 1;
        if queue.is_empty() {
            self.queues.remove(&pid);
        }
        Some(taken)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const FLOODER: Pid = Some(1);

    fn all(arrivals: &mut Arrivals<u32>) -> Vec<u32> {
        std::iter::from_fn(|| arrivals.pop(false)).collect()
    }

    #[test]
    fn connection_waits_for_one_of_each_other_process() {
        let mut arrivals = Arrivals::new(WAITING_MAX);
        for number in 0..100 {
            assert_eq!(arrivals.push(FLOODER, number), None);
        }
        arrivals.push(Some(2), 1_000);
        arrivals.push(None, 2_000);
        arrivals.push(Some(2), 1_001);
        let served = all(&mut arrivals);
        assert_eq!(served[..7], [0, 1_000, 2_000, 1, 1_001, 2, 3]);
        assert_eq!(served.len(), 103);
    }

    #[test]
    fn floods_and_others_are_served_apart() {
        let mut arrivals = Arrivals::new(WAITING_MAX);
        for number in 0..FLOOD as u32 + 2 {
            arrivals.push(FLOODER, number);
        }
        assert_eq!(arrivals.pop(false), None);
        arrivals.push(Some(2), 1_000);
        assert_eq!([arrivals.pop(true), arrivals.pop(true)], [Some(0), Some(1)]);
        assert_eq!(arrivals.pop(true), None, "the rest is no flood");
        assert_eq!([arrivals.pop(false), arrivals.pop(false)], [Some(1_000), Some(2)]);
    }

    #[test]
    fn process_that_has_most_loses_its_newest() {
        let mut arrivals = Arrivals::new(4);
        for number in 0..4 {
            assert_eq!(arrivals.push(FLOODER, number), None);
        }
        assert_eq!(arrivals.push(FLOODER, 4), Some(4));
        assert_eq!(arrivals.push(Some(2), 10), Some(3));
        assert_eq!(arrivals.push(Some(2), 11), Some(2));
        assert_eq!(arrivals.push(Some(2), 12), Some(12), "both have two");
        assert_eq!(arrivals.push(Some(3), 20), Some(11));
        assert_eq!(all(&mut arrivals).len(), 4);
        assert_eq!(arrivals.push(FLOODER, 5), None, "there is room again");
    }
}
