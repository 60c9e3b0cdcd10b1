//! Hash tables whose keys peers may choose.
//!
//! Tables keyed by the daemon's own ids and numbers use rustc-hash (`FxHashMap`). Tables keyed by
//! text that peers choose (names, topics) are [`KeyedMap`]s: they use SipHash with a key from the
//! router's seed, so that no peer can build collisions. Both kinds hash alike in every run with the
//! same seed.

use rand_chacha::ChaCha8Rng;
use rand_core::{Rng, SeedableRng};
use rustc_hash::FxHasher;
use siphasher::sip::SipHasher13;
use std::{
    collections::HashMap,
    hash::{BuildHasher, Hasher},
};

/// A table whose keys peers choose.
pub(super) type KeyedMap<K, V> = HashMap<K, V, HashKey>;

/// The key of a [`KeyedMap`]'s hash.
#[derive(Clone, Copy, Debug)]
pub(super) struct HashKey(u64, u64);

/// The stream of the seed's generator from which hash keys are drawn. Ids are drawn from stream 0.
const RNG_STREAM: u64 = 1;

impl HashKey {
    pub(super) fn new(seed: [u8; 32]) -> Self {
        let mut rng = ChaCha8Rng::from_seed(seed);
        rng.set_stream(RNG_STREAM);
        Self(rng.next_u64(), rng.next_u64())
    }
}

impl BuildHasher for HashKey {
    type Hasher = KeyedHasher;

    fn build_hasher(&self) -> KeyedHasher {
        KeyedHasher { key: *self, hash: FxHasher::default() }
    }
}

/// A hasher that hashes text with a key. Numbers are hashed without it, because only the daemon
/// chooses them.
pub(super) struct KeyedHasher {
    key: HashKey,
    hash: FxHasher,
}

impl Hasher for KeyedHasher {
    fn write(&mut self, text: &[u8]) {
        let mut keyed = SipHasher13::new_with_keys(self.key.0, self.key.1);
        keyed.write(text);
        self.hash.write_u64(keyed.finish());
    }

    fn write_u8(&mut self, number: u8) {
        self.hash.write_u8(number);
    }

    fn write_u64(&mut self, number: u64) {
        self.hash.write_u64(number);
    }

    fn write_usize(&mut self, number: usize) {
        self.hash.write_usize(number);
    }

    fn finish(&self) -> u64 {
        self.hash.finish()
    }
}
