//! A memory of the parts read from a transcript, so that none is read twice.

use super::{Record, Row};
use std::{
    collections::HashMap,
    hash::{BuildHasher as _, Hash, RandomState},
    mem,
};

/// The maximum number of parts in one generation. There are two generations, so a part is
/// remembered until at least this many others were read.
pub(super) const PARTS_MAX: usize = 1 << 15;

/// The parts of rows that were read, each remembered by a hash of its identity.
///
/// A CLI may append a row again, with other members or a longer text. So a part is identified by
/// its row's id and its position in the row or, without an id, by timestamp, position and text.
#[derive(Debug, Default)]
pub(super) struct KnownParts {
    hasher: RandomState,
    new: Generation,
    old: Generation,
    /// The newest timestamp of a forgotten part. Rows that are not newer count as read.
    forgotten: String,
}

/// Parts that are forgotten together.
#[derive(Debug, Default)]
struct Generation {
    /// The length and the hash of each part's text, by the hash of the part's identity.
    parts: HashMap<u64, (usize, u64)>,
    newest: String,
}

impl KnownParts {
    /// Remembers the parts of a row. Returns the new ones.
    pub(super) fn take_new(&mut self, row: Row<'_>, timestamp: &str) -> Vec<Record> {
        if timestamp <= &*self.forgotten {
            return Vec::new();
        }
        let id = row.id.as_deref();
        let records = row.records.into_iter().enumerate();
        records.filter_map(|(place, record)| self.new_in(id, place, record, timestamp)).collect()
    }

    /// Forgets the limit for old rows, since other rows count as old now.
    pub(super) fn forget_timestamps(&mut self) {
        self.forgotten.clear();
        self.new.newest.clear();
        self.old.newest.clear();
    }

    /// Remembers a record of a row. Returns the record if it is new, the added text if it has
    /// grown, and `None` otherwise.
    fn new_in(
        &mut self,
        id: Option<&str>,
        place: usize,
        record: Record,
        timestamp: &str,
    ) -> Option<Record> {
        let kind = mem::discriminant(&record);
        let text = record.text();
        let key = match id {
            Some(id) => self.hash((id, kind, place)),
            None => self.hash((timestamp, kind, place, text)),
        };
        let read = (text.len(), self.hash(text));
        let Some((bytes, hash)) = self.find(key) else {
            self.remember(key, read, timestamp);
            return Some(record);
        };
        let begins_so = text.get(..bytes).is_some_and(|begin| self.hash(begin) == hash);
        if bytes == text.len() || !begins_so {
            return None;
        }
        self.remember(key, read, timestamp);
        Some(record.without_first(bytes))
    }

    fn find(&self, key: u64) -> Option<(usize, u64)> {
        self.new.parts.get(&key).or_else(|| self.old.parts.get(&key)).copied()
    }

    fn remember(&mut self, key: u64, text: (usize, u64), timestamp: &str) {
        if self.new.parts.len() == PARTS_MAX {
            let forgotten = mem::replace(&mut self.old, mem::take(&mut self.new));
            self.forgotten = mem::take(&mut self.forgotten).max(forgotten.newest);
        }
        self.new.parts.insert(key, text);
        if timestamp > &*self.new.newest {
            timestamp.clone_into(&mut self.new.newest);
        }
    }

    fn hash(&self, value: impl Hash) -> u64 {
        self.hasher.hash_one(value)
    }
}
