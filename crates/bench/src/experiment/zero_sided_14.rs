//! Zero-sided RDMA, figure 14: how producers share the bandwidth of a flow that replicates.
//!
//! There are one to four producers, each on its own node, and four consumers that get everything.

use super::replication::{self, ITEM_BYTES, ReplicationPlan};
use crate::baseline::two_sided::log::Outcome;
use crate::harness::prelude::*;

/// Maximum number of producers, and the number of consumers.
const PRODUCERS_MAX: u32 = 4;
const CONSUMERS: u32 = 4;

/// Cores of each producer and of each consumer, as in figure 12.
const CORES: u32 = 2;

/// Bytes of an item, which is its own transfer. The paper does not say; its shuffle of section 7.1
/// (figure 8) has items of 512 KiB.
const LARGE_ITEM: u32 = 512 << 10;

/// Items of a ring.
const RING_ITEMS: u32 = 32;

pub fn run(run: &mut Run<'_>) -> Result<Measured> {
    let producers: Vec<u32> = (1..=PRODUCERS_MAX).collect();
    let items: [(PlanOf, &str); 2] = [(large_items, "large items"), (small_items, "small items")];
    let curves = Grid::new(&items, &producers).measure(run, |run, plan, producers| {
        let plan = plan(producers, run.scale);
        measure(run, &plan)
    })?;
    Ok(measured(&curves[0], &curves[1]))
}

/// The plan for a number of producers.
type PlanOf = fn(u32, Scale) -> ReplicationPlan;

/// The figure's plan: every transfer is one item, so that all transfers are equal.
fn large_items(producers: u32, scale: Scale) -> ReplicationPlan {
    ReplicationPlan {
        item_bytes: LARGE_ITEM,
        ring_bytes: RING_ITEMS * LARGE_ITEM,
        batch_bytes: LARGE_ITEM,
        items: scale.pick(40, 300),
        ..small_items(producers, scale)
    }
}

/// The items of figure 12, many of which form a transfer.
fn small_items(producers: u32, scale: Scale) -> ReplicationPlan {
    let plan = ReplicationPlan::new(producers, CONSUMERS, scale);
    ReplicationPlan {
        cores: CORES,
        items: plan.items / 2,
        ..plan
    }
}

fn measure(run: &mut Run<'_>, plan: &ReplicationPlan) -> Result<Outcome> {
    let outcome = replication::measure(run, plan)?;
    if !outcome.same_order {
        return Err(ExperimentError::Run("consumers saw two orders".into()));
    }
    Ok(outcome)
}

/// The greatest deviation from the mean, as a fraction of it.
fn spread(rates: &[f64]) -> f64 {
    let mean = rates.iter().sum::<f64>() / rates.len().max(1) as f64;
    let deviations = rates.iter().map(|rate| (rate / mean - 1.0).abs());
    deviations.fold(0.0, f64::max)
}

/// Measurements by the number of producers.
type Curve = grid::Curve<PlanOf, u32, Outcome>;

fn measured(large: &Curve, small: &Curve) -> Measured {
    let bars = |panel: &str, letter: &str, of: fn(&Outcome) -> &[f64], index: usize| {
        let points = large.points.iter();
        let points =
            points.filter_map(|(n, one)| Some((f64::from(*n), of(one).get(index)? * 1e-9)));
        Series::new(format!("{panel} | {letter}{}", index + 1), points)
    };
    let producers = (0..PRODUCERS_MAX as usize)
        .map(|index| bars("per producer", "P", |one| &one.producers, index));
    let consumers =
        (0..CONSUMERS as usize).map(|index| bars("per consumer", "C", |one| &one.consumers, index));
    let worst = |of: fn(&Outcome) -> f64| large.values(of).fold(0.0, f64::max);
    let slowest = |one: &Outcome| one.consumers.iter().copied().fold(f64::INFINITY, f64::min);
    let least = large.values(slowest).fold(f64::INFINITY, f64::min);
    let listed = |curve: &Curve, of: fn(&Outcome) -> String| {
        let texts = curve.points.iter().map(|(_, one)| of(one));
        texts.collect::<Vec<_>>().join(", ")
    };
    let off = |one: &Outcome| format!("{:.2} %", spread(&one.producers) * 100.0);
    let values = values! {
        link: replication::link_rate() / 1e9,
        producers_off: worst(|one| spread(&one.producers)) * 100.0,
        consumers_off: worst(|one| spread(&one.consumers)) * 100.0,
        least: least / replication::link_rate(),
        large_kib: LARGE_ITEM >> 10,
        ring_items: RING_ITEMS,
        cores: CORES,
        producers: PRODUCERS_MAX,
        spreads: listed(large, off),
        item_kib: ITEM_BYTES >> 10,
        ring_mib: replication::RING_BYTES >> 20,
        small_spreads: listed(small, off),
        small_rates: listed(small, |one| format!("{:.2}", one.consumers[0] * 1e-9)),
    };
    Measured::new(producers.chain(consumers).collect(), values)
}

#[cfg(test)]
mod tests;
