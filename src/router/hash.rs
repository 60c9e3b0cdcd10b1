//! A fast hash for the machine's own tables.
//!
//! Its keys are numbers of the machine's making, and names and topics whose count is bounded; whoever
//! builds collisions slows down a daemon that is his own.

use std::{
    collections::HashMap,
    hash::{BuildHasherDefault, Hasher},
};

/// A table with the fast hash.
pub(crate) type FastMap<K, V> = HashMap<K, V, BuildHasherDefault<Fast>>;

/// Multiply and rotate, a word at a time.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Fast(u64);

/// An odd number with its bits well spread: 2^64 divided by the golden ratio.
const SPREAD: u64 = 0x9e37_79b9_7f4a_7c15;

impl Fast {
    const fn add(&mut self, word: u64) {
        self.0 = (self.0.rotate_left(5) ^ word).wrapping_mul(SPREAD);
    }
}

impl Hasher for Fast {
    fn write(&mut self, bytes: &[u8]) {
        let (words, rest) = bytes.as_chunks::<8>();
        for word in words {
            self.add(u64::from_le_bytes(*word));
        }
        if !rest.is_empty() {
            // In a register: a word put together in memory is read back only once every store before
            // it is through, and a broadcast's frames are a lot of them.
            self.add(rest.iter().fold(0, |word, byte| word << 8 | u64::from(*byte)));
        }
    }

    fn write_u8(&mut self, byte: u8) {
        self.add(u64::from(byte));
    }

    fn write_u64(&mut self, word: u64) {
        self.add(word);
    }

    fn write_usize(&mut self, word: usize) {
        self.add(word as u64);
    }

    /// The table takes its place from the low bits, which a product mixes least.
    fn finish(&self) -> u64 {
        self.0.rotate_left(26)
    }
}
