//! Zero-sided RDMA, figure 8: a shuffle between GPUs, by the number of nodes.
//!
//! Two shuffle kernels on every node send items of 512 KiB to all kernels in turn. Either the
//! switch takes the items out of rings, or the kernels put them themselves (NVSHMEM).

use crate::baseline::put_shuffle::{self, PutPlan};
use crate::baseline::tuples;
use crate::baseline::worker::Ledger;
use crate::harness::prelude::*;
use crate::harness::shuffle::{self, FlowShape, Seen};

/// Kernels of a node. Source: section 7.1.
const KERNELS: usize = 2;

/// Bytes of an item. Source: section 7.1.
const ITEM_BYTES: usize = 512 << 10;

/// Rings of the flow. Transfers are one item, two at a time to each of two consumers of a node: up
/// to 2 MiB are in flight to a node, of which its port's queue holds half. The queue overflows only
/// if all four are from different nodes; with larger or more transfers it does overflow.
const FLOW: FlowShape = FlowShape {
    item_bytes: ITEM_BYTES as u32,
    producer_slots: 4,
    consumer_slots: 8,
    batch_bytes: ITEM_BYTES as u32,
    transfers: 2,
};

#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum System {
    ZeroSided,
    Put,
}

const SYSTEMS: [(System, &str); 2] = [
    (System::ZeroSided, "zero-sided"),
    (System::Put, "put (like NVSHMEM)"),
];

pub fn run(run: &mut Run<'_>) -> Result<Measured> {
    let bytes_per_node: u64 = run.scale.pick(64 << 20, 512 << 20);
    let curves = Grid::new(&SYSTEMS, &[2, 3, 4]).measure(run, |run, system, nodes| {
        let kernels = (KERNELS * nodes) as u64;
        let items = bytes_per_node / ITEM_BYTES as u64 / KERNELS as u64;
        let plan = PutPlan {
            item_bytes: ITEM_BYTES,
            items_per_destination: items.div_ceil(kernels),
            fill_time: fill_time(),
        };
        measure(run, system, nodes, plan)
    })?;
    Ok(measured(&curves, bytes_per_node))
}

/// Time of a kernel to fill an item: the kernels of a GPU share its memory, which is written once.
fn fill_time() -> Duration {
    let bytes = (KERNELS * ITEM_BYTES) as u64;
    Duration::from_nanos((bytes * 1_000_000_000).div_ceil(devices::GPU_MEMORY_BYTES_PER_SECOND))
}

fn measured(curves: &[Curve<System, usize, Seen>], bytes_per_node: u64) -> Measured {
    let [zero_sided, put] = curves else {
        unreachable!("there are two systems");
    };
    let points = zero_sided.points.iter().zip(put.values(|seen| seen.rate));
    let points = points.map(|((nodes, own), other)| {
        values! { nodes: *nodes, gain: own.rate / other }
    });
    let dropped = shuffle::dropped(curves, |nodes, lost| {
        let (drops, queue) = (lost.drops, lost.queue_bytes_max);
        format!("{nodes} nodes: {drops} (queue up to {queue} B)")
    });
    let values = values! {
        dropped,
        kernels: KERNELS,
        item_kib: ITEM_BYTES >> 10,
        mib: bytes_per_node >> 20,
        points: points.collect::<Vec<Values>>(),
    };
    let series = grid::series(curves, |nodes| nodes as f64, |seen| seen.rate);
    Measured::new(series, values)
}

fn measure(run: &mut Run<'_>, system: System, nodes: usize, plan: PutPlan) -> Result<Seen> {
    let mut rack = shuffle::rack(nodes, run.seed)?;
    let kernels = shuffle::threads(nodes, KERNELS);
    let count = kernels.len() as u64;
    let items = plan.items_per_destination * count * count;
    let ledger = Ledger::new(kernels.len(), items * ITEM_BYTES as u64);
    let (mut landing, mut flow) = (None, None);
    match system {
        System::ZeroSided => flow = Some(spawn(&mut rack, &kernels, plan, &ledger)?),
        System::Put => landing = Some(put_shuffle::spawn(&mut rack, &kernels, plan, &ledger)?),
    }
    shuffle::finish(run, &mut rack)?;
    let ledger = ledger.borrow();
    match landing {
        Some(landing) => shuffle::verify("wrong items", landing.wrong(), 0)?,
        None => {
            let total = ledger.total();
            let seen = (total.tuples, total.wrong);
            shuffle::verify("items and wrong ones", seen, (items, 0))?;
        }
    }
    drop(flow);
    Ok(Seen {
        rate: ledger.bytes_per_second() / nodes as f64 / 1e9,
        traffic: shuffle::traffic(&rack),
    })
}

/// Kernels with a flow, which must be kept while they run.
fn spawn(
    rack: &mut Testbed,
    kernels: &[NodeId],
    plan: PutPlan,
    ledger: &Rc<RefCell<Ledger>>,
) -> Result<Flow> {
    let flow = shuffle::flow(rack, kernels, kernels, FLOW)?;
    for (own, &node) in kernels.iter().enumerate() {
        let (outputs, input) = (flow.take_producers(own)?, flow.take_consumer(own)?);
        rack.spawn(node, ring_filler(outputs, own, plan));
        rack.spawn(node, sink(input, own, kernels.len(), ledger.clone()));
    }
    Ok(flow)
}

/// A kernel that fills a ring for each destination in turn.
fn ring_filler(mut outputs: Vec<Producer>, own: usize, plan: PutPlan) -> impl Program {
    let mut sent = 0;
    move |_: &mut Context<'_>| -> Turn {
        let count = outputs.len();
        if sent == plan.items_per_destination * count as u64 {
            outputs.iter_mut().for_each(Producer::finish);
            return Ok(Step::Done);
        }
        let to = (own + sent as usize) % count;
        let key = put_shuffle::item_key(own, to, sent / count as u64);
        match outputs[to].push_each(1, |item| tuples::write(key, item)) {
            Ok(_) => {
                sent += 1;
                Ok(Step::Compute(plan.fill_time))
            }
            Err(PushError::Full) => Ok(Step::WaitForPacket),
            Err(error) => Err(error.to_string()),
        }
    }
}

/// A kernel that empties its ring, of `destinations`.
fn sink(
    mut input: Consumer,
    own: usize,
    destinations: usize,
    ledger: Rc<RefCell<Ledger>>,
) -> impl Program {
    move |context: &mut Context<'_>| -> Turn {
        let mut ledger = ledger.borrow_mut();
        let from_here = |key| put_shuffle::aims_at(key, own, destinations);
        let mut is_right = false;
        let look = |item: &[u8]| is_right = tuples::read(item).is_some_and(from_here);
        Ok(match input.take_each(1, look) {
            Taken::Items(_) => {
                let tally = &mut ledger.tallies[own];
                tally.tuples += 1;
                tally.wrong += u64::from(!is_right);
                ledger.add(context.now(), ITEM_BYTES as u64);
                // A kernel that reads an item takes as long as one that writes it.
                Step::Compute(fill_time())
            }
            Taken::Empty => Step::WaitForPacket,
            Taken::Ended => {
                ledger.finish(context.now());
                Step::Done
            }
            Taken::Aborted => return Err("the flow was broken off".into()),
        })
    }
}

#[cfg(test)]
mod tests;
