//! Zero-sided RDMA, figure 15: a distributed join, by the number of nodes.
//!
//! Cores of every node shuffle a small and a large table of 16-byte tuples to the GPUs of all
//! nodes, four buffers each, where they are joined while they come in. Either the switch takes the
//! tuples out of rings, or the cores also drive the shuffle, with as many cores or twice as many.

use super::shuffle::{self, FlowShape, Traffic};
use super::zero_sided_9::{SEGMENT_BYTES, SEGMENTS};
use super::{Experiment, ExperimentError, Run, Scale};
use crate::baseline::cpu_shuffle::{self, Shape};
use crate::baseline::ends::{FlowInlet, FlowOutlet, Inlet, Outlet};
use crate::baseline::join::{JoinLedger, Joined, Joiner, Scanner, TUPLE_BYTES, Tables};
use crate::figure::{Axis, Claim, Drawing, Figure, Series};
use core::cell::RefCell;
use rackweave_base::NodeId;
use rackweave_endpoint::flow::{ITEM_HEADER, Partitioner};
use rackweave_rack::{Flow, SimulatedRack};
use std::rc::Rc;

/// The figure.
pub const EXPERIMENT: Experiment = Experiment {
    name: "zero-sided-15",
    about: "distributed join on GPUs, against a CPU-driven shuffle with 4 and 8 cores per node",
    run,
};

/// The paper's tables.
const BUILD_TUPLES: u64 = 10_000_000;
const PROBE_TUPLES: u64 = 10_000_000_000;

/// Buffers of a node's GPU.
const JOINERS: usize = 4;

/// Rings of the flow of the probe side, as in figure 9.
const PROBE_FLOW: FlowShape = FlowShape {
    item_bytes: (SEGMENT_BYTES + ITEM_HEADER) as u32,
    producer_slots: SEGMENTS,
    consumer_slots: 128,
    batch_bytes: 64 << 10,
    transfers: 4,
};

/// Rings of the flow of the build side, a thousandth of the bytes.
const BUILD_FLOW: FlowShape = FlowShape {
    producer_slots: 4,
    consumer_slots: 32,
    transfers: 1,
    ..PROBE_FLOW
};

/// Who moves the bytes, with how many cores of a node.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum System {
    ZeroSided,
    CpuDriven { cores: usize },
}

const SYSTEMS: [(System, &str); 3] = [
    (System::ZeroSided, "zero-sided, 4 cores"),
    (System::CpuDriven { cores: 4 }, "CPU-driven, 4 cores"),
    (System::CpuDriven { cores: 8 }, "CPU-driven, 8 cores"),
];

/// What one run gave.
struct Point {
    tuples_per_second: f64,
    traffic: Traffic,
}

impl System {
    fn cores(self) -> usize {
        match self {
            System::ZeroSided => 4,
            System::CpuDriven { cores } => cores,
        }
    }
}

/// Runs the figure.
///
/// # Errors
/// If a run fails or gives a wrong result.
pub fn run(run: &mut Run<'_>) -> Result<Figure, ExperimentError> {
    let (scale, nodes): (u64, &[usize]) = match run.scale {
        Scale::Quick => (1000, &[1, 4]),
        Scale::Full | Scale::Paper => (200, &[1, 2, 3, 4]),
    };
    let tables = Tables {
        build: BUILD_TUPLES / scale,
        probe: PROBE_TUPLES / scale,
    };
    let expected = tables.expected();
    let mut series: Vec<Series> = Vec::new();
    let mut drops = Vec::new();
    for (system, name) in SYSTEMS {
        let mut points = Vec::new();
        for (at, &count) in nodes.iter().enumerate() {
            let done = series.len() * nodes.len() + at;
            let share = done as f64 / (nodes.len() * SYSTEMS.len()) as f64;
            let point = measure(run, system, count, (tables, expected), share)?;
            points.push((count as f64, point.tuples_per_second / 1e6));
            if point.traffic.drops > 0 {
                drops.push(format!("{name}, {count} nodes: {}", point.traffic.drops));
            }
        }
        let name = name.to_string();
        series.push(Series { name, points });
    }
    Ok(figure(run.seed, series, scale, tables, &drops))
}

fn figure(seed: u64, series: Vec<Series>, scale: u64, tables: Tables, drops: &[String]) -> Figure {
    let mut notes = vec![
        format!(
            "tables of {} and {} tuples, the paper's divided by {scale}; the time is that of both \
             sides; the number of matches and a sum over all of them are those of a direct \
             computation",
            tables.build, tables.probe
        ),
        "every probe tuple has one match; keys are uniform".into(),
        format!(
            "segments and items of {} KiB of tuples; tuples for the own node go through the NIC as \
             well; zero-sided with one flow for each side, transfers of at most 64 KiB",
            SEGMENT_BYTES >> 10
        ),
        "partitioning bounds four cores, whoever moves the bytes: posting costs the CPU-driven \
         shuffle little, at one WRITE per segment, so that cores beyond four help it up to the link"
            .into(),
        "a GPU is four actors that share its memory's bandwidth; the figures of the paper are in \
         a plot only, its text claims near-linear speed-up and parity of 4 with 8 cores"
            .into(),
    ];
    notes.push(match drops {
        [] => "no packet was dropped".into(),
        _ => format!(
            "packets dropped in front of full ports: {}",
            drops.join("; ")
        ),
    });
    Figure {
        name: "zero-sided-15".into(),
        title: "Distributed join".into(),
        x: Axis::linear("nodes", ""),
        y: Axis::linear("throughput", "million tuples/s"),
        drawing: Drawing::Bars,
        y_per_panel: false,
        paper: Vec::new(),
        x_names: Vec::new(),
        claims: claims(&series),
        series,
        notes,
        seed,
    }
}

fn claims(series: &[Series]) -> Vec<Claim> {
    let [zero_sided, four, eight] = series else {
        return Vec::new();
    };
    let ends = |series: &Series| Some((series.points.first()?.1, series.points.last()?.1));
    let (Some(own), Some(four), Some(eight)) = (ends(zero_sided), ends(four), ends(eight)) else {
        return Vec::new();
    };
    let claim = |what: &str, paper: f64, ours: f64| Claim {
        what: what.into(),
        source: "section 7.2, figure 15".into(),
        paper,
        ours,
        unit: "x".into(),
    };
    vec![
        claim(
            "zero-sided, 4 nodes over 1 (near-linear)",
            4.0,
            own.1 / own.0,
        ),
        claim(
            "4 nodes: zero-sided, 4 cores over CPU-driven, 8 cores (on par)",
            1.0,
            own.1 / eight.1,
        ),
        claim(
            "4 nodes: zero-sided over CPU-driven, 4 cores each (paper: at least)",
            1.0,
            own.1 / four.1,
        ),
    ]
}

fn measure(
    run: &mut Run<'_>,
    system: System,
    nodes: usize,
    (tables, expected): (Tables, Joined),
    share: f64,
) -> Result<Point, ExperimentError> {
    let mut rack = shuffle::rack(nodes, run.seed)?;
    let ledger = Rc::new(RefCell::new(JoinLedger::default()));
    let stage = Stage {
        producers: shuffle::threads(nodes, system.cores()),
        consumers: shuffle::threads(nodes, JOINERS),
        tables,
        ledger: ledger.clone(),
    };
    let _flows = stage.spawn(&mut rack, system)?;
    let start = rack.now();
    let failure = || ledger.borrow().run.failure.clone();
    shuffle::drive(&mut rack, run, share, &failure)?;
    let ledger = ledger.borrow();
    let seen = (ledger.built, ledger.wrong, ledger.joined);
    shuffle::verify("the join", seen, (tables.build, 0, expected))?;
    let time = ledger.run.finished_at.since(start).as_secs_f64().max(1e-9);
    Ok(Point {
        tuples_per_second: (tables.build + tables.probe) as f64 / time,
        traffic: shuffle::traffic(&rack),
    })
}

/// Who takes part in a join.
struct Stage {
    producers: Vec<NodeId>,
    consumers: Vec<NodeId>,
    tables: Tables,
    ledger: Rc<RefCell<JoinLedger>>,
}

impl Stage {
    /// The flows have to be kept as long as the run takes.
    fn spawn(
        &self,
        rack: &mut SimulatedRack,
        system: System,
    ) -> Result<Vec<Flow>, ExperimentError> {
        match system {
            System::ZeroSided => self.spawn_zero_sided(rack),
            System::CpuDriven { .. } => {
                let shape = Shape {
                    segment_bytes: SEGMENT_BYTES,
                    segments: SEGMENTS,
                    source_segments: SEGMENTS / 4,
                    tuple_size: TUPLE_BYTES,
                };
                let (senders, receivers) =
                    cpu_shuffle::mesh(rack, &self.producers, &self.consumers, shape)?;
                for (own, sender) in senders.into_iter().enumerate() {
                    self.spawn_scanner(rack, own, sender);
                }
                for (own, receiver) in receivers.into_iter().enumerate() {
                    self.spawn_joiner(rack, own, receiver);
                }
                Ok(Vec::new())
            }
        }
    }

    fn spawn_zero_sided(&self, rack: &mut SimulatedRack) -> Result<Vec<Flow>, ExperimentError> {
        let mut flows = Vec::new();
        for shape in [BUILD_FLOW, PROBE_FLOW] {
            flows.push(shuffle::flow(
                rack,
                &self.producers,
                &self.consumers,
                shape,
            )?);
        }
        let wrong = |error| ExperimentError::Run(format!("a ring: {error}"));
        for own in 0..self.producers.len() {
            let mut phases = Vec::new();
            for flow in &flows {
                let producers = flow.take_producers(own).map_err(wrong)?;
                phases.push(Partitioner::new(producers, TUPLE_BYTES));
            }
            let item = PROBE_FLOW.item_bytes as usize;
            self.spawn_scanner(rack, own, FlowOutlet::new(phases, TUPLE_BYTES, item));
        }
        for own in 0..self.consumers.len() {
            let mut phases = Vec::new();
            for flow in &flows {
                phases.push(flow.take_consumer(own).map_err(wrong)?);
            }
            self.spawn_joiner(rack, own, FlowInlet::new(phases, TUPLE_BYTES));
        }
        Ok(flows)
    }

    fn spawn_scanner<O: Outlet + 'static>(&self, rack: &mut SimulatedRack, own: usize, outlet: O) {
        let cores = self.producers.len();
        let scanner = Scanner::new(self.tables, outlet, (own, cores), self.ledger.clone());
        rack.spawn(self.producers[own], Box::new(scanner));
    }

    fn spawn_joiner<I: Inlet + 'static>(&self, rack: &mut SimulatedRack, own: usize, inlet: I) {
        let all = self.consumers.len();
        let joiner = Joiner::new(inlet, (own, all), JOINERS as u64, self.ledger.clone());
        rack.spawn(self.consumers[own], Box::new(joiner));
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_system_joins_right() {
        let tables = Tables {
            build: 500,
            probe: 100_000,
        };
        let mut progress = |_| true;
        let mut run = Run {
            scale: Scale::Quick,
            seed: 9,
            progress: &mut progress,
        };
        for (system, name) in SYSTEMS {
            let point = measure(&mut run, system, 2, (tables, tables.expected()), 0.0);
            point.unwrap_or_else(|error| panic!("{name}: {error}"));
        }
    }
}
