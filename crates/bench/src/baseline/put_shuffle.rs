//! A shuffle that accelerators drive themselves: non-blocking one-sided puts, as with NVSHMEM.
//!
//! Every kernel writes items directly into its own slots at every destination and keeps a few puts
//! in flight. There is no coordination: a slot is overwritten without checking whether it was
//! consumed, which is the best case (zero-sided RDMA, section 7.1). A kernel visits the
//! destinations in turn, beginning with itself, so that no two kernels send to the same one at a
//! time.

use super::requests::{Remote, poll, post};
use super::set_up::{NodeEnd, connect};
use super::tuples;
use super::worker::Ledger;
use crate::harness::Result;
use crate::harness::drive::{Failure, Program, Testbed};
use core::cell::RefCell;
use rackweave_base::memory::{ReadSlots, WriteSlots};
use rackweave_base::{Duration, NodeId};
use rackweave_sim::world::{Context, Step};
use std::rc::Rc;

/// Puts that a kernel has in flight, and items for which it has memory.
const DEPTH: u32 = 4;

/// The work of every kernel.
#[derive(Clone, Copy, Debug)]
pub struct PutPlan {
    /// Bytes of an item.
    pub item_bytes: usize,
    /// Items that a kernel sends to every destination.
    pub items_per_destination: u64,
    /// How long a kernel computes to fill an item.
    pub fill_time: Duration,
}

/// A kernel.
struct Kernel {
    plan: PutPlan,
    own: usize,
    node_end: NodeEnd,
    slots: WriteSlots,
    /// The landings of all kernels.
    targets: Vec<Remote>,
    posted: u64,
    /// Number of puts that have completed together with all before them.
    completed: u64,
    /// Later puts that have completed, a bit each.
    done: u64,
    ledger: Rc<RefCell<Ledger>>,
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
        let block = node_end.region.block.clone();
        let kernel = Kernel {
            plan,
            own,
            slots: WriteSlots::new(block, 0, plan.item_bytes, DEPTH),
            node_end,
            targets,
            posted: 0,
            completed: 0,
            done: 0,
            ledger: ledger.clone(),
        };
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

impl Program for Kernel {
    fn turn(&mut self, context: &mut Context<'_>) -> Result<Step, Failure> {
        for completion in poll(context, self.node_end.cq, DEPTH as usize)? {
            self.done |= 1 << (completion.id - self.completed);
            let bytes = self.plan.item_bytes as u64;
            self.ledger.borrow_mut().add(context.now(), bytes);
        }
        // Puts to different destinations may overtake each other, but the memory of items is used
        // in turn.
        let run = self.done.trailing_ones();
        self.done >>= run;
        self.completed += u64::from(run);
        let count = self.targets.len() as u64;
        let total = self.plan.items_per_destination * count;
        if self.completed == total {
            self.ledger.borrow_mut().finish(context.now());
            return Ok(Step::Done);
        }
        if self.posted == total || self.posted - self.completed == u64::from(DEPTH) {
            return Ok(Step::WaitForPacket);
        }
        self.put(context)?;
        Ok(Step::Compute(self.plan.fill_time))
    }
}

impl Kernel {
    /// Fills the next item and puts it.
    fn put(&mut self, context: &mut Context<'_>) -> Result<(), Failure> {
        let count = self.targets.len();
        let to = (self.own + self.posted as usize) % count;
        let key = item_key(self.own, to, self.posted / count as u64);
        let mut slot = self.slots.bytes_mut(self.posted as u32, 1);
        let mut item = vec![0; slot.len()];
        tuples::write(key, &mut item);
        slot.copy_from(&item);
        let bytes = self.plan.item_bytes as u64;
        let offset = self.posted % u64::from(DEPTH) * bytes;
        let segment = self.node_end.region.segment(offset, bytes as u32);
        let target = &self.targets[to];
        let put = target.write(self.posted, self.own as u64 * bytes, segment);
        post(context, target.qpn, put)?;
        self.posted += 1;
        Ok(())
    }
}
