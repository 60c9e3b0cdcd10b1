//! The agent's messages by the ids of their SENDs, which the daemon's answers name.

use client::SendId;
use std::{
    collections::{HashMap, VecDeque},
    mem,
};
use terminal::SendHandle;

/// The most answered messages that are remembered. The later failure of an older message has no
/// handle.
const ANSWERED_MAX: usize = 4096;

/// Messages handed to the client library.
#[derive(Default)]
pub(super) struct InFlight {
    /// Messages without an answer. The client library limits their number.
    waiting: HashMap<SendId, SendHandle>,
    answered: HashMap<SendId, SendHandle>,
    /// Answered messages, oldest first.
    by_age: VecDeque<SendId>,
}

impl InFlight {
    /// Notes a message that the daemon has to answer.
    pub(super) fn add(&mut self, id: SendId, handle: SendHandle) {
        self.waiting.insert(id, handle);
    }

    /// Notes that the daemon has answered, or need not answer. After that, the message can only
    /// fail.
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

    /// Returns the handle of the message with this id.
    pub(super) fn handle(&self, id: &SendId) -> Option<SendHandle> {
        self.waiting.get(id).or_else(|| self.answered.get(id)).copied()
    }

    /// Whether the daemon has answered for all messages.
    pub(super) fn is_settled(&self) -> bool {
        self.waiting.is_empty()
    }

    /// Takes all messages without an answer, in the order of sending.
    pub(super) fn take_unanswered(&mut self) -> Vec<(SendId, SendHandle)> {
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
    fn answered_message_keeps_its_id_and_unanswered_ones_are_taken_once() {
        let mut sent = InFlight::default();
        for number in [3, 1, 2] {
            sent.add(id(number), SendHandle(number));
        }
        sent.settle(id(2), SendHandle(2));
        sent.settle(id(2), SendHandle(2));
        assert_eq!(sent.handle(&id(2)), Some(SendHandle(2)));
        assert!(!sent.is_settled());
        assert_eq!(sent.take_unanswered(), [(id(1), SendHandle(1)), (id(3), SendHandle(3))]);
        assert!(sent.is_settled() && sent.take_unanswered().is_empty());
        assert_eq!(sent.handle(&id(1)), None);
    }

    #[test]
    fn oldest_answered_message_is_forgotten() {
        let mut sent = InFlight::default();
        for number in 0..=ANSWERED_MAX as u64 {
            sent.add(id(number), SendHandle(number));
            sent.settle(id(number), SendHandle(number));
        }
        assert_eq!((sent.handle(&id(0)), sent.handle(&id(1))), (None, Some(SendHandle(1))));
        assert_eq!(sent.answered.len(), ANSWERED_MAX);
    }
}
