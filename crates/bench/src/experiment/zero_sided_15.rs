//! Zero-sided RDMA, figure 15: a distributed join, by the number of nodes.
//!
//! Cores of every node shuffle a small and a large table of 16-byte tuples to the GPUs of all
//! nodes, four buffers each, which join them as they arrive. Either the switch takes the tuples out
//! of rings, or the cores also drive the shuffle, with as many cores or twice as many.

use super::zero_sided_9::{FLOW, SEGMENT_BYTES, cpu_driven};
use crate::baseline::cpu_shuffle;
use crate::baseline::ends::{FlowInlet, FlowOutlet, Inlet, Outlet};
use crate::baseline::join::{JoinLedger, Joined, TUPLE_BYTES, Tables, joiner, scanner};
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
    let producers = shuffle::threads(nodes, cores);
    let consumers = shuffle::threads(nodes, JOINERS);
    // The flows must be kept for the whole run.
    let (_flows, outlets, inlets) = ends(&mut rack, system, &producers, &consumers)?;
    for (own, (outlet, &node)) in outlets.into_iter().zip(&producers).enumerate() {
        rack.spawn(node, scanner(tables, outlet, (own, producers.len())));
    }
    for (own, (inlet, &node)) in inlets.into_iter().zip(&consumers).enumerate() {
        let joiner = joiner(
            inlet,
            (own, consumers.len()),
            JOINERS as u64,
            ledger.clone(),
        );
        rack.spawn(node, joiner);
    }
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

/// The flows, if there are any, and the ends of all producers and consumers.
type Made = (Vec<Flow>, Vec<Box<dyn Outlet>>, Vec<Box<dyn Inlet>>);

fn ends(
    rack: &mut Testbed,
    system: System,
    producers: &[NodeId],
    consumers: &[NodeId],
) -> Result<Made> {
    let (mut flows, mut outlets, mut inlets): Made = Default::default();
    if let System::CpuDriven { .. } = system {
        let shape = cpu_driven(TUPLE_BYTES);
        let (senders, receivers) = cpu_shuffle::mesh(rack, producers, consumers, shape)?;
        for sender in senders {
            outlets.push(Box::new(sender));
        }
        for receiver in receivers {
            inlets.push(Box::new(receiver));
        }
        return Ok((flows, outlets, inlets));
    }
    for shape in [BUILD_FLOW, FLOW] {
        flows.push(shuffle::flow(rack, producers, consumers, shape)?);
    }
    for own in 0..producers.len() {
        let phases = flows.iter().map(|flow| {
            let producers = flow.take_producers(own)?;
            Ok(Partitioner::new(producers, TUPLE_BYTES))
        });
        let phases = phases.collect::<Result<_>>()?;
        let item = FLOW.item_bytes as usize;
        outlets.push(Box::new(FlowOutlet::new(phases, TUPLE_BYTES, item)));
    }
    for own in 0..consumers.len() {
        let phases = flows.iter().map(|flow| flow.take_consumer(own));
        let phases = phases.collect::<Result<_, _>>()?;
        inlets.push(Box::new(FlowInlet::new(phases, TUPLE_BYTES)));
    }
    Ok((flows, outlets, inlets))
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
