//! Memory accounting: the bytes that count against `memory_bytes_max`.

/// The bytes that are held, by kind.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct Memory {
    inside: usize,
    replay: usize,
    outside: usize,
}

impl Memory {
    /// Returns all bytes that are held.
    pub(super) const fn held(self) -> usize {
        self.needed() + self.replay
    }

    /// Returns the bytes that are held without those retained for replay, which make room for
    /// others.
    pub(super) const fn needed(self) -> usize {
        self.inside + self.outside
    }

    /// Charges bytes of queues, answers, notices, questions and subscriptions.
    pub(super) const fn charge(&mut self, bytes: usize) {
        self.inside += bytes;
    }

    pub(super) const fn release(&mut self, bytes: usize) {
        self.inside -= bytes;
    }

    /// Charges a message that is retained for replay.
    pub(super) const fn charge_replay(&mut self, bytes: usize) {
        self.replay += bytes;
    }

    pub(super) const fn release_replay(&mut self, bytes: usize) {
        self.replay -= bytes;
    }

    /// Returns the bytes of messages that are retained for replay.
    pub(super) const fn replay(self) -> usize {
        self.replay
    }

    /// Sets the bytes that the daemon holds outside the router: half-read frames, its inbox.
    pub(super) const fn set_outside(&mut self, bytes: usize) {
        self.outside = bytes;
    }
}

#[cfg(test)]
mod inspect {
    use super::*;

    impl Memory {
        pub(crate) const fn inside(self) -> usize {
            self.inside
        }
    }
}
