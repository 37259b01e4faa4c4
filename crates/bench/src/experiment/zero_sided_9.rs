//! Zero-sided RDMA, figure 9: a shuffle between CPUs, by tuple size.
//!
//! There are four nodes with four workers each. A worker is one thread on one core that reads
//! tuples of a table, partitions them over all workers, and consumes what the others send.
//! Zero-sided RDMA is compared with a shuffle that the same cores drive (DFI) and one in rounds
//! (MPI's all-to-all).

use crate::baseline::collective;
use crate::baseline::cpu_shuffle::{self, Shape};
use crate::baseline::ends::{FlowInlet, FlowOutlet, Inlet, Outlet};
use crate::baseline::tuples::Tally;
use crate::baseline::worker::{Ledger, Production, worker};
use crate::harness::prelude::*;
use crate::harness::shuffle::{self, FlowShape, Seen};
use rackweave_endpoint::flow::Partitioner;

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

/// Starts the workers. The flows must be kept for the whole run.
fn spawn(
    rack: &mut Testbed,
    system: System,
    tuple_size: usize,
    tuples: u64,
    ledger: &Rc<RefCell<Ledger>>,
) -> Result<Vec<Flow>> {
    let workers = shuffle::threads(NODES, WORKERS);
    let all = [&workers[..]; 2];
    let (flows, outlets, inlets) = match system {
        System::ZeroSided => flow_ends(rack, all, &[FLOW], tuple_size)?,
        System::CpuDriven => cpu_driven_ends(rack, all, tuple_size)?,
        System::Collective => {
            let plan = collective::CollectivePlan {
                buffer_bytes: BUFFER_BYTES,
                tuple_size,
                tuples,
            };
            collective::spawn(rack, &workers, plan, ledger)?;
            return Ok(Vec::new());
        }
    };
    for (own, ends) in outlets.into_iter().zip(inlets).enumerate() {
        let count = workers.len();
        let production = Production::share(tuples, own, count, tuple_size);
        let worker = worker(production, ends, (own, count), ledger.clone());
        rack.spawn(workers[own], worker);
    }
    Ok(flows)
}

/// The flows, if there are any, and the ends of all producers and of all consumers.
type Made = (Vec<Flow>, Vec<Box<dyn Outlet>>, Vec<Box<dyn Inlet>>);

/// Ends of a flow for each phase of a shuffle. The flows must be kept for the whole run.
pub(super) fn flow_ends(
    rack: &mut Testbed,
    [producers, consumers]: [&[NodeId]; 2],
    phases: &[FlowShape],
    tuple_size: usize,
) -> Result<Made> {
    let (mut flows, mut outlets, mut inlets): Made = Default::default();
    for &shape in phases {
        flows.push(shuffle::flow(rack, producers, consumers, shape)?);
    }
    for own in 0..producers.len() {
        let phases = flows.iter().map(|flow| {
            let producers = flow.take_producers(own)?;
            Ok(Partitioner::new(producers, tuple_size))
        });
        let (phases, item) = (phases.collect::<Result<_>>()?, FLOW.item_bytes as usize);
        outlets.push(Box::new(FlowOutlet::new(phases, tuple_size, item)));
    }
    for own in 0..consumers.len() {
        let phases = flows.iter().map(|flow| flow.take_consumer(own));
        let phases = phases.collect::<Result<_, _>>()?;
        inlets.push(Box::new(FlowInlet::new(phases, tuple_size)));
    }
    Ok((flows, outlets, inlets))
}

/// Ends of the CPU-driven shuffle.
pub(super) fn cpu_driven_ends(
    rack: &mut Testbed,
    [producers, consumers]: [&[NodeId]; 2],
    tuple_size: usize,
) -> Result<Made> {
    let shape = Shape {
        segment_bytes: SEGMENT_BYTES,
        segments: SEGMENTS,
        source_segments: SEGMENTS / 4,
        tuple_size,
    };
    let (senders, receivers) = cpu_shuffle::mesh(rack, producers, consumers, shape)?;
    let outlets = senders
        .into_iter()
        .map(|end| Box::new(end) as Box<dyn Outlet>);
    let inlets = receivers
        .into_iter()
        .map(|end| Box::new(end) as Box<dyn Inlet>);
    Ok((Vec::new(), outlets.collect(), inlets.collect()))
}

#[cfg(test)]
mod tests;
