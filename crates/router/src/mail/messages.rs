//! The table of all messages.

use super::message::Message;
use crate::keys::{MessageSlot, count_step};
use slotmap::SlotMap;
use std::ops::{Index, IndexMut};

/// All messages by their keys. In tests, each look-up counts as a step.
#[derive(Debug, Default)]
pub(super) struct Messages(SlotMap<MessageSlot, Message>);

impl Messages {
    pub(super) fn insert(&mut self, message: Message) -> MessageSlot {
        self.0.insert(message)
    }

    pub(super) fn remove(&mut self, key: MessageSlot) -> Option<Message> {
        self.0.remove(key)
    }

    pub(super) fn get(&self, key: MessageSlot) -> Option<&Message> {
        count_step();
        self.0.get(key)
    }

    pub(super) fn get_mut(&mut self, key: MessageSlot) -> Option<&mut Message> {
        count_step();
        self.0.get_mut(key)
    }

    pub(super) fn len(&self) -> usize {
        self.0.len()
    }
}

impl Index<MessageSlot> for Messages {
    type Output = Message;

    fn index(&self, key: MessageSlot) -> &Message {
        count_step();
        &self.0[key]
    }
}

impl IndexMut<MessageSlot> for Messages {
    fn index_mut(&mut self, key: MessageSlot) -> &mut Message {
        count_step();
        &mut self.0[key]
    }
}

#[cfg(test)]
mod inspect {
    use super::*;

    impl Messages {
        pub(crate) fn values(&self) -> impl Iterator<Item = &Message> {
            self.0.values()
        }
    }
}
