//! Counts of the messages between the agent and each peer. They detect a loop: two agents that
//! answer each other without a person's prompt and without work.

use crate::bounded;
use protocol::payload::LoopCount;
use std::collections::VecDeque;

/// How many peers have a count. Beyond that, the peer without a message for the longest time loses
/// its count, so its messages go on.
const PEERS_MAX: usize = 256;

/// The counts since a person's last prompt or the last use of a tool.
#[derive(Debug, Default)]
pub(super) struct LoopCounts {
    /// The counted peers, ordered by their last message.
    peers: VecDeque<Peer>,
    /// The agent's work number. It changes with each prompt and each use of a tool.
    work: u32,
}

#[derive(Debug)]
struct Peer {
    /// The name in lower case.
    name: String,
    /// The number of messages in both directions.
    count: u32,
    /// The peer's work number in its last message.
    work: Option<u32>,
    /// Whether the agent was notified that messages wait.
    is_told: bool,
}

impl LoopCounts {
    /// Returns counts that begin with this work number. It should differ between runs.
    pub(super) fn new(work: u32) -> Self {
        Self { peers: VecDeque::new(), work }
    }

    /// Admits and counts a message from a peer, unless `max` messages have already passed.
    pub(super) fn admit(&mut self, name: &str, max: u32) -> bool {
        let peer = self.peer(name);
        let passes = peer.count < max;
        peer.count = peer.count.saturating_add(passes.into());
        passes
    }

    /// Counts a message from the agent to a peer. Returns the new count.
    pub(super) fn count_sent(&mut self, name: &str) -> LoopCount {
        let work = self.work;
        let peer = self.peer(name);
        peer.count = peer.count.saturating_add(1);
        LoopCount { hops: peer.count, work }
    }

    /// Lowers a peer's count to the count in its message, if the peer has worked, or got a prompt
    /// from its person, since its previous message. Otherwise a lower count only means that
    /// messages have crossed.
    pub(super) fn learn(&mut self, name: &str, LoopCount { hops, work }: LoopCount) {
        let peer = self.peer(name);
        if peer.work.replace(work) == Some(work) {
            return;
        }
        let before = hops.saturating_sub(1);
        peer.is_told &= peer.count <= before;
        peer.count = peer.count.min(before);
    }

    /// Whether to notify the agent that messages with a peer wait: once until the count is lowered.
    pub(super) fn tell(&mut self, name: &str) -> bool {
        !std::mem::replace(&mut self.peer(name).is_told, true)
    }

    /// Forgets all counts, after a prompt of the agent's person or the use of a tool.
    pub(super) fn reset(&mut self) {
        self.work = self.work.wrapping_add(1);
        for peer in &mut self.peers {
            (peer.count, peer.is_told) = (0, false);
        }
    }

    /// Returns a peer, and moves it to the end of the order.
    fn peer(&mut self, name: &str) -> &mut Peer {
        let name = name.to_ascii_lowercase();
        let known = self.peers.iter().position(|peer| peer.name == name);
        let peer = known.and_then(|at| self.peers.remove(at));
        let peer = peer.unwrap_or(Peer { name, count: 0, work: None, is_told: false });
        bounded::push(&mut self.peers, PEERS_MAX, peer);
        self.peers.back_mut().expect("a peer was added")
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn messages_in_both_directions_are_counted_for_each_peer() {
        let mut loops = LoopCounts::default();
        assert!(loops.admit("Bob", 3));
        assert_eq!(loops.count_sent("bob").hops, 2);
        assert!(loops.admit("BOB", 3));
        assert!(!loops.admit("Bob", 3), "the budget is used up");
        assert!(!loops.admit("Bob", 3), "a message that waits is not counted");
        assert!(loops.admit("Carl", 3), "another peer has its own count");
        assert_eq!(loops.count_sent("Bob").hops, 4);
        loops.reset();
        assert!(loops.admit("Bob", 3));
    }

    #[test]
    fn hops_never_raise_a_count() {
        for (hops, left) in [(0, 3), (1, 3), (2, 2), (3, 1), (4, 0), (u32::MAX, 0)] {
            let mut loops = LoopCounts::default();
            while loops.admit("Bob", 3) {}
            loops.learn("Bob", LoopCount { hops, work: 0 });
            let admitted = (0..9).filter(|_| loops.admit("Bob", 3)).count();
            assert_eq!(admitted, left, "hops {hops}");
        }
    }

    /// A count includes the messages of both agents, even if each sends one before it gets the
    /// other's.
    #[test]
    fn crossing_messages_do_not_lower_the_count() {
        let mut both = [LoopCounts::new(7), LoopCounts::new(9)];
        for loops in &mut both {
            // The peer's work is not known yet, so it may have worked.
            loops.learn("Other", LoopCount { hops: 1, work: 16 - loops.work });
        }
        for round in 0..5 {
            let sent = both.each_mut().map(|loops| loops.count_sent("Other"));
            for (loops, hops) in both.iter_mut().zip(sent.into_iter().rev()) {
                loops.learn("Other", hops);
                assert!(loops.admit("Other", 10), "round {round}");
            }
        }
        for loops in &mut both {
            assert!(!loops.admit("Other", 10), "ten messages have passed");
        }
    }

    #[test]
    fn agent_is_notified_once_until_the_count_is_lowered() {
        let mut loops = LoopCounts::default();
        while loops.admit("Bob", 3) {}
        assert_eq!([loops.tell("Bob"), loops.tell("bob"), loops.tell("Carl")], [true, false, true]);
        loops.learn("Bob", LoopCount { hops: 9, work: 0 });
        assert!(!loops.tell("Bob"));
        loops.learn("Bob", LoopCount { hops: 1, work: 1 });
        assert!(loops.tell("Bob"));
        loops.reset();
        assert!(loops.tell("Bob"));
    }

    #[test]
    fn peer_without_a_message_for_longest_is_forgotten() {
        let mut loops = LoopCounts::default();
        for name in ["Bob", "Carl"] {
            while loops.admit(name, 1) {}
        }
        for number in 1..PEERS_MAX {
            loops.count_sent(&format!("peer-{number}"));
        }
        assert_eq!(loops.peers.len(), PEERS_MAX);
        assert!(!loops.admit("Carl", 1));
        assert!(loops.admit("Bob", 1));
    }

    proptest! {
        /// Since the last reset, at most `max` messages come from a peer that states its true count
        /// or none, and only a peer's own messages change its count.
        #[test]
        fn budget_is_never_exceeded(
            steps in prop::collection::vec((0_usize..3, 0_u8..12), 0..200),
            max in 1_u32..8,
        ) {
            let mut loops = LoopCounts::default();
            let (mut passed, mut sent) = ([0_u32; 3], [0_u32; 3]);
            for (peer, step) in steps {
                let name = ["Ann", "Bob", "Carl"][peer];
                match step {
                    0 => {
                        loops.reset();
                        (passed, sent) = ([0; 3], [0; 3]);
                    }
                    1..4 => {
                        sent[peer] += 1;
                        prop_assert_eq!(loops.count_sent(name).hops, passed[peer] + sent[peer]);
                    }
                    4 => {
                        let hops = passed[peer] + sent[peer] + 1;
                        loops.learn(name, LoopCount { hops, work: u32::from(step) });
                    }
                    _ => {
                        let passes = loops.admit(name, max);
                        prop_assert_eq!(passes, passed[peer] + sent[peer] < max);
                        passed[peer] += u32::from(passes);
                    }
                }
            }
        }
    }
}
