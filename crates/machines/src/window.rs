//! Windows: limits for the messages in flight to an agent of another machine.
//!
//! Each agent has its own window, so that one that is slow delays no other.

use std::{collections::HashMap, hash::Hash};

/// The most messages to one agent that one side has sent and the other has not answered.
pub(super) const MESSAGES: usize = 64;

/// The most bytes of these messages. A single message may always be sent.
pub(super) const BYTES: usize = 2 << 20;

/// The most bytes of the messages to all agents of a machine that one side has sent and the other
/// has not answered: more than the windows of the 20 agents that an earlier version knows.
pub(super) const TOTAL_BYTES: usize = 64 << 20;

/// The messages in flight to one agent.
#[derive(Debug, Default)]
pub struct Window {
    messages: usize,
    bytes: usize,
}

impl Window {
    const fn is_full(&self) -> bool {
        self.messages >= MESSAGES || self.bytes >= BYTES
    }

    /// Whether the window has more than a side that obeys the rules would send. The last message
    /// has `last` bytes.
    #[must_use]
    pub(crate) const fn is_exceeded(&self, last: usize) -> bool {
        self.messages > MESSAGES || self.bytes - last >= BYTES && self.messages > 1
    }
}

/// The unanswered messages of one direction, by `K`, and their recipients, by `A`.
#[derive(Debug)]
pub struct Unanswered<K, A> {
    /// The recipients of the messages, and their bytes.
    messages: HashMap<K, (A, usize)>,
    windows: HashMap<A, Window>,
    /// The bytes of all messages.
    bytes: usize,
}

impl<K, A> Default for Unanswered<K, A> {
    fn default() -> Self {
        Self { messages: HashMap::new(), windows: HashMap::new(), bytes: 0 }
    }
}

impl<K: Eq + Hash, A: Clone + Eq + Hash> Unanswered<K, A> {
    /// Whether no more may be sent to an agent.
    pub fn is_full(&self, to: &A) -> bool {
        self.bytes >= TOTAL_BYTES || self.windows.get(to).is_some_and(Window::is_full)
    }

    /// Whether all windows have more than a side that obeys the rules would send. The last message
    /// has `last` bytes.
    #[must_use]
    pub(crate) const fn is_exceeded(&self, last: usize) -> bool {
        self.bytes - last >= TOTAL_BYTES
    }

    /// Adds a message, replacing one with the same key. Returns the window of its recipient.
    pub fn add(&mut self, key: K, to: A, bytes: usize) -> &Window {
        self.remove(&key);
        self.messages.insert(key, (to.clone(), bytes));
        self.bytes += bytes;
        let window = self.windows.entry(to).or_default();
        window.messages += 1;
        window.bytes += bytes;
        window
    }

    /// Removes a message, if it is there.
    pub fn remove(&mut self, key: &K) {
        let Some((to, bytes)) = self.messages.remove(key) else { return };
        self.bytes -= bytes;
        let Some(window) = self.windows.get_mut(&to) else { return };
        window.messages -= 1;
        window.bytes -= bytes;
        if window.messages == 0 {
            self.windows.remove(&to);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn messages_to_many_agents_are_bounded_together() {
        let mut sent = Unanswered::default();
        for agent in 0..TOTAL_BYTES / BYTES {
            assert!(!sent.is_full(&agent), "{agent}");
            sent.add(agent, agent, BYTES);
            assert!(!sent.is_exceeded(BYTES), "{agent}");
        }
        assert!(sent.is_full(&1_000));
        sent.add(1_000, 1_000, 1);
        assert!(sent.is_exceeded(1));
        sent.remove(&0);
        sent.remove(&1_000);
        assert!(!sent.is_full(&1_000));
    }
}
