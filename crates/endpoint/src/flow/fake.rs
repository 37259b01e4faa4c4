//! A fake switch for tests: it copies items from a producer's ring to a consumer's.

use super::{Consumer, Producer, RingLayout};
use rackweave_base::{Block, Memory};
use rackweave_verbs::Progress;
use rackweave_wire::fabric::ring::{
    ITEMS, NODE_WORD, NodeState, NodeWord, SWITCH_WORD, SwitchState, SwitchWord, region_bytes,
};
use std::sync::Mutex;
use std::sync::atomic::{AtomicU32, Ordering};

/// One ring.
pub(super) struct Ring {
    pub block: Block,
    pub layout: RingLayout,
}

impl Ring {
    /// A ring whose counters are initially `start`.
    pub fn new(layout: RingLayout, start: u32) -> Self {
        let len = region_bytes(layout.item_size, layout.slots) as usize;
        let block = Memory::new(1 << 24).allocate(len).unwrap();
        let ring = Self { block, layout };
        let word = NodeWord {
            counter: start,
            state: NodeState::Open,
        };
        let bytes = layout.order.to_bytes(word.into());
        ring.block.write(NODE_WORD as usize, &bytes);
        ring.say(start, SwitchState::Open);
        ring
    }

    /// Writes the switch's word.
    pub fn say(&self, counter: u32, state: SwitchState) {
        let word = SwitchWord { counter, state };
        let bytes = self.layout.order.to_bytes(word.into());
        self.block.write(SWITCH_WORD as usize, &bytes);
    }

    /// The word of the node, as the switch reads it.
    pub fn heard(&self) -> NodeWord {
        let mut bytes = [0; 8];
        self.block.read(NODE_WORD as usize, &mut bytes);
        NodeWord::try_from(self.layout.order.from_bytes(bytes)).unwrap()
    }

    fn item_at(&self, counter: u32) -> usize {
        let slot = counter & (self.layout.slots - 1);
        ITEMS as usize + slot as usize * self.layout.item_size as usize
    }
}

/// A flow of one producer and one consumer, whose counters begin at the same value.
pub(super) struct FakeSwitch {
    pub source: Ring,
    pub target: Ring,
    moved: AtomicU32,
    /// What the next calls of `drive` do. When the script is empty, they move an item.
    pub script: Mutex<Vec<Act>>,
    pub relaxed: AtomicU32,
}

/// What happens during a wait.
#[derive(Clone, Copy, Debug)]
pub(super) enum Act {
    Nothing,
    Move(u32),
    Abort,
}

impl FakeSwitch {
    pub fn new(source: RingLayout, target: RingLayout, start: u32) -> Self {
        Self {
            source: Ring::new(source, start),
            target: Ring::new(target, start),
            moved: AtomicU32::new(start),
            script: Mutex::new(Vec::new()),
            relaxed: AtomicU32::new(0),
        }
    }

    pub fn producer(&self) -> Producer {
        Producer::new(&self.source.block, self.source.layout).unwrap()
    }

    pub fn consumer(&self) -> Consumer {
        Consumer::new(&self.target.block, self.target.layout).unwrap()
    }

    /// Sets what the next calls of `drive` do, in this order.
    pub fn will(&self, acts: &[Act]) {
        *self.script.lock().unwrap() = acts.iter().rev().copied().collect();
    }

    /// Moves up to `items` items; false if nothing changed.
    pub fn transfer(&self, items: u32) -> bool {
        let moved = self.moved.load(Ordering::Relaxed);
        let head = self.source.heard();
        let room = self.target.layout.slots - moved.wrapping_sub(self.target.heard().counter);
        let count = head.counter.wrapping_sub(moved).min(room).min(items);
        let mut item = vec![0; self.source.layout.item_size as usize];
        for at in 0..count {
            let counter = moved.wrapping_add(at);
            self.source
                .block
                .read(self.source.item_at(counter), &mut item);
            self.target.block.write(self.target.item_at(counter), &item);
        }
        let moved = moved.wrapping_add(count);
        self.moved.store(moved, Ordering::Relaxed);
        self.source.say(moved, SwitchState::Open);
        let ended = head.state == NodeState::Finished && head.counter == moved;
        let state = if ended {
            SwitchState::Ended
        } else {
            SwitchState::Open
        };
        self.target.say(moved, state);
        count > 0
    }

    pub fn abort(&self) {
        let moved = self.moved.load(Ordering::Relaxed);
        self.source.say(moved, SwitchState::Aborted);
        self.target.say(moved, SwitchState::Aborted);
    }
}

impl Progress for FakeSwitch {
    fn drive(&self) -> bool {
        let act = self.script.lock().unwrap().pop();
        match act.unwrap_or(Act::Move(1)) {
            Act::Nothing => false,
            Act::Move(items) => self.transfer(items),
            Act::Abort => {
                self.abort();
                true
            }
        }
    }

    fn relax(&self, _: u32) {
        let rounds = self.relaxed.fetch_add(1, Ordering::Relaxed);
        assert!(rounds < 1000, "somebody waits for what never comes");
    }
}
