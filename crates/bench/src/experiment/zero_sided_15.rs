//! Zero-sided RDMA, figure 15: a distributed join, by the number of nodes.
//!
//! Cores of every node shuffle a small and a large table of 16-byte tuples to the GPUs of all
//! nodes, four buffers each, which join them as they arrive. Either the switch takes the tuples out
//! of rings, or the cores also drive the shuffle, with as many cores or twice as many.

use super::zero_sided_9::{FLOW, SEGMENT_BYTES, cpu_driven};
use crate::baseline::cpu_shuffle;
use crate::baseline::ends::{FlowInlet, FlowOutlet, Inlet, Outlet};
use crate::baseline::join::{JoinLedger, Joined, Joiner, Scanner, TUPLE_BYTES, Tables};
use crate::figure::{Measured, values};
use crate::harness::drive::Testbed;
use crate::harness::grid::{self, Grid};
use crate::harness::shuffle::{self, FlowShape, Seen};
use crate::harness::{Result, Run};
use core::cell::RefCell;
use rackweave_base::NodeId;
use rackweave_endpoint::flow::Partitioner;
use rackweave_rack::Flow;
use std::rc::Rc;

/// The paper's tables.
const BUILD_TUPLES: u64 = 10_000_000;
const PROBE_TUPLES: u64 = 10_000_000_000;

/// Buffers of a node's GPU.
const JOINERS: usize = 4;

/// Rings of the build side's flow, a thousandth of the bytes. Those of the probe side are as in
/// figure 9.
const BUILD_FLOW: FlowShape = FlowShape {
    producer_slots: 4,
    consumer_slots: 32,
    transfers: 1,
    ..FLOW
};

/// What moves the bytes, and with how many cores of a node.
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

/// Measures the figure.
pub fn run(run: &mut Run<'_>) -> Result<Measured> {
    let (scale, nodes): (u64, &[usize]) = run.scale.pick((1000, &[1, 4]), (200, &[1, 2, 3, 4]));
    let tables = Tables {
        build: BUILD_TUPLES / scale,
        probe: PROBE_TUPLES / scale,
    };
    let expected = tables.expected();
    let curves = Grid::new(&SYSTEMS, nodes).measure(run, |run, system, nodes| {
        measure(run, system, nodes, (tables, expected))
    })?;
    let at = |curve: usize, nodes| curves[curve].value(nodes, |seen| seen.rate);
    let (own, four, eight) = (at(0, 4), at(1, 4), at(2, 4));
    let values = values! {
        scale,
        build: tables.build,
        probe: tables.probe,
        segment_kib: SEGMENT_BYTES >> 10,
        dropped: shuffle::dropped(&curves, |nodes, lost| format!("{nodes} nodes: {}", lost.drops)),
        speed_up: own / at(0, 1),
        over_eight: own / eight,
        over_four: own / four,
    };
    let series = grid::series(&curves, |nodes| nodes as f64, |seen| seen.rate);
    Ok(Measured::new(series, values))
}

fn measure(
    run: &mut Run<'_>,
    system: System,
    nodes: usize,
    (tables, expected): (Tables, Joined),
) -> Result<Seen> {
    let mut rack = shuffle::rack(nodes, run.seed)?;
    let ledger = Rc::new(RefCell::new(JoinLedger::default()));
    let cores = match system {
        System::ZeroSided => 4,
        System::CpuDriven { cores } => cores,
    };
    let join = Join {
        producers: shuffle::threads(nodes, cores),
        consumers: shuffle::threads(nodes, JOINERS),
        tables,
        ledger: ledger.clone(),
    };
    let _flows = match system {
        System::ZeroSided => join.spawn_zero_sided(&mut rack)?,
        System::CpuDriven { .. } => join.spawn_cpu_driven(&mut rack)?,
    };
    let start = rack.now();
    shuffle::finish(run, &mut rack)?;
    let ledger = ledger.borrow();
    let seen = (ledger.built, ledger.wrong, ledger.joined);
    shuffle::verify("the join", seen, (tables.build, 0, expected))?;
    let time = ledger.finished_at.since(start).as_secs_f64().max(1e-9);
    Ok(Seen {
        rate: (tables.build + tables.probe) as f64 / time / 1e6,
        traffic: shuffle::traffic(&rack),
    })
}

/// The participants of a join.
struct Join {
    producers: Vec<NodeId>,
    consumers: Vec<NodeId>,
    tables: Tables,
    ledger: Rc<RefCell<JoinLedger>>,
}

impl Join {
    fn spawn_cpu_driven(&self, rack: &mut Testbed) -> Result<Vec<Flow>> {
        let shape = cpu_driven(TUPLE_BYTES);
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

    /// The flows must be kept for the whole run.
    fn spawn_zero_sided(&self, rack: &mut Testbed) -> Result<Vec<Flow>> {
        let mut flows = Vec::new();
        for shape in [BUILD_FLOW, FLOW] {
            flows.push(shuffle::flow(
                rack,
                &self.producers,
                &self.consumers,
                shape,
            )?);
        }
        for own in 0..self.producers.len() {
            let phases = flows.iter().map(|flow| {
                let producers = flow.take_producers(own)?;
                Ok(Partitioner::new(producers, TUPLE_BYTES))
            });
            let phases = phases.collect::<Result<_>>()?;
            let item = FLOW.item_bytes as usize;
            self.spawn_scanner(rack, own, FlowOutlet::new(phases, TUPLE_BYTES, item));
        }
        for own in 0..self.consumers.len() {
            let phases = flows.iter().map(|flow| flow.take_consumer(own));
            let phases = phases.collect::<Result<_, _>>()?;
            self.spawn_joiner(rack, own, FlowInlet::new(phases, TUPLE_BYTES));
        }
        Ok(flows)
    }

    fn spawn_scanner<O: Outlet + 'static>(&self, rack: &mut Testbed, own: usize, outlet: O) {
        let cores = self.producers.len();
        let scanner = Scanner::new(self.tables, outlet, (own, cores));
        rack.spawn(self.producers[own], scanner);
    }

    fn spawn_joiner<I: Inlet + 'static>(&self, rack: &mut Testbed, own: usize, inlet: I) {
        let all = self.consumers.len();
        let joiner = Joiner::new(inlet, (own, all), JOINERS as u64, self.ledger.clone());
        rack.spawn(self.consumers[own], joiner);
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
        let mut run = Run::quick(9);
        for (system, name) in SYSTEMS {
            let point = measure(&mut run, system, 2, (tables, tables.expected()));
            point.unwrap_or_else(|error| panic!("{name}: {error}"));
        }
    }
}
