//! Windows: how much may be on its way to an agent of another machine.
//!
//! Each agent has its own window, so that one that is slow delays no other.

use std::{collections::HashMap, hash::Hash};

/// The most messages to one agent that one side has sent and the other has not answered.
pub(super) const MESSAGES: usize = 64;

/// The most bytes of these messages. A single message may always be sent.
pub(super) const BYTES: usize = 2 << 20;

/// What is on its way to one agent.
#[derive(Debug, Default)]
pub struct Window {
    messages: usize,
    bytes: usize,
}

impl Window {
    const fn is_full(&self) -> bool {
        self.messages >= MESSAGES || self.bytes >= BYTES
    }

    /// Whether the window has more than a side that obeys the rules would send, the last of which
    /// has this number of bytes.
    #[must_use]
    pub(crate) const fn is_exceeded(&self, last: usize) -> bool {
        self.messages > MESSAGES || self.bytes - last >= BYTES && self.messages > 1
    }
}

/// The messages that were sent in one direction and are not answered, by `K`, and their recipients,
/// by `A`.
#[derive(Debug)]
pub struct Unanswered<K, A> {
    /// The recipients of the messages, and their bytes.
    messages: HashMap<K, (A, usize)>,
    windows: HashMap<A, Window>,
}

impl<K, A> Default for Unanswered<K, A> {
    fn default() -> Self {
        Self { messages: HashMap::new(), windows: HashMap::new() }
    }
}

impl<K: Eq + Hash, A: Clone + Eq + Hash> Unanswered<K, A> {
    /// Whether no more may be sent to an agent.
    pub fn is_full(&self, to: &A) -> bool {
        self.windows.get(to).is_some_and(Window::is_full)
    }

    /// Adds a message, in place of one of the same key. Returns the window of its recipient.
    pub fn add(&mut self, key: K, to: A, bytes: usize) -> &Window {
        self.remove(&key);
        self.messages.insert(key, (to.clone(), bytes));
        let window = self.windows.entry(to).or_default();
        window.messages += 1;
        window.bytes += bytes;
        window
    }

    /// Removes a message, if it is there.
    pub fn remove(&mut self, key: &K) {
        let Some((to, bytes)) = self.messages.remove(key) else { return };
        let Some(window) = self.windows.get_mut(&to) else { return };
        window.messages -= 1;
        window.bytes -= bytes;
        if window.messages == 0 {
            self.windows.remove(&to);
        }
    }

    /// Keeps only messages to these recipients.
    pub fn retain(&mut self, mut keeps: impl FnMut(&A) -> bool) {
        self.messages.retain(|_, (to, _)| keeps(to));
        self.windows.retain(|to, _| keeps(to));
    }
}
