//! A dedup window: a memory of the texts read last, so that no text is read twice.

use std::{
    collections::{HashSet, VecDeque},
    hash::{DefaultHasher, Hash as _, Hasher as _},
};

/// The most texts that are remembered.
pub(super) const TEXTS_MAX: usize = 4096;

/// A window over the texts read last, each remembered by its hash and its timestamp.
#[derive(Debug, Default)]
pub(crate) struct DedupWindow {
    order: VecDeque<(u64, Box<str>)>,
    hashes: HashSet<u64>,
    forgotten: String,
}

impl DedupWindow {
    /// Remembers a text. Returns whether the text is new, that is, was not remembered before.
    pub(crate) fn insert(&mut self, text: &str, timestamp: &str) -> bool {
        let mut hasher = DefaultHasher::new();
        text.hash(&mut hasher);
        let hash = hasher.finish();
        if !self.hashes.insert(hash) {
            return false;
        }
        self.order.push_back((hash, timestamp.into()));
        if self.order.len() > TEXTS_MAX
            && let Some((oldest, timestamp)) = self.order.pop_front()
        {
            self.hashes.remove(&oldest);
            self.forgotten = timestamp.into();
        }
        true
    }

    /// Returns the timestamp of the text that was forgotten last, or an empty string if none was.
    pub(crate) fn forgotten(&self) -> &str {
        &self.forgotten
    }
}
