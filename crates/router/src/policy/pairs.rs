//! Rate limits between agents: a bounded table of token buckets.
//!
//! Each pair of agents, in each direction, has a bucket of a minute's messages, which refills
//! steadily. The table has two generations and is never searched as a whole. A generation ends
//! after a minute: by then the bucket of a pair that has sent nothing since is full again and can
//! be forgotten. A generation also ends when its half of the table is full: then the pairs that
//! were silent longest are forgotten, and start with a full bucket. Pairs that send all the time
//! are never forgotten.

use protocol::Moment;
use rustc_hash::FxHashMap;
use std::{hash::Hash, mem, num::NonZeroU32};

/// The highest rate, in messages a minute.
pub const PER_MINUTE_MAX: u32 = 1_000_000;

/// A minute in milliseconds.
const MINUTE_MS: u64 = 60_000;

/// A millisecond in microseconds, the unit of this table.
const MS: u64 = 1_000;

/// The buckets of pairs that sent within the last minute or two.
#[derive(Debug)]
pub(crate) struct Pairs<K> {
    /// The pairs that sent in this generation, and the microsecond when their buckets are full.
    recent: FxHashMap<(K, K), u64>,
    /// The pairs that last sent in the generation before, and the microsecond when their buckets
    /// are full.
    older: FxHashMap<(K, K), u64>,
    /// The start of this generation.
    began: Moment,
    /// The most pairs in a generation.
    most: usize,
}

impl<K: Copy + Eq + Hash> Pairs<K> {
    /// Returns a table for at most `most` pairs.
    pub(crate) fn new(most: usize) -> Self {
        let most = (most / 2).max(1);
        Self { recent: FxHashMap::default(), older: FxHashMap::default(), began: Moment(0), most }
    }

    /// Returns how many milliseconds `from` has to wait until it may send to `to`; 0 if it may now.
    pub(crate) fn wait_ms(&self, now: Moment, per_minute: NonZeroU32, from: K, to: K) -> u64 {
        let bucket = Bucket::new(per_minute);
        let now = now.0.saturating_mul(MS);
        let full_at = self.full_at((from, to)).max(now).saturating_add(bucket.message);
        full_at.saturating_sub(now).saturating_sub(bucket.size).div_ceil(MS)
    }

    /// Counts an accepted message of `from` to `to`.
    pub(crate) fn note(&mut self, now: Moment, per_minute: NonZeroU32, from: K, to: K) {
        let (pair, bucket) = ((from, to), Bucket::new(per_minute));
        let micros = now.0.saturating_mul(MS);
        let full_at = self.full_at(pair).max(micros).saturating_add(bucket.message);
        let is_full = self.recent.len() >= self.most && !self.recent.contains_key(&pair);
        if is_full || now.since(self.began) >= MINUTE_MS {
            self.older = mem::take(&mut self.recent);
            self.began = now;
        }
        // The wait is at most the time in which an empty bucket fills. Otherwise, a sender whose
        // rate was lowered could wait for longer than a minute.
        self.recent.insert(pair, full_at.min(micros.saturating_add(bucket.size)));
    }

    /// Returns the number of pairs that are held.
    #[cfg(test)]
    fn len(&self) -> usize {
        self.recent.len() + self.older.len()
    }

    fn full_at(&self, pair: (K, K)) -> u64 {
        self.recent.get(&pair).or_else(|| self.older.get(&pair)).copied().unwrap_or(0)
    }
}

/// The sizes of a message and of a full bucket, as microseconds of refilling time.
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

    /// Counts a message if the sender may send now. Returns the milliseconds that it has to wait
    /// otherwise.
    fn speak(pairs: &mut Pairs<u32>, at_ms: u64, per_minute: u32, pair: (u32, u32)) -> u64 {
        let (now, per_minute) = (Moment(at_ms), rate(per_minute));
        let wait = pairs.wait_ms(now, per_minute, pair.0, pair.1);
        if wait == 0 {
            pairs.note(now, per_minute, pair.0, pair.1);
        }
        wait
    }

    #[test]
    fn full_bucket_empties_and_refills_steadily() {
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
    fn long_run_average_is_the_rate() {
        let mut pairs = Pairs::new(MOST);
        let taken = (0..600_000).step_by(50).filter(|at| speak(&mut pairs, *at, 30, (1, 2)) == 0);
        assert_eq!(taken.count(), 30 + 10 * 30 - 1);
    }

    #[test]
    fn pairs_and_directions_count_separately() {
        let mut pairs = Pairs::new(MOST);
        for pair in [(1, 2), (2, 1), (1, 3)] {
            assert_eq!(speak(&mut pairs, 0, 1, pair), 0);
        }
        assert_eq!(speak(&mut pairs, 0, 1, (2, 1)), 60_000);
    }

    #[test]
    fn refused_message_costs_nothing() {
        let mut pairs = Pairs::new(MOST);
        assert_eq!(speak(&mut pairs, 0, 1, (1, 2)), 0);
        for at in 1..60_000 {
            assert_eq!(speak(&mut pairs, at, 1, (1, 2)), 60_000 - at);
        }
        assert_eq!(speak(&mut pairs, 60_000, 1, (1, 2)), 0);
    }

    #[test]
    fn lowered_rate_takes_effect_at_once() {
        let mut pairs = Pairs::new(MOST);
        for _ in 0..100 {
            speak(&mut pairs, 0, 100, (1, 2));
        }
        pairs.note(Moment(0), rate(1), 1, 2);
        assert_eq!(pairs.wait_ms(Moment(0), rate(1), 1, 2), 60_000);
        assert_eq!(pairs.wait_ms(Moment(0), rate(100), 1, 2), 600);
    }

    #[test]
    fn full_table_forgets_the_longest_silent_pairs() {
        let mut pairs = Pairs::new(MOST);
        assert_eq!(speak(&mut pairs, 0, 1, (0, 1)), 0);
        for other in 10..1_000 {
            assert_eq!(speak(&mut pairs, 0, 2, (other, other)), 0);
            // Agent 7 keeps sending to agent 8, so this pair is never forgotten.
            pairs.note(Moment(0), rate(1), 7, 8);
            assert_eq!(pairs.wait_ms(Moment(0), rate(1), 7, 8), 60_000);
            assert!(pairs.len() <= MOST, "{}", pairs.len());
        }
        assert_eq!(speak(&mut pairs, 0, 1, (0, 1)), 0, "forgotten, so with a full bucket");
    }

    #[test]
    fn pairs_are_held_for_a_silent_minute() {
        let mut pairs = Pairs::new(MOST);
        speak(&mut pairs, 59_999, 1, (1, 2));
        speak(&mut pairs, 60_000, 1, (3, 4));
        assert_eq!(speak(&mut pairs, 119_998, 1, (1, 2)), 1);
        speak(&mut pairs, 119_999, 1, (5, 6));
        assert_eq!(pairs.len(), 3);
        speak(&mut pairs, 180_000, 1, (5, 6));
        speak(&mut pairs, 240_000, 1, (5, 6));
        assert_eq!(pairs.len(), 2, "the same pair in both generations");
    }

    #[test]
    fn forgetting_does_not_change_answers() {
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
