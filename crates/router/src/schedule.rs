//! The schedule: which client's frames are handled next.
//!
//! Each client has a queue, and clients whose queues are not empty take turns: deficit round-robin
//! over counted work. In a round, every client may cause work up to `QUANTUM`. A frame is
//! indivisible, so a client may exceed its quantum by one frame; it then sits out the rounds that
//! the excess is worth. A client that becomes ready within its quantum goes before those whose turn
//! has only come, so that a client with little to do never waits for a round. All clients of one
//! process together go first for one quantum in a round, so that many connections gain nothing.
//!
//! Operators are a group of their own, for which a quarter of the work is reserved while any of
//! them is ready. Within a group, no client goes before its turn.
//!
//! The schedule is pure: the caller handles the entries, and tells how much work they were.

use super::interface::ClientId;
use rustc_hash::FxHashMap;
use std::collections::VecDeque;

/// The work of one client in one round. A unit is about a nanosecond.
pub(crate) const QUANTUM: i64 = 20_000;

/// The largest debt that a client has to sit out, in quanta.
const DEBT_QUANTA_MAX: i64 = 1_000;

/// The work of the others for each unit of the operators' work, while both are ready.
const OTHERS_SHARE: i64 = 3;

/// The queues of all clients, and whose turn it is.
#[derive(Debug)]
pub struct Schedule<T> {
    quantum: i64,
    queues: FxHashMap<ClientId, Queue<T>>,
    /// The processes of the clients.
    processes: FxHashMap<Pid, Process>,
    others: Turns,
    operators: Turns,
    /// The work of the others that the operators may catch up with.
    balance: i64,
}

/// A process's id.
type Pid = u32;

/// A process, and how many clients it has.
#[derive(Debug)]
struct Process {
    clients: usize,
    credit: Credit,
}

/// The rest of a client's or a process's work in a round.
#[derive(Debug)]
struct Credit {
    /// The work; negative in debt.
    left: i64,
    /// The round in which it was last topped up.
    round: u64,
}

/// A client's queue.
#[derive(Debug)]
struct Queue<T> {
    entries: VecDeque<T>,
    credit: Credit,
    /// The client's process, if the system tells it.
    process: Option<Pid>,
    is_operator: bool,
    /// Whether the entries have to wait.
    is_blocked: bool,
    /// Whether the client is in one of the lists of its group.
    is_listed: bool,
}

/// The turns of a group of clients.
#[derive(Debug, Default)]
struct Turns {
    round: u64,
    /// Clients that became ready within their quantum.
    fresh: VecDeque<ClientId>,
    /// Clients whose turn in this round is still to come.
    turns: VecDeque<ClientId>,
    /// Clients that wait for the next round.
    next: VecDeque<ClientId>,
}

impl Turns {
    fn is_empty(&self) -> bool {
        self.fresh.is_empty() && self.turns.is_empty() && self.next.is_empty()
    }

    /// Returns the client whose turn it is, and whether it goes before others. Begins the next
    /// round if this one is over.
    fn first(&mut self) -> Option<(ClientId, bool)> {
        if self.fresh.is_empty() && self.turns.is_empty() {
            std::mem::swap(&mut self.turns, &mut self.next);
            self.round += 1;
        }
        let is_fresh = !self.fresh.is_empty();
        let list = if is_fresh { &self.fresh } else { &self.turns };
        list.front().map(|client| (*client, is_fresh))
    }

    /// Removes the client whose turn it is.
    fn pop_first(&mut self) -> Option<ClientId> {
        self.fresh.pop_front().or_else(|| self.turns.pop_front())
    }

    fn remove(&mut self, client: ClientId) {
        for list in [&mut self.fresh, &mut self.turns, &mut self.next] {
            list.retain(|other| *other != client);
        }
    }
}

impl Credit {
    /// Tops up for the rounds that began since the last time. Returns whether anything is left.
    fn top_up(&mut self, round: u64, quantum: i64) -> bool {
        let rounds = i64::try_from(round - self.round).unwrap_or(i64::MAX);
        self.left = self.left.saturating_add(quantum.saturating_mul(rounds)).min(quantum);
        self.round = round;
        self.left > 0
    }

    fn spend(&mut self, work: i64, debt_max: i64) {
        self.left = self.left.saturating_sub(work).max(-debt_max);
    }
}

impl<T> Queue<T> {
    fn is_ready(&self) -> bool {
        !self.is_blocked && !self.entries.is_empty()
    }
}

impl<T> Default for Schedule<T> {
    fn default() -> Self {
        Self::new(QUANTUM)
    }
}

impl<T> Schedule<T> {
    /// A schedule without clients, with this quantum.
    #[must_use]
    pub fn new(quantum: i64) -> Self {
        Self {
            quantum,
            queues: FxHashMap::default(),
            processes: FxHashMap::default(),
            others: Turns::default(),
            operators: Turns::default(),
            balance: 0,
        }
    }

    /// Adds a client of a process, with an empty queue. Its first entry is handled in this round,
    /// and all others from the next round on, so that many short connections gain nothing.
    pub fn add(&mut self, client: ClientId, process: Option<Pid>) {
        let round = self.others.round;
        if let Some(pid) = process {
            let credit = Credit { left: self.quantum, round };
            self.processes.entry(pid).or_insert(Process { clients: 0, credit }).clients += 1;
        }
        let queue = Queue {
            entries: VecDeque::new(),
            credit: Credit { left: 1, round },
            process,
            is_operator: false,
            is_blocked: false,
            is_listed: false,
        };
        self.queues.insert(client, queue);
    }

    /// Removes a client and its queue.
    pub fn remove(&mut self, client: ClientId) {
        self.unlist(client);
        let Some(Queue { process: Some(pid), .. }) = self.queues.remove(&client) else { return };
        if let Some(process) = self.processes.get_mut(&pid) {
            process.clients -= 1;
            if process.clients == 0 {
                self.processes.remove(&pid);
            }
        }
    }

    /// Moves a client to the operators' group.
    pub fn make_operator(&mut self, client: ClientId) {
        self.unlist(client);
        if let Some(queue) = self.queues.get_mut(&client) {
            queue.is_operator = true;
            queue.credit.round = self.operators.round;
        }
        self.list(client);
    }

    /// Appends an entry to a client's queue. Ignores an unknown client.
    pub fn push(&mut self, client: ClientId, entry: T) {
        if let Some(queue) = self.queues.get_mut(&client) {
            queue.entries.push_back(entry);
            self.list(client);
        }
    }

    /// Makes a client's entries wait, or lets them be handled again.
    pub fn set_blocked(&mut self, client: ClientId, is_blocked: bool) {
        let Some(queue) = self.queues.get_mut(&client) else { return };
        queue.is_blocked = is_blocked;
        if is_blocked { self.unlist(client) } else { self.list(client) }
    }

    /// Drops those entries of a client for which `is_kept` does not hold, and lets the others be
    /// handled.
    pub fn discard(&mut self, client: ClientId, is_kept: impl Fn(&T) -> bool) {
        if let Some(queue) = self.queues.get_mut(&client) {
            queue.entries.retain(is_kept);
            queue.is_blocked = false;
            self.unlist(client);
            self.list(client);
        }
    }

    /// Whether a client has an entry that can be handled.
    #[cfg(any(test, feature = "testing"))]
    pub(crate) fn is_ready(&self, client: ClientId) -> bool {
        self.queues.get(&client).is_some_and(Queue::is_ready)
    }

    /// Whether a client has no entries.
    #[cfg(any(test, feature = "testing"))]
    pub(crate) fn is_empty(&self, client: ClientId) -> bool {
        self.queues.get(&client).is_none_or(|queue| queue.entries.is_empty())
    }

    /// Whether no entry can be handled now.
    #[must_use]
    pub fn is_idle(&self) -> bool {
        self.others.is_empty() && self.operators.is_empty()
    }

    /// Returns the client whose turn it is, and its oldest entry. After the entry, or a part of
    /// it, is handled, the caller has to [`spend`](Self::spend) its work.
    pub fn turn(&mut self) -> Option<(ClientId, &mut T)> {
        let turns = if self.operators_first() { &mut self.operators } else { &mut self.others };
        let client = loop {
            let (client, is_fresh) = turns.first()?;
            let queue = self.queues.get_mut(&client).expect("only known clients are listed");
            let process = queue.process.filter(|_| is_fresh && !queue.is_operator);
            let process = process.and_then(|pid| self.processes.get_mut(&pid));
            let may_go_first = process.is_none_or(|it| it.credit.top_up(turns.round, self.quantum));
            if queue.credit.top_up(turns.round, self.quantum) && may_go_first {
                break client;
            }
            turns.pop_first();
            turns.next.push_back(client);
        };
        let queue = self.queues.get_mut(&client)?;
        Some((client, queue.entries.front_mut().expect("a listed client has an entry")))
    }

    fn operators_first(&self) -> bool {
        !self.operators.is_empty() && (self.balance >= 0 || self.others.is_empty())
    }

    /// Counts the work of the entry that [`turn`](Self::turn) returned, and removes the entry if it
    /// `is_done`. Returns the removed entry.
    pub fn spend(&mut self, client: ClientId, work: u64, is_done: bool) -> Option<T> {
        let work = i64::try_from(work).unwrap_or(i64::MAX).max(1);
        let debt_max = DEBT_QUANTA_MAX * self.quantum;
        let queue = self.queues.get_mut(&client)?;
        queue.credit.spend(work, debt_max);
        let process = queue.process.filter(|_| !queue.is_operator);
        if let Some(process) = process.and_then(|pid| self.processes.get_mut(&pid)) {
            process.credit.top_up(self.others.round, self.quantum);
            process.credit.spend(work, debt_max);
        }
        let (change, turns) = match queue.is_operator {
            true => (work.saturating_mul(-OTHERS_SHARE), &mut self.operators),
            false => (work, &mut self.others),
        };
        let bound = OTHERS_SHARE * self.quantum;
        self.balance = self.balance.saturating_add(change).clamp(-debt_max, bound);
        let done = if is_done { queue.entries.pop_front() } else { None };
        // Handling the entry may have blocked the client, which removed it from its list.
        let is_first = queue.is_listed && turns.first().is_some_and(|(first, _)| first == client);
        if is_first && !queue.is_ready() {
            turns.pop_first();
            queue.is_listed = false;
        } else if is_first && queue.credit.left <= 0 {
            turns.pop_first();
            turns.next.push_back(client);
        }
        done
    }

    fn list(&mut self, client: ClientId) {
        let Some(queue) = self.queues.get_mut(&client) else { return };
        if queue.is_listed || !queue.is_ready() {
            return;
        }
        queue.is_listed = true;
        let turns = if queue.is_operator { &mut self.operators } else { &mut self.others };
        let has_credit = queue.credit.top_up(turns.round, self.quantum);
        let list = if has_credit { &mut turns.fresh } else { &mut turns.next };
        list.push_back(client);
    }

    fn unlist(&mut self, client: ClientId) {
        if let Some(queue) = self.queues.get_mut(&client)
            && std::mem::take(&mut queue.is_listed)
        {
            let turns = if queue.is_operator { &mut self.operators } else { &mut self.others };
            turns.remove(client);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    const QUANTUM: i64 = 100;

    /// Serves until nothing is left, and returns the clients in the order of their entries. An
    /// entry is its own work.
    fn order(schedule: &mut Schedule<u64>) -> Vec<u64> {
        std::iter::from_fn(|| serve(schedule)).collect()
    }

    fn serve(schedule: &mut Schedule<u64>) -> Option<u64> {
        let (client, work) = schedule.turn()?;
        let work = *work;
        schedule.spend(client, work, true);
        Some(client.0)
    }

    fn schedule(clients: u64) -> Schedule<u64> {
        let mut schedule = Schedule::new(QUANTUM);
        (0..clients).for_each(|client| schedule.add(ClientId(client), None));
        schedule
    }

    fn push(schedule: &mut Schedule<u64>, client: u64, work: u64, times: usize) {
        (0..times).for_each(|_| schedule.push(ClientId(client), work));
    }

    #[test]
    fn clients_take_turns_of_a_quantum() {
        let mut schedule = schedule(2);
        push(&mut schedule, 0, 50, 5);
        push(&mut schedule, 1, 100, 2);
        assert_eq!(order(&mut schedule), [0, 1, 0, 0, 1, 0, 0]);
        assert!(schedule.is_idle());
    }

    #[test]
    fn client_in_debt_sits_rounds_out() {
        let mut schedule = schedule(2);
        push(&mut schedule, 0, 400, 2);
        push(&mut schedule, 1, 50, 12);
        let order = order(&mut schedule);
        assert_eq!(order[0], 0);
        assert_eq!(order.iter().rposition(|client| *client == 0), Some(8), "{order:?}");
    }

    #[test]
    fn newcomer_does_not_wait_for_the_quanta_of_others() {
        let mut schedule = schedule(2);
        (0..2).for_each(|client| push(&mut schedule, client, 1, 1));
        order(&mut schedule);
        (0..2).for_each(|client| push(&mut schedule, client, 1, 1));
        schedule.add(ClientId(2), None);
        push(&mut schedule, 2, 1, 2);
        // The others go on with short queues, which are never empty at the same time.
        let served: Vec<_> = (0..4)
            .filter_map(|turn| {
                let client = serve(&mut schedule);
                push(&mut schedule, turn % 2, 1, 1);
                client
            })
            .collect();
        assert!(served.contains(&2), "{served:?}");
    }

    #[test]
    fn client_that_becomes_ready_goes_before_long_queues() {
        let mut schedule = schedule(21);
        (0..20).for_each(|client| push(&mut schedule, client, 10, 100));
        push(&mut schedule, 20, 10, 1);
        while serve(&mut schedule) != Some(20) {}
        serve(&mut schedule);
        push(&mut schedule, 20, 10, 1);
        assert_eq!(serve(&mut schedule), Some(20));
        // Beyond its quantum, it waits like all others.
        push(&mut schedule, 20, 10, 20);
        let first: Vec<_> = (0..20).map(|_| serve(&mut schedule)).collect();
        assert!(first.iter().filter(|client| **client == Some(20)).count() < 10, "{first:?}");
    }

    #[test]
    fn clients_of_one_process_go_first_for_one_quantum_together() {
        let mut schedule = Schedule::new(QUANTUM);
        (0..20).for_each(|client| schedule.add(ClientId(client), Some(7)));
        schedule.add(ClientId(20), Some(8));
        (0..=20).for_each(|client| push(&mut schedule, client, 1, 1));
        order(&mut schedule);
        // All have credit again, since nothing was left to do.
        (0..=20).for_each(|client| push(&mut schedule, client, 10 * QUANTUM as u64, 1));
        assert_eq!(serve(&mut schedule), Some(0));
        assert_eq!(
            serve(&mut schedule),
            Some(20),
            "before nineteen connections of another process"
        );
        assert_eq!(order(&mut schedule), (1..20).collect::<Vec<_>>());
        (0..=20).for_each(|client| schedule.remove(ClientId(client)));
        assert!(schedule.processes.is_empty());
    }

    #[test]
    fn operators_get_a_quarter_while_they_are_ready() {
        let mut schedule = schedule(11);
        schedule.make_operator(ClientId(10));
        (0..10).for_each(|client| push(&mut schedule, client, 10, 400));
        push(&mut schedule, 10, 10, 400);
        let order: Vec<_> = (0..1200).filter_map(|_| serve(&mut schedule)).collect();
        let operators = order.iter().filter(|client| **client == 10).count();
        assert!((290..=310).contains(&operators), "{operators}");
    }

    #[test]
    fn blocked_and_discarded_clients_give_up_their_turns() {
        let mut schedule = schedule(2);
        push(&mut schedule, 0, 10, 3);
        push(&mut schedule, 1, 10, 2);
        schedule.set_blocked(ClientId(0), true);
        assert_eq!(order(&mut schedule), [1, 1]);
        assert!(schedule.is_idle() && !schedule.is_empty(ClientId(0)));
        schedule.set_blocked(ClientId(0), false);
        push(&mut schedule, 0, 7, 1);
        schedule.discard(ClientId(0), |work| *work == 7);
        assert_eq!(order(&mut schedule), [0]);
        push(&mut schedule, 1, 10, 1);
        schedule.remove(ClientId(1));
        assert!(schedule.is_idle() && schedule.turn().is_none());
    }

    proptest! {
        #[test]
        fn ready_clients_get_equal_shares(works in prop::collection::vec(1_u64..500, 2..8)) {
            let clients = works.len() as u64;
            let mut schedule = schedule(clients);
            for (client, work) in works.iter().enumerate() {
                push(&mut schedule, client as u64, *work, 2_000 / *work as usize + 1);
            }
            let mut done = vec![0; works.len()];
            while (0..clients).all(|client| schedule.is_ready(ClientId(client))) {
                let client = serve(&mut schedule).unwrap() as usize;
                done[client] += works[client];
                let (least, most) = (done.iter().min().unwrap(), done.iter().max().unwrap());
                let bound = QUANTUM as u64 + 2 * works.iter().max().unwrap();
                prop_assert!(most - least <= bound, "{done:?}");
            }
        }
    }
}
