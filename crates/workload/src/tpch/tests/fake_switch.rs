//! A fake switch: it copies items between rings, as the N:M shuffle does.

use rackweave_base::{Block, Memory, Rng};
use rackweave_endpoint::flow::{Consumer, Partitioner, Producer, RingLayout};
use rackweave_wire::fabric::ring::{
    self, ByteOrder, ITEMS, NODE_WORD, NodeState, NodeWord, SWITCH_WORD, SwitchState, SwitchWord,
};

/// A flow from several producers to several consumers, with one ring per pair on the producers'
/// side.
pub struct FakeFlow {
    layout: RingLayout,
    /// By producer, then consumer.
    sources: Vec<Vec<Ring>>,
    targets: Vec<Ring>,
    state: SwitchState,
}

/// A ring, and the switch's counter of it.
struct Ring {
    block: Block,
    layout: RingLayout,
    counter: u32,
}

impl Ring {
    fn new(memory: &Memory, layout: RingLayout) -> Self {
        let len = ring::region_bytes(layout.item_size, layout.slots);
        let block = memory.allocate(len as usize).unwrap();
        let ring = Self {
            block,
            layout,
            counter: 0,
        };
        // Memory that was never written is not a valid word.
        let bytes = layout.order.to_bytes(NodeWord::default().into());
        ring.block.write(NODE_WORD as usize, &bytes);
        ring.say(SwitchState::Open);
        ring
    }

    fn say(&self, state: SwitchState) {
        let word = SwitchWord {
            counter: self.counter,
            state,
        };
        let bytes = self.layout.order.to_bytes(word.into());
        self.block.write(SWITCH_WORD as usize, &bytes);
    }

    fn heard(&self) -> NodeWord {
        let mut bytes = [0; 8];
        self.block.read(NODE_WORD as usize, &mut bytes);
        NodeWord::try_from(self.layout.order.from_bytes(bytes)).unwrap()
    }

    /// Offset of the item with this counter.
    fn slot(&self, counter: u32) -> usize {
        let slot = counter & (self.layout.slots - 1);
        ITEMS as usize + slot as usize * self.layout.item_size as usize
    }
}

impl FakeFlow {
    pub fn new(producers: usize, consumers: usize, item_size: u32, slots: u32) -> Self {
        let layout = RingLayout {
            item_size,
            slots,
            order: ByteOrder::Little,
        };
        let memory = Memory::new(1 << 30);
        let rings = |count| (0..count).map(|_| Ring::new(&memory, layout)).collect();
        Self {
            layout,
            sources: (0..producers).map(|_| rings(consumers)).collect(),
            targets: rings(consumers),
            state: SwitchState::Open,
        }
    }

    pub fn partitioner(&self, producer: usize, row_bytes: usize) -> Partitioner {
        let producers = self.sources[producer]
            .iter()
            .map(|ring| Producer::new(&ring.block, self.layout).unwrap())
            .collect();
        Partitioner::new(producers, row_bytes)
    }

    /// One ring of a producer.
    pub fn producer(&self, producer: usize, consumer: usize) -> Producer {
        Producer::new(&self.sources[producer][consumer].block, self.layout).unwrap()
    }

    pub fn consumer(&self, consumer: usize) -> Consumer {
        Consumer::new(&self.targets[consumer].block, self.layout).unwrap()
    }

    /// Moves some items from one randomly chosen producer to each consumer.
    pub fn turn(&mut self, rng: &mut Rng) {
        if self.state != SwitchState::Open {
            return;
        }
        for at in 0..self.targets.len() {
            let from = rng.below(self.sources.len() as u64) as usize;
            let items = rng.below(u64::from(self.layout.slots) + 1) as u32;
            self.shuttle(from, at, items);
            let is_over = |rings: &Vec<Ring>| {
                let word = rings[at].heard();
                word.state == NodeState::Finished && word.counter == rings[at].counter
            };
            if self.sources.iter().all(is_over) {
                self.targets[at].say(SwitchState::Ended);
            }
        }
    }

    fn shuttle(&mut self, from: usize, to: usize, items_max: u32) {
        let (source, target) = (&mut self.sources[from][to], &mut self.targets[to]);
        for _ in 0..items_max {
            let is_full =
                target.counter.wrapping_sub(target.heard().counter) == target.layout.slots;
            if source.counter == source.heard().counter || is_full {
                break;
            }
            let mut item = vec![0; self.layout.item_size as usize];
            source.block.read(source.slot(source.counter), &mut item);
            target.block.write(target.slot(target.counter), &item);
            source.counter = source.counter.wrapping_add(1);
            target.counter = target.counter.wrapping_add(1);
        }
        source.say(self.state);
        target.say(self.state);
    }

    /// Aborts the flow.
    pub fn abort(&mut self) {
        self.state = SwitchState::Aborted;
        for ring in self.sources.iter().flatten().chain(&self.targets) {
            ring.say(self.state);
        }
    }

    /// Delivers an item to a consumer, as a broken producer might send it.
    pub fn deliver(&mut self, consumer: usize, item: &[u8]) {
        let ring = &mut self.targets[consumer];
        ring.block.write(ring.slot(ring.counter), item);
        ring.counter += 1;
        ring.say(SwitchState::Open);
    }

    /// Marks the end of a consumer's stream.
    pub fn end(&mut self, consumer: usize) {
        self.targets[consumer].say(SwitchState::Ended);
    }

    /// Whether a consumer has left.
    pub fn has_left(&self, consumer: usize) -> bool {
        self.targets[consumer].heard().state == NodeState::Finished
    }
}
