//! How often one speaks to another: a small table of those who did so of late.
//!
//! Each pair, in each direction, has a bucket of a minute's messages, which refills steadily: so many at
//! once, and so many a minute on average. The table keeps two generations, and nobody ever goes through
//! it. One ends after a minute, when whoever has been silent since has a full bucket again and can be
//! forgotten without a difference. It also ends when its half of the table is full: then those are
//! forgotten that have been silent longest, and start with a full bucket should they speak again. Two
//! that answer each other all the time are never among them.

use crate::protocol::Moment;
use rustc_hash::FxHashMap;
use std::{hash::Hash, mem, num::NonZeroU32};

/// The most that a minute can be given.
pub const PER_MINUTE_MAX: u32 = 1_000_000;

/// A minute.
const MINUTE_MS: u64 = 60_000;

/// Moments here are in microseconds.
const MS: u64 = 1_000;

/// Who spoke to whom within the last minute or two.
#[derive(Debug)]
pub struct Pairs<K> {
    /// When each pair's bucket will be full again: those that spoke in this generation.
    recent: FxHashMap<(K, K), u64>,
    /// Those that last spoke in the one before.
    older: FxHashMap<(K, K), u64>,
    /// When this generation began.
    began: Moment,
    /// The most in a generation.
    most: usize,
}

impl<K: Copy + Eq + Hash> Pairs<K> {
    /// A table for so many pairs, at the most.
    #[must_use]
    pub fn new(most: usize) -> Self {
        let most = (most / 2).max(1);
        Self { recent: FxHashMap::default(), older: FxHashMap::default(), began: Moment(0), most }
    }

    /// How long `from` has to wait until it may speak to `to` again; 0 if it may now.
    #[must_use]
    pub fn wait_ms(&self, now: Moment, per_minute: NonZeroU32, from: K, to: K) -> u64 {
        let bucket = Bucket::new(per_minute);
        let now = now.0.saturating_mul(MS);
        let full_at = self.full_at((from, to)).max(now).saturating_add(bucket.message);
        full_at.saturating_sub(now).saturating_sub(bucket.size).div_ceil(MS)
    }

    /// A message of `from` to `to` was taken.
    pub fn note(&mut self, now: Moment, per_minute: NonZeroU32, from: K, to: K) {
        let (pair, bucket) = ((from, to), Bucket::new(per_minute));
        let micros = now.0.saturating_mul(MS);
        let full_at = self.full_at(pair).max(micros).saturating_add(bucket.message);
        let is_full = self.recent.len() >= self.most && !self.recent.contains_key(&pair);
        if is_full || now.since(self.began) >= MINUTE_MS {
            self.older = mem::take(&mut self.recent);
            self.began = now;
        }
        // Not even with a smaller bucket than before has anybody to wait for more than a minute.
        self.recent.insert(pair, full_at.min(micros.saturating_add(bucket.size)));
    }

    /// Pairs that are held.
    #[must_use]
    pub fn len(&self) -> usize {
        self.recent.len() + self.older.len()
    }

    /// Whether nobody spoke of late.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    fn full_at(&self, pair: (K, K)) -> u64 {
        self.recent.get(&pair).or_else(|| self.older.get(&pair)).copied().unwrap_or(0)
    }
}

/// A bucket's measures, in the time that they take to refill.
struct Bucket {
    message: u64,
    size: u64,
}

impl Bucket {
    fn new(per_minute: NonZeroU32) -> Self {
        let messages = u64::from(per_minute.get().min(PER_MINUTE_MAX));
        let message = MINUTE_MS * MS / messages;
        Self { message, size: message * messages }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const MOST: usize = 8;

    fn rate(per_minute: u32) -> NonZeroU32 {
        NonZeroU32::new(per_minute).unwrap()
    }

    /// Speaks if it may, and says how long it has to wait otherwise.
    fn speak(pairs: &mut Pairs<u32>, at_ms: u64, per_minute: u32, pair: (u32, u32)) -> u64 {
        let (now, per_minute) = (Moment(at_ms), rate(per_minute));
        let wait = pairs.wait_ms(now, per_minute, pair.0, pair.1);
        if wait == 0 {
            pairs.note(now, per_minute, pair.0, pair.1);
        }
        wait
    }

    #[test]
    fn so_many_at_once_and_then_one_as_each_refills() {
        for per_minute in [1, 2, 7, 60, 9_999, 700_000, PER_MINUTE_MAX] {
            let mut pairs = Pairs::new(MOST);
            let start = 5_000_000;
            for _ in 0..per_minute {
                assert_eq!(speak(&mut pairs, start, per_minute, (1, 2)), 0, "{per_minute}");
            }
            let wait = speak(&mut pairs, start, per_minute, (1, 2));
            let message = 60_000_000 / u64::from(per_minute);
            assert_eq!(wait, message.div_ceil(1_000), "{per_minute}");
        }
        let mut pairs = Pairs::new(MOST);
        assert_eq!([0, 0, 0].map(|at| speak(&mut pairs, at, 2, (1, 2))), [0, 0, 30_000]);
        assert_eq!(
            [29_999, 30_000, 30_000].map(|at| speak(&mut pairs, at, 2, (1, 2))),
            [1, 0, 30_000]
        );
        assert_eq!(
            [90_000, 90_000, 90_000].map(|at| speak(&mut pairs, at, 2, (1, 2))),
            [0, 0, 30_000]
        );
    }

    #[test]
    fn over_a_long_time_it_is_the_rate() {
        let mut pairs = Pairs::new(MOST);
        let taken = (0..600_000).step_by(50).filter(|at| speak(&mut pairs, *at, 30, (1, 2)) == 0);
        assert_eq!(taken.count(), 30 + 10 * 30 - 1);
    }

    #[test]
    fn each_direction_and_each_pair_counts_on_its_own() {
        let mut pairs = Pairs::new(MOST);
        for pair in [(1, 2), (2, 1), (1, 3)] {
            assert_eq!(speak(&mut pairs, 0, 1, pair), 0);
        }
        assert_eq!(speak(&mut pairs, 0, 1, (2, 1)), 60_000);
    }

    #[test]
    fn a_refused_message_costs_nothing() {
        let mut pairs = Pairs::new(MOST);
        assert_eq!(speak(&mut pairs, 0, 1, (1, 2)), 0);
        for at in 1..60_000 {
            assert_eq!(speak(&mut pairs, at, 1, (1, 2)), 60_000 - at);
        }
        assert_eq!(speak(&mut pairs, 60_000, 1, (1, 2)), 0);
    }

    #[test]
    fn a_smaller_bucket_takes_effect_at_once_and_waits_no_longer_than_a_minute() {
        let mut pairs = Pairs::new(MOST);
        for _ in 0..100 {
            speak(&mut pairs, 0, 100, (1, 2));
        }
        pairs.note(Moment(0), rate(1), 1, 2);
        assert_eq!(pairs.wait_ms(Moment(0), rate(1), 1, 2), 60_000);
        assert_eq!(pairs.wait_ms(Moment(0), rate(100), 1, 2), 600);
    }

    #[test]
    fn a_full_table_forgets_who_was_silent_longest_and_stays_bounded() {
        let mut pairs = Pairs::new(MOST);
        assert_eq!(speak(&mut pairs, 0, 1, (0, 1)), 0);
        for other in 10..1_000 {
            assert_eq!(speak(&mut pairs, 0, 2, (other, other)), 0);
            // These two go on, so that they are never the ones to forget.
            pairs.note(Moment(0), rate(1), 7, 8);
            assert_eq!(pairs.wait_ms(Moment(0), rate(1), 7, 8), 60_000);
            assert!(pairs.len() <= MOST, "{}", pairs.len());
        }
        assert_eq!(speak(&mut pairs, 0, 1, (0, 1)), 0, "forgotten, so with a full bucket");
    }

    #[test]
    fn after_a_silent_minute_nothing_is_held_and_nobody_is_forgotten_before() {
        let mut pairs = Pairs::new(MOST);
        speak(&mut pairs, 59_999, 1, (1, 2));
        speak(&mut pairs, 60_000, 1, (3, 4));
        assert_eq!(speak(&mut pairs, 119_998, 1, (1, 2)), 1);
        speak(&mut pairs, 119_999, 1, (5, 6));
        assert_eq!(pairs.len(), 3);
        speak(&mut pairs, 180_000, 1, (5, 6));
        speak(&mut pairs, 240_000, 1, (5, 6));
        assert_eq!(pairs.len(), 2, "the same pair in both generations");
        assert!(Pairs::<u32>::new(0).is_empty());
    }

    #[test]
    fn against_a_table_that_forgets_nothing_the_answers_are_the_same() {
        use rand_core::{Rng, SeedableRng};
        let mut random = rand_chacha::ChaCha8Rng::from_seed([9; 32]);
        let (mut small, mut large) = (Pairs::new(64), Pairs::new(1 << 20));
        large.began = Moment(u64::MAX);
        let (mut now, mut refused) = (0, 0);
        for _ in 0..20_000 {
            let number = random.next_u32();
            now += u64::from(number % 900);
            let pair = (number >> 10 & 3, number >> 12 & 3);
            let wait = speak(&mut small, now, 5, pair);
            assert_eq!(wait, speak(&mut large, now, 5, pair), "at {now}");
            refused += u32::from(wait > 0);
        }
        assert!((5_000..15_000).contains(&refused), "{refused}");
    }
}
