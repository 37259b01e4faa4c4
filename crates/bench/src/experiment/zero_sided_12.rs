//! Zero-sided RDMA, figure 12: replication to one, two, three and four consumers.
//!
//! There is one producer, with CPUs at both ends. Zero-sided replication always gives all consumers
//! one order; the baseline, two-sided SENDs as in DFI, is run with and without one order.

use super::replication::{self, ITEM_BYTES, RING_BYTES, ReplicationPlan};
use crate::baseline::two_sided::{self, Fanout};
use crate::harness::prelude::*;
use rackweave_rack::config::FaultSection;

/// Maximum number of consumers.
const CONSUMERS_MAX: u32 = 4;

/// Cores of the producer and of each consumer. Assumed: the fewest that do not limit the link. One
/// streams 11.4 GB/s by the model of the testbed's CPU, less than a link carries.
const CORES: u32 = 2;

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

struct Point {
    /// Bytes per second of the slowest consumer and of the fastest.
    slowest: f64,
    fastest: f64,
    /// Cores busy with communication, of the producer and of the busiest consumer.
    communication: [f64; 2],
}

pub fn run(run: &mut Run<'_>) -> Result<Measured> {
    let consumers: Vec<u32> = (1..=CONSUMERS_MAX).collect();
    let curves = Grid::new(&SYSTEMS, &consumers).measure(run, measure)?;
    Ok(measured(&curves))
}

fn measure(run: &mut Run<'_>, system: System, consumers: u32) -> Result<Point> {
    let seen = match system {
        System::ZeroSided => {
            let plan = ReplicationPlan {
                cores: CORES,
                ..ReplicationPlan::new(1, consumers, run.scale)
            };
            replication::measure(run, &plan)?
        }
        System::TwoSided { fanout, ordered } => {
            let plan = two_sided::TwoSidedPlan {
                cores: CORES,
                fanout,
                ..two_sided::TwoSidedPlan::new(consumers, ordered, run.scale)
            };
            two_sided::run(run, &plan, FaultSection::default())?
        }
    };
    if !seen.same_order {
        return Err(ExperimentError::Run("consumers saw two orders".into()));
    }
    let rates = seen.consumers.iter().copied();
    let share = |cpu: &CpuReport| cpu.communication.as_secs_f64() / seen.seconds;
    let busiest = |cpus: &[CpuReport]| cpus.iter().map(share).fold(0.0, f64::max);
    Ok(Point {
        slowest: rates.clone().fold(f64::INFINITY, f64::min),
        fastest: rates.fold(0.0, f64::max),
        communication: [busiest(&seen.producer_cpus), busiest(&seen.consumer_cpus)],
    })
}

fn measured(curves: &[Curve<System, u32, Point>]) -> Measured {
    let slowest = |point: &Point| point.slowest;
    let worst = curves[0].values(slowest).fold(f64::NAN, f64::min);
    let others = curves[1..].iter().map(|other| {
        let gain = curves[0].least_gain(other, slowest);
        values! { name: &other.name, gain }
    });
    let systems = curves.iter().map(|curve| {
        let each = |of: fn(&Point) -> f64| {
            let texts = curve.values(of).map(|value| format!("{value:.2}"));
            texts.collect::<Vec<_>>().join(", ")
        };
        values! {
            name: &curve.name,
            producer: each(|point| point.communication[0]),
            consumer: each(|point| point.communication[1]),
            fastest: each(|point| point.fastest * 1e-9),
        }
    });
    let values = values! {
        link: replication::link_rate() / 1e9,
        worst: worst / replication::link_rate(),
        others: others.collect::<Vec<Values>>(),
        item: ITEM_BYTES,
        ring_kib: RING_BYTES >> 10,
        cores: CORES,
        systems: systems.collect::<Vec<Values>>(),
    };
    let series = grid::series(curves, f64::from, |point| point.slowest * 1e-9);
    Measured::new(series, values)
}

#[cfg(test)]
mod tests;
