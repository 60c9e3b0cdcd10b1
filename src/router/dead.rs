//! Dead letters, as far as an ACK that comes late has to find them. The letters are in the store.

use super::hash::FastMap;
use std::collections::VecDeque;
use uuid::Uuid;

/// Of more, a late ACK finds nothing.
const LETTERS_MAX: usize = 1 << 16;

/// The last ones.
#[derive(Debug, Default)]
pub(super) struct DeadLetters {
    /// The delivery's number and the recipient's.
    by_id: FastMap<Uuid, (u64, u64)>,
    by_age: VecDeque<Uuid>,
}

impl DeadLetters {
    pub(super) fn add(&mut self, id: Uuid, delivery: u64, to: u64) {
        if self.by_id.insert(id, (delivery, to)).is_none() {
            self.by_age.push_back(id);
        }
        while self.by_age.len() > LETTERS_MAX
            && let Some(oldest) = self.by_age.pop_front()
        {
            self.by_id.remove(&oldest);
        }
    }

    /// Takes out the letter with this id, if it was for that agent. Gives back the delivery's number.
    pub(super) fn take(&mut self, id: Uuid, agent: u64) -> Option<u64> {
        let (delivery, to) = *self.by_id.get(&id)?;
        if to != agent {
            return None;
        }
        self.by_id.remove(&id);
        Some(delivery)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_its_recipient_takes_a_letter_out_and_once() {
        let mut dead = DeadLetters::default();
        let id = Uuid::from_u128(1);
        dead.add(id, 7, 3);
        assert_eq!(dead.take(id, 4), None);
        assert_eq!(dead.take(id, 3), Some(7));
        assert_eq!(dead.take(id, 3), None);
    }

    #[test]
    fn the_oldest_make_room() {
        let mut dead = DeadLetters::default();
        for number in 0..=LETTERS_MAX as u64 {
            dead.add(Uuid::from_u128(number.into()), number, 1);
        }
        assert_eq!(dead.take(Uuid::from_u128(0), 1), None);
        assert_eq!(dead.take(Uuid::from_u128(1), 1), Some(1));
    }
}
