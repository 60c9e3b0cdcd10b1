//! Dedup windows: the accepted SENDs of each agent, so that a repeated SEND is not accepted again.
//!
//! A window has the agent's latest SENDs, and all older ones with an open delivery. If all windows
//! together have too many SENDs, the windows of the agents that have been away longest shrink
//! first.

use crate::{keys::AgentKey, send_digest::SendDigest};
use protocol::Moment;
use rustc_hash::FxHashMap;
use std::collections::VecDeque;

/// The state of a SEND.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum SendState {
    /// The SEND is queued for all its recipients.
    Complete {
        /// The number of recipients of a broadcast; none for a message to one agent.
        recipients: Option<u64>,
        /// Whether its one recipient was away.
        away: bool,
        /// The message's number in records.
        number: u64,
        /// The change that has to be persisted before the SEND is accepted.
        ticket: u64,
    },
    /// The SEND is queued for some of its recipients. A repeat goes to the others only.
    Partial {
        /// The number of recipients that have the message.
        recipients: u64,
        /// The recipients whose queue had no room.
        left: Vec<AgentKey>,
        /// The message's number in records; 0 if there is none.
        number: u64,
        /// The change that has to be persisted before a repeat is handled.
        ticket: u64,
    },
}

#[derive(Debug)]
struct Record {
    number: u64,
    /// The number of open deliveries.
    open: u32,
    state: SendState,
}

/// An agent's dedup window. A sender that makes its digests collide affects only this window,
/// whose length is bounded.
#[derive(Debug, Default)]
pub(crate) struct DedupWindow {
    records: FxHashMap<SendDigest, Record>,
    recent: VecDeque<(u64, SendDigest)>,
    last_number: u64,
    /// The bytes of the lists of recipients that SENDs have not reached.
    left_bytes: usize,
}

impl SendState {
    /// Returns the bytes of the list of recipients that the SEND has not reached.
    pub(super) fn left_bytes(&self) -> usize {
        match self {
            Self::Complete { .. } => 0,
            Self::Partial { left, .. } => size_of_val(left.as_slice()),
        }
    }
}

impl DedupWindow {
    pub(super) fn state(&self, digest: SendDigest) -> Option<&SendState> {
        self.records.get(&digest).map(|record| &record.state)
    }

    pub(super) fn is_empty(&self) -> bool {
        self.records.is_empty()
    }

    /// Returns the number of the latest SENDs, without the older ones that have an open delivery.
    pub(crate) fn len(&self) -> usize {
        self.recent.len()
    }

    /// Returns the bytes of the lists of recipients that the window's SENDs have not reached.
    pub(crate) const fn left_bytes(&self) -> usize {
        self.left_bytes
    }

    /// Remembers a SEND, or the new state of a remembered one. `opened` deliveries are new.
    pub(super) fn note(&mut self, digest: SendDigest, state: SendState, opened: u32, most: usize) {
        if let Some(record) = self.records.get_mut(&digest) {
            record.open += opened;
            return self.set_state(digest, state);
        }
        self.last_number += 1;
        let number = self.last_number;
        self.left_bytes += state.left_bytes();
        self.records.insert(digest, Record { number, open: opened, state });
        self.recent.push_back((number, digest));
        self.keep_last(most);
    }

    /// Shortens the window to the last `most` SENDs. Older ones are remembered while they have an
    /// open delivery.
    pub(super) fn keep_last(&mut self, most: usize) {
        while self.recent.len() > most
            && let Some((number, old)) = self.recent.pop_front()
        {
            self.forget_if_closed(old, |record| record.number == number);
        }
        if self.recent.capacity() > 4 * most {
            // The window has shrunk, so that its memory can be returned.
            self.recent.shrink_to(2 * most);
            self.records.shrink_to(2 * most);
        }
    }

    /// Replaces the state of a SEND that is remembered.
    pub(super) fn set_state(&mut self, digest: SendDigest, state: SendState) {
        if let Some(record) = self.records.get_mut(&digest) {
            self.left_bytes += state.left_bytes();
            self.left_bytes -= record.state.left_bytes();
            record.state = state;
        }
    }

    /// Notes that a delivery of the SEND is no longer open.
    pub(super) fn close_one(&mut self, digest: SendDigest) {
        let oldest = self.recent.front().map_or(u64::MAX, |(number, _)| *number);
        if let Some(record) = self.records.get_mut(&digest) {
            record.open = record.open.saturating_sub(1);
        }
        self.forget_if_closed(digest, |record| record.number < oldest);
    }

    /// Forgets an at-most-once SEND that reached all its recipients. The next equal SEND is a new
    /// message.
    pub(super) fn forget(&mut self, digest: SendDigest) {
        if let Some(record) = self.records.remove(&digest) {
            self.left_bytes -= record.state.left_bytes();
        }
    }

    fn forget_if_closed(&mut self, digest: SendDigest, also: impl Fn(&Record) -> bool) {
        if self.records.get(&digest).is_some_and(|record| record.open == 0 && also(record)) {
            self.forget(digest);
        }
    }
}

/// All windows' bound divided by this number is what each agent keeps of its window as long as any
/// other has more: two agents for each name that may be known.
const PARTS: usize = 8_192;

/// The length of an agent's dedup window.
#[derive(Debug)]
pub(super) struct Holder {
    pub(super) agent: AgentKey,
    /// The moment at which the agent's name is forgotten, while the agent is away. An earlier
    /// moment means a longer absence.
    pub(super) forget_at: Option<Moment>,
    pub(super) count: usize,
}

/// Reduces the counts so that their sum is at most `most`, and returns the sum.
///
/// The agents that have been away longest lose their SENDs first. Agents that have been away
/// equally long keep equally many, and so do all connected agents. Before any agent keeps less than
/// a [`PARTS`]th of `most`, all others have no more than that. If any SENDs are lost, a 64th of
/// `most` stays free for new SENDs.
pub(super) fn share_out(holders: &mut [Holder], most: usize) -> usize {
    let held = |holders: &[Holder]| holders.iter().map(|holder| holder.count).sum::<usize>();
    let mut excess = match held(holders) {
        all if all > most => all - (most - most / 64),
        all => return all,
    };
    holders.sort_unstable_by_key(|of| (of.forget_at.is_none(), of.forget_at, of.count));
    for least in [most / PARTS, 0] {
        for alike in holders.chunk_by_mut(|left, right| left.forget_at == right.forget_at) {
            let kept = |alike: &[Holder]| alike.iter().map(|of| of.count.min(least)).sum::<usize>();
            let lost = (held(alike) - kept(alike)).min(excess);
            excess -= lost;
            let (mut room, count) = (held(alike) - lost, alike.len());
            for (at, holder) in alike.iter_mut().enumerate() {
                holder.count = holder.count.min(room / (count - at));
                room -= holder.count;
            }
        }
    }
    held(holders)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::keys::AgentSlot;
    use slotmap::SlotMap;

    impl DedupWindow {
        pub(crate) fn summed_left_bytes(&self) -> usize {
            self.records.values().map(|record| record.state.left_bytes()).sum()
        }
    }

    /// Returns how many SENDs each agent keeps. An agent is given by the moment at which its name
    /// is forgotten and its count of SENDs.
    fn shares<const N: usize>(names: [(Option<u64>, usize); N], most: usize) -> [usize; N] {
        let mut agents = SlotMap::<AgentSlot, ()>::default();
        let keys = names.map(|_| AgentKey(agents.insert(())));
        let mut at = 0;
        let mut holders = names.map(|(forget_at, count)| {
            at += 1;
            Holder { agent: keys[at - 1], forget_at: forget_at.map(Moment), count }
        });
        let all = share_out(&mut holders, most);
        assert_eq!(holders.iter().map(|holder| holder.count).sum::<usize>(), all);
        keys.map(|key| holders.iter().find(|holder| holder.agent == key).unwrap().count)
    }

    #[test]
    fn windows_of_agents_away_longest_shrink_first_and_others_equally() {
        for (names, most, kept) in [
            ([(None, 9), (Some(2), 5), (Some(1), 6), (None, 0)], 20, [9, 5, 6, 0]),
            ([(None, 9), (Some(2), 5), (Some(1), 6), (None, 0)], 17, [9, 5, 3, 0]),
            ([(None, 9), (Some(2), 5), (Some(1), 6), (None, 0)], 11, [9, 2, 0, 0]),
            ([(Some(1), 4), (Some(1), 9), (Some(1), 8), (None, 3)], 17, [4, 5, 5, 3]),
            ([(None, 9), (None, 1), (Some(1), 1), (None, 8)], 12, [6, 1, 0, 5]),
            ([(None, 9), (None, 9), (None, 9), (None, 9)], 4, [1, 1, 1, 1]),
        ] {
            assert_eq!(shares(names, most), kept, "{names:?} {most}");
        }
    }

    #[test]
    fn agent_that_is_away_keeps_some_sends_while_another_has_more() {
        let (most, least) = (4 * PARTS, 4);
        assert_eq!(shares([(None, most), (Some(1), 9), (Some(1), 3)], most)[1..], [least, 3]);
        let one_more = [(None, 3 * PARTS), (Some(1), PARTS + 1)];
        assert_eq!(shares(one_more, most), [3 * PARTS, PARTS - most / 64]);
    }

    #[test]
    fn shrinking_leaves_room_for_more() {
        assert_eq!(shares([(None, 6_400), (Some(1), 0)], 6_400), [6_400, 0]);
        assert_eq!(shares([(None, 6_400), (Some(1), 1)], 6_400), [6_300, 0]);
        assert_eq!(shares([(None, 3_201), (Some(1), 3_200)], 6_400), [3_201, 3_099]);
    }

    const COMPLETE: SendState =
        SendState::Complete { recipients: None, away: false, number: 1, ticket: 1 };

    #[test]
    fn last_sends_and_all_open_ones_are_remembered() {
        let mut window = DedupWindow::default();
        let digest = SendDigest::of_number;
        window.note(digest(0), COMPLETE, 1, 3);
        for number in 1..5 {
            window.note(digest(number), COMPLETE, 1, 3);
            window.close_one(digest(number));
        }
        assert!(window.state(digest(0)).is_some(), "open");
        assert!(window.state(digest(1)).is_none(), "over, and not among the last 3");
        assert!((2..5).all(|number| window.state(digest(number)).is_some()));
        window.close_one(digest(0));
        assert!(window.state(digest(0)).is_none());
        assert_eq!(window.records.len(), 3);
    }

    #[test]
    fn shrunk_window_returns_its_memory() {
        let mut window = DedupWindow::default();
        for number in 0..1_000 {
            window.note(SendDigest::of_number(number), COMPLETE, 0, 1_000);
        }
        window.keep_last(10);
        assert_eq!((window.len(), window.records.len()), (10, 10));
        assert!((990..1_000).all(|last| window.state(SendDigest::of_number(last)).is_some()));
        assert!(window.recent.capacity() < 100 && window.records.capacity() < 100);
    }
}
