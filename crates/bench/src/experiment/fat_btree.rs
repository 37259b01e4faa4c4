//! Code shared by the experiments of the Fat-B+Tree paper: its testbeds in virtual time, a
//! database, lookups and their cost.
//!
//! The testbeds' hardware is `rackweave_sim::testbed_fat_btree`; every constant is in
//! `rackweave_sim::devices`.

pub mod client;
pub mod database;
pub mod datagrams;
pub mod ethernet;
pub mod lookups;
pub mod rdma;
pub mod seen;
#[cfg(test)]
mod tests;
pub mod walk;

use crate::figure::{Values, values};
use crate::harness::drive::OrFailed;
use crate::harness::grid::Curve;
use crate::harness::{Result, Scale};
use database::{Database, Popularity};
use rdma::Limits;
use seen::Seen;

/// Divisor of keys, ranges and regular nodes in the quick form.
const SHRINK: u64 = 10;

/// The divisor at a scale.
pub fn shrink(scale: Scale) -> u64 {
    scale.pick(SHRINK, 1)
}

/// The default of section V-B: a fat root of 600 ranges and three layers of 3600 regular nodes.
pub fn limits(scale: Scale) -> Limits {
    Limits {
        ranges: (600 / shrink(scale)) as u16,
        layers: 3,
        nodes: NODES / shrink(scale) as u16,
    }
}

/// Regular nodes per layer in the default.
const NODES: u16 = 3600;

/// Bytes of a value.
pub const VALUE_BYTES: u32 = 1000;

/// The Zipfian skew of the default.
pub const SKEW: f64 = 0.99;

/// A figure: what it varies, and the paper's claims. `P` is a point, `C` a claim.
pub struct Sweep<P: 'static, C: 'static> {
    /// The values of the horizontal axis in the quick form and in the other forms.
    pub xs: [&'static [f64]; 2],
    /// Sets the varied parameter.
    pub set: fn(&mut P, f64),
    /// The paper's claims.
    pub claims: &'static [C],
}

impl<P: Copy, C> Sweep<P, C> {
    /// The points with their x: `default` with the varied parameter set.
    pub fn points(&self, scale: Scale, default: P) -> Vec<(f64, P)> {
        let point = |&x: &f64| {
            let mut point = default;
            (self.set)(&mut point, x);
            (x, point)
        };
        let xs = scale.pick(self.xs[0], self.xs[1]);
        xs.iter().map(point).collect()
    }
}

/// One to ten.
pub const TO_TEN: &[f64] = &[1.0, 2.0, 3.0, 4.0, 5.0, 6.0, 7.0, 8.0, 9.0, 10.0];

/// The paper's skews.
pub const SKEWS: [&[f64]; 2] = [&[0.9, 0.95, 0.99]; 2];

/// The popularity of keys, as in [`Popularity::new`].
pub fn popularity(database: &Database, skew: f64, variation: f64, seed: u64) -> Result<Popularity> {
    let popularity = Popularity::new(database, skew, variation, seed);
    popularity.or_failed("the distribution of queries")
}

/// What the notes of figures 5 to 9 say; the second curve is the baseline's.
fn noted<K>(scale: Scale, curves: &[Curve<K, f64, Seen>]) -> Values {
    let baseline = curves.get(1).and_then(|curve| curve.points.first());
    let baseline = baseline.map(|(_, seen)| {
        let round_trip_us = seen.mean_us() / seen.round_trips();
        values! { round_trip_us }
    });
    values! { baseline: Vec::from_iter(baseline), quick: quick(scale) }
}

/// A row if the experiment is shrunk.
pub fn quick(scale: Scale) -> Vec<Values> {
    let shrink = shrink(scale);
    let row = (shrink > 1).then(|| values! { shrink });
    row.into_iter().collect()
}
