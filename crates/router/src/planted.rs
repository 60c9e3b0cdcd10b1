//! Bugs planted on purpose, each of which the simulation has to find.
//!
//! The router calls the functions of [`Planted`] wherever a bug can be planted. Without a planted
//! bug, each function returns the correct value.

use super::keys::{MessageKey, StreamKey};
use protocol::Moment;
use std::collections::{BTreeSet, VecDeque};

/// A planted bug.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Bug {
    /// Two messages of a stream are swapped.
    SwappedOrder,
    /// A message in flight is forgotten when its connection ends.
    LostRedelivery,
    /// A message is dropped without a NACK if the connection ends before the message is written.
    SilentDrop,
    /// The first missed message is not replayed.
    LostReplay,
    /// A message is accepted before it is persisted.
    AcceptedEarly,
    /// Senders are told of outcomes that are not persisted.
    ToldEarly,
    /// Reserved numbers of a stream are used again after a crash.
    ReusedNumbers,
    /// The sequence numbers of a closed stream begin again at 1.
    ForgottenFloors,
    /// A queue exceeds its bounds.
    CrowdedQueue,
    /// A name in use is assigned to a second connection.
    TwoOwners,
    /// The dedup windows are empty after a crash.
    ForgottenDoubles,
    /// A guest that returns with its key is another one.
    ForgottenGuests,
    /// Notices that wait for their senders are lost in a crash.
    ForgottenAnswers,
    /// Messages become dead letters after too few failures.
    NoPatience,
    /// Messages expire while they have time to live left.
    ShortLives,
    /// Redelivered messages state that they are the first attempt.
    FirstAttempts,
    /// A connection's last frame overtakes the frame before it.
    #[cfg(test)]
    SwappedFrames,
    /// The client library forgets what was received when its connection ends.
    #[cfg(test)]
    ForgetfulLibrary,
}

/// The bug that a test planted in this router, if any.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Planted {
    #[cfg(test)]
    bug: Option<Bug>,
}

impl Planted {
    #[cfg(test)]
    fn has(self, bug: Bug) -> bool {
        self.bug == Some(bug)
    }

    #[cfg(not(test))]
    const fn has(self, _: Bug) -> bool {
        false
    }

    #[cfg(test)]
    pub(super) const fn plant(&mut self, bug: Option<Bug>) {
        self.bug = bug;
    }

    /// The client that holds a requested name.
    pub(super) fn holder<T>(self, holder: Option<T>) -> Option<T> {
        holder.filter(|_| !self.has(Bug::TwoOwners))
    }

    /// Whether a recipient's queue has room.
    pub(super) fn has_room(self, has_room: bool) -> bool {
        has_room || self.has(Bug::CrowdedQueue)
    }

    /// The number above which a stream is opened.
    pub(super) fn floor(self, floor: u64) -> u64 {
        if self.has(Bug::ForgottenFloors) { 0 } else { floor }
    }

    /// The attempt that a DELIVER states.
    pub(super) fn attempt(self, attempt: u32) -> u32 {
        if self.has(Bug::FirstAttempts) { 1 } else { attempt }
    }

    /// Returns the message of a stream that is handed out first. `is_alike` tells whether a message
    /// could go out in its place.
    pub(super) fn first(
        self,
        waiting: &VecDeque<(u64, MessageKey)>,
        is_alike: impl Fn(MessageKey) -> bool,
    ) -> Option<MessageKey> {
        let first = waiting.front().map(|(_, key)| *key);
        if !self.has(Bug::SwappedOrder) {
            return first;
        }
        waiting.get(1).map(|(_, key)| *key).filter(|key| is_alike(*key)).or(first)
    }

    /// The number of failures after which a message becomes a dead letter.
    pub(super) fn failures_max(self, most: u32) -> u32 {
        if self.has(Bug::NoPatience) { 2 } else { most }
    }

    /// The moment after which a message is not handed out.
    pub(super) fn expires(self, expires: Moment) -> Moment {
        let early_ms = if self.has(Bug::ShortLives) { 100 } else { 0 };
        Moment(expires.0.saturating_sub(early_ms))
    }

    /// The number of missed messages that a replay leaves out.
    pub(super) fn skipped_replays(self) -> usize {
        usize::from(self.has(Bug::LostReplay))
    }

    /// The recipient's name, without which an undelivered message is not reported.
    pub(super) fn reported<T>(self, name: Option<T>) -> Option<T> {
        name.filter(|_| !self.has(Bug::SilentDrop))
    }

    /// The ticket that must be persisted before a SEND is accepted.
    pub(super) fn awaited(self, ticket: u64) -> u64 {
        ticket.saturating_sub(u64::from(self.has(Bug::AcceptedEarly)))
    }

    /// Whether senders are told of outcomes that are not persisted.
    pub(super) fn tells_early(self) -> bool {
        self.has(Bug::ToldEarly)
    }

    /// The streams that lose their first message when their recipient's connection ends.
    pub(super) fn lost(self, streams: &BTreeSet<StreamKey>) -> Vec<StreamKey> {
        if self.has(Bug::LostRedelivery) { streams.iter().copied().collect() } else { Vec::new() }
    }

    /// The senders whose dedup windows are restored.
    pub(super) fn remembered<T: Default>(self, senders: T) -> T {
        if self.has(Bug::ForgottenDoubles) { T::default() } else { senders }
    }

    /// The guest that has shown a key before.
    pub(super) fn known_guest<T>(self, known: Option<T>) -> Option<T> {
        known.filter(|_| !self.has(Bug::ForgottenGuests))
    }

    /// The agent that a restored notice waits for.
    pub(super) fn notified<T>(self, sender: Option<T>) -> Option<T> {
        sender.filter(|_| !self.has(Bug::ForgottenAnswers))
    }

    /// The last number of a restored stream.
    pub(super) fn restored_seq(self, last: u64) -> u64 {
        if self.has(Bug::ReusedNumbers) { 0 } else { last }
    }
}
