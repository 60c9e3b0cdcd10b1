//! Turns of the connecting processes: for connections whose readers are not started yet, and for
//! queries of the store.
//!
//! Each process has a queue, and the queues take turns, so that a process with much waits for
//! itself. Starting a reader is dearer than connecting, so the readers of a process that floods the
//! daemon with connections are also started slowly: the processor is free for the others.

use rustc_hash::FxHashMap;
use std::collections::VecDeque;

/// The most connections that wait.
pub(super) const WAITING_MAX: usize = 1_024;

/// The most waiting connections of a process that does not flood the daemon.
pub(super) const FLOOD: usize = 256;

/// A process's id, or `None` for all processes whose id the system does not tell.
pub(super) type Pid = Option<u32>;

/// Connections that wait for their readers, or other things that wait, by the process that they
/// come from.
#[derive(Debug)]
pub(super) struct Turns<T> {
    most: usize,
    waiting: usize,
    /// The waiting items of each process. No queue is empty.
    queues: FxHashMap<Pid, VecDeque<T>>,
    /// The processes in the order of their turns.
    turns: VecDeque<Pid>,
}

impl<T> Turns<T> {
    /// Room for `most` things.
    pub(super) fn new(most: usize) -> Self {
        Self { most, waiting: 0, queues: FxHashMap::default(), turns: VecDeque::new() }
    }

    /// Adds one. If too many wait, removes and returns the newest one of the process that has most,
    /// which may be this one.
    pub(super) fn push(&mut self, pid: Pid, one: T) -> Option<T> {
        let queue = self.queues.entry(pid).or_default();
        if queue.is_empty() {
            self.turns.push_back(pid);
        }
        queue.push_back(one);
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

    /// Removes the oldest one of the process whose turn it is, among those that `may_go`.
    pub(super) fn pop(&mut self, may_go: impl Fn(Pid) -> bool) -> Option<(Pid, T)> {
        let turn = self.turns.iter().position(|pid| may_go(*pid))?;
        let pid = self.turns.remove(turn)?;
        let oldest = self.take(pid, VecDeque::pop_front)?;
        if self.queues.contains_key(&pid) {
            self.turns.push_back(pid);
        }
        Some((pid, oldest))
    }

    /// Removes the oldest connection of the process whose turn it is, among those that flood the
    /// daemon or among the others.
    pub(super) fn pop_of(&mut self, floods: bool) -> Option<T> {
        let turn = self.turns.iter().copied().find(|pid| self.is_flood(*pid) == floods)?;
        self.pop(|pid| pid == turn).map(|(_, connection)| connection)
    }

    /// Removes those that are not `kept`.
    pub(super) fn retain(&mut self, kept: impl Fn(&T) -> bool) {
        self.queues.values_mut().for_each(|queue| queue.retain(&kept));
        self.queues.retain(|_, queue| !queue.is_empty());
        self.turns.retain(|pid| self.queues.contains_key(pid));
        self.waiting = self.queues.values().map(VecDeque::len).sum();
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

    fn all(turns: &mut Turns<u32>) -> Vec<u32> {
        std::iter::from_fn(|| turns.pop_of(false)).collect()
    }

    #[test]
    fn connection_waits_for_one_of_each_other_process() {
        let mut turns = Turns::new(WAITING_MAX);
        for number in 0..100 {
            assert_eq!(turns.push(FLOODER, number), None);
        }
        turns.push(Some(2), 1_000);
        turns.push(None, 2_000);
        turns.push(Some(2), 1_001);
        let served = all(&mut turns);
        assert_eq!(served[..7], [0, 1_000, 2_000, 1, 1_001, 2, 3]);
        assert_eq!(served.len(), 103);
    }

    #[test]
    fn floods_and_others_are_served_apart() {
        let mut turns = Turns::new(WAITING_MAX);
        for number in 0..FLOOD as u32 + 2 {
            turns.push(FLOODER, number);
        }
        assert_eq!(turns.pop_of(false), None);
        turns.push(Some(2), 1_000);
        assert_eq!([turns.pop_of(true), turns.pop_of(true)], [Some(0), Some(1)]);
        assert_eq!(turns.pop_of(true), None, "the rest is no flood");
        assert_eq!([turns.pop_of(false), turns.pop_of(false)], [Some(1_000), Some(2)]);
    }

    #[test]
    fn process_that_has_most_loses_its_newest() {
        let mut turns = Turns::new(4);
        for number in 0..4 {
            assert_eq!(turns.push(FLOODER, number), None);
        }
        assert_eq!(turns.push(FLOODER, 4), Some(4));
        assert_eq!(turns.push(Some(2), 10), Some(3));
        assert_eq!(turns.push(Some(2), 11), Some(2));
        assert_eq!(turns.push(Some(2), 12), Some(12), "both have two");
        assert_eq!(turns.push(Some(3), 20), Some(11));
        assert_eq!(all(&mut turns).len(), 4);
        assert_eq!(turns.push(FLOODER, 5), None, "there is room again");
        turns.retain(|number| *number < 10);
        assert_eq!(turns.pop(|pid| pid != FLOODER), None);
        assert_eq!(turns.pop(|_| true), Some((FLOODER, 5)));
        assert!(turns.is_empty());
    }
}
