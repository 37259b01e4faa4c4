//! Figures 9 and 10 of the BlueField paper: lookups by one-sided READs, by the share of the index
//! on the DPU and by the size of tree nodes.
//!
//! The number of READs of a lookup is the number of levels of the tree, so the trees really have
//! their nominal size.

#[cfg(test)]
mod tests;

use super::bluefield::index::{self, IndexPlan};
use super::bluefield::threads::Mix;
use super::bluefield::tree;
use crate::harness::prelude::*;
use crate::harness::tally::Seen;
use rackweave_endpoint::index::Access;

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

pub fn run_throughput(run: &mut Run<'_>) -> Result<Measured> {
    let counted = Duration::from_micros(run.scale.pick(1_500, 4_000));
    let curves = measure(run, &CLIENTS, counted)?;
    let rate = |seen: &Seen| seen.per_second / 1e6;
    let series = grid::series(&curves, |offload| offload * 100.0, rate);
    let panels = curves.chunks(NODE_BYTES.len()).map(throughput);
    let values = values! { panels: panels.collect::<Vec<Values>>(), curves: noted(&curves) };
    Ok(Measured::new(series, values))
}

/// What claims say of the throughput of the trees of one panel.
fn throughput(trees: &[Curve]) -> Values {
    let rate = |curve: &Curve, offload| curve.value(offload, |seen| seen.per_second);
    let curve = of_size(trees, 2048);
    let mut values = values! {
        name: panel(curve.of),
        best: best(trees, |curve| -rate(curve, 0.0)),
        gain: rate(curve, 1.0) / rate(curve, 0.0),
    };
    if curve.of.1 == devices::COMPUTE_THREADS {
        values.set("rate", rate(curve, 0.0) / 1e6);
    }
    values
}

/// Measures figure 10.
pub fn run_latency(run: &mut Run<'_>) -> Result<Measured> {
    let counted = Duration::from_millis(run.scale.pick(2, 10));
    let curves = measure(run, &[1], counted)?;
    let mean = |curve: &Curve, offload| curve.value(offload, |seen| seen.mean_us);
    let mut noted = noted(&curves);
    for (values, curve) in noted.iter_mut().zip(&curves) {
        let below = (1.0 - mean(curve, 1.0) / mean(curve, 0.0)) * 100.0;
        values.set("below", below);
    }
    let panels = curves.chunks(NODE_BYTES.len()).map(|trees| {
        let best = best(trees, |curve| mean(curve, 0.0));
        values! { keys: tree::named(trees[0].of.0), best }
    });
    let values = values! { panels: panels.collect::<Vec<Values>>(), curves: noted };
    let series = grid::series(&curves, |offload| offload * 100.0, |seen| seen.mean_us);
    Ok(Measured::new(series, values))
}

fn of_size(trees: &[Curve], node_bytes: u32) -> &Curve {
    let found = trees.iter().find(|curve| curve.of.2 == node_bytes);
    found.expect("each panel has all sizes")
}

/// Bytes of a tree node of the tree with the least `cost`.
fn best(trees: &[Curve], cost: impl Fn(&Curve) -> f64) -> u32 {
    let least = trees.iter().min_by(|a, b| cost(a).total_cmp(&cost(b)));
    least.map_or(0, |curve| curve.of.2)
}

fn noted(curves: &[Curve]) -> Vec<Values> {
    let noted = curves.iter().filter_map(|curve| {
        let (host, dpu) = (curve.at(0.0)?, curve.at(1.0)?);
        Some(values! {
            panel: panel(curve.of),
            keys: tree::named(curve.of.0),
            node: curve.of.2,
            host: host.per_second / 1e6,
            host_us: host.median_us,
            dpu: dpu.per_second / 1e6,
            dpu_us: dpu.median_us,
        })
    });
    noted.collect()
}
