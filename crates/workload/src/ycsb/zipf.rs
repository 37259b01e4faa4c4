//! Zipfian ranks for any skew from 0 to 1.5, drawn exactly, in constant time and without a table.
//!
//! Source: W. Hörmann and G. Derflinger, "Rejection-Inversion to Generate Variates from Monotone
//! Discrete Distributions", ACM TOMACS 6(3), 1996. The method of YCSB (Gray et al., "Quickly
//! Generating Billion-Record Synthetic Databases", SIGMOD 1994) is an approximation, works below
//! skew 1 only, and sums over all ranks whenever there are more of them.
//!
//! With `h(x) = x^-theta` and its integral `H`, a number is drawn uniformly under `H` and mapped
//! back by the inverse of `H`; rounding gives a rank. As `h` is convex, that draws each rank
//! slightly too often; the surplus is rejected, and another number drawn.

use rackweave_base::Rng;

/// Draws ranks: rank `r`, counted from zero, with probability proportional to `(r + 1)^-theta`.
///
/// Exact up to the 53 bits of a draw: ranks so far out that their probability approaches 2^-53 have
/// the correct total mass, but not each its own.
#[derive(Clone, PartialEq, Debug)]
pub struct Zipf {
    theta: f64,
    ranks: u64,
    /// `H(1.5) - h(1)`: rank 0 begins here, so that it is never rejected.
    low: f64,
    /// `H(ranks + 0.5)`.
    high: f64,
    /// A draw that was rounded up by no more than this is accepted without further checks.
    squeeze: f64,
}

/// Why a distribution is invalid.
#[derive(Clone, Copy, PartialEq, Debug, thiserror::Error)]
pub enum ZipfError {
    /// No ranks, or too many.
    #[error("a Zipfian distribution over {0} ranks; use 1 to {max}", max = Zipf::RANKS_MAX)]
    Ranks(u64),
    /// The skew is out of range, or NaN.
    #[error("Zipfian skew {0} is out of range; use 0 (uniform) to {max}", max = Zipf::THETA_MAX)]
    Theta(f64),
}

impl Zipf {
    /// Maximum skew.
    pub const THETA_MAX: f64 = 1.5;
    /// Maximum ranks: beyond it, halves between ranks approach the limit of a double's 53 bits.
    pub const RANKS_MAX: u64 = 1 << 48;

    /// The distribution with skew `theta` over `ranks` ranks.
    ///
    /// # Errors
    /// If there are no ranks, too many, or the skew is not within 0 to 1.5.
    pub fn new(ranks: u64, theta: f64) -> Result<Self, ZipfError> {
        if !(1..=Self::RANKS_MAX).contains(&ranks) {
            return Err(ZipfError::Ranks(ranks));
        }
        if !(0.0..=Self::THETA_MAX).contains(&theta) {
            return Err(ZipfError::Theta(theta));
        }
        Ok(Self {
            theta,
            ranks,
            low: integral(theta, 1.5) - 1.0,
            high: integral(theta, ranks as f64 + 0.5),
            squeeze: 2.0 - inverse(theta, integral(theta, 2.5) - density(theta, 2.0)),
        })
    }

    /// Number of ranks.
    pub const fn ranks(&self) -> u64 {
        self.ranks
    }

    /// The skew.
    pub const fn theta(&self) -> f64 {
        self.theta
    }

    /// Changes the number of ranks, in constant time; it is clamped to 1 to [`Self::RANKS_MAX`].
    pub fn resize(&mut self, ranks: u64) {
        self.ranks = ranks.clamp(1, Self::RANKS_MAX);
        self.high = integral(self.theta, self.ranks as f64 + 0.5);
    }

    /// Draws a rank, counted from zero: 0 is the most frequent.
    pub fn sample(&self, rng: &mut Rng) -> u64 {
        if self.theta == 0.0 {
            return rng.below(self.ranks);
        }
        loop {
            // In (low, high]: rank 0 has no lower neighbour to be rounded down to.
            let under = self.high + rng.fraction() * (self.low - self.high);
            let x = inverse(self.theta, under);
            let k = (x + 0.5).floor().clamp(1.0, self.ranks as f64);
            if k - x <= self.squeeze
                || under >= integral(self.theta, k + 0.5) - density(self.theta, k)
            {
                return k as u64 - 1;
            }
        }
    }
}

/// `h(x) = x^-theta`.
fn density(theta: f64, x: f64) -> f64 {
    (-theta * x.ln()).exp()
}

/// `H(x)`, the integral of `h` from 1 to `x`: `(x^(1-theta) - 1) / (1 - theta)`, or `ln x`.
fn integral(theta: f64, x: f64) -> f64 {
    let ln = x.ln();
    ln * expm1_over((1.0 - theta) * ln)
}

/// The `x` with `H(x) = under`.
fn inverse(theta: f64, under: f64) -> f64 {
    // Rounding must not make the argument of the logarithm negative.
    let t = ((1.0 - theta) * under).max(-1.0);
    (under * ln_1p_over(t)).exp()
}

/// Below this, two terms of a series are exact to the last bit, and the quotient is not.
const SERIES: f64 = 1e-8;

/// `(e^t - 1) / t`, which is 1 at 0. With it, skew 1 is not a special case.
fn expm1_over(t: f64) -> f64 {
    if t.abs() > SERIES {
        t.exp_m1() / t
    } else {
        1.0 + t / 2.0
    }
}

/// `ln(1 + t) / t`, which is 1 at 0.
fn ln_1p_over(t: f64) -> f64 {
    if t.abs() > SERIES {
        t.ln_1p() / t
    } else {
        1.0 - t / 2.0
    }
}
