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

use crate::figure::{Axis, Figure};
use crate::harness::drive::OrFailed;
use crate::harness::grid::Curve;
use crate::harness::{Result, Scale};
use database::{Database, Popularity};
use rdma::Limits;
use seen::Seen;

/// How sources cite the paper.
pub const PAPER: &str = "Zhao et al., Fat-B+Tree";

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
    /// The figure or section of the paper.
    pub source: &'static str,
    /// A title in words.
    pub title: &'static str,
    /// The horizontal axis: its label and its unit.
    pub x: (&'static str, &'static str),
    /// Its values in the quick form and in the other forms.
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

    /// The figure without curves.
    pub fn empty_figure(&self, y: Axis) -> Figure {
        let figure = Figure::lines(self.title).of(self.source);
        figure.x(Axis::linear(self.x.0, self.x.1)).y(y)
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

/// Notes that figures 5 to 9 share; the second curve is the baseline's.
fn notes<K>(scale: Scale, curves: &[Curve<K, f64, Seen>]) -> Vec<String> {
    let mut notes = vec![format!(
        "{PAPER}, section V-B: one client thread at 4.2 GHz looks records up one after the other; \
         ConnectX-5s, cables of 40 Gbit/s, two switches in a row. What the paper claims in \
         microseconds is compared as a ratio to its baseline, what ours takes to ours"
    )];
    let baseline = curves.get(1).and_then(|curve| curve.points.first());
    if let Some((_, baseline)) = baseline {
        notes.push(format!(
            "a round trip takes {:.1} us here, the client's work included; the paper's baseline \
             of 113 us would be eight of 14 us. Its client makes its packets itself (DPDK); ours \
             posts work requests to a NIC. No constant was fitted",
            baseline.mean_us() / baseline.round_trips()
        ));
    }
    notes.push(
        "a leaf refers to its records, so that a lookup ends with a READ of the leaf and one of \
         the record: two round trips at least, where the paper's switches may lead to the record \
         itself and leave one"
            .into(),
    );
    notes.push(
        "the baseline walks the same tree as the network, whose inner nodes have 16 children at \
         most (512 bytes, leaves of 28 entries, filled to nine tenths). The other two walk trees \
         with full inner nodes, of 28 children in 512 bytes and of 60 in 1024: what the limit \
         costs"
            .into(),
    );
    notes.push(
        "popular keys are anywhere among all, as YCSB hashes them. The network is loaded by a \
         sample of queries of the same distribution (a million, shrunk like the rest)"
            .into(),
    );
    notes.push(
        "all keys are in the tree; records that no lookup asks for have eight bytes in place of \
         1000, which does not change the tree's shape"
            .into(),
    );
    if shrink(scale) > 1 {
        notes.push(format!(
            "quick: keys, ranges and tree nodes of layers are a {SHRINK}th of what the axis and \
             the paper say, which leaves out a level of the tree"
        ));
    }
    notes
}
