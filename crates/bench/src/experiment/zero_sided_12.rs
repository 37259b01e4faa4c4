//! Zero-sided RDMA, figure 12: replication to one, two, three and four consumers.
//!
//! There is one producer, with CPUs at both ends. Zero-sided replication always gives all consumers
//! one order; the baseline, two-sided SENDs as in DFI, is run with and without one order.

use super::replication::{self, ITEM_BYTES, RING_BYTES, ReplicationPlan};
use crate::baseline::two_sided::{self, Fanout};
use crate::figure::{Axis, Figure, PaperMark, claim};
use crate::harness::grid::{self, Curve, Grid};
use crate::harness::{ExperimentError, Result, Run};
use rackweave_sim::CpuReport;

/// Maximum number of consumers.
const CONSUMERS_MAX: u32 = 4;

/// Cores of the producer and of each consumer. Assumed: the fewest that do not limit the link. One
/// streams 11.4 GB/s by the model of the testbed's CPU, less than a link carries.
const CORES: u32 = 2;

/// The replicating system.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum System {
    ZeroSided,
    TwoSided { fanout: Fanout, ordered: bool },
}

const SYSTEMS: [(System, &str); 5] = [
    (System::ZeroSided, "zero-sided, ordered"),
    (two_sided(Fanout::Chain, false), "two-sided chain"),
    (two_sided(Fanout::Chain, true), "two-sided chain, ordered"),
    (two_sided(Fanout::Each, false), "a SEND to each"),
    (two_sided(Fanout::Each, true), "a SEND to each, ordered"),
];

const fn two_sided(fanout: Fanout, ordered: bool) -> System {
    System::TwoSided { fanout, ordered }
}

/// The result of one run.
struct Point {
    /// Bytes per second of the slowest consumer and of the fastest.
    slowest: f64,
    fastest: f64,
    /// Cores busy with communication, of the producer and of the busiest consumer.
    communication: [f64; 2],
}

/// Measures and draws the figure.
pub fn run(run: &mut Run<'_>) -> Result<Figure> {
    let consumers: Vec<u32> = (1..=CONSUMERS_MAX).collect();
    let curves = Grid::new(&SYSTEMS, &consumers).measure(run, measure)?;
    Ok(figure(&curves))
}

fn measure(run: &mut Run<'_>, system: System, consumers: u32) -> Result<Point> {
    let (rates, same_order, cpus, seconds) = match system {
        System::ZeroSided => {
            let plan = ReplicationPlan {
                cores: CORES,
                ..ReplicationPlan::new(1, consumers, run.scale)
            };
            let seen = replication::measure(run, &plan)?;
            let cpus = [seen.producer_cpus, seen.consumer_cpus];
            (seen.consumers, seen.same_order, cpus, seen.seconds)
        }
        System::TwoSided { fanout, ordered } => {
            let plan = two_sided::TwoSidedPlan {
                cores: CORES,
                fanout,
                ..two_sided::TwoSidedPlan::new(consumers, ordered, run.scale)
            };
            let seen = two_sided::run(run, &plan)?;
            let cpus = [seen.producers, seen.consumers];
            (seen.goodput, seen.same_order, cpus, seen.seconds)
        }
    };
    if !same_order {
        return Err(ExperimentError::Run("consumers saw two orders".into()));
    }
    let share = |cpu: &CpuReport| cpu.communication.as_secs_f64() / seconds;
    Ok(Point {
        slowest: rates.iter().copied().fold(f64::INFINITY, f64::min),
        fastest: rates.iter().copied().fold(0.0, f64::max),
        communication: cpus.map(|cpus| cpus.iter().map(share).fold(0.0, f64::max)),
    })
}

fn figure(curves: &[Curve<System, u32, Point>]) -> Figure {
    let mut figure = Figure::bars("Replication to N consumers")
        .of("section 7.2, figure 12")
        .x(Axis::linear("consumers", ""))
        .y(Axis::linear("bandwidth of a consumer", "GB/s"));
    // "Nearly" what the link carries.
    figure.paper = vec![PaperMark::level(replication::link_rate() / 1e9)];
    figure.x_names = (1..=CONSUMERS_MAX).map(|n| format!("1:{n}")).collect();
    figure.series = grid::series(curves, f64::from, |point| point.slowest * 1e-9);
    let slowest = |point: &Point| point.slowest;
    let worst = curves[0].values(slowest).fold(f64::NAN, f64::min);
    figure.claims([claim(
        "zero-sided over the link's payload rate, slowest consumer of all runs (paper: nearly)",
    )
    .values([1.0, worst / replication::link_rate()], "x")]);
    for other in &curves[1..] {
        let gain = curves[0].least_gain(other, slowest);
        let what = format!(
            "zero-sided over {}, least gain (paper: at least)",
            other.name
        );
        figure.claims([claim(what).values([1.0, gain], "x")]);
    }
    figure.notes = vec![
        format!(
            "The link carries {:.2} GB/s of payload in packets of 4096 bytes (12.50 GB/s with all \
             headers). Bars are the slowest consumer of each run.",
            replication::link_rate() * 1e-9
        ),
        format!(
            "Items and messages of {ITEM_BYTES} bytes, rings of {} KiB, polled every 5 us; the \
             paper names none of them.",
            RING_BYTES >> 10
        ),
        format!(
            "{CORES} cores of the producer and of each consumer share every item, in all systems: \
             one streams 11.38 GB/s by the model of its memory, less than the link carries."
        ),
        "DFI's native multicast is not modelled (reliable connections only). The chain stands for \
         it: no link carries a message twice in one direction, and each consumer but the last \
         posts a SEND more. A SEND to each consumer is what can be had without multicast."
            .into(),
        "Ordered two-sided replication asks a sequencer at another node for one number at a time \
         and copies messages out of the receive buffers."
            .into(),
        "Every byte is checked, that each consumer gets every item once, and that all saw one \
         order; with one producer that holds without a sequencer too."
            .into(),
    ];
    for curve in curves {
        let each = |of: fn(&Point) -> f64| {
            let texts = curve.values(of).map(|value| format!("{value:.2}"));
            texts.collect::<Vec<_>>().join(", ")
        };
        figure.note(format!(
            "{}: cores that communicate, producer {}; busiest consumer {} (for 1:1 to 1:4); \
             fastest consumer {} GB/s.",
            curve.name,
            each(|point| point.communication[0]),
            each(|point| point.communication[1]),
            each(|point| point.fastest * 1e-9),
        ));
    }
    figure
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn all_systems_replicate_and_only_sends_cost_cores() {
        let mut run = Run::quick(3);
        for (system, name) in SYSTEMS {
            let point = measure(&mut run, system, 2).unwrap();
            assert!(
                point.slowest > 1e9 && point.fastest < 12.5e9,
                "{name}: {} to {}",
                point.slowest,
                point.fastest
            );
            let is_zero_sided = system == System::ZeroSided;
            assert_eq!(
                point.communication == [0.0; 2],
                is_zero_sided,
                "{name}: {:?}",
                point.communication
            );
        }
    }
}
