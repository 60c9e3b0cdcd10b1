//! Capacities of lists that were long once: one of a client, a stream or an agent may stay for days.

use std::{
    collections::{HashMap, VecDeque},
    hash::{BuildHasher, Hash},
};

/// The bytes of capacity below which no list shrinks, so that short ones allocate nothing again.
const KEPT_BYTES: usize = 512;

/// Shrinks a list of which entries were removed, if its capacity is much larger than its length.
pub(crate) fn shrink<T>(list: &mut VecDeque<T>) {
    if let Some(needed) = needed::<T>(list.len(), list.capacity()) {
        list.shrink_to(needed);
    }
}

/// Shrinks a map like a [list](shrink).
pub(crate) fn shrink_map<K: Eq + Hash, V, S: BuildHasher>(map: &mut HashMap<K, V, S>) {
    if let Some(needed) = needed::<(K, V)>(map.len(), map.capacity()) {
        map.shrink_to(needed);
    }
}

/// Returns the capacity that is enough for `len` entries, if this one is much larger. As many
/// entries as are moved then were removed before, so that shrinking costs little.
const fn needed<T>(len: usize, capacity: usize) -> Option<usize> {
    if capacity > 4 * len && capacity * size_of::<T>() > KEPT_BYTES { Some(2 * len) } else { None }
}
