//! Figure 4 of the BlueField paper: throughput of the index by requests, by the part of it that is
//! on the DPU; and what the rebalancer makes of it on its own, which the paper leaves open
//! (`rebalance`; `bluefield_4b` shows it over time).

pub mod rebalance;
#[cfg(test)]
mod tests;

use super::bluefield::PAPER;
use super::bluefield::client::{Keys, Mix};
use super::bluefield::index::{self, Plan};
use super::bluefield::tree::{self, PAPER_KEYS};
use super::bluefield_4b;
use super::{Experiment, ExperimentError, Run, Scale};
use crate::figure::{Axis, Claim, Drawing, Figure, PaperMark, Series};
use rackweave_base::Duration;
use rackweave_sim::testbed::Server;
use rebalance::{Course, Scenario};

/// The experiment.
pub const EXPERIMENT: Experiment = Experiment {
    name: "bluefield-4",
    about: "the index by requests, by the part of it on the DPU; and rebalanced online",
    run,
};

/// Millions of lookups per second by the DPU alone, with the fewest and the most keys. Source:
/// section 4.1.3 of the paper.
const DPU_ALONE: [f64; 2] = [4.7, 2.0];

const OFFLOADS: &[f64] = &[
    0.0, 0.05, 0.1, 0.15, 0.2, 0.25, 0.3, 0.35, 0.4, 0.5, 0.625, 0.75, 0.875, 1.0,
];
const OFFLOADS_QUICK: &[f64] = &[0.0, 0.15, 0.25, 0.35, 0.5, 1.0];

/// Workloads: which part are updates, and their names.
const MIXES: [(f64, &str); 2] = [(0.0, "read-only"), (0.5, "50/50")];

/// Keys that the trees really have at most: more do not fit a run; their cost is that of all.
pub(super) fn real_keys(scale: Scale, keys: u64) -> u64 {
    let most = match scale {
        Scale::Quick => 125_000,
        Scale::Full | Scale::Paper => 1_000_000,
    };
    keys.min(most)
}

/// A curve: keys of the paper, workload, throughput in operations per second by offload.
#[derive(Clone, PartialEq, Debug)]
struct Curve {
    keys: u64,
    mix: &'static str,
    points: Vec<(f64, f64)>,
}

impl Curve {
    fn at(&self, offload: f64) -> f64 {
        let found = self.points.iter().find(|point| point.0 == offload);
        found.map_or(f64::NAN, |point| point.1)
    }

    /// The offload with the most throughput, and that.
    fn peak(&self) -> (f64, f64) {
        let most = |a: &(f64, f64), b: &(f64, f64)| a.1.total_cmp(&b.1);
        let found = self.points.iter().copied().max_by(most);
        found.unwrap_or((f64::NAN, f64::NAN))
    }
}

fn plan(scale: Scale, keys: u64, updates: f64, offload: f64) -> Plan {
    let real = real_keys(scale, keys);
    let mix = Mix {
        keys: Keys::Uniform(real),
        updates,
    };
    let plan = Plan::new(real, keys / real, mix);
    let counted = match scale {
        Scale::Quick => Duration::from_micros(400),
        Scale::Full | Scale::Paper => Duration::from_micros(2_000),
    };
    Plan {
        offload,
        counted,
        ..plan
    }
}

fn run(run: &mut Run<'_>) -> Result<Figure, ExperimentError> {
    let offloads = match run.scale {
        Scale::Quick => OFFLOADS_QUICK,
        Scale::Full | Scale::Paper => OFFLOADS,
    };
    // A course of the rebalancer takes about as long as so many runs.
    const COURSE: f64 = 20.0;
    let courses_share = COURSE * Scenario::ALL.len() as f64;
    let runs = (PAPER_KEYS.len() * MIXES.len() * offloads.len()) as f64;
    let total = runs + courses_share;
    let mut done = 0.0;
    let mut curves = Vec::new();
    for keys in PAPER_KEYS {
        for (updates, mix) in MIXES {
            let mut points = Vec::new();
            for &offload in offloads {
                let plan = plan(run.scale, keys, updates, offload);
                let seen = index::measure(run, done / total, &plan).map_err(|error| {
                    error.with(format!("{keys} keys, {mix}, {offload} on the DPU"))
                })?;
                points.push((offload, seen.per_second));
                done += 1.0;
            }
            curves.push(Curve { keys, mix, points });
        }
    }
    let mut courses = Vec::new();
    for scenario in Scenario::ALL {
        let course = rebalance::course(run, done / total, scenario);
        courses.push(course.map_err(|error| error.with(scenario.name()))?);
        done += COURSE;
    }
    Ok(figure(run.scale, &curves, &courses, run.seed))
}

fn figure(scale: Scale, curves: &[Curve], courses: &[Course], seed: u64) -> Figure {
    let rebalanced = |course: &&Course| course.scenario == Scenario::Uniform;
    let rebalanced = courses.iter().find(rebalanced).map(|course| Series {
        name: format!("{} | rebalanced, read-only", tree::named(PAPER_KEYS[0])),
        points: vec![(course.offload * 100.0, course.reached / 1e6)],
    });
    let mut claims = claims(curves);
    claims.extend(courses.iter().map(bluefield_4b::claim));
    let mut notes = notes(scale, curves);
    notes.extend(courses.iter().map(bluefield_4b::note));
    let series = curves.iter().map(|curve| Series {
        name: format!("{} | {}", tree::named(curve.keys), curve.mix),
        points: curve
            .points
            .iter()
            .map(|(offload, rate)| (offload * 100.0, rate / 1e6))
            .collect(),
    });
    let series = series.chain(rebalanced);
    Figure {
        name: EXPERIMENT.name.into(),
        title: "Remote B+tree by requests, by the part on the DPU".into(),
        x: Axis::linear("keys on the DPU", "%"),
        y: Axis::linear("operations", "M/s"),
        drawing: Drawing::Lines,
        y_per_panel: false,
        // The DPU alone (section 4.1.3).
        paper: vec![
            PaperMark::point_in(&tree::named(PAPER_KEYS[0]), (100.0, DPU_ALONE[0])),
            PaperMark::point_in(&tree::named(PAPER_KEYS[2]), (100.0, DPU_ALONE[1])),
        ],
        x_names: Vec::new(),
        series: series.collect(),
        claims,
        notes,
        seed,
    }
}

fn claims(curves: &[Curve]) -> Vec<Claim> {
    let claim = |what: String, source: &str, paper: f64, ours: f64, unit: &str| Claim {
        what,
        source: source.into(),
        paper,
        ours,
        unit: unit.into(),
    };
    let mut claims = Vec::new();
    let reads = curves.iter().filter(|curve| curve.mix == MIXES[0].1);
    for curve in reads {
        let name = tree::named(curve.keys);
        let figure = "section 4.1.2, figure 4";
        let paper = match curve.keys {
            keys if keys == PAPER_KEYS[0] => Some(1.47),
            keys if keys == PAPER_KEYS[2] => Some(1.30),
            _ => None,
        };
        if let Some(paper) = paper {
            let ours = curve.at(0.25) / curve.at(0.0);
            let what = format!("throughput at 25 % over that at 0 %, {name}");
            claims.push(claim(what, figure, paper, ours, "x"));
            let what = format!("part on the DPU with the most throughput, {name}");
            claims.push(claim(what, figure, 25.0, curve.peak().0 * 100.0, "%"));
        }
        let dpu = match curve.keys {
            keys if keys == PAPER_KEYS[0] => Some(DPU_ALONE[0]),
            keys if keys == PAPER_KEYS[2] => Some(DPU_ALONE[1]),
            _ => None,
        };
        if let Some(dpu) = dpu {
            let what = format!("lookups by the DPU alone, {name}");
            let ours = curve.at(1.0) / 1e6;
            claims.push(claim(what, "section 4.1.3", dpu, ours, "M/s"));
        }
        if curve.keys == PAPER_KEYS[0] {
            let what = format!("host over DPU, each alone (paper: roughly 3), {name}");
            let ours = curve.at(0.0) / curve.at(1.0);
            claims.push(claim(what, "section 6.2", 3.0, ours, "x"));
        }
    }
    claims
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
        let (offload, most) = curve.peak();
        notes.push(format!(
            "{}, {}: host alone {:.2} M/s, DPU alone {:.2} M/s, most {:.2} M/s with {:.0} % on the \
             DPU",
            tree::named(curve.keys),
            curve.mix,
            curve.at(0.0) / 1e6,
            curve.at(1.0) / 1e6,
            most / 1e6,
            offload * 100.0
        ));
    }
    notes
}
