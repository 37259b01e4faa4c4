//! Spreads ranks over keys: a seeded bijection on `0..size`.
//!
//! YCSB scrambles by a hash, under which ranks collide: some keys get the requests of several
//! ranks, a third of the keys none, and the distribution is no longer Zipfian. A bijection keeps
//! every mass. Source: J. Black and P. Rogaway, "Ciphers with Arbitrary Finite Domains", CT-RSA
//! 2002: a generalised Feistel network on a square of `side * side >= size` numbers; a number
//! outside `0..size` walks on along its cycle until it is inside.

/// A seeded bijection on `0..size`. Not secret, only well spread.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Scatter {
    size: u64,
    /// The smallest number whose square is at least `size`.
    side: u64,
    keys: [u64; ROUNDS],
}

/// Rounds; each mixes one of the two halves into the other.
const ROUNDS: usize = 4;

impl Scatter {
    /// A bijection on `0..size`, chosen by `seed`.
    pub fn new(size: u64, seed: u64) -> Self {
        let floor = size.isqrt();
        let mut keys = [0; ROUNDS];
        for (round, key) in (1..).zip(&mut keys) {
            *key = mix(seed ^ mix(round));
        }
        Self {
            size,
            side: floor + u64::from(floor * floor < size),
            keys,
        }
    }

    /// The size of the domain.
    pub const fn size(&self) -> u64 {
        self.size
    }

    /// The image of `rank`. Numbers of `size` and beyond map to themselves.
    pub fn apply(&self, rank: u64) -> u64 {
        if rank >= self.size {
            return rank;
        }
        // At most 2 * side numbers of the square are outside, so nearly every walk is one step. It
        // ends: a cycle through a number inside returns to it.
        let mut at = rank;
        loop {
            at = self.step(at);
            if at < self.size {
                return at;
            }
        }
    }

    /// One pass through the network, a bijection on `0..side * side`.
    fn step(&self, at: u64) -> u64 {
        let (mut left, mut right) = (at / self.side, at % self.side);
        for key in self.keys {
            let sum = left + self.below_side(mix(right ^ key));
            // Both were below `side`, so one subtraction is the remainder.
            left = right;
            right = if sum < self.side {
                sum
            } else {
                sum - self.side
            };
        }
        left * self.side + right
    }

    /// Maps 64 uniform bits to a number below `side`, without a division.
    fn below_side(&self, bits: u64) -> u64 {
        ((u128::from(bits) * u128::from(self.side)) >> 64) as u64
    }
}

/// The finaliser of splitmix64 (Steele, Lea and Flood, OOPSLA 2014): every bit of the input flips
/// about half of the bits of the output.
pub(super) const fn mix(mut bits: u64) -> u64 {
    bits = bits.wrapping_add(0x9e37_79b9_7f4a_7c15);
    bits = (bits ^ (bits >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    bits = (bits ^ (bits >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
    bits ^ (bits >> 31)
}
