//! Zero-sided RDMA, figure 9: a shuffle between CPUs, by tuple size.
//!
//! There are four nodes with four workers each. A worker is one thread on one core that reads
//! tuples of a table, partitions them over all workers, and consumes what the others send.
//! Zero-sided RDMA is compared with a shuffle that the same cores drive (DFI) and one in rounds
//! (MPI's all-to-all).

use crate::baseline::collective;
use crate::baseline::cpu_shuffle::{self, Shape};
use crate::baseline::ends::{Ends, FlowInlet, FlowOutlet};
use crate::baseline::tuples::Tally;
use crate::baseline::worker::{Ledger, Production, worker};
use crate::figure::{Measured, Values, values};
use crate::harness::drive::Testbed;
use crate::harness::grid::{self, Curve, Grid};
use crate::harness::shuffle::{self, FlowShape, Seen};
use crate::harness::{Result, Run};
use core::cell::RefCell;
use rackweave_endpoint::flow::{ITEM_HEADER, Partitioner};
use rackweave_rack::Flow;
use std::rc::Rc;

/// Nodes, and workers of a node.
const NODES: usize = 4;
const WORKERS: usize = 4;

/// Bytes of tuples in a segment of the CPU-driven shuffle, and in an item of the flow. Source: DFI,
/// section 6.1, segments of 8 KiB (unchecked).
pub(super) const SEGMENT_BYTES: usize = 8192;

/// Segments of a ring. Source: DFI, section 6.1 (unchecked). A worker has a quarter as many for
/// each destination.
const SEGMENTS: u32 = 32;

/// Bytes of a buffer of the collective shuffle. Assumed: long enough for messages to use the link
/// well.
const BUFFER_BYTES: usize = 64 << 10;

/// Rings of the flow: a producer's are as long as those of the CPU-driven shuffle. A transfer takes
/// what a producer's ring holds, at most 64 KiB, so that all transfers in flight to one node (four
/// consumers, four each) just fit the queue of its port, whichever nodes send them.
pub(super) const FLOW: FlowShape = FlowShape {
    item_bytes: (SEGMENT_BYTES + ITEM_HEADER) as u32,
    producer_slots: SEGMENTS,
    consumer_slots: 128,
    batch_bytes: 64 << 10,
    transfers: 4,
};

/// Rings of the CPU-driven shuffle.
pub(super) fn cpu_driven(tuple_size: usize) -> Shape {
    Shape {
        segment_bytes: SEGMENT_BYTES,
        segments: SEGMENTS,
        source_segments: SEGMENTS / 4,
        tuple_size,
    }
}

/// What moves the bytes.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum System {
    ZeroSided,
    CpuDriven,
    Collective,
}

const SYSTEMS: [(System, &str); 3] = [
    (System::ZeroSided, "zero-sided"),
    (System::CpuDriven, "CPU-driven (like DFI)"),
    (System::Collective, "collective (like MPI)"),
];

/// Measures the figure.
pub fn run(run: &mut Run<'_>) -> Result<Measured> {
    let all = [16, 32, 64, 128, 256, 512, 1024, 2048, 4096];
    let (sizes, bytes): (&[usize], u64) = run
        .scale
        .pick((&[16, 256, 4096], 128 << 20), (&all, 256 << 20));
    let curves = Grid::new(&SYSTEMS, sizes)
        .measure(run, |run, system, size| measure(run, system, size, bytes))?;
    Ok(measured(&curves, bytes))
}

fn measured(curves: &[Curve<System, usize, Seen>], bytes: u64) -> Measured {
    let others = curves[1..].iter().map(|other| {
        let gain = curves[0].least_gain(other, |seen| seen.rate);
        values! { name: &other.name, gain }
    });
    let values = values! {
        nodes: NODES,
        workers: WORKERS,
        mib: bytes >> 20,
        dropped: shuffle::dropped(curves, |size, lost| format!("{size} B: {}", lost.drops)),
        others: others.collect::<Vec<Values>>(),
    };
    let series = grid::series(curves, |size| size as f64, |seen| seen.rate);
    Measured::new(series, values)
}

fn measure(run: &mut Run<'_>, system: System, tuple_size: usize, bytes: u64) -> Result<Seen> {
    let mut rack = shuffle::rack(NODES, run.seed)?;
    let tuples = bytes / tuple_size as u64;
    let ledger = Ledger::new(NODES * WORKERS, tuples * tuple_size as u64);
    let _flows = spawn(&mut rack, system, tuple_size, tuples, &ledger)?;
    shuffle::finish(run, &mut rack)?;
    let ledger = ledger.borrow();
    shuffle::verify("tuples", ledger.total(), Tally::expected(tuples))?;
    Ok(Seen {
        rate: ledger.bytes_per_second() / NODES as f64 / 1e9,
        traffic: shuffle::traffic(&rack),
    })
}

/// The flows must be kept for the whole run.
fn spawn(
    rack: &mut Testbed,
    system: System,
    tuple_size: usize,
    tuples: u64,
    ledger: &Rc<RefCell<Ledger>>,
) -> Result<Vec<Flow>> {
    let workers = shuffle::threads(NODES, WORKERS);
    let (mut flows, mut ends): (Vec<Flow>, Vec<Ends>) = (Vec::new(), Vec::new());
    match system {
        System::ZeroSided => {
            let flow = shuffle::flow(rack, &workers, &workers, FLOW)?;
            for own in 0..workers.len() {
                let producers = flow.take_producers(own)?;
                let consumer = flow.take_consumer(own)?;
                let partitioner = Partitioner::new(producers, tuple_size);
                let item = FLOW.item_bytes as usize;
                let outlet = FlowOutlet::new(vec![partitioner], tuple_size, item);
                let inlet = FlowInlet::new(vec![consumer], tuple_size);
                ends.push((Box::new(outlet), Box::new(inlet)));
            }
            flows.push(flow);
        }
        System::CpuDriven => {
            let shape = cpu_driven(tuple_size);
            let (senders, receivers) = cpu_shuffle::mesh(rack, &workers, &workers, shape)?;
            for (sender, receiver) in senders.into_iter().zip(receivers) {
                ends.push((Box::new(sender), Box::new(receiver)));
            }
        }
        System::Collective => {
            let plan = collective::CollectivePlan {
                buffer_bytes: BUFFER_BYTES,
                tuple_size,
                tuples,
            };
            collective::spawn(rack, &workers, plan, ledger)?;
        }
    }
    for (own, ends) in ends.into_iter().enumerate() {
        let all = workers.len();
        let production = Production::share(tuples, own, all, tuple_size);
        let worker = worker(production, ends, (own, all), ledger.clone());
        rack.spawn(workers[own], worker);
    }
    Ok(flows)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_system_delivers_every_tuple() {
        let mut run = Run::quick(5);
        for (system, name) in SYSTEMS {
            for size in [16, 4096] {
                let point = measure(&mut run, system, size, 4 << 20);
                let point = point.unwrap_or_else(|error| panic!("{name}: {error}"));
                let rate = point.rate;
                // This few bytes are less than one round of the collective shuffle.
                let has_rate = system != System::Collective;
                assert!(
                    !has_rate || (0.1..12.5).contains(&rate),
                    "{name}, {size} B: {rate} GB/s"
                );
            }
        }
    }
}
