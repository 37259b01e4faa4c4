//! A shuffle that accelerators drive themselves: non-blocking one-sided puts, as with NVSHMEM.
//!
//! Every kernel writes items directly into its own slots at every destination and keeps a few puts
//! in flight. There is no coordination: a slot is overwritten without checking whether it was
//! consumed, which is the best case (zero-sided RDMA, section 7.1). A kernel visits the
//! destinations in turn, beginning with itself, so that no two kernels send to the same one at a
//! time.

use super::tuples;
use super::verbs::{NodeEnd, Remote, connect, poll, post};
use super::worker::Ledger;
use crate::harness::prelude::*;
use rackweave_base::memory::{ReadSlots, WriteSlots};

/// Puts that a kernel has in flight, and items for which it has memory.
const DEPTH: u32 = 4;

#[derive(Clone, Copy, Debug)]
pub struct PutPlan {
    pub item_bytes: usize,
    pub items_per_destination: u64,
    /// How long a kernel computes to fill an item.
    pub fill_time: Duration,
}

/// The memory into which kernels put items, checked at the end.
pub struct Landing {
    plan: PutPlan,
    /// By destination, the slots of all kernels.
    slots: Vec<ReadSlots>,
    kernels: usize,
}

/// The key of the item that kernel `from` sends to `to` in round `round`. An item is one large
/// tuple. There are fewer than 256 kernels.
pub fn item_key(from: usize, to: usize, round: u64) -> u64 {
    round << 16 | (from as u64) << 8 | to as u64
}

/// Whether an item of this key is for kernel `own` of `count`.
pub fn aims_at(key: u64, own: usize, count: usize) -> bool {
    let [to, from, ..] = key.to_le_bytes();
    usize::from(to) == own && usize::from(from) < count
}

/// Starts a kernel for every entry of `kernels`, nodes that may appear more than once. Every kernel
/// is a destination as well.
pub fn spawn(
    rack: &mut Testbed,
    kernels: &[NodeId],
    plan: PutPlan,
    ledger: &Rc<RefCell<Ledger>>,
) -> Result<Landing> {
    let count = kernels.len();
    let mut landings = Vec::new();
    let mut sources = Vec::new();
    for &node in kernels {
        let slots = count.next_power_of_two();
        landings.push(NodeEnd::new(rack, node, plan.item_bytes * slots, 1)?);
        let bytes = plan.item_bytes * DEPTH as usize;
        sources.push(NodeEnd::new(rack, node, bytes, 2 * DEPTH)?);
    }
    for (own, node_end) in sources.into_iter().enumerate() {
        let mut targets = Vec::new();
        for landing in &landings {
            let (qpn, _) = connect(rack, &node_end, landing, (DEPTH + 1, 1))?;
            targets.push(Remote::new(qpn, &landing.region));
        }
        let kernel = kernel(plan, own, node_end, targets, ledger.clone());
        rack.spawn(kernels[own], kernel);
    }
    let slots = landings.iter().map(|landing| {
        let block = landing.region.block.clone();
        let count = count.next_power_of_two() as u32;
        ReadSlots::new(block, 0, plan.item_bytes, count)
    });
    Ok(Landing {
        plan,
        slots: slots.collect(),
        kernels: count,
    })
}

impl Landing {
    /// Number of slots that do not hold, byte for byte, the last item that was put there.
    pub fn wrong(&self) -> usize {
        let Some(round) = self.plan.items_per_destination.checked_sub(1) else {
            return 0;
        };
        let wrong = |to: usize| {
            (0..self.kernels).filter(move |&from| {
                let item = self.slots[to].bytes(from as u32, 1);
                tuples::read(&item.to_vec()) != Some(item_key(from, to, round))
            })
        };
        (0..self.kernels).map(|to| wrong(to).count()).sum()
    }
}

/// Kernel `own`, which puts its items into the landings of all kernels.
fn kernel(
    plan: PutPlan,
    own: usize,
    node_end: NodeEnd,
    targets: Vec<Remote>,
    ledger: Rc<RefCell<Ledger>>,
) -> impl Program {
    let bytes = plan.item_bytes as u64;
    let mut slots = WriteSlots::new(node_end.region.block.clone(), 0, plan.item_bytes, DEPTH);
    let count = targets.len();
    let total = plan.items_per_destination * count as u64;
    // Puts that were posted, and those that have completed together with all before them.
    let (mut posted, mut completed) = (0, 0);
    // Later puts that have completed, a bit each.
    let mut done = 0_u64;
    move |context: &mut Context<'_>| -> Turn {
        for completion in poll(context, node_end.cq, DEPTH as usize)? {
            done |= 1 << (completion.id - completed);
            ledger.borrow_mut().add(context.now(), bytes);
        }
        // Puts to different destinations may overtake each other, but the memory of items is used
        // in turn.
        let run = done.trailing_ones();
        done >>= run;
        completed += u64::from(run);
        if completed == total {
            ledger.borrow_mut().finish(context.now());
            return Ok(Step::Done);
        }
        if posted == total || posted - completed == u64::from(DEPTH) {
            return Ok(Step::WaitForPacket);
        }
        let to = (own + posted as usize) % count;
        let key = item_key(own, to, posted / count as u64);
        let mut slot = slots.bytes_mut(posted as u32, 1);
        let mut item = vec![0; slot.len()];
        tuples::write(key, &mut item);
        slot.copy_from(&item);
        let offset = posted % u64::from(DEPTH) * bytes;
        let segment = node_end.region.segment(offset, bytes as u32);
        let put = targets[to].write(posted, own as u64 * bytes, segment);
        post(context, targets[to].qpn, put)?;
        posted += 1;
        Ok(Step::Compute(plan.fill_time))
    }
}
