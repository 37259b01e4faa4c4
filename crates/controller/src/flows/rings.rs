//! Rings as the controller sees them: registered blocks with words in them.

use core::sync::atomic::Ordering;
use rackweave_base::{Block, NodeId};
use rackweave_verbs::Region;
use rackweave_wire::fabric::ring::{
    self, ByteOrder, COMMIT_RECORD, CommitRecord, SWITCH_WORD, SwitchState, SwitchWord, UNIT_WORD,
    UnitState, UnitWord, UnknownState,
};

/// A ring in a region of a node.
#[derive(Clone, Debug)]
pub struct Ring {
    /// The node.
    pub node: NodeId,
    /// The region: the ring fills it.
    pub region: Region,
    /// The size of an item in bytes.
    pub item_size: u32,
    /// Slots, a power of two.
    pub slots: u32,
    /// The byte order of its words.
    pub order: ByteOrder,
}

/// The rings of a flow.
#[derive(Clone, Debug)]
pub struct FlowRings {
    /// Per consumer its ring.
    pub consumers: Vec<Ring>,
    /// Per consumer the rings of all producers that send to it.
    pub producers: Vec<Vec<Ring>>,
}

impl FlowRings {
    /// Every ring.
    pub fn all(&self) -> impl Iterator<Item = &Ring> {
        self.consumers.iter().chain(self.producers.iter().flatten())
    }

    /// The rings of one producer, one per consumer.
    pub fn of_producer(&self, producer: usize) -> Vec<Ring> {
        self.producers
            .iter()
            .map(|rings| rings[producer].clone())
            .collect()
    }
}

impl Ring {
    /// The bytes.
    pub fn block(&self) -> &Block {
        &self.region.block
    }

    /// Makes it an empty ring at work.
    pub(super) fn open(&self) {
        self.store(
            UNIT_WORD,
            UnitWord {
                counter: 0,
                state: UnitState::Open,
            }
            .into(),
        );
        self.store(
            SWITCH_WORD,
            SwitchWord {
                counter: 0,
                state: SwitchState::Open,
            }
            .into(),
        );
        self.store(COMMIT_RECORD, 0);
    }

    /// What the node says.
    pub(super) fn unit(&self) -> Result<UnitWord, UnknownState> {
        UnitWord::try_from(self.load(UNIT_WORD))
    }

    /// What the switch has said.
    pub(super) fn switch(&self) -> Result<SwitchWord, UnknownState> {
        SwitchWord::try_from(self.load(SWITCH_WORD))
    }

    /// What the newest head of a consumer ring contains.
    pub(super) fn record(&self) -> CommitRecord {
        CommitRecord::from(self.load(COMMIT_RECORD))
    }

    /// Corrects the counter that the switch writes.
    pub(super) fn set_switch_counter(&self, counter: u32) {
        if let Ok(word) = self.switch() {
            self.store(SWITCH_WORD, SwitchWord { counter, ..word }.into());
        }
    }

    /// Tells the node how the flow ended. A consumer that knows of the end keeps knowing it.
    pub(super) fn tell(&self, state: SwitchState) {
        let word = self.switch().unwrap_or_default();
        if word.state != SwitchState::Ended {
            self.store(SWITCH_WORD, SwitchWord { state, ..word }.into());
        }
    }

    fn load(&self, offset: u64) -> u64 {
        self.order
            .native(self.block().word(offset as usize).load(Ordering::Acquire))
    }

    fn store(&self, offset: u64, word: u64) {
        self.block()
            .word(offset as usize)
            .store(self.order.native(word), Ordering::Release);
    }

    /// The bytes of a ring of this shape.
    pub(super) fn bytes(item_size: u32, slots: u32) -> u64 {
        ring::region_bytes(item_size, slots)
    }
}
