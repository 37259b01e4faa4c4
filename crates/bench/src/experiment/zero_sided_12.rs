//! Zero-sided RDMA, figure 12: replication to one, two, three and four consumers.
//!
//! One producer, CPUs at both ends. Zero-sided replication always gives all consumers one order;
//! the baseline, two-sided SENDs as in DFI, is run with and without.

use super::replication::{self, ITEM_BYTES, Plan, RING_BYTES};
use super::{Experiment, ExperimentError, Run};
use crate::baseline::two_sided::{self, Fanout};
use crate::figure::{Axis, Claim, Drawing, Figure, PaperMark, Series};
use rackweave_sim::CpuReport;

/// The figure.
pub const EXPERIMENT: Experiment = Experiment {
    name: "zero-sided-12",
    about: "Replication 1:N with global order, against two-sided SENDs with and without order",
    run,
};

/// The most consumers.
const CONSUMERS_MAX: u32 = 4;

/// Cores of the producer and of each consumer. Assumed: as few as do not hold up the link. One
/// streams 11.4 GB/s by the model of the testbed's CPU, less than a link carries.
const CORES: u32 = 2;

/// Who replicates.
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

/// What one run gave.
struct Point {
    /// Bytes per second of the slowest consumer and of the fastest.
    slowest: f64,
    fastest: f64,
    same_order: bool,
    /// Cores that communicate, of the producer and of the busiest consumer.
    communication: [f64; 2],
}

/// Runs the figure.
///
/// # Errors
/// If a run fails, or consumers saw orders that they should not.
pub fn run(run: &mut Run<'_>) -> Result<Figure, ExperimentError> {
    let total = (SYSTEMS.len() as u32 * CONSUMERS_MAX) as f64;
    let mut points: Vec<Vec<Point>> = Vec::new();
    for (at, (system, name)) in SYSTEMS.into_iter().enumerate() {
        let mut row = Vec::new();
        for consumers in 1..=CONSUMERS_MAX {
            let done = (at as u32 * CONSUMERS_MAX + consumers - 1) as f64;
            let point = measure(run, system, consumers, done / total, total)
                .map_err(|error| error.with(format!("{name}, 1:{consumers}")))?;
            row.push(point);
        }
        points.push(row);
    }
    Ok(figure(run.seed, &points))
}

fn measure(
    run: &mut Run<'_>,
    system: System,
    consumers: u32,
    done: f64,
    total: f64,
) -> Result<Point, ExperimentError> {
    let progress = &mut |share| (run.progress)(done + share / total);
    if !progress(0.0) {
        return Err(ExperimentError::Interrupted);
    }
    let point = match system {
        System::ZeroSided => {
            let plan = Plan {
                cores: CORES,
                ..Plan::new(1, consumers, run.scale)
            };
            let (scale, seed) = (run.scale, run.seed);
            let mut part = Run {
                scale,
                seed,
                progress,
            };
            let outcome = replication::measure(&mut part, &plan, replication::replicated)?;
            let cpus = (&outcome.producer_cpus, &outcome.consumer_cpus);
            point(
                &outcome.consumers,
                outcome.same_order,
                cpus,
                outcome.seconds,
            )
        }
        System::TwoSided { fanout, ordered } => {
            let plan = two_sided::Plan {
                cores: CORES,
                fanout,
                ..two_sided::Plan::new(consumers, ordered, run.scale)
            };
            let failed = |error: two_sided::TwoSidedError| ExperimentError::Run(error.to_string());
            let outcome = two_sided::run(&plan, run.seed).map_err(failed)?;
            let cpus = (&outcome.producers, &outcome.consumers);
            point(&outcome.goodput, outcome.same_order, cpus, outcome.seconds)
        }
    };
    if !point.same_order {
        return Err(ExperimentError::Run("consumers saw two orders".into()));
    }
    Ok(point)
}

fn point(
    rates: &[f64],
    same_order: bool,
    cpus: (&Vec<CpuReport>, &Vec<CpuReport>),
    seconds: f64,
) -> Point {
    let busiest = |cpus: &Vec<CpuReport>| {
        let shares = cpus
            .iter()
            .map(|cpu| cpu.communication.as_secs_f64() / seconds);
        shares.fold(0.0, f64::max)
    };
    Point {
        slowest: rates.iter().copied().fold(f64::INFINITY, f64::min),
        fastest: rates.iter().copied().fold(0.0, f64::max),
        same_order,
        communication: [busiest(cpus.0), busiest(cpus.1)],
    }
}

fn figure(seed: u64, points: &[Vec<Point>]) -> Figure {
    let series = SYSTEMS.iter().zip(points).map(|((_, name), row)| Series {
        name: (*name).into(),
        points: (1..)
            .zip(row)
            .map(|(n, point)| (f64::from(n), point.slowest * 1e-9))
            .collect(),
    });
    Figure {
        name: EXPERIMENT.name.into(),
        title: "Replication to N consumers".into(),
        x: Axis::linear("consumers", ""),
        y: Axis::linear("bandwidth of a consumer", "GB/s"),
        drawing: Drawing::Bars,
        y_per_panel: false,
        // "Nearly" what the link carries.
        paper: vec![PaperMark::level(replication::link_rate() / 1e9)],
        x_names: (1..=CONSUMERS_MAX).map(|n| format!("1:{n}")).collect(),
        series: series.collect(),
        claims: claims(points),
        notes: notes(points),
        seed,
    }
}

fn claims(points: &[Vec<Point>]) -> Vec<Claim> {
    let [zero_sided, others @ ..] = points else {
        return Vec::new();
    };
    let claim = |what: String, ours: f64| Claim {
        what,
        source: "section 7.2, figure 12".into(),
        paper: 1.0,
        ours,
        unit: "x".into(),
    };
    let worst = zero_sided
        .iter()
        .map(|point| point.slowest)
        .fold(f64::INFINITY, f64::min);
    let mut claims = vec![claim(
        "zero-sided over the link's payload rate, slowest consumer of all runs (paper: nearly)"
            .into(),
        worst / replication::link_rate(),
    )];
    for ((_, name), row) in SYSTEMS[1..].iter().zip(others) {
        let gains = zero_sided.iter().zip(row);
        let least = gains
            .map(|(own, other)| own.slowest / other.slowest)
            .fold(f64::INFINITY, f64::min);
        claims.push(claim(
            format!("zero-sided over {name}, least gain (paper: at least)"),
            least,
        ));
    }
    claims
}

fn notes(points: &[Vec<Point>]) -> Vec<String> {
    let per_n = |row: &[Point], of: &dyn Fn(&Point) -> f64, digits: usize| -> String {
        let texts: Vec<String> = row
            .iter()
            .map(|point| format!("{:.digits$}", of(point)))
            .collect();
        texts.join(", ")
    };
    let mut notes = vec![
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
    for ((_, name), row) in SYSTEMS.iter().zip(points) {
        notes.push(format!(
            "{name}: cores that communicate, producer {}; busiest consumer {} (for 1:1 to 1:4); \
             fastest consumer {} GB/s.",
            per_n(row, &|point| point.communication[0], 2),
            per_n(row, &|point| point.communication[1], 2),
            per_n(row, &|point| point.fastest * 1e-9, 2),
        ));
    }
    notes
}

#[cfg(test)]
mod tests {
    use super::super::Scale;
    use super::*;

    #[test]
    fn all_systems_replicate_and_only_sends_cost_cores() {
        let mut run = Run {
            scale: Scale::Quick,
            seed: 3,
            progress: &mut |_| true,
        };
        for (system, name) in SYSTEMS {
            let point = measure(&mut run, system, 2, 0.0, 1.0).unwrap();
            assert!(point.same_order, "{name}");
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
