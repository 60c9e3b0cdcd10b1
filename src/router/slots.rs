//! Values in numbered places. A key to a value that is gone never finds a later one.

use std::{
    cmp::Ordering,
    fmt,
    hash::{Hash, Hasher},
    marker::PhantomData,
    ops::{Index, IndexMut},
};

/// Finds a value in its [`Slots`], until it is removed.
pub(super) struct Key<T> {
    place: u32,
    generation: u32,
    of: PhantomData<fn() -> T>,
}

#[cfg(test)]
thread_local! {
    #[allow(
        clippy::missing_const_for_thread_local,
        reason = "it has one; on Windows the lint sees what the macro makes of it"
    )]
    static COMPARED: std::cell::Cell<u64> = const { std::cell::Cell::new(0) };
}

/// How often two keys were compared here: what is done for each of many may not look at all of them.
#[cfg(test)]
pub(super) fn compared() -> u64 {
    COMPARED.get()
}

impl<T> Key<T> {
    const fn number(self) -> u64 {
        (self.generation as u64) << 32 | self.place as u64
    }
}

impl<T> Clone for Key<T> {
    fn clone(&self) -> Self {
        *self
    }
}

impl<T> Copy for Key<T> {}

impl<T> PartialEq for Key<T> {
    fn eq(&self, other: &Self) -> bool {
        #[cfg(test)]
        COMPARED.set(COMPARED.get() + 1);
        self.number() == other.number()
    }
}

impl<T> Eq for Key<T> {}

impl<T> PartialOrd for Key<T> {
    fn partial_cmp(&self, other: &Self) -> Option<Ordering> {
        Some(self.cmp(other))
    }
}

impl<T> Ord for Key<T> {
    fn cmp(&self, other: &Self) -> Ordering {
        #[cfg(test)]
        COMPARED.set(COMPARED.get() + 1);
        self.number().cmp(&other.number())
    }
}

impl<T> Hash for Key<T> {
    fn hash<H: Hasher>(&self, state: &mut H) {
        state.write_u64(self.number());
    }
}

impl<T> fmt::Debug for Key<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}.{}", self.place, self.generation)
    }
}

/// The values.
#[derive(Debug)]
pub(super) struct Slots<T> {
    places: Vec<(u32, Option<T>)>,
    free: Vec<u32>,
}

impl<T> Default for Slots<T> {
    fn default() -> Self {
        Self { places: Vec::new(), free: Vec::new() }
    }
}

impl<T> Slots<T> {
    pub(super) fn insert(&mut self, value: T) -> Key<T> {
        let place = self.free.pop().unwrap_or_else(|| {
            self.places.push((0, None));
            u32::try_from(self.places.len() - 1).expect("everything is bounded far below")
        });
        let slot = &mut self.places[place as usize];
        slot.1 = Some(value);
        Key { place, generation: slot.0, of: PhantomData }
    }

    pub(super) fn remove(&mut self, key: Key<T>) -> Option<T> {
        let slot = self.places.get_mut(key.place as usize)?;
        if slot.0 != key.generation {
            return None;
        }
        let value = slot.1.take()?;
        slot.0 = slot.0.wrapping_add(1);
        self.free.push(key.place);
        Some(value)
    }

    pub(super) fn get(&self, key: Key<T>) -> Option<&T> {
        let slot = self.places.get(key.place as usize)?;
        if slot.0 == key.generation { slot.1.as_ref() } else { None }
    }

    pub(super) fn get_mut(&mut self, key: Key<T>) -> Option<&mut T> {
        let slot = self.places.get_mut(key.place as usize)?;
        if slot.0 == key.generation { slot.1.as_mut() } else { None }
    }

    pub(super) fn len(&self) -> usize {
        self.places.len() - self.free.len()
    }

    #[cfg(test)]
    pub(super) fn values(&self) -> impl Iterator<Item = &T> {
        self.places.iter().filter_map(|(_, value)| value.as_ref())
    }
}

impl<T> Index<Key<T>> for Slots<T> {
    type Output = T;

    fn index(&self, key: Key<T>) -> &T {
        self.get(key).expect("whoever keeps this key removes it with the value")
    }
}

impl<T> IndexMut<Key<T>> for Slots<T> {
    fn index_mut(&mut self, key: Key<T>) -> &mut T {
        self.get_mut(key).expect("whoever keeps this key removes it with the value")
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_key_never_finds_a_later_value_in_its_place() {
        let mut slots = Slots::default();
        let first = slots.insert('a');
        assert_eq!(slots.remove(first), Some('a'));
        let second = slots.insert('b');
        assert_eq!((slots.remove(first), slots.get(first)), (None, None));
        assert_eq!((slots[second], slots.len()), ('b', 1));
    }
}
