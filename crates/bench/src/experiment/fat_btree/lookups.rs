//! Figures 5 to 9 of the Fat-B+Tree paper: lookups by the size of the database, by the share of the
//! workload that the network was not loaded for, by its skew ("fat-btree-7", the distributions as
//! "fat-btree-7b"), by the number of regular nodes in a layer of the network, and by the number of
//! loaded layers below the fat root. Each varies one parameter ([`Sweep`]); lookups are made in the
//! network, and one-sided in trees of several shapes.

use super::client::Seen;
use super::database::{Database, Popularity, distinct};
use super::rdma::{self, Limits, LookupRack, REGULAR, Shape};
use super::{Of, PaperClaim, SKEW, Sweep, VALUE_BYTES, limits, noted, shrink};
use crate::harness::prelude::*;
use rackweave_endpoint::index::Access;

/// The parameters of a measurement; keys and tree nodes are not shrunk yet.
#[derive(Clone, Copy, PartialEq, Debug)]
pub struct Point {
    keys: u64,
    skew: f64,
    /// The share of the queries that the network was not loaded for.
    variation: f64,
    layers: u8,
    /// Tree nodes per layer.
    nodes: u16,
}

/// The default of section V-B.
const DEFAULT: Point = Point {
    keys: 2_000_000,
    skew: SKEW,
    variation: 0.0,
    layers: 3,
    nodes: super::NODES,
};

fn set(figure: &str, point: &mut Point, x: f64) {
    match figure {
        "fat-btree-5" => point.keys = x as u64 * 1_000_000,
        "fat-btree-6" => point.variation = x / 100.0,
        "fat-btree-8" => point.nodes = x as u16,
        "fat-btree-9" => point.layers = x as u8,
        _ => point.skew = x,
    }
}

/// Trees with full inner nodes: the baseline without the limit of 16 children.
const FULL: [Shape; 2] = [(512, 0), (1024, 0)];

/// The names of the curves; [`FULL`] comes last.
const NAMES: [&str; 2 + FULL.len()] = [
    "in the network",
    "one-sided, the same tree",
    "one-sided, 28 children",
    "one-sided, 60 children",
];

type Course = Curve<(), f64, Seen>;

pub fn run(run: &mut Run<'_>, figure: &str) -> Result<Measured> {
    let sweep = Sweep::of(figure);
    let points = sweep.points(run.scale, DEFAULT, |point, x| set(figure, point, x));
    let curves = measure(run, &points)?;
    let mut series = Vec::new();
    let mut draw = |panel: &str, value: fn(&Seen) -> f64| {
        let drawn = grid::series(&curves, |x| x, value).into_iter();
        series.extend(drawn.map(|series| series.in_panel(panel)));
    };
    draw("mean latency [us]", Seen::mean_us);
    draw("99 % latency [us]", |seen| seen.quantile_us(0.99));
    draw("lookups [k/s]", |seen| seen.per_second() / 1e3);
    draw("round trips of a lookup", Seen::round_trips);
    let mut values = noted(run.scale, &curves);
    values.set("claims", claims(&sweep.claims, &curves));
    Ok(Measured::new(series, values))
}

pub fn run_distributions(run: &mut Run<'_>) -> Result<Measured> {
    let sweep = Sweep::of("fat-btree-7");
    let points = sweep.points(run.scale, DEFAULT, |point, x| set("fat-btree-7", point, x));
    let curves = measure(run, &points)?;
    let mut series = Vec::new();
    for (skew, _) in points {
        for curve in &curves[..2] {
            if let Some(seen) = curve.at(skew) {
                let name = format!("skew {skew} | {}", curve.name);
                series.push(Series::new(name, seen.distribution()));
            }
        }
    }
    let mut values = noted(run.scale, &curves);
    values.set("claims", Vec::<Values>::new());
    Ok(Measured::new(series, values))
}

/// Compares ratios with the paper's: percent saved, or multiples. The first of `curves` is the
/// network's, the second the baseline's.
fn claims(claimed: &[PaperClaim], curves: &[Course]) -> Vec<Values> {
    let one = |claim: &PaperClaim| {
        let (what, value): (&str, fn(&Seen) -> f64) = match claim.of {
            Of::Mean => ("mean latency saved", Seen::mean_us),
            Of::Tail => ("99 % latency saved", |seen| seen.quantile_us(0.99)),
            Of::Throughput => ("throughput over the baseline's", Seen::per_second),
        };
        let ratio = curves[0].value(claim.x, value) / curves[1].value(claim.x, value);
        let ratios = [claim.network / claim.baseline, ratio];
        let ([paper, ours], unit) = match claim.of {
            Of::Throughput => (ratios, "x"),
            _ => (ratios.map(|ratio| (1.0 - ratio) * 100.0), "%"),
        };
        values! { what, point: &claim.what, paper, ours, unit }
    };
    claimed.iter().map(one).collect()
}

fn measure(run: &mut Run<'_>, points: &[(f64, Point)]) -> Result<Vec<Course>> {
    let mut curves = NAMES.map(|name| Course::empty(name, ()));
    // Points with the same database use its trees one after another.
    let groups: Vec<_> = points.chunk_by(|a, b| a.1.keys == b.1.keys).collect();
    for (at, group) in groups.iter().enumerate() {
        let part = &mut run.part(at, groups.len());
        measure_database(part, group, &mut curves)
            .map_err(|error| error.with(format_args!("{} keys", group[0].1.keys)))?;
    }
    Ok(curves.into())
}

fn measure_database(
    run: &mut Run<'_>,
    points: &[(f64, Point)],
    curves: &mut [Course],
) -> Result<()> {
    let (scale, seed) = (run.scale, run.seed);
    let database = Database {
        keys: points[0].1.keys / shrink(scale),
        value_bytes: VALUE_BYTES,
    };
    let all = points.iter().map(|(_, point)| {
        let popularity = Popularity::new(&database, point.skew, point.variation, seed)?;
        let mut rng = Rng::new(seed).fork("asked");
        let asked = (0..scale.pick(600, 10_000)).map(|_| popularity.asked(&mut rng));
        let asked: Vec<u64> = asked.collect();
        Ok((popularity, asked))
    });
    let all: Vec<(Popularity, Vec<u64>)> = all.collect::<Result<_>>()?;
    let records = distinct(all.iter().flat_map(|(_, asked)| asked));
    let (mut done, total) = (0, NAMES.len() * points.len());
    let mut look_up = |rack: &mut LookupRack, way: usize, at: usize, access| {
        let seen = rack.look_up(&mut run.part(done, total), access, &all[at].1)?;
        done += 1;
        curves[way].points.push((points[at].0, seen));
        Ok::<_, ExperimentError>(())
    };
    for (at, (_, point)) in points.iter().enumerate() {
        let limits = Limits {
            layers: point.layers,
            nodes: point.nodes / shrink(scale) as u16,
            ..limits(scale)
        };
        let mut rack = LookupRack::new(seed, database, REGULAR, &records, Some(limits))?;
        // Keys of past requests: from them the controller knows how often each tree node is used.
        let mut rng = Rng::new(seed).fork("known");
        let mut known = || database.key(all[at].0.known(&mut rng));
        let known: Vec<u64> = (0..1_000_000 / shrink(scale)).map(|_| known()).collect();
        rdma::load(&rack.index, &known)?;
        look_up(&mut rack, 0, at, Access::InNetwork)?;
        look_up(&mut rack, 1, at, Access::OneSided)?;
    }
    for (way, shape) in (2..).zip(FULL) {
        let mut rack = LookupRack::new(seed, database, shape, &records, None)?;
        for at in 0..points.len() {
            look_up(&mut rack, way, at, Access::OneSided)?;
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests;
