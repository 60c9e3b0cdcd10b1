//! The latest dead letters, so that a late ACK finds them. Their records are in the store.

use crate::accounts::{Holders, size_class};
use rustc_hash::FxHashMap;
use std::collections::BTreeMap;
use uuid::Uuid;

/// The most dead letters that are remembered. Beyond it, the oldest one of a sender that has about
/// the most is forgotten, and a late ACK of it is ignored.
const LETTERS_MAX: usize = 1 << 16;

/// The latest dead letters.
#[derive(Debug, Default)]
pub(super) struct DeadLetters {
    by_id: FxHashMap<Uuid, Letter>,
    /// The letters of each sender, by the sender's number.
    by_sender: FxHashMap<u64, Letters>,
    /// All senders, by the size classes of their letters.
    senders: Holders<u64>,
    /// The number of letters in all lists.
    listed: usize,
    /// The place of the next letter.
    next: u64,
}

/// A sender's letters by their places, the oldest first.
#[derive(Debug, Default)]
struct Letters {
    ids: BTreeMap<u64, Uuid>,
    /// The size class in which the letters are listed.
    class: usize,
}

#[derive(Debug)]
struct Letter {
    /// The numbers of the delivery and of its recipient.
    delivery: u64,
    to: u64,
    /// The sender's number, and the place in its list.
    sender: u64,
    place: u64,
    /// Whether the letter was acknowledged. The store may not have recorded that yet.
    is_acknowledged: bool,
}

impl DeadLetters {
    pub(super) fn add(&mut self, id: Uuid, delivery: u64, to: u64, sender: u64) {
        self.remove(id);
        let place = self.next;
        self.next += 1;
        self.by_id.insert(id, Letter { delivery, to, sender, place, is_acknowledged: false });
        self.change(sender, |ids| {
            ids.insert(place, id);
        });
        while self.listed > LETTERS_MAX
            && let Some((_, sender)) = self.senders.largest()
        {
            let mut oldest = None;
            self.change(sender, |ids| oldest = ids.pop_first());
            self.by_id.remove(&oldest.unwrap_or_default().1);
        }
    }

    /// Changes a sender's list.
    fn change(&mut self, sender: u64, change: impl FnOnce(&mut BTreeMap<u64, Uuid>)) {
        let letters = self.by_sender.entry(sender).or_default();
        self.listed -= letters.ids.len();
        change(&mut letters.ids);
        self.listed += letters.ids.len();
        self.senders.hold(sender, &mut letters.class, size_class(letters.ids.len()));
        if letters.ids.is_empty() {
            self.by_sender.remove(&sender);
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
        if let Some(Letter { sender, place, .. }) = self.by_id.remove(&id) {
            self.change(sender, |ids| {
                ids.remove(&place);
            });
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn letter_is_acknowledged_once_and_by_its_recipient_only() {
        let mut dead = DeadLetters::default();
        let id = Uuid::from_u128(1);
        dead.add(id, 7, 3, 1);
        assert_eq!(dead.acknowledge(id, 4), None);
        assert!(!dead.is_acknowledged(id));
        assert_eq!(dead.acknowledge(id, 3), Some(7));
        assert_eq!(dead.acknowledge(id, 3), None);
        assert!(dead.is_acknowledged(id));
    }

    #[test]
    fn oldest_letters_of_the_largest_sender_are_forgotten_first() {
        let mut dead = DeadLetters::default();
        dead.add(Uuid::from_u128(0), 0, 1, 8);
        for number in 1..=LETTERS_MAX as u64 {
            dead.add(Uuid::from_u128(number.into()), number, 1, 7);
        }
        assert_eq!(dead.acknowledge(Uuid::from_u128(0), 1), Some(0));
        assert_eq!(dead.acknowledge(Uuid::from_u128(1), 1), None);
        assert_eq!(dead.acknowledge(Uuid::from_u128(2), 1), Some(2));
        assert_eq!(dead.by_id.len(), LETTERS_MAX);
    }

    #[test]
    fn redelivered_letter_that_dies_again_is_listed_once() {
        let mut dead = DeadLetters::default();
        dead.add(Uuid::from_u128(2), 2, 1, 7);
        for _ in 0..LETTERS_MAX {
            dead.remove(Uuid::from_u128(1));
            dead.add(Uuid::from_u128(1), 1, 1, 7);
        }
        assert_eq!(dead.listed, 2);
        assert_eq!(dead.acknowledge(Uuid::from_u128(2), 1), Some(2));
    }
}
