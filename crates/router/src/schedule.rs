//! The schedule: which client's frames are handled next.
//!
//! Each client has a queue, and processes that have clients whose queues are not empty take turns:
//! deficit round-robin over counted work. In a round, every process may cause work up to `QUANTUM`.
//! A frame is indivisible, so a process may exceed its quantum by one frame; it then sits out the
//! rounds that the excess is worth. A process that becomes ready within its quantum goes before
//! those whose turn has only come, so that one with little to do never waits for a round. The
//! clients of one process share its turns in the same way, in rounds of their own. So many
//! connections gain nothing, and a new one takes over the debt of those before it. A client whose
//! process is not known counts as a process.
//!
//! Operators are a group of their own, for which a quarter of the work is reserved while any of
//! them is ready. There each client counts as a process.
//!
//! The schedule is pure: the caller handles the entries, and tells how much work they were.

use super::{capacity::shrink, interface::ClientId};
use rustc_hash::FxHashMap;
use std::collections::VecDeque;

/// The work of one process in one round. A unit is about a nanosecond.
pub(crate) const QUANTUM: i64 = 20_000;

/// The largest debt that a process or a client has to sit out, in quanta.
const DEBT_QUANTA_MAX: i64 = 1_000;

/// The work of the others for each unit of the operators' work, while both are ready.
const OTHERS_SHARE: i64 = 3;

/// The queues of all clients, and whose turn it is.
#[derive(Debug)]
pub struct Schedule<T> {
    quantum: i64,
    queues: FxHashMap<ClientId, Queue<T>>,
    others: Group,
    operators: Group,
    /// The work of the others that the operators may catch up with.
    balance: i64,
}

/// A process's id.
type Pid = u32;

/// Those who take turns with others: a process, or a client that counts as one.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
enum Party {
    Process(Pid),
    Client(ClientId),
}

/// The rest of a party's or a client's work in a round.
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
    party: Party,
    is_operator: bool,
    /// Whether the entries have to wait.
    is_blocked: bool,
    /// Whether the client is in one of the lists of its party.
    is_listed: bool,
}

/// The turns of those who are ready: of parties, or of the clients of one party.
#[derive(Debug)]
struct Turns<K> {
    round: u64,
    /// Those that became ready within their quantum.
    fresh: VecDeque<K>,
    /// Those whose turn in this round is still to come.
    turns: VecDeque<K>,
    /// Those that wait for the next round.
    next: VecDeque<K>,
}

/// The parties of a group.
#[derive(Debug, Default)]
struct Group {
    turns: Turns<Party>,
    parties: FxHashMap<Party, Member>,
}

/// A party of a group.
#[derive(Debug)]
struct Member {
    credit: Credit,
    /// The number of its clients.
    count: usize,
    /// Those of them that are ready. While there are any, the party is in one of the group's lists.
    clients: Turns<ClientId>,
}

impl<K> Default for Turns<K> {
    fn default() -> Self {
        let (fresh, turns, next) = Default::default();
        Self { round: 0, fresh, turns, next }
    }
}

impl<K: Copy + PartialEq> Turns<K> {
    fn is_empty(&self) -> bool {
        self.fresh.is_empty() && self.turns.is_empty() && self.next.is_empty()
    }

    /// Returns whose turn it is. Begins the next round if this one is over.
    fn first(&mut self) -> Option<K> {
        if self.fresh.is_empty() && self.turns.is_empty() {
            std::mem::swap(&mut self.turns, &mut self.next);
            self.round += 1;
        }
        self.fresh.front().or_else(|| self.turns.front()).copied()
    }

    /// Adds one that has become ready.
    fn push(&mut self, key: K, has_credit: bool) {
        if has_credit { self.fresh.push_back(key) } else { self.next.push_back(key) }
    }

    /// Removes the one whose turn it is.
    fn pop_first(&mut self) {
        if self.fresh.pop_front().is_none() {
            self.turns.pop_front();
        }
    }

    /// Makes the one whose turn it is wait for the next round.
    fn postpone_first(&mut self) {
        let first = self.first();
        self.pop_first();
        self.next.extend(first);
    }

    fn remove(&mut self, key: K) {
        if self.first() == Some(key) {
            return self.pop_first();
        }
        for list in [&mut self.fresh, &mut self.turns, &mut self.next] {
            list.retain(|other| *other != key);
        }
    }

    /// Notes what is left of one: it is removed if it is not ready, and waits for the next round if
    /// its turn has used up its credit.
    fn end_turn(&mut self, key: K, is_ready: bool, credit: &Credit) {
        if !is_ready {
            self.remove(key);
        } else if credit.left <= 0 && self.first() == Some(key) {
            self.postpone_first();
        }
    }
}

impl Group {
    /// Adds a client. Of a new party, the first entry is handled in this round, and all others from
    /// the next round on, so that many short connections gain nothing.
    fn add(&mut self, party: Party) -> Credit {
        let round = self.turns.round;
        let member = self.parties.entry(party).or_insert_with(|| Member {
            credit: Credit { left: 1, round },
            count: 0,
            clients: Turns::default(),
        });
        member.count += 1;
        Credit { left: 1, round: member.clients.round }
    }

    /// Removes a client that is not listed.
    fn remove(&mut self, party: Party) {
        if let Some(member) = self.parties.get_mut(&party) {
            member.count -= 1;
            if member.count == 0 {
                self.parties.remove(&party);
            }
        }
    }

    /// Lists a client that has become ready.
    fn list(&mut self, party: Party, client: ClientId, credit: &mut Credit, quantum: i64) {
        let Some(member) = self.parties.get_mut(&party) else { return };
        if member.clients.is_empty() {
            self.turns.push(party, member.credit.top_up(self.turns.round, quantum));
        }
        member.clients.push(client, credit.top_up(member.clients.round, quantum));
    }

    fn unlist(&mut self, party: Party, client: ClientId) {
        let Some(member) = self.parties.get_mut(&party) else { return };
        member.clients.remove(client);
        if member.clients.is_empty() {
            self.turns.remove(party);
        }
    }

    /// Returns the party whose turn it is.
    fn first(&mut self, quantum: i64) -> Option<&mut Member> {
        let party = loop {
            let party = self.turns.first()?;
            let member = self.parties.get_mut(&party).expect("only known parties are listed");
            if member.credit.top_up(self.turns.round, quantum) {
                break party;
            }
            self.turns.postpone_first();
        };
        self.parties.get_mut(&party)
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
            others: Group::default(),
            operators: Group::default(),
            balance: 0,
        }
    }

    /// Adds a client of a process, with an empty queue.
    pub fn add(&mut self, client: ClientId, process: Option<Pid>) {
        let party = process.map_or(Party::Client(client), Party::Process);
        let queue = Queue {
            entries: VecDeque::new(),
            credit: self.others.add(party),
            party,
            is_operator: false,
            is_blocked: false,
            is_listed: false,
        };
        self.queues.insert(client, queue);
    }

    /// Removes a client and its queue.
    pub fn remove(&mut self, client: ClientId) {
        self.unlist(client);
        if let Some(queue) = self.queues.remove(&client) {
            self.group_of(queue.is_operator).remove(queue.party);
        }
    }

    /// Moves a client to the operators' group.
    pub fn make_operator(&mut self, client: ClientId) {
        self.unlist(client);
        if let Some(queue) = self.queues.get_mut(&client)
            && !std::mem::replace(&mut queue.is_operator, true)
        {
            self.others.remove(queue.party);
            queue.party = Party::Client(client);
            let left = queue.credit.left;
            queue.credit = Credit { left, ..self.operators.add(queue.party) };
        }
        self.list(client);
    }

    fn group_of(&mut self, is_operator: bool) -> &mut Group {
        if is_operator { &mut self.operators } else { &mut self.others }
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
            shrink(&mut queue.entries);
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
        self.others.turns.is_empty() && self.operators.turns.is_empty()
    }

    /// Returns the client whose turn it is, and its oldest entry. After the entry, or a part of
    /// it, is handled, the caller has to [`spend`](Self::spend) its work.
    pub fn turn(&mut self) -> Option<(ClientId, &mut T)> {
        let is_operator = self.operators_first();
        let group = if is_operator { &mut self.operators } else { &mut self.others };
        let clients = &mut group.first(self.quantum)?.clients;
        let client = loop {
            let client = clients.first().expect("a listed party has a listed client");
            let queue = self.queues.get_mut(&client).expect("only known clients are listed");
            if queue.credit.top_up(clients.round, self.quantum) {
                break client;
            }
            clients.postpone_first();
        };
        let queue = self.queues.get_mut(&client)?;
        Some((client, queue.entries.front_mut().expect("a listed client has an entry")))
    }

    fn operators_first(&self) -> bool {
        let are_others_idle = self.others.turns.is_empty();
        !self.operators.turns.is_empty() && (self.balance >= 0 || are_others_idle)
    }

    /// Counts the work of the entry that [`turn`](Self::turn) returned, and removes the entry if it
    /// `is_done`. Returns the removed entry.
    pub fn spend(&mut self, client: ClientId, work: u64, is_done: bool) -> Option<T> {
        let work = i64::try_from(work).unwrap_or(i64::MAX).max(1);
        let debt_max = DEBT_QUANTA_MAX * self.quantum;
        let queue = self.queues.get_mut(&client)?;
        queue.credit.spend(work, debt_max);
        let (change, group) = match queue.is_operator {
            true => (work.saturating_mul(-OTHERS_SHARE), &mut self.operators),
            false => (work, &mut self.others),
        };
        let bound = OTHERS_SHARE * self.quantum;
        self.balance = self.balance.saturating_add(change).clamp(-debt_max, bound);
        let done = if is_done { queue.entries.pop_front() } else { None };
        shrink(&mut queue.entries);
        let Some(member) = group.parties.get_mut(&queue.party) else { return done };
        member.credit.spend(work, debt_max);
        // Handling the entry may have blocked the client, which removed it from the lists.
        if queue.is_listed {
            queue.is_listed = queue.is_ready();
            member.clients.end_turn(client, queue.is_listed, &queue.credit);
            group.turns.end_turn(queue.party, !member.clients.is_empty(), &member.credit);
        }
        done
    }

    fn list(&mut self, client: ClientId) {
        let Some(queue) = self.queues.get_mut(&client) else { return };
        if queue.is_listed || !queue.is_ready() {
            return;
        }
        queue.is_listed = true;
        let group = if queue.is_operator { &mut self.operators } else { &mut self.others };
        group.list(queue.party, client, &mut queue.credit, self.quantum);
    }

    fn unlist(&mut self, client: ClientId) {
        if let Some(queue) = self.queues.get_mut(&client)
            && std::mem::take(&mut queue.is_listed)
        {
            let (party, is_operator) = (queue.party, queue.is_operator);
            self.group_of(is_operator).unlist(party, client);
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
    fn queue_that_was_long_keeps_no_capacity() {
        let mut schedule = schedule(2);
        (0..2).for_each(|client| push(&mut schedule, client, 1, 4_000));
        schedule.discard(ClientId(0), |_| false);
        (1..4_000).for_each(|_| assert_eq!(serve(&mut schedule), Some(1)));
        assert!(schedule.queues.values().all(|queue| queue.entries.capacity() <= 64));
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
        assert!(schedule.others.parties.is_empty());
    }

    #[test]
    fn new_client_of_a_process_takes_over_its_debt() {
        let mut schedule = Schedule::new(QUANTUM);
        schedule.add(ClientId(0), Some(8));
        push(&mut schedule, 0, 10, 100);
        for client in 1..=20 {
            schedule.add(ClientId(client), Some(7));
            push(&mut schedule, client, 10 * QUANTUM as u64, 1);
        }
        let order = order(&mut schedule);
        assert!(order.iter().rposition(|client| *client == 0) < Some(103), "{order:?}");
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
        fn ready_clients_get_equal_shares(
            works in prop::collection::vec(1_u64..500, 2..8),
            process in prop::option::of(Just(7)),
        ) {
            let clients = works.len() as u64;
            let mut schedule = Schedule::new(QUANTUM);
            (0..clients).for_each(|client| schedule.add(ClientId(client), process));
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
