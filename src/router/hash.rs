//! Hash tables by who chooses their keys.
//!
//! Ids and numbers are the daemon's own, and get rustc-hash (`FxHashMap`). Text
//! that peers choose (names, topics) gets SipHash with a key from the router's seed ([`KeyedMap`]),
//! so that no peer can build collisions. Both are the same in every run of one seed.

use rand_chacha::ChaCha8Rng;
use rand_core::{Rng, SeedableRng};
use siphasher::sip::SipHasher13;
use std::{collections::HashMap, hash::BuildHasher};

/// A table whose keys peers choose.
pub(super) type KeyedMap<K, V> = HashMap<K, V, HashKey>;

/// The key of a [`KeyedMap`]'s hash.
#[derive(Clone, Copy, Debug)]
pub(super) struct HashKey(u64, u64);

/// The stream of the seed's generator that hash keys come from: ids come from stream 0.
const RNG_STREAM: u64 = 1;

impl HashKey {
    pub(super) fn new(seed: [u8; 32]) -> Self {
        let mut rng = ChaCha8Rng::from_seed(seed);
        rng.set_stream(RNG_STREAM);
        Self(rng.next_u64(), rng.next_u64())
    }
}

impl BuildHasher for HashKey {
    type Hasher = SipHasher13;

    fn build_hasher(&self) -> SipHasher13 {
        SipHasher13::new_with_keys(self.0, self.1)
    }
}
