//! The ids of deliveries. The first eight digits encode the delivery's number, so that an id is
//! looked up without an index.

use uuid::{Builder, Uuid};

/// The rounds of the permutation.
const ROUNDS: usize = 4;

/// The key of a permutation of 32-bit numbers, which hides the number of deliveries.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct IdKey([u32; ROUNDS]);

impl IdKey {
    /// The length of a key, in bytes.
    pub const BYTES: usize = 4 * ROUNDS;

    /// Returns the key with these bytes.
    #[must_use]
    pub const fn new(bytes: [u8; Self::BYTES]) -> Self {
        let (words, _) = bytes.as_chunks::<4>();
        let [first, second, third, fourth] = [words[0], words[1], words[2], words[3]];
        Self([word(first), word(second), word(third), word(fourth)])
    }

    /// Returns the key's bytes.
    #[must_use]
    pub fn to_bytes(self) -> [u8; Self::BYTES] {
        let mut bytes = [0; Self::BYTES];
        for (place, word) in bytes.as_chunks_mut::<4>().0.iter_mut().zip(self.0) {
            *place = word.to_le_bytes();
        }
        bytes
    }

    /// Returns the id of the delivery with this number. All bytes of `random` but the first four
    /// become part of the id.
    #[must_use]
    pub fn id(self, number: u64, random: [u8; 16]) -> Uuid {
        let mut bytes = random;
        bytes[..4].copy_from_slice(&self.first_digits(number).to_be_bytes());
        Builder::from_random_bytes(bytes).into_uuid()
    }

    /// Returns the first eight digits of the id of a delivery, as a number.
    fn first_digits(self, number: u64) -> u32 {
        let (mut left, mut right) = halves(number as u32);
        for key in self.0 {
            (left, right) = (right, left ^ mixed(right, key));
        }
        joined(left, right)
    }

    /// Returns the lower 32 bits of a delivery's number, given the first eight digits of its id.
    #[must_use]
    pub fn number(self, first_digits: u32) -> u32 {
        let (mut left, mut right) = halves(first_digits);
        for key in self.0.into_iter().rev() {
            (left, right) = (right ^ mixed(left, key), left);
        }
        joined(left, right)
    }
}

const fn word(bytes: [u8; 4]) -> u32 {
    u32::from_le_bytes(bytes)
}

const fn halves(number: u32) -> (u16, u16) {
    ((number >> 16) as u16, number as u16)
}

const fn joined(left: u16, right: u16) -> u32 {
    (left as u32) << 16 | right as u32
}

/// The function of a round.
const fn mixed(half: u16, key: u32) -> u16 {
    let mut mixed = (half as u32 ^ key).wrapping_mul(0x9e37_79b1);
    mixed = (mixed ^ mixed >> 15 ^ key.rotate_left(16)).wrapping_mul(0x85eb_ca77);
    (mixed >> 16) as u16
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::collections::HashSet;

    const KEY: [u8; IdKey::BYTES] = *b"a key of 16 byte";

    #[test]
    fn number_is_found_by_the_first_digits_of_the_id() {
        let key = IdKey::new(KEY);
        assert_eq!(key.to_bytes(), KEY);
        let numbers = [0, 1, 2, 1_000, u64::from(u32::MAX), 1 << 32, (1 << 40) + 7];
        for number in numbers.into_iter().chain(5_000..6_000) {
            let id = key.id(number, [number as u8; 16]);
            let digits = &id.simple().to_string()[..8];
            let found = key.number(u32::from_str_radix(digits, 16).unwrap());
            assert_eq!(found, number as u32, "{id}");
            assert_eq!((id.get_version_num(), id.as_bytes()[15]), (4, number as u8));
        }
    }

    #[test]
    fn neighbours_have_different_digits_under_every_key() {
        for seed in 0..100_u8 {
            let key = IdKey::new([seed; IdKey::BYTES]);
            let first: HashSet<_> =
                (0..1_000).map(|number| key.first_digits(number) >> 16).collect();
            assert!(first.len() > 900, "{seed}: {}", first.len());
        }
    }
}
