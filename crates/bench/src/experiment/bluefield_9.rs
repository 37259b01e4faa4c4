//! Figures 9 and 10 of the BlueField paper: lookups by one-sided READs, by the part of the index on
//! the DPU and by the size of tree nodes.
//!
//! How many READs a lookup takes is how many levels the tree has, so the trees are as large as they
//! are said to be.

#[cfg(test)]
mod tests;

use super::bluefield::PAPER;
use super::bluefield::client::{Keys, Mix};
use super::bluefield::index::{self, Plan, Seen};
use super::bluefield::tree;
use super::{Experiment, ExperimentError, Run, Scale};
use crate::figure::{Axis, Claim, Drawing, Figure, Series};
use rackweave_base::Duration;
use rackweave_endpoint::index::Access;
use rackweave_sim::devices;

/// The experiment of figure 9.
pub const EXPERIMENT: Experiment = Experiment {
    name: "bluefield-9",
    about: "the index by one-sided reads: throughput by offload and size of tree nodes",
    run: run_throughput,
};

/// The experiment of figure 10.
pub const EXPERIMENT_10: Experiment = Experiment {
    name: "bluefield-10",
    about: "the index by one-sided reads: latency by offload and size of tree nodes",
    run: run_latency,
};

const NODE_BYTES: [u32; 4] = [512, 1024, 2048, 4096];

const OFFLOADS: &[f64] = &[0.0, 0.25, 0.5, 0.75, 1.0];
const OFFLOADS_QUICK: &[f64] = &[0.0, 0.5, 1.0];

const KEYS: &[u64] = &[1_000_000, 16_000_000];
const KEYS_QUICK: &[u64] = &[1_000_000];

/// Client threads of figure 9: as many as the paper has, and half as many, which leave room on the
/// cables.
const CLIENTS: [u16; 2] = [devices::COMPUTE_THREADS / 2, devices::COMPUTE_THREADS];

/// Throughput and latency by offload, for trees of so many keys in tree nodes of so many bytes.
struct Curve {
    keys: u64,
    clients: u16,
    node_bytes: u32,
    points: Vec<(f64, Seen)>,
}

impl Curve {
    fn panel(&self) -> String {
        let threads = if self.clients == 1 {
            "thread"
        } else {
            "threads"
        };
        format!("{}, {} {threads}", tree::named(self.keys), self.clients)
    }

    fn at(&self, offload: f64) -> Option<&Seen> {
        let found = self.points.iter().find(|point| point.0 == offload);
        found.map(|point| &point.1)
    }
}

fn plan(keys: u64, node_bytes: u32, clients: u16) -> Plan {
    let mix = Mix {
        keys: Keys::Uniform(keys),
        updates: 0.0,
    };
    Plan {
        node_bytes,
        access: Access::OneSided,
        clients,
        // A thread goes from level to level, one READ after the other.
        operations: 1,
        warm_up: Duration::from_micros(100),
        ..Plan::new(keys, 1, mix)
    }
}

/// All trees with so many client threads; the sweep is this part of the experiment, from where to
/// where.
fn sweep(
    run: &mut Run<'_>,
    part: (f64, f64),
    clients: u16,
    counted: Duration,
) -> Result<Vec<Curve>, ExperimentError> {
    let (sizes, offloads) = match run.scale {
        Scale::Quick => (KEYS_QUICK, OFFLOADS_QUICK),
        Scale::Full | Scale::Paper => (KEYS, OFFLOADS),
    };
    let total = (sizes.len() * NODE_BYTES.len() * offloads.len()) as f64;
    let mut done = 0.0;
    let mut curves = Vec::new();
    for &keys in sizes {
        for node_bytes in NODE_BYTES {
            let mut points = Vec::new();
            for &offload in offloads {
                let plan = Plan {
                    offload,
                    counted,
                    ..plan(keys, node_bytes, clients)
                };
                let share = part.0 + (part.1 - part.0) * done / total;
                let seen = index::measure(run, share, &plan).map_err(|error| {
                    error.with(format!("{keys} keys, {node_bytes} B, {offload} on the DPU"))
                })?;
                points.push((offload, seen));
                done += 1.0;
            }
            curves.push(Curve {
                keys,
                clients,
                node_bytes,
                points,
            });
        }
    }
    Ok(curves)
}

fn series(curves: &[Curve], value: fn(&Seen) -> f64) -> Vec<Series> {
    let one = |curve: &Curve| Series {
        name: format!("{} | {} B", curve.panel(), curve.node_bytes),
        points: curve
            .points
            .iter()
            .map(|(offload, seen)| (offload * 100.0, value(seen)))
            .collect(),
    };
    curves.iter().map(one).collect()
}

fn run_throughput(run: &mut Run<'_>) -> Result<Figure, ExperimentError> {
    let counted = match run.scale {
        Scale::Quick => Duration::from_micros(1_500),
        Scale::Full | Scale::Paper => Duration::from_millis(4),
    };
    let mut curves = Vec::new();
    for (at, clients) in CLIENTS.into_iter().enumerate() {
        let part = [at, at + 1].map(|at| at as f64 / CLIENTS.len() as f64);
        curves.extend(sweep(run, (part[0], part[1]), clients, counted)?);
    }
    let rate = |seen: &Seen| seen.per_second / 1e6;
    Ok(Figure {
        name: EXPERIMENT.name.into(),
        title: "Remote B+tree by one-sided reads".into(),
        x: Axis::linear("keys on the DPU", "%"),
        y: Axis::linear("lookups", "M/s"),
        drawing: Drawing::Lines,
        y_per_panel: false,
        paper: Vec::new(),
        x_names: Vec::new(),
        series: series(&curves, rate),
        claims: throughput_claims(&curves),
        notes: notes(&curves),
        seed: run.seed,
    })
}

fn throughput_claims(curves: &[Curve]) -> Vec<Claim> {
    let claim = |what: String, paper: f64, ours: f64, unit: &str| Claim {
        what,
        source: "section 5.1, figure 9".into(),
        paper,
        ours,
        unit: unit.into(),
    };
    let rate =
        |curve: &Curve, offload: f64| curve.at(offload).map_or(f64::NAN, |seen| seen.per_second);
    let mut claims = Vec::new();
    let mut panels: Vec<(u64, u16)> = curves
        .iter()
        .map(|curve| (curve.keys, curve.clients))
        .collect();
    panels.dedup();
    for panel in panels {
        let of_panel = || {
            curves
                .iter()
                .filter(move |curve| (curve.keys, curve.clients) == panel)
        };
        let best = of_panel().max_by(|a, b| rate(a, 0.0).total_cmp(&rate(b, 0.0)));
        let Some(best) = best else { continue };
        let what = format!("size of tree nodes with the most lookups, {}", best.panel());
        claims.push(claim(what, 2048.0, f64::from(best.node_bytes), "B"));
        let Some(curve) = of_panel().find(|curve| curve.node_bytes == 2048) else {
            continue;
        };
        let name = curve.panel();
        let what = format!("lookups with all on the DPU over none, 2048 B, {name}");
        let ours = rate(curve, 1.0) / rate(curve, 0.0);
        claims.push(claim(what, 1.0, ours, "x"));
        if panel.1 == devices::COMPUTE_THREADS {
            let what = format!(
                "lookups with tree nodes of 2048 B, {name} (the paper does not say of which tree)"
            );
            claims.push(claim(what, 0.8, rate(curve, 0.0) / 1e6, "M/s"));
        }
    }
    claims
}

fn run_latency(run: &mut Run<'_>) -> Result<Figure, ExperimentError> {
    let counted = match run.scale {
        Scale::Quick => Duration::from_millis(2),
        Scale::Full | Scale::Paper => Duration::from_millis(10),
    };
    let curves = sweep(run, (0.0, 1.0), 1, counted)?;
    Ok(Figure {
        name: EXPERIMENT_10.name.into(),
        title: "Latency of lookups by one-sided reads, one at a time".into(),
        x: Axis::linear("keys on the DPU", "%"),
        y: Axis::linear("mean latency", "us"),
        drawing: Drawing::Lines,
        y_per_panel: false,
        paper: Vec::new(),
        x_names: Vec::new(),
        series: series(&curves, |seen| seen.mean_us),
        claims: latency_claims(&curves),
        notes: notes(&curves),
        seed: run.seed,
    })
}

fn latency_claims(curves: &[Curve]) -> Vec<Claim> {
    let claim = |curve: &Curve| {
        let at = |offload| curve.at(offload).map_or(f64::NAN, |seen| seen.mean_us);
        Claim {
            what: format!(
                "latency on the DPU below that on the host (paper: 11 to 13 %), {} B, {}",
                curve.node_bytes,
                tree::named(curve.keys)
            ),
            source: "section 5.2, figure 10".into(),
            paper: 12.0,
            ours: (1.0 - at(1.0) / at(0.0)) * 100.0,
            unit: "%".into(),
        }
    };
    let mut claims: Vec<Claim> = curves.iter().map(claim).collect();
    let mean = |curve: &Curve| curve.at(0.0).map_or(f64::NAN, |seen| seen.mean_us);
    let mut sizes: Vec<u64> = curves.iter().map(|curve| curve.keys).collect();
    sizes.dedup();
    for keys in sizes {
        let of_size = curves.iter().filter(|curve| curve.keys == keys);
        let best = of_size.min_by(|a, b| mean(a).total_cmp(&mean(b)));
        claims.push(Claim {
            what: format!(
                "size of tree nodes with the least latency, {}",
                tree::named(keys)
            ),
            source: "section 5.2, figure 10".into(),
            paper: 2048.0,
            ours: best.map_or(f64::NAN, |curve| f64::from(curve.node_bytes)),
            unit: "B".into(),
        });
    }
    claims
}

fn notes(curves: &[Curve]) -> Vec<String> {
    let mut notes = vec![
        format!(
            "{PAPER}: a lookup reads the tree node of each level in turn, the root first; nothing \
             is cached, and each client thread has one lookup under way"
        ),
        "trees have all the keys they are said to have, in tree nodes nine tenths full; the \
         paper's largest, of 256 M keys, does not fit a run and has one level more"
            .into(),
        "beside what the paper's clients do, ours verify every tree node that comes (its check \
         over all entries), which is in the figures"
            .into(),
        "each of the two cables carries 25 Gbit/s. Lookups of three tree nodes of 2 KiB fill both \
         at 0.98 M/s; the paper's 0.8 M/s would fill them to four fifths. Where cables are full, \
         small tree nodes are best, since a lookup brings fewer bytes"
            .into(),
        "0.4 us between host and DPU (section 4.2.2) weigh less in a READ that takes longer, so \
         the DPU gains less with larger tree nodes. The paper names no switch between the servers; \
         one would lengthen all READs alike and make the gain smaller"
            .into(),
    ];
    for curve in curves {
        if let (Some(host), Some(dpu)) = (curve.at(0.0), curve.at(1.0)) {
            notes.push(format!(
                "{}, {} B: {:.3} M/s and {:.2} us on the host, {:.3} M/s and {:.2} us on the DPU",
                curve.panel(),
                curve.node_bytes,
                host.per_second / 1e6,
                host.median_us,
                dpu.per_second / 1e6,
                dpu.median_us
            ));
        }
    }
    notes
}
