//! Figures 9 and 10 of the BlueField paper: lookups by one-sided READs, by the share of the index
//! on the DPU and by the size of tree nodes.
//!
//! The number of READs of a lookup is the number of levels of the tree, so the trees really have
//! their nominal size.

#[cfg(test)]
mod tests;

use super::bluefield::PAPER;
use super::bluefield::client::Mix;
use super::bluefield::index::{self, IndexPlan};
use super::bluefield::tree;
use crate::figure::{Axis, Figure, claim};
use crate::harness::grid::{self, Grid};
use crate::harness::tally::{Seen, Span};
use crate::harness::{Result, Run};
use rackweave_base::Duration;
use rackweave_endpoint::index::Access;
use rackweave_sim::devices;

const NODE_BYTES: [u32; 4] = [512, 1024, 2048, 4096];

const OFFLOADS: &[f64] = &[0.0, 0.25, 0.5, 0.75, 1.0];
const OFFLOADS_QUICK: &[f64] = &[0.0, 0.5, 1.0];

const KEYS: &[u64] = &[1_000_000, 16_000_000];
const KEYS_QUICK: &[u64] = &[1_000_000];

/// Client threads of figure 9: as many as the paper has, and half as many, which do not saturate
/// the cables.
const CLIENTS: [u16; 2] = [devices::COMPUTE_THREADS / 2, devices::COMPUTE_THREADS];

/// Measurements with this many keys, client threads, and bytes of a tree node, by offload.
type Curve = grid::Curve<(u64, u16, u32), f64, Seen>;

fn panel((keys, clients, _): (u64, u16, u32)) -> String {
    let threads = if clients == 1 { "thread" } else { "threads" };
    format!("{}, {clients} {threads}", tree::named(keys))
}

fn plan(keys: u64, node_bytes: u32, clients: u16, counted: Duration) -> IndexPlan {
    IndexPlan {
        node_bytes,
        access: Access::OneSided,
        clients,
        // A thread descends from level to level, one READ at a time.
        operations: 1,
        span: Span {
            warm_up: Duration::from_micros(100),
            counted,
        },
        ..IndexPlan::new(keys, 1, Mix::uniform(keys, 0.0))
    }
}

/// Measures all trees with each number of client threads.
fn measure(run: &mut Run<'_>, clients: &[u16], counted: Duration) -> Result<Vec<Curve>> {
    let sizes = run.scale.pick(KEYS_QUICK, KEYS);
    let offloads = run.scale.pick(OFFLOADS_QUICK, OFFLOADS);
    let panels = clients
        .iter()
        .flat_map(|clients| sizes.iter().map(move |keys| (keys, clients)));
    let rows = panels.flat_map(|(&keys, &clients)| {
        NODE_BYTES.map(|node_bytes| {
            let of = (keys, clients, node_bytes);
            (format!("{} | {node_bytes} B", panel(of)), of, offloads)
        })
    });
    Grid::of_rows(rows).measure(run, |run, (keys, clients, node_bytes), offload| {
        let plan = IndexPlan {
            offload,
            ..plan(keys, node_bytes, clients, counted)
        };
        index::measure(run, &plan)
    })
}

/// Measures and draws the figure.
pub fn run_throughput(run: &mut Run<'_>) -> Result<Figure> {
    let counted = Duration::from_micros(run.scale.pick(1_500, 4_000));
    let curves = measure(run, &CLIENTS, counted)?;
    let mut figure = Figure::lines("Remote B+tree by one-sided reads")
        .of("section 5.1, figure 9")
        .x(Axis::linear("keys on the DPU", "%"))
        .y(Axis::linear("lookups", "M/s"));
    let rate = |seen: &Seen| seen.per_second / 1e6;
    figure.series = grid::series(&curves, |offload| offload * 100.0, rate);
    for trees in curves.chunks(NODE_BYTES.len()) {
        claim_throughput(&mut figure, trees);
    }
    figure.notes = notes(&curves);
    Ok(figure)
}

/// Claims about the trees of one panel.
fn claim_throughput(figure: &mut Figure, trees: &[Curve]) {
    let rate = |curve: &Curve, offload| curve.value(offload, |seen| seen.per_second);
    let by_rate = |a: &&Curve, b: &&Curve| rate(a, 0.0).total_cmp(&rate(b, 0.0));
    let best = trees.iter().max_by(by_rate);
    let papers = trees.iter().find(|curve| curve.of.2 == 2048);
    let (Some(best), Some(curve)) = (best, papers) else {
        return;
    };
    let name = panel(curve.of);
    figure.claims([
        claim(format!("size of tree nodes with the most lookups, {name}"))
            .values([2048.0, f64::from(best.of.2)], "B"),
        claim(format!(
            "lookups with all on the DPU over none, 2048 B, {name}"
        ))
        .values([1.0, rate(curve, 1.0) / rate(curve, 0.0)], "x"),
    ]);
    if curve.of.1 == devices::COMPUTE_THREADS {
        let what = format!(
            "lookups with tree nodes of 2048 B, {name} (the paper does not say of which tree)"
        );
        figure.claims([claim(what).values([0.8, rate(curve, 0.0) / 1e6], "M/s")]);
    }
}

/// Measures and draws the figure.
pub fn run_latency(run: &mut Run<'_>) -> Result<Figure> {
    let counted = Duration::from_millis(run.scale.pick(2, 10));
    let curves = measure(run, &[1], counted)?;
    let mut figure = Figure::lines("Latency of lookups by one-sided reads, one at a time")
        .of("section 5.2, figure 10")
        .x(Axis::linear("keys on the DPU", "%"))
        .y(Axis::linear("mean latency", "us"));
    figure.series = grid::series(&curves, |offload| offload * 100.0, |seen| seen.mean_us);
    let mean = |curve: &Curve, offload| curve.value(offload, |seen| seen.mean_us);
    for curve in &curves {
        let (keys, _, node_bytes) = curve.of;
        let what = format!(
            "latency on the DPU below that on the host (paper: 11 to 13 %), {node_bytes} B, {}",
            tree::named(keys)
        );
        let ours = (1.0 - mean(curve, 1.0) / mean(curve, 0.0)) * 100.0;
        figure.claims([claim(what).values([12.0, ours], "%")]);
    }
    for trees in curves.chunks(NODE_BYTES.len()) {
        let by_mean = |a: &&Curve, b: &&Curve| mean(a, 0.0).total_cmp(&mean(b, 0.0));
        let best = trees.iter().min_by(by_mean);
        let what = format!(
            "size of tree nodes with the least latency, {}",
            tree::named(trees[0].of.0)
        );
        let ours = best.map_or(f64::NAN, |curve| f64::from(curve.of.2));
        figure.claims([claim(what).values([2048.0, ours], "B")]);
    }
    figure.notes = notes(&curves);
    Ok(figure)
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
                panel(curve.of),
                curve.of.2,
                host.per_second / 1e6,
                host.median_us,
                dpu.per_second / 1e6,
                dpu.median_us
            ));
        }
    }
    notes
}
