//! Code shared by the experiments of the Fat-B+Tree paper: its testbeds in virtual time, a
//! database, lookups and their cost.
//!
//! The testbeds' hardware is `rackweave_sim::testbed_fat_btree`; every constant is in
//! `rackweave_sim::devices`.

pub mod client;
pub mod database;
pub mod ethernet;
pub mod lookups;
pub mod rdma;
#[cfg(test)]
mod tests;

use super::text_of;
use crate::harness::prelude::*;
use client::Seen;
use rdma::Limits;
use serde::Deserialize;

/// Divisor of keys, ranges and regular nodes in the quick form.
const SHRINK: u64 = 10;

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

pub const VALUE_BYTES: u32 = 1000;

/// The Zipfian skew of the default.
pub const SKEW: f64 = 0.99;

/// What a figure varies, in the text of the figure, and the paper's claims.
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Sweep {
    /// The values of the horizontal axis in the quick form, if they are others.
    quick: Option<Vec<f64>>,
    xs: Vec<f64>,
    pub claims: Vec<PaperClaim>,
}

/// The metric that a claim is about.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Of {
    /// The mean latency.
    Mean,
    /// The latency that 99 % do not exceed.
    Tail,
    /// Operations per second.
    Throughput,
}

/// The paper's values at a point, in microseconds or thousands per second.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct PaperClaim {
    pub of: Of,
    pub x: f64,
    /// The point in words.
    pub what: String,
    pub network: f64,
    pub baseline: f64,
}

impl Sweep {
    pub fn of(figure: &str) -> Self {
        text_of(figure).sweep()
    }

    /// The points with their x: `default` with the parameter that `set` sets.
    pub fn points<P: Copy>(
        &self,
        scale: Scale,
        default: P,
        set: impl Fn(&mut P, f64),
    ) -> Vec<(f64, P)> {
        let point = |&x: &f64| {
            let mut point = default;
            set(&mut point, x);
            (x, point)
        };
        let quick = self.quick.as_ref().unwrap_or(&self.xs);
        scale.pick(quick, &self.xs).iter().map(point).collect()
    }
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
