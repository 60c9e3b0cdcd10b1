//! Randomness from a seed: ids and jitter.

use rand_chacha::ChaCha8Rng;
use rand_core::{Rng, SeedableRng};

/// A generator whose seed the driver chooses.
#[derive(Debug)]
pub(super) struct Dice(ChaCha8Rng);

impl Dice {
    pub(super) fn new(seed: [u8; 32]) -> Self {
        Self(ChaCha8Rng::from_seed(seed))
    }

    /// A UUIDv4.
    pub(super) fn id(&mut self) -> String {
        let mut bytes = [0; 16];
        self.0.fill_bytes(&mut bytes);
        uuid::Builder::from_random_bytes(bytes).into_uuid().to_string()
    }

    /// `ms`, at most 15 % more or less.
    pub(super) fn jitter(&mut self, ms: u64) -> u64 {
        let permille = 850 + u64::from(self.0.next_u32() % 301);
        ms.saturating_mul(permille) / 1000
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn jitter_stays_within_15_percent_and_is_not_constant() {
        let mut dice = Dice::new([7; 32]);
        let values: Vec<_> = (0..1000).map(|_| dice.jitter(1000)).collect();
        assert!(values.iter().all(|value| (850..=1150).contains(value)));
        assert!(values.iter().min() < Some(&880) && values.iter().max() > Some(&1120));
    }

    #[test]
    fn equal_seeds_give_equal_ids() {
        let (mut one, mut other) = (Dice::new([1; 32]), Dice::new([1; 32]));
        let id = one.id();
        assert_eq!(id, other.id());
        assert_ne!(id, one.id());
        assert_eq!(id.as_bytes()[14], b'4');
    }
}
