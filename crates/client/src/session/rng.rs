//! Randomness from a seed: ids and jitter.

use rand_chacha::ChaCha8Rng;
use rand_core::{Rng, SeedableRng};

/// The random number generator of a session. The driver chooses its seed.
#[derive(Debug)]
pub(super) struct SessionRng(ChaCha8Rng);

impl SessionRng {
    pub(super) fn new(seed: [u8; 32]) -> Self {
        Self(ChaCha8Rng::from_seed(seed))
    }

    /// A random UUID, version 4.
    pub(super) fn id(&mut self) -> String {
        let mut bytes = [0; 16];
        self.0.fill_bytes(&mut bytes);
        uuid::Builder::from_random_bytes(bytes).into_uuid().to_string()
    }

    /// A random number within 15 % of `ms`.
    pub(super) fn jitter(&mut self, ms: u64) -> u64 {
        let permille = 850 + u64::from(self.0.next_u32() % 301);
        ms.saturating_mul(permille) / 1000
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn jitter_varies_within_15_percent() {
        let mut rng = SessionRng::new([7; 32]);
        let values: Vec<_> = (0..1000).map(|_| rng.jitter(1000)).collect();
        assert!(values.iter().all(|value| (850..=1150).contains(value)));
        assert!(values.iter().min() < Some(&880) && values.iter().max() > Some(&1120));
    }

    #[test]
    fn equal_seeds_give_equal_ids() {
        let (mut left, mut right) = (SessionRng::new([1; 32]), SessionRng::new([1; 32]));
        let id = left.id();
        assert_eq!(id, right.id());
        assert_ne!(id, left.id());
        assert_eq!(id.as_bytes()[14], b'4');
    }
}
