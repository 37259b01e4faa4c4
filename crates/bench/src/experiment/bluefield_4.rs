//! Figure 4 of the BlueField paper: throughput of the index by requests, by the share of it that is
//! on the DPU; and the split that the rebalancer finds on its own, which the paper leaves open
//! (`rebalance`, which also shows it over time). Figure 6: the latency of its lookups.

pub mod rebalance;
#[cfg(test)]
mod tests;

use super::bluefield::index::{self, IndexPlan};
use super::bluefield::threads::Mix;
use super::bluefield::tree::{self, PAPER_KEYS};
use crate::harness::prelude::*;
use rebalance::{Course, SCENARIOS};

/// Millions of lookups per second by the DPU alone, with the fewest and the most keys. Source:
/// section 4.1.3 of the paper.
const DPU_ALONE: [f64; 2] = [4.7, 2.0];

const OFFLOADS: &[f64] = &[
    0.0, 0.05, 0.1, 0.15, 0.2, 0.25, 0.3, 0.35, 0.4, 0.5, 0.625, 0.75, 0.875, 1.0,
];
const OFFLOADS_QUICK: &[f64] = &[0.0, 0.15, 0.25, 0.35, 0.5, 1.0];

/// Workloads: the share of updates, and the name.
const MIXES: [(f64, &str); 2] = [(0.0, "read-only"), (0.5, "50/50")];

/// Throughput in operations per second by offload; keyed by the paper's keys and an index of
/// [`MIXES`].
type Curve = grid::Curve<(u64, usize), f64, f64>;

/// The offload with the highest throughput, and that throughput.
fn peak(curve: &Curve) -> (f64, f64) {
    let most = |a: &(f64, f64), b: &(f64, f64)| a.1.total_cmp(&b.1);
    let found = curve.points.iter().copied().max_by(most);
    found.unwrap_or((f64::NAN, f64::NAN))
}

fn at(curve: &Curve, offload: f64) -> f64 {
    curve.value(offload, |rate| *rate)
}

/// Maximum number of keys in the real trees: a run cannot hold more; the cost is that of all keys.
pub(super) fn real_keys(scale: Scale, keys: u64) -> u64 {
    keys.min(scale.pick(125_000, 1_000_000))
}

pub fn run(run: &mut Run<'_>) -> Result<Measured> {
    let offloads = run.scale.pick(OFFLOADS_QUICK, OFFLOADS);
    let counted = Duration::from_micros(run.scale.pick(400, 2_000));
    let rows = PAPER_KEYS.into_iter().flat_map(|keys| {
        [0, 1].map(|mix| {
            let name = format!("{} | {}", tree::named(keys), MIXES[mix].1);
            (name, (keys, mix), offloads)
        })
    });
    let grid = Grid::of_rows(rows);
    // A course of the rebalancer takes about as long as this many runs.
    const COURSE: usize = 20;
    let runs = grid.count() as f64 / (grid.count() + COURSE * SCENARIOS.len()) as f64;
    let curves = grid.measure(&mut run.share(0.0, runs), |run, (keys, mix), offload| {
        let real = real_keys(run.scale, keys);
        let plan = IndexPlan::new(real, keys / real, Mix::uniform(real, MIXES[mix].0));
        let plan = IndexPlan {
            offload,
            ..plan.counted(counted)
        };
        Ok(index::measure(run, &plan)?.per_second)
    })?;
    let courses = rebalance::courses(&mut run.share(runs, 1.0))?;
    let mut series = grid::series(&curves, |offload| offload * 100.0, |rate| rate / 1e6);
    let rebalanced = |course: &&Course| course.scenario == SCENARIOS[0];
    if let Some(course) = courses.iter().find(rebalanced) {
        let name = format!("{} | rebalanced, read-only", tree::named(PAPER_KEYS[0]));
        let point = (course.offload * 100.0, course.reached / 1e6);
        series.push(Series::new(name, [point]));
    }
    let values = values! {
        claimed: claimed(&curves),
        real: real_keys(run.scale, PAPER_KEYS[2]),
        node: tree::NODE_BYTES,
        fill: rackweave_sim::devices::TREE_FILL * 100.0,
        trees: PAPER_KEYS.map(described).to_vec(),
        curves: curves.iter().map(noted).collect::<Vec<Values>>(),
        courses: courses.iter().map(Course::values).collect::<Vec<Values>>(),
    };
    Ok(Measured::new(series, values))
}

/// The paper has claims for the smallest trees and for the largest.
fn claimed(curves: &[Curve]) -> Vec<Values> {
    let claimed = [
        (PAPER_KEYS[0], 1.47, DPU_ALONE[0]),
        (PAPER_KEYS[2], 1.30, DPU_ALONE[1]),
    ];
    let claimed = claimed
        .into_iter()
        .filter_map(|(keys, paper_gain, paper_dpu)| {
            let curve = curves.iter().find(|curve| curve.of == (keys, 0))?;
            let (host, dpu) = (at(curve, 0.0), at(curve, 1.0));
            let mut values = values! {
                paper_gain, paper_dpu,
                name: tree::named(keys),
                gain: at(curve, 0.25) / host,
                best: peak(curve).0 * 100.0,
                dpu: dpu / 1e6,
            };
            if keys == PAPER_KEYS[0] {
                values.set("host_over_dpu", host / dpu);
            }
            Some(values)
        });
    claimed.collect()
}

/// What the notes say of the trees of this many keys.
fn described(keys: u64) -> Values {
    let [host, dpu] =
        [Server::Host, Server::Dpu].map(|server| tree::cost(server, keys, tree::NODE_BYTES));
    values! {
        name: tree::named(keys),
        levels: host.levels,
        host: host.lookup.to_string(),
        host_lines: host.loads.served[3],
        dpu: dpu.lookup.to_string(),
        dpu_lines: dpu.loads.served[3],
        dpu_walks: dpu.loads.walks,
    }
}

fn noted(curve: &Curve) -> Values {
    let (offload, most) = peak(curve);
    values! {
        name: tree::named(curve.of.0),
        mix: MIXES[curve.of.1].1,
        host: at(curve, 0.0) / 1e6,
        dpu: at(curve, 1.0) / 1e6,
        most: most / 1e6,
        offload: offload * 100.0,
    }
}

const OFFLOADS_6: &[f64] = &[0.0, 0.125, 0.25, 0.375, 0.5, 0.625, 0.75, 0.875, 1.0];
const OFFLOADS_6_QUICK: &[f64] = &[0.0, 0.25, 0.5, 0.75, 1.0];

fn alone(keys: u64, scale: u64, offload: f64, counted: Duration) -> IndexPlan {
    let plan = IndexPlan::new(keys, scale, Mix::uniform(keys, 0.0));
    IndexPlan {
        offload,
        clients: 1,
        operations: 1,
        ..plan.counted(counted)
    }
}

/// Measures figure 6: the latency of lookups by one client thread.
pub fn run_latency(run: &mut Run<'_>) -> Result<Measured> {
    let offloads = run.scale.pick(OFFLOADS_6_QUICK, OFFLOADS_6);
    let counted = Duration::from_millis(run.scale.pick(1, 5));
    let rows = PAPER_KEYS.map(|keys| (tree::named(keys), keys, offloads));
    let curves = Grid::of_rows(rows).measure(run, |run, keys, offload| {
        let real = real_keys(run.scale, keys);
        let plan = alone(real, keys / real, offload, counted);
        Ok(index::measure(run, &plan)?.median_us)
    })?;
    let more = curves.iter().map(|curve| {
        let at = |offload| curve.value(offload, |median| *median);
        values! { name: &curve.name, more: at(1.0) / at(0.0) }
    });
    let values = values! { curves: more.collect::<Vec<Values>>() };
    let series = grid::series(&curves, |offload| offload * 100.0, |median| *median);
    Ok(Measured::new(series, values))
}
