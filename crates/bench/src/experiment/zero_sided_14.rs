//! Zero-sided RDMA, figure 14: how producers share the bandwidth of a flow that replicates.
//!
//! There are one to four producers, each on its own node, and four consumers that get everything.

use super::replication::{self, ITEM_BYTES, Outcome, ReplicationPlan};
use crate::figure::{Axis, Figure, PaperMark, Series, claim};
use crate::harness::grid::Grid;
use crate::harness::{ExperimentError, Result, Run, Scale};

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

/// Measures and draws the figure.
pub fn run(run: &mut Run<'_>) -> Result<Figure> {
    let producers: Vec<u32> = (1..=PRODUCERS_MAX).collect();
    let items: [(PlanOf, &str); 2] = [(large_items, "large items"), (small_items, "small items")];
    let curves = Grid::new(&items, &producers).measure(run, |run, plan, producers| {
        let plan = plan(producers, run.scale);
        measure(run, &plan)
    })?;
    let outcomes = |at: usize| -> Vec<Outcome> {
        let points = curves[at].points.iter();
        points.map(|(_, outcome)| outcome.clone()).collect()
    };
    Ok(figure(&outcomes(0), &outcomes(1)))
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

fn figure(outcomes: &[Outcome], small: &[Outcome]) -> Figure {
    let mut figure = Figure::bars("Replication by 1 to 4 producers to 4 consumers")
        .of("section 7.2, figure 14")
        .x(Axis::linear("producers", ""))
        .y(Axis::linear("bandwidth", "GB/s"));
    let line = replication::link_rate() / 1e9;
    figure.paper = vec![PaperMark::level_in("per consumer", line)];
    figure.x_names = (1..=PRODUCERS_MAX).map(|n| n.to_string()).collect();
    let bars = |panel: &str, letter: &str, index: usize, of: &dyn Fn(&Outcome) -> Vec<f64>| {
        let points = (1..).zip(outcomes);
        let points =
            points.filter_map(|(n, outcome)| Some((f64::from(n), of(outcome).get(index)? * 1e-9)));
        Series::new(format!("{panel} | {letter}{}", index + 1), points)
    };
    let producers = (0..PRODUCERS_MAX as usize)
        .map(|index| bars("per producer", "P", index, &|one| one.producers.clone()));
    let consumers = (0..CONSUMERS as usize)
        .map(|index| bars("per consumer", "C", index, &|one| one.consumers.clone()));
    figure.series = producers.chain(consumers).collect();
    let worst = |of: &dyn Fn(&Outcome) -> f64| outcomes.iter().map(of).fold(0.0, f64::max);
    let slowest = |one: &Outcome| one.consumers.iter().copied().fold(f64::INFINITY, f64::min);
    let least = outcomes.iter().map(slowest).fold(f64::INFINITY, f64::min);
    figure.claims([
        claim("a producer's share off the mean of all, at most (paper: barely noticeable)")
            .values([0.0, worst(&|one| spread(&one.producers)) * 100.0], "%"),
        claim("a consumer's bandwidth off the mean of all, at most (paper: fair)")
            .values([0.0, worst(&|one| spread(&one.consumers)) * 100.0], "%"),
        claim("slowest consumer over the link's payload rate (paper: the available bandwidth)")
            .values([1.0, least / replication::link_rate()], "x"),
    ]);
    figure.notes = notes(outcomes, small);
    figure
}

fn notes(outcomes: &[Outcome], small: &[Outcome]) -> Vec<String> {
    let spreads = |outcomes: &[Outcome]| -> String {
        let texts: Vec<String> = outcomes
            .iter()
            .map(|one| format!("{:.2} %", spread(&one.producers) * 100.0))
            .collect();
        texts.join(", ")
    };
    let rates: Vec<String> = small
        .iter()
        .map(|one| format!("{:.2}", one.consumers[0] * 1e-9))
        .collect();
    vec![
        format!(
            "The link carries {:.2} GB/s of payload in packets of 4096 bytes.",
            replication::link_rate() * 1e-9
        ),
        format!(
            "Items of {} KiB, as in figure 8, each a transfer of its own; rings of {RING_ITEMS} \
             items, polled every 5 us; {CORES} cores per producer and per consumer. The paper \
             names none of them.",
            LARGE_ITEM >> 10
        ),
        "A producer's bandwidth is counted at the first consumer while all producers have items; \
         every byte is checked, and that all consumers saw one order over all producers."
            .into(),
        format!(
            "Shares of 1 to {PRODUCERS_MAX} producers off their mean, at most: {}.",
            spreads(outcomes)
        ),
        format!(
            "With items of {} KiB and rings of {} MiB a transfer has many items, and not always as \
             many: the consumer's ring ends within some, and producers take turns by transfer, not \
             by byte. Then shares are off by {}, with {} GB/s per consumer.",
            ITEM_BYTES >> 10,
            replication::RING_BYTES >> 20,
            spreads(small),
            rates.join(", ")
        ),
    ]
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn producers_get_the_same() {
        let mut run = Run::quick(4);
        let plan = ReplicationPlan {
            items: 40,
            ..large_items(3, Scale::Quick)
        };
        let outcome = measure(&mut run, &plan).unwrap();
        assert_eq!(outcome.producers.len(), 3);
        assert_eq!(outcome.consumers.len(), CONSUMERS as usize);
        assert!(spread(&outcome.producers) < 0.01, "{outcome:?}");
        assert!(spread(&outcome.consumers) < 0.01, "{outcome:?}");
    }

    #[test]
    fn the_spread_is_the_worst_deviation() {
        assert_eq!(spread(&[2.0, 2.0]), 0.0);
        assert_eq!(spread(&[1.0, 2.0, 3.0]), 0.5);
    }
}
