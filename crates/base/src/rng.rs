//! Seeded randomness. Everything random in a run comes from one seed.

use rand_xoshiro::Xoshiro256PlusPlus;
use rand_xoshiro::rand_core::{Rng as _, SeedableRng};

/// A deterministic random number generator (xoshiro256++).
///
/// Each machine gets its own generator by [`Rng::fork`], so the numbers drawn by one machine never
/// affect those of another.
#[derive(Clone, Debug)]
pub struct Rng(Xoshiro256PlusPlus);

impl Rng {
    /// A generator seeded with `seed`.
    pub fn new(seed: u64) -> Self {
        Self(Xoshiro256PlusPlus::seed_from_u64(seed))
    }

    /// A separate generator for `name`, independent of how often `self` has been used since.
    pub fn fork(&mut self, name: &str) -> Self {
        // FNV-1a: only has to distinguish names, and must never change between builds.
        let mut hash = 0xcbf2_9ce4_8422_2325_u64;
        for byte in name.bytes() {
            hash = (hash ^ u64::from(byte)).wrapping_mul(0x0000_0100_0000_01b3);
        }
        Self::new(self.next_u64() ^ hash)
    }

    /// 64 random bits.
    pub fn next_u64(&mut self) -> u64 {
        self.0.next_u64()
    }

    /// 32 random bits.
    pub fn next_u32(&mut self) -> u32 {
        (self.0.next_u64() >> 32) as u32
    }

    /// A number in `0..bound`, zero if `bound` is zero.
    pub fn below(&mut self, bound: u64) -> u64 {
        ((u128::from(self.next_u64()) * u128::from(bound)) >> 64) as u64
    }

    /// A number in `low..=high`.
    pub fn between(&mut self, low: u64, high: u64) -> u64 {
        low + self.below(high - low + 1)
    }

    /// A number in `[0, 1)`.
    pub fn fraction(&mut self) -> f64 {
        (self.next_u64() >> 11) as f64 / (1u64 << 53) as f64
    }

    /// True with the given probability.
    pub fn chance(&mut self, probability: f64) -> bool {
        probability > 0.0 && self.fraction() < probability
    }

    /// A random element of `items`, which must not be empty.
    pub fn pick<'a, T>(&mut self, items: &'a [T]) -> &'a T {
        &items[self.below(items.len() as u64) as usize]
    }
}

/// The source of keys, starting packet sequence numbers, tokens and identities: numbers that cannot
/// be predicted from any number of earlier ones.
#[derive(Debug)]
pub struct KeyRng(RandomSource);

#[derive(Debug)]
enum RandomSource {
    System,
    Seeded(Rng),
}

impl KeyRng {
    /// Uses the system's generator for every number, so that a forked process draws different ones.
    pub fn system() -> Self {
        Self(RandomSource::System)
    }

    /// Numbers determined by the seed, for simulations and tests: the seed reveals the keys.
    pub fn seeded(rng: Rng) -> Self {
        Self(RandomSource::Seeded(rng))
    }

    /// 64 random bits.
    ///
    /// # Panics
    /// If the system's generator fails.
    pub fn next_u64(&mut self) -> u64 {
        match &mut self.0 {
            RandomSource::System => getrandom::u64().expect("the system gives random numbers"),
            RandomSource::Seeded(rng) => rng.next_u64(),
        }
    }

    /// 32 random bits.
    ///
    /// # Panics
    /// As [`Self::next_u64`].
    pub fn next_u32(&mut self) -> u32 {
        (self.next_u64() >> 32) as u32
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn keys_repeat_only_with_a_seed() {
        let seeded = || KeyRng::seeded(Rng::new(7));
        assert_eq!(seeded().next_u64(), seeded().next_u64());
        assert_eq!(seeded().next_u32(), Rng::new(7).next_u32());
        let system = || KeyRng::system().next_u64();
        assert_ne!(system(), system());
    }

    #[test]
    fn the_same_seed_gives_the_same_numbers() {
        let (mut a, mut b) = (Rng::new(7), Rng::new(7));
        assert_eq!(a.fork("nic").next_u64(), b.fork("nic").next_u64());
        assert_ne!(
            Rng::new(7).fork("nic").next_u64(),
            Rng::new(7).fork("link").next_u64()
        );
    }

    #[test]
    fn bounds_hold() {
        let mut rng = Rng::new(1);
        for _ in 0..1000 {
            assert!(rng.below(3) < 3);
            assert!((5..=9).contains(&rng.between(5, 9)));
        }
        assert!(!rng.chance(0.0) && rng.chance(1.0));
    }
}
