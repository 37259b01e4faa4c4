//! Zero-sided RDMA, figure 15: a distributed join, by the number of nodes.
//!
//! Cores of every node shuffle a small and a large table of 16-byte tuples to the GPUs of all
//! nodes, four buffers each, which join them as they arrive. Either the switch takes the tuples out
//! of rings, or the cores also drive the shuffle, with as many cores or twice as many.

use super::zero_sided_9::{FLOW, SEGMENT_BYTES, cpu_driven_ends, flow_ends};
use crate::baseline::join::{JoinLedger, Joined, TUPLE_BYTES, Tables, joiner, scanner};
use crate::harness::prelude::*;
use crate::harness::shuffle::{self, FlowShape, Seen};

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

/// The cores of a node that shuffle, and whether they also drive the shuffle.
type System = (usize, bool);

const SYSTEMS: [(System, &str); 3] = [
    ((4, false), "zero-sided, 4 cores"),
    ((4, true), "CPU-driven, 4 cores"),
    ((8, true), "CPU-driven, 8 cores"),
];

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
    let (cores, is_cpu_driven) = system;
    let producers = shuffle::threads(nodes, cores);
    let consumers = shuffle::threads(nodes, JOINERS);
    let threads = [&producers[..], &consumers];
    // The flows must be kept for the whole run.
    let (_flows, outlets, inlets) = match is_cpu_driven {
        true => cpu_driven_ends(&mut rack, threads, TUPLE_BYTES)?,
        false => flow_ends(&mut rack, threads, &[BUILD_FLOW, FLOW], TUPLE_BYTES)?,
    };
    for (own, (outlet, &node)) in outlets.into_iter().zip(&producers).enumerate() {
        rack.spawn(node, scanner(tables, outlet, (own, producers.len())));
    }
    for (own, (inlet, &node)) in inlets.into_iter().zip(&consumers).enumerate() {
        let own = (own, consumers.len());
        rack.spawn(node, joiner(inlet, own, JOINERS as u64, ledger.clone()));
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

#[cfg(test)]
mod tests;
