//! Rings in a region, and the kernels at both ends.
//!
//! A ring is a head, a tail and slots. Both words only grow: items put in and items taken out.

use crate::experiment::tally::Shared;
use core::sync::atomic::Ordering;
use rackweave_base::Block;
use rackweave_sim::world::{Actor, Context, Step};

/// Where the slots begin: head and tail have cache lines of their own before them.
const SLOTS_AT: u64 = 4096;
const TAIL_AT: u64 = 64;

/// The shape of a ring, and where the rings of several flows lie in one region.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct RingShape {
    /// Bytes of an item.
    pub item_size: u32,
    /// Slots, a power of two.
    pub slots: u32,
}

impl RingShape {
    /// As many slots as fit `ring_bytes`, rounded down to a power of two, two at least.
    pub fn new(item_size: u32, ring_bytes: u32) -> Self {
        let slots = (ring_bytes / item_size).max(2);
        Self {
            item_size,
            slots: 1 << slots.ilog2(),
        }
    }

    /// Bytes of one ring.
    pub fn bytes(&self) -> u64 {
        SLOTS_AT + u64::from(self.slots) * u64::from(self.item_size)
    }

    /// Where a flow's head is.
    pub fn head(&self, flow: usize) -> u64 {
        flow as u64 * self.bytes()
    }

    /// Where a flow's tail is.
    pub fn tail(&self, flow: usize) -> u64 {
        self.head(flow) + TAIL_AT
    }

    /// Where the slot of an item is.
    pub fn slot(&self, flow: usize, item: u64) -> u64 {
        let slot = item % u64::from(self.slots);
        self.head(flow) + SLOTS_AT + slot * u64::from(self.item_size)
    }
}

/// The kernels at one end of all flows.
pub struct Kernels {
    block: Block,
    shape: RingShape,
    /// What each has put in or taken out.
    items: Vec<u64>,
    tally: Shared,
}

impl Kernels {
    /// Kernels for `flows` flows.
    pub fn new(block: Block, shape: RingShape, flows: usize, tally: Shared) -> Self {
        Self {
            block,
            shape,
            items: vec![0; flows],
            tally,
        }
    }

    fn load(&self, offset: u64) -> u64 {
        self.block.word(offset as usize).load(Ordering::Acquire)
    }

    fn store(&self, offset: u64, value: u64) {
        self.block
            .word(offset as usize)
            .store(value, Ordering::Release);
    }
}

/// The producing kernels: they fill every slot as soon as it is free.
pub struct Source(pub Kernels);

impl Actor for Source {
    fn step(&mut self, _: &mut Context<'_>) -> Step {
        let shape = self.0.shape;
        for flow in 0..self.0.items.len() {
            let free_up_to = self.0.load(shape.tail(flow)) + u64::from(shape.slots);
            if self.0.items[flow] == free_up_to {
                continue;
            }
            for item in self.0.items[flow]..free_up_to {
                let at = shape.slot(flow, item) as usize;
                self.0.block.write(at, &item.to_le_bytes());
            }
            self.0.items[flow] = free_up_to;
            self.0.store(shape.head(flow), free_up_to);
        }
        Step::WaitForPacket
    }
}

/// The consuming kernels: they free every item as soon as it is there.
pub struct Sink(pub Kernels);

impl Actor for Sink {
    fn step(&mut self, context: &mut Context<'_>) -> Step {
        let shape = self.0.shape;
        for flow in 0..self.0.items.len() {
            let (tail, head) = (self.0.items[flow], self.0.load(shape.head(flow)));
            let mut tally = self.0.tally.borrow_mut();
            if head < tail || head - tail > u64::from(shape.slots) {
                tally.fail(format!("the head of flow {flow} is {head} at tail {tail}"));
                return Step::Done;
            }
            for item in tail..head {
                let mut stamp = [0; 8];
                self.0
                    .block
                    .read(shape.slot(flow, item) as usize, &mut stamp);
                if stamp != item.to_le_bytes() {
                    tally.fail(format!("item {item} of flow {flow} is another one"));
                    return Step::Done;
                }
            }
            if head > tail {
                tally.add(context.now(), (head - tail) * u64::from(shape.item_size));
                drop(tally);
                self.0.items[flow] = head;
                self.0.store(shape.tail(flow), head);
            }
        }
        Step::WaitForPacket
    }
}
