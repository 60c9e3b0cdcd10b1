//! Accounts: who holds how much of what is limited.
//!
//! Whatever clients take of a common limit is charged to a principal: a name with its companions.
//! All operators have one name. All guests, and all names that are forgotten, are one principal:
//! the nameless.
//!
//! An eighth of each limit is a reserve for small holders. A principal may hold more if it then
//! holds at most half of what the others leave of the rest, rounded up, or is still a small holder.
//! So neither one principal nor twenty can use up what others need; some sixty together can.

use super::keys::{AgentKey, AgentSlot};
use slotmap::{Key as _, SecondaryMap};
use std::collections::{BTreeMap, BTreeSet, btree_map::Entry};

/// The classes of what is charged.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Class {
    /// Open streams, charged to their senders.
    Streams,
    /// Bytes of queued messages and questions, charged to their senders, and of what waits for an
    /// agent: its replays, notices and answers.
    Memory,
    /// Bytes of subscriptions.
    Subscriptions,
    /// Connections that have completed the handshake.
    Members,
    /// The store's unhandled work, in writes of a row.
    Store,
    /// Bytes of at-least-once messages, which the store holds, charged to their senders.
    Mail,
    /// The part of the memory that messages to several recipients take.
    Copies,
}

/// A limit divided by this number is its reserve, which is left to small holders.
const PER_RESERVE: usize = 8;

/// A limit divided by this number is what a small holder holds at most.
const PER_SMALL: usize = 1_024;

const CLASSES: usize = Class::Copies as usize + 1;

/// An amount of each class.
type Amounts = [usize; CLASSES];

/// A principal: the agent with a known name, or `None` for the nameless.
pub(super) type Principal = Option<AgentKey>;

/// How much each principal holds of each class.
#[derive(Debug, Default)]
pub(super) struct Accounts {
    named: SecondaryMap<AgentSlot, Amounts>,
    nameless: Amounts,
    total: Amounts,
}

impl Accounts {
    /// Makes an agent a principal of its own. Nothing may be charged to it yet.
    pub(super) fn open(&mut self, agent: AgentKey) {
        self.named.insert(agent.0, Amounts::default());
    }

    /// Charges the nameless with what an agent holds, because its name is forgotten.
    pub(super) fn close(&mut self, agent: AgentKey) {
        let held = self.named.remove(agent.0).unwrap_or_default();
        for (sum, amount) in self.nameless.iter_mut().zip(held) {
            *sum += amount;
        }
    }

    /// Returns the principal that an agent belongs to.
    pub(super) fn principal(&self, agent: AgentKey) -> Principal {
        self.named.contains_key(agent.0).then_some(agent)
    }

    /// Returns the key under which others list what an agent's principal holds: the agent's own, or
    /// one for all nameless.
    pub(super) fn listed_as(&self, agent: AgentKey) -> AgentKey {
        self.principal(agent).unwrap_or_else(nameless)
    }

    pub(super) fn charge(&mut self, class: Class, agent: AgentKey, amount: usize) {
        self.total[class as usize] += amount;
        self.amounts_mut(agent)[class as usize] += amount;
    }

    pub(super) fn release(&mut self, class: Class, agent: AgentKey, amount: usize) {
        self.total[class as usize] -= amount;
        self.amounts_mut(agent)[class as usize] -= amount;
    }

    fn amounts_mut(&mut self, agent: AgentKey) -> &mut Amounts {
        self.named.get_mut(agent.0).unwrap_or(&mut self.nameless)
    }

    /// Returns how much all principals hold of a class.
    pub(super) const fn total(&self, class: Class) -> usize {
        self.total[class as usize]
    }

    /// Returns how much a principal holds.
    pub(super) fn held(&self, class: Class, principal: Principal) -> usize {
        let named = principal.and_then(|agent| self.named.get(agent.0));
        named.unwrap_or(&self.nameless)[class as usize]
    }

    /// Returns a principal's share of `most`, without what is left to small holders.
    pub(super) fn share(&self, class: Class, principal: Principal, most: usize) -> usize {
        half_of_left(self.total(class) - self.held(class, principal), most)
    }

    /// Returns by how much a principal would exceed its share of `most` if it held `more`.
    pub(super) fn excess(
        &self,
        class: Class,
        principal: Principal,
        more: usize,
        most: usize,
    ) -> usize {
        excess(self.held(class, principal), self.total(class), more, most)
    }
}

/// The key under which the nameless are listed. It finds no agent.
pub(super) fn nameless() -> AgentKey {
    AgentKey(AgentSlot::null())
}

/// Returns by how much a principal that holds `own` of `total` would exceed its share of `most` if
/// it held `more`. A small holder, and a principal that holds nothing and wants one thing, only
/// need what is left.
pub(super) fn excess(own: usize, total: usize, more: usize, most: usize) -> usize {
    let (others, wanted) = (total - own, own + more);
    let beyond_half = wanted.saturating_sub(half_of_left(others, most));
    let beyond_small = if own == 0 { 0 } else { wanted.saturating_sub(most / PER_SMALL) };
    beyond_half.min(beyond_small.max((others + wanted).saturating_sub(most)))
}

/// Returns half of what others leave of `most` without its reserve, rounded up.
const fn half_of_left(others: usize, most: usize) -> usize {
    (most - most / PER_RESERVE).saturating_sub(others).div_ceil(2)
}

/// Whether a process, or another origin of what is counted, that has `own` of `total` may have one
/// more of at most `most`. There are no shares while there are less than half of `most`.
pub(super) fn may_have_another(own: usize, total: usize, most: usize) -> bool {
    total < most / 2 || excess(own, total, 1, most) == 0
}

/// Returns the size class of a number of bytes. Within a class, a number is less than twice
/// another.
pub(super) const fn size_class(bytes: usize) -> usize {
    (usize::BITS - bytes.leading_zeros()) as usize
}

/// How many things there are of each kind.
#[derive(Debug)]
pub(super) struct Counts<K>(BTreeMap<K, usize>);

impl<K> Default for Counts<K> {
    fn default() -> Self {
        Self(BTreeMap::new())
    }
}

impl<K: Ord> Counts<K> {
    pub(super) fn add(&mut self, kind: K) {
        *self.0.entry(kind).or_default() += 1;
    }

    pub(super) fn remove(&mut self, kind: K) {
        if let Entry::Occupied(mut count) = self.0.entry(kind) {
            *count.get_mut() -= 1;
            if *count.get() == 0 {
                count.remove();
            }
        }
    }

    pub(super) fn of(&self, kind: &K) -> usize {
        self.0.get(kind).copied().unwrap_or(0)
    }
}

/// Principals by how much they hold.
#[derive(Debug)]
pub(super) struct Holders<K>(BTreeSet<(usize, K)>);

impl<K> Default for Holders<K> {
    fn default() -> Self {
        Self(BTreeSet::new())
    }
}

impl<K: Copy + Ord> Holders<K> {
    /// Sets how much a principal holds. `held` is what it is listed with, and is updated.
    pub(super) fn hold(&mut self, holder: K, held: &mut usize, now: usize) {
        if *held == now {
            return;
        }
        if *held > 0 {
            self.0.remove(&(*held, holder));
        }
        if now > 0 {
            self.0.insert((now, holder));
        }
        *held = now;
    }

    /// Returns how much the largest holder holds, and the holder.
    pub(super) fn largest(&self) -> Option<(usize, K)> {
        self.0.last().copied()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use slotmap::SlotMap;

    impl Accounts {
        /// Returns how much each principal holds of each class.
        pub(crate) fn all(&self) -> Vec<((usize, Principal), usize)> {
            let named = self.named.iter().map(|(slot, held)| (Some(AgentKey(slot)), held));
            let all = named.chain([(None, &self.nameless)]);
            let classes = |(holder, held): (Principal, &Amounts)| {
                (0..CLASSES).map(|class| ((class, holder), held[class])).collect::<Vec<_>>()
            };
            all.flat_map(classes).collect()
        }
    }

    impl<K> Counts<K> {
        pub(crate) fn all(&self) -> impl Iterator<Item = (&K, &usize)> {
            self.0.iter()
        }
    }

    impl<K: Copy + Ord> Holders<K> {
        pub(crate) fn all(&self) -> impl Iterator<Item = (usize, K)> {
            self.0.iter().copied()
        }
    }

    const STREAMS: Class = Class::Streams;

    /// Returns accounts with as many agents of known names, and their keys.
    fn accounts<const N: usize>() -> (Accounts, [AgentKey; N]) {
        let (mut accounts, mut slots) = (Accounts::default(), SlotMap::<AgentSlot, ()>::default());
        let agents = [(); N].map(|()| AgentKey(slots.insert(())));
        agents.iter().for_each(|agent| accounts.open(*agent));
        (accounts, agents)
    }

    /// Charges an agent with single things until its share of `most` is reached; returns how many.
    fn fill(accounts: &mut Accounts, agent: AgentKey, most: usize) -> usize {
        let before = accounts.held(STREAMS, Some(agent));
        while accounts.excess(STREAMS, Some(agent), 1, most) == 0 {
            accounts.charge(STREAMS, agent, 1);
        }
        accounts.held(STREAMS, Some(agent)) - before
    }

    #[test]
    fn each_principal_gets_half_of_what_is_left() {
        let (mut accounts, agents) = accounts::<6>();
        assert_eq!(agents.map(|agent| fill(&mut accounts, agent, 22)), [10, 5, 3, 1, 1, 1]);
        accounts.release(STREAMS, agents[0], 10);
        assert_eq!(fill(&mut accounts, agents[5], 22), 4);
        assert_eq!(accounts.excess(STREAMS, Some(agents[0]), 8, 22), 1);
    }

    #[test]
    fn large_holders_together_leave_a_reserve_to_small_ones() {
        const MOST: usize = 8_192;
        let (mut accounts, agents) = accounts::<60>();
        let (large, small) = agents.split_at(30);
        for agent in large {
            fill(&mut accounts, *agent, MOST);
        }
        let held = accounts.total(STREAMS);
        assert!((MOST * 7 / 8..=MOST * 7 / 8 + large.len() * 8).contains(&held), "{held}");
        for agent in small {
            assert_eq!(fill(&mut accounts, *agent, MOST), 8);
            assert_eq!(accounts.excess(STREAMS, Some(*agent), 1, MOST), 1, "one is too many");
        }
    }

    #[test]
    fn principal_without_anything_may_hold_one_thing_that_fits() {
        let (mut accounts, [one, other]) = accounts();
        assert_eq!(accounts.excess(STREAMS, Some(one), 100, 100), 0);
        assert_eq!(accounts.excess(STREAMS, Some(one), 101, 100), 1);
        accounts.charge(STREAMS, one, 60);
        assert_eq!(accounts.excess(STREAMS, Some(one), 1, 100), 17);
        assert_eq!(accounts.excess(STREAMS, Some(other), 40, 100), 0);
        assert_eq!(accounts.excess(STREAMS, Some(other), 41, 100), 1);
    }

    #[test]
    fn guests_and_forgotten_names_are_one_principal() {
        let (mut accounts, [guest, other, named]) = accounts();
        accounts.close(guest);
        accounts.charge(STREAMS, guest, 3);
        accounts.charge(STREAMS, other, 2);
        accounts.charge(STREAMS, named, 4);
        let held = |accounts: &Accounts| {
            [None, Some(other), Some(named)].map(|principal| accounts.held(STREAMS, principal))
        };
        assert_eq!(held(&accounts), [3, 2, 4]);
        accounts.close(other);
        assert_eq!(held(&accounts), [5, 5, 4]);
        assert_eq!((accounts.principal(other), accounts.principal(named)), (None, Some(named)));
        accounts.release(STREAMS, other, 2);
        assert_eq!([guest, other].map(|agent| accounts.held(STREAMS, Some(agent))), [3, 3]);
        assert_eq!(accounts.total(STREAMS), 7);
    }

    #[test]
    fn largest_holder_is_known_after_every_change() {
        let (mut holders, mut held) = (Holders::default(), [0; 3]);
        for (holder, now, largest) in [
            (1, 5, Some((5, 1))),
            (2, 7, Some((7, 2))),
            (0, 6, Some((7, 2))),
            (2, 0, Some((6, 0))),
            (0, 6, Some((6, 0))),
            (0, 1, Some((5, 1))),
            (1, 0, Some((1, 0))),
            (0, 0, None),
        ] {
            holders.hold(holder, &mut held[holder], now);
            assert_eq!(holders.largest(), largest, "{holder} holds {now}");
        }
        assert!(held == [0; 3] && holders.all().next().is_none());
    }

    #[test]
    fn numbers_of_a_size_class_are_within_a_factor_of_two() {
        assert_eq!([0, 1, 2, 3, 4, 7, 8].map(size_class), [0, 1, 2, 2, 3, 3, 4]);
    }
}
