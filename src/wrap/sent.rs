//! The agent's messages by the ids that the client library gave them: the daemon speaks of these, at once
//! and much later.

use crate::{bridge::SendHandle, client::SendId};
use std::{
    collections::{HashMap, VecDeque},
    mem,
};

/// Answered messages of which there may be more to hear; of older ones, it is told without their names.
const ANSWERED_MAX: usize = 4096;

/// What left, oldest first where that counts.
#[derive(Default)]
pub(super) struct Sent {
    /// Those that the daemon has not answered. The client library bounds them.
    waiting: HashMap<SendId, SendHandle>,
    answered: HashMap<SendId, SendHandle>,
    by_age: VecDeque<SendId>,
}

impl Sent {
    /// The daemon is to answer for it.
    pub(super) fn add(&mut self, id: SendId, handle: SendHandle) {
        self.waiting.insert(id, handle);
    }

    /// The daemon has answered, or nobody waits for that: only something bad can be heard of it.
    pub(super) fn settle(&mut self, id: SendId, handle: SendHandle) {
        self.waiting.remove(&id);
        if self.answered.insert(id.clone(), handle).is_none() {
            self.by_age.push_back(id);
        }
        if self.by_age.len() > ANSWERED_MAX
            && let Some(oldest) = self.by_age.pop_front()
        {
            self.answered.remove(&oldest);
        }
    }

    /// Which message an id names.
    pub(super) fn handle(&self, id: &SendId) -> Option<SendHandle> {
        self.waiting.get(id).or_else(|| self.answered.get(id)).copied()
    }

    /// Whether the daemon has answered for all.
    pub(super) fn is_settled(&self) -> bool {
        self.waiting.is_empty()
    }

    /// No answer comes any more: those that wait for one, in order.
    pub(super) fn give_up(&mut self) -> Vec<(SendId, SendHandle)> {
        let mut all: Vec<_> = mem::take(&mut self.waiting).into_iter().collect();
        all.sort_unstable_by_key(|(_, handle)| *handle);
        all
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn id(number: u64) -> SendId {
        SendId(number.to_string())
    }

    #[test]
    fn an_answered_message_is_still_known_by_its_id_and_an_unanswered_one_is_given_up_once() {
        let mut sent = Sent::default();
        for number in [3, 1, 2] {
            sent.add(id(number), SendHandle(number));
        }
        sent.settle(id(2), SendHandle(2));
        sent.settle(id(2), SendHandle(2));
        assert_eq!(sent.handle(&id(2)), Some(SendHandle(2)));
        assert!(!sent.is_settled());
        assert_eq!(sent.give_up(), [(id(1), SendHandle(1)), (id(3), SendHandle(3))]);
        assert!(sent.is_settled() && sent.give_up().is_empty());
        assert_eq!(sent.handle(&id(1)), None);
    }

    #[test]
    fn the_oldest_answered_ones_make_room() {
        let mut sent = Sent::default();
        for number in 0..=ANSWERED_MAX as u64 {
            sent.add(id(number), SendHandle(number));
            sent.settle(id(number), SendHandle(number));
        }
        assert_eq!((sent.handle(&id(0)), sent.handle(&id(1))), (None, Some(SendHandle(1))));
        assert_eq!(sent.answered.len(), ANSWERED_MAX);
    }
}
