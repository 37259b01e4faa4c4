//! Figure 4 of the BlueField paper: throughput of the index by requests, by the share of it that is
//! on the DPU; and the split that the rebalancer finds on its own, which the paper leaves open
//! (`rebalance`; `bluefield_4b` shows it over time).

pub mod rebalance;
#[cfg(test)]
mod tests;

use super::bluefield::PAPER;
use super::bluefield::client::Mix;
use super::bluefield::index::{self, IndexPlan};
use super::bluefield::tree::{self, PAPER_KEYS};
use super::bluefield_4b;
use crate::figure::{Axis, Figure, PaperMark, Series, claim};
use crate::harness::grid::{self, Grid};
use crate::harness::{Result, Run, Scale};
use rackweave_base::Duration;
use rackweave_sim::testbed::Server;
use rebalance::{Course, Scenario};

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

/// Operations per second of a curve at an offload.
fn at(curve: &Curve, offload: f64) -> f64 {
    curve.value(offload, |rate| *rate)
}

/// Maximum number of keys in the real trees: a run cannot hold more; the cost is that of all keys.
pub(super) fn real_keys(scale: Scale, keys: u64) -> u64 {
    keys.min(scale.pick(125_000, 1_000_000))
}

/// Measures and draws the figure.
pub fn run(run: &mut Run<'_>) -> Result<Figure> {
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
    let runs = grid.count() as f64 / (grid.count() + COURSE * Scenario::ALL.len()) as f64;
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
    let mut figure = Figure::lines("Remote B+tree by requests, by the part on the DPU")
        .of("section 4.1.2, figure 4")
        .x(Axis::linear("keys on the DPU", "%"))
        .y(Axis::linear("operations", "M/s"));
    // The DPU alone (section 4.1.3).
    figure.paper = vec![
        PaperMark::point_in(&tree::named(PAPER_KEYS[0]), (100.0, DPU_ALONE[0])),
        PaperMark::point_in(&tree::named(PAPER_KEYS[2]), (100.0, DPU_ALONE[1])),
    ];
    figure.series = grid::series(&curves, |offload| offload * 100.0, |rate| rate / 1e6);
    let rebalanced = |course: &&Course| course.scenario == Scenario::Uniform;
    if let Some(course) = courses.iter().find(rebalanced) {
        let name = format!("{} | rebalanced, read-only", tree::named(PAPER_KEYS[0]));
        let point = (course.offload * 100.0, course.reached / 1e6);
        figure.series.push(Series::new(name, [point]));
    }
    claims(&mut figure, &curves);
    figure.notes = notes(run.scale, &curves);
    for course in &courses {
        bluefield_4b::describe(&mut figure, course);
    }
    Ok(figure)
}

fn claims(figure: &mut Figure, curves: &[Curve]) {
    // The paper has claims for the smallest trees and for the largest.
    let claimed = [
        (PAPER_KEYS[0], 1.47, DPU_ALONE[0]),
        (PAPER_KEYS[2], 1.30, DPU_ALONE[1]),
    ];
    for (keys, gain, dpu) in claimed {
        let Some(curve) = curves.iter().find(|curve| curve.of == (keys, 0)) else {
            continue;
        };
        let name = tree::named(keys);
        let (host, dpu_alone) = (at(curve, 0.0), at(curve, 1.0));
        figure.claims([
            claim(format!("throughput at 25 % over that at 0 %, {name}"))
                .values([gain, at(curve, 0.25) / host], "x"),
            claim(format!("part on the DPU with the most throughput, {name}"))
                .values([25.0, peak(curve).0 * 100.0], "%"),
            claim(format!("lookups by the DPU alone, {name}"))
                .at("section 4.1.3")
                .values([dpu, dpu_alone / 1e6], "M/s"),
        ]);
        if keys == PAPER_KEYS[0] {
            let what = format!("host over DPU, each alone (paper: roughly 3), {name}");
            let roughly = claim(what).at("section 6.2");
            figure.claims([roughly.values([3.0, host / dpu_alone], "x")]);
        }
    }
}

fn notes(scale: Scale, curves: &[Curve]) -> Vec<String> {
    let real = real_keys(scale, PAPER_KEYS[2]);
    let mut notes = vec![
        format!(
            "{PAPER}: 8 threads on the host, 8 on the DPU, 16 on the compute node, keys and values \
             of 8 bytes, keys drawn alike from all; the DPU has the range of the greatest keys"
        ),
        format!(
            "scale: trees really have up to {real} keys, and every answer is checked; what an \
             operation costs is computed for the paper's number of keys and levels of each part"
        ),
        format!(
            "tree nodes of {} bytes, {:.0} % full as by inserts at random; 16 requests of each \
             client thread under way, one in each message, replies to one client behind one \
             doorbell: the paper's text gives none of these",
            tree::NODE_BYTES,
            rackweave_sim::devices::TREE_FILL * 100.0,
        ),
    ];
    for keys in PAPER_KEYS {
        let [host, dpu] =
            [Server::Host, Server::Dpu].map(|server| tree::cost(server, keys, tree::NODE_BYTES));
        notes.push(format!(
            "{}: {} levels; a lookup takes {} on the host ({:.1} lines from memory) and {} on the \
             DPU ({:.1} lines, {:.1} page walks)",
            tree::named(keys),
            host.levels,
            host.lookup,
            host.loads.served[3],
            dpu.lookup,
            dpu.loads.served[3],
            dpu.loads.walks,
        ));
    }
    for curve in curves {
        let (offload, most) = peak(curve);
        notes.push(format!(
            "{}, {}: host alone {:.2} M/s, DPU alone {:.2} M/s, most {:.2} M/s with {:.0} % on the \
             DPU",
            tree::named(curve.of.0),
            MIXES[curve.of.1].1,
            at(curve, 0.0) / 1e6,
            at(curve, 1.0) / 1e6,
            most / 1e6,
            offload * 100.0
        ));
    }
    notes
}
