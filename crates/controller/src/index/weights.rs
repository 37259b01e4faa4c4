//! How often keys are asked for.

use core::mem;
use serde::{Deserialize, Serialize};

/// Keys from `low` to `last` that together have `weight`, each the same fraction of it.
#[derive(Clone, Copy, PartialEq, Debug, Serialize, Deserialize)]
struct Piece {
    low: u64,
    last: u64,
    weight: f64,
}

/// How often keys are asked for, from samples and counters: a weight for each of some disjoint
/// ranges of keys, spread evenly over the keys of a range. Weights are counts; they are no longer
/// whole numbers when old ones have been made to [fade](Self::fade).
#[derive(Clone, PartialEq, Debug, Default, Serialize, Deserialize)]
pub struct KeyWeights {
    /// Ascending and disjoint.
    pieces: Vec<Piece>,
    /// The total weight of the pieces before each, and finally of all.
    before: Vec<f64>,
}

impl KeyWeights {
    /// From sampled keys, in any order, each counted once.
    pub fn from_samples(samples: &[u64]) -> Self {
        let mut keys = samples.to_vec();
        keys.sort_unstable();
        let pieces = keys.chunk_by(|a, b| a == b).map(|same| Piece {
            low: same[0],
            last: same[0],
            weight: same.len() as f64,
        });
        Self::new(pieces.collect())
    }

    /// From counters of disjoint ranges of keys, in any order: least key, greatest key, count.
    ///
    /// # Panics
    /// If a range ends before it begins, or two overlap.
    pub fn from_counts(counts: impl IntoIterator<Item = (u64, u64, u64)>) -> Self {
        let counts = counts.into_iter();
        let mut pieces: Vec<Piece> = counts
            .map(|(low, last, count)| Piece {
                low,
                last,
                weight: count as f64,
            })
            .collect();
        pieces.sort_unstable_by_key(|piece| piece.low);
        assert!(pieces.iter().all(|piece| piece.low <= piece.last));
        assert!(pieces.is_sorted_by(|a, b| a.last < b.low), "ranges overlap");
        pieces.retain(|piece| piece.weight > 0.0);
        Self::new(pieces)
    }

    fn new(pieces: Vec<Piece>) -> Self {
        let sums = pieces.iter().scan(0.0, |sum, piece| {
            *sum += piece.weight;
            Some(*sum)
        });
        let before = [0.0].into_iter().chain(sums).collect();
        Self { pieces, before }
    }

    /// Whether no weights are known.
    pub fn is_empty(&self) -> bool {
        self.pieces.is_empty()
    }

    /// Number of ranges of keys with weights of their own.
    pub fn len(&self) -> usize {
        self.pieces.len()
    }

    /// The weight of all keys.
    pub fn total(&self) -> f64 {
        self.before.last().copied().unwrap_or(0.0)
    }

    /// The weight of the keys from `low` to `last`; zero if there are none.
    pub fn of(&self, low: u64, last: u64) -> f64 {
        if low > last {
            return 0.0;
        }
        let below = low.checked_sub(1).map_or(0.0, |below| self.up_to(below));
        self.up_to(last) - below
    }

    /// The weight of the keys up to `key`. Never less for a greater key: all roundings are
    /// monotonic.
    fn up_to(&self, key: u64) -> f64 {
        let at = self.pieces.partition_point(|piece| piece.low <= key);
        let Some(at) = at.checked_sub(1) else {
            return 0.0;
        };
        let piece = self.pieces[at];
        if key >= piece.last {
            return self.before[at + 1];
        }
        let keys = |last: u64| (last - piece.low) as f64 + 1.0;
        let part = piece.weight * (keys(key) / keys(piece.last));
        (self.before[at] + part).min(self.before[at + 1])
    }

    /// Multiplies all weights by `factor`. Zero forgets all.
    ///
    /// # Panics
    /// If the factor is negative or not a number.
    pub fn fade(&mut self, factor: f64) {
        assert!(factor >= 0.0, "a weight is never negative");
        let mut pieces = mem::take(&mut self.pieces);
        for piece in &mut pieces {
            piece.weight *= factor;
        }
        pieces.retain(|piece| piece.weight > 0.0);
        *self = Self::new(pieces);
    }

    /// Adds the weights of `other`. Overlapping ranges are cut at each other's ends.
    pub fn add(&mut self, other: &Self) {
        // The greatest key of each range, and the key before its least one.
        let pieces = self.pieces.iter().chain(&other.pieces);
        let ends = pieces.flat_map(|piece| [piece.low.checked_sub(1), Some(piece.last)]);
        let mut ends: Vec<u64> = ends.flatten().collect();
        ends.sort_unstable();
        ends.dedup();
        let mut low = 0;
        let mut sum = Vec::with_capacity(ends.len());
        for last in ends {
            let weight = self.of(low, last) + other.of(low, last);
            if weight > 0.0 {
                sum.push(Piece { low, last, weight });
            }
            low = last.saturating_add(1);
        }
        *self = Self::new(sum);
    }

    /// Reduces the number of ranges to about `most`: light neighbours are merged. A range that has
    /// more than a fair share of the weight is not changed.
    pub fn simplify(&mut self, most: usize) {
        if self.pieces.len() <= most {
            return;
        }
        // Two neighbours that were not merged have more than `fair` together.
        let fair = 2.0 * self.total() / most.max(1) as f64;
        let mut joined: Vec<Piece> = Vec::with_capacity(most + 1);
        for piece in &self.pieces {
            match joined.last_mut() {
                Some(left) if left.weight + piece.weight <= fair => {
                    left.last = piece.last;
                    left.weight += piece.weight;
                }
                _ => joined.push(*piece),
            }
        }
        *self = Self::new(joined);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use rackweave_base::Rng;

    #[test]
    fn samples_count_once_each() {
        let weights = KeyWeights::from_samples(&[7, 3, u64::MAX, 3, 0]);
        assert_eq!(weights.total(), 5.0);
        for (low, last, expect) in [
            (0, u64::MAX, 5.0),
            (0, 0, 1.0),
            (1, 2, 0.0),
            (3, 3, 2.0),
            (0, 6, 3.0),
            (4, 7, 1.0),
            (8, u64::MAX, 1.0),
            (u64::MAX, u64::MAX, 1.0),
            (5, 4, 0.0),
        ] {
            assert_eq!(weights.of(low, last), expect, "{low} to {last}");
        }
        assert_eq!(KeyWeights::default().of(0, u64::MAX), 0.0);
    }

    #[test]
    fn counts_spread_over_their_range() {
        let weights = KeyWeights::from_counts([(100, 199, 50), (0, 9, 10), (200, 200, 7)]);
        assert_eq!(weights.of(0, 4), 5.0);
        assert_eq!(weights.of(5, 149), 30.0);
        assert_eq!(weights.of(199, 200), 7.5);
        let everywhere = KeyWeights::from_counts([(0, u64::MAX, 8)]);
        assert_eq!(everywhere.of(1 << 63, u64::MAX), 4.0);
    }

    #[test]
    #[should_panic(expected = "overlap")]
    fn counts_of_overlapping_ranges_are_refused() {
        let _ = KeyWeights::from_counts([(0, 10, 1), (10, 12, 1)]);
    }

    #[test]
    fn sums_are_what_their_parts_are() {
        for seed in 0..50 {
            let mut rng = Rng::new(seed);
            let mut random = |space: u64| {
                if rng.chance(0.5) {
                    let samples: Vec<_> = (0..60).map(|_| rng.below(space)).collect();
                    return KeyWeights::from_samples(&samples);
                }
                let mut ends: Vec<_> = (0..60).map(|_| rng.below(space)).collect();
                ends.sort_unstable();
                ends.dedup();
                let ranges = ends.chunks_exact(2);
                KeyWeights::from_counts(ranges.map(|ends| (ends[0], ends[1], ends[1] % 97)))
            };
            let (mut sum, other) = (random(1000), random(1000));
            let first = sum.clone();
            sum.add(&other);
            for key in 0..1000 {
                let (low, last) = (key / 2, key);
                let parts = first.of(low, last) + other.of(low, last);
                let is = sum.of(low, last);
                assert!((is - parts).abs() < 1e-6, "seed {seed}: {low} to {last}");
            }
            let mut half = sum.clone();
            half.fade(0.5);
            assert!((half.of(10, 500) * 2.0 - sum.of(10, 500)).abs() < 1e-6);
        }
    }

    #[test]
    fn what_is_light_is_joined_and_what_is_heavy_stays() {
        let mut rng = Rng::new(3);
        let mut samples: Vec<u64> = (0..4000).map(|_| rng.next_u64()).collect();
        samples.extend([1 << 60; 2000]);
        let full = KeyWeights::from_samples(&samples);
        let mut less = full.clone();
        less.simplify(100);
        assert!(less.len() <= 101, "{}", less.len());
        assert_eq!(less.total(), full.total());
        assert_eq!(less.of(1 << 60, 1 << 60), 2000.0);
        for key in (0..16).map(|k| k << 60) {
            let apart = less.of(0, key) - full.of(0, key);
            assert!(apart.abs() <= 120.0, "up to {key:#x}: {apart} more");
        }
        let mut all = full.clone();
        all.simplify(1 << 20);
        assert_eq!(all, full);
    }
}
