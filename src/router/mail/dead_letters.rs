//! The latest dead letters, so that a late ACK finds them. Their records are in the store.

use rustc_hash::FxHashMap;
use std::collections::VecDeque;
use uuid::Uuid;

/// The most dead letters that are remembered. A late ACK of an older one is ignored.
const LETTERS_MAX: usize = 1 << 16;

/// The latest dead letters.
#[derive(Debug, Default)]
pub(super) struct DeadLetters {
    by_id: FxHashMap<Uuid, Letter>,
    by_age: VecDeque<Uuid>,
}

#[derive(Debug)]
struct Letter {
    /// The numbers of the delivery and of its recipient.
    delivery: u64,
    to: u64,
    /// Whether the letter was acknowledged. The store may not have recorded that yet.
    is_acknowledged: bool,
}

impl DeadLetters {
    pub(super) fn add(&mut self, id: Uuid, delivery: u64, to: u64) {
        let letter = Letter { delivery, to, is_acknowledged: false };
        if self.by_id.insert(id, letter).is_none() {
            self.by_age.push_back(id);
        }
        while self.by_age.len() > LETTERS_MAX
            && let Some(oldest) = self.by_age.pop_front()
        {
            self.by_id.remove(&oldest);
        }
    }

    /// Notes a late ACK from the agent with this number. Returns the delivery's number, if the
    /// agent is the recipient and has not acknowledged the letter before.
    pub(super) fn acknowledge(&mut self, id: Uuid, agent: u64) -> Option<u64> {
        let letter = self.by_id.get_mut(&id)?;
        if letter.to != agent || letter.is_acknowledged {
            return None;
        }
        letter.is_acknowledged = true;
        Some(letter.delivery)
    }

    pub(super) fn is_acknowledged(&self, id: Uuid) -> bool {
        self.by_id.get(&id).is_some_and(|letter| letter.is_acknowledged)
    }

    /// Removes a letter that is redelivered.
    pub(super) fn remove(&mut self, id: Uuid) {
        self.by_id.remove(&id);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn letter_is_acknowledged_once_and_by_its_recipient_only() {
        let mut dead = DeadLetters::default();
        let id = Uuid::from_u128(1);
        dead.add(id, 7, 3);
        assert_eq!(dead.acknowledge(id, 4), None);
        assert!(!dead.is_acknowledged(id));
        assert_eq!(dead.acknowledge(id, 3), Some(7));
        assert_eq!(dead.acknowledge(id, 3), None);
        assert!(dead.is_acknowledged(id));
    }

    #[test]
    fn oldest_letters_are_forgotten_first() {
        let mut dead = DeadLetters::default();
        for number in 0..=LETTERS_MAX as u64 {
            dead.add(Uuid::from_u128(number.into()), number, 1);
        }
        assert_eq!(dead.acknowledge(Uuid::from_u128(0), 1), None);
        assert_eq!(dead.acknowledge(Uuid::from_u128(1), 1), Some(1));
    }
}
