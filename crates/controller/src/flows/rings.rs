//! Rings as the controller sees them: regions with words in them.

use crate::{RegionName, Site};
use rackweave_base::{NodeId, Qpn};
use rackweave_wire::fabric::ring::{
    self, ByteOrder, COMMIT_RECORD, CommitRecord, SWITCH_WORD, SwitchState, SwitchWord, UNIT_WORD,
    UnitState, UnitWord,
};
use serde::{Deserialize, Serialize};

/// A ring in a region of a node.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct Ring {
    /// The node.
    pub node: NodeId,
    /// The region: the ring fills it.
    pub region: RegionName,
    /// The size of an item in bytes.
    pub item_size: u32,
    /// Slots, a power of two.
    pub slots: u32,
    /// The byte order of its words.
    pub order: ByteOrder,
    /// The queue pair with which its node rings the switch's doorbell, if it has one.
    pub bell: Option<Bell>,
}

/// A queue pair that is connected to the switch: a SEND of the eight bytes of the ring's unit word
/// says what a poll would find out later. It stays the same for as long as the ring is there.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub struct Bell {
    /// The node's queue pair.
    pub qpn: Qpn,
}

/// The rings of a flow.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct FlowRings {
    /// Per consumer its ring.
    pub consumers: Vec<Ring>,
    /// The rings of all producers: per consumer in a shuffle, else once, since all consumers are
    /// served from the same.
    pub producers: Vec<Vec<Ring>>,
}

impl FlowRings {
    /// Every ring.
    pub fn all(&self) -> impl Iterator<Item = &Ring> {
        self.consumers.iter().chain(self.producers.iter().flatten())
    }

    /// The rings of one producer: one per consumer in a shuffle, else one.
    pub fn of_producer(&self, producer: usize) -> Vec<Ring> {
        self.producers
            .iter()
            .map(|rings| rings[producer].clone())
            .collect()
    }
}

impl Ring {
    /// Makes it an empty ring at work, whose first item has number `counter`.
    pub(super) fn open(&self, site: &mut dyn Site, counter: u32) {
        let unit = UnitWord {
            counter,
            state: UnitState::Open,
        };
        let switch = SwitchWord {
            counter,
            state: SwitchState::Open,
        };
        self.store(site, UNIT_WORD, unit.into());
        self.store(site, SWITCH_WORD, switch.into());
        self.store(site, COMMIT_RECORD, 0);
    }

    /// What the node says.
    pub(super) fn unit(&self, site: &mut dyn Site) -> Option<UnitWord> {
        UnitWord::try_from(self.load(site, UNIT_WORD)?).ok()
    }

    /// What the switch has said.
    pub(super) fn switch(&self, site: &mut dyn Site) -> Option<SwitchWord> {
        SwitchWord::try_from(self.load(site, SWITCH_WORD)?).ok()
    }

    /// Whether its node still has it.
    pub fn is_there(&self, site: &mut dyn Site) -> bool {
        self.switch(site).is_some()
    }

    /// Whether the switch has said that its flow has ended well.
    pub fn has_ended(&self, site: &mut dyn Site) -> bool {
        self.switch(site)
            .is_some_and(|word| word.state == SwitchState::Ended)
    }

    /// What the newest head of a consumer ring contains.
    pub(super) fn record(&self, site: &mut dyn Site) -> CommitRecord {
        self.load(site, COMMIT_RECORD)
            .map_or_else(CommitRecord::default, CommitRecord::from)
    }

    /// Corrects the counter that the switch writes.
    pub(super) fn set_switch_counter(&self, site: &mut dyn Site, counter: u32) {
        if let Some(word) = self.switch(site) {
            self.store(site, SWITCH_WORD, SwitchWord { counter, ..word }.into());
        }
    }

    /// The same, unless it says more already.
    pub(super) fn raise_switch_counter(&self, site: &mut dyn Site, counter: u32) {
        let word = self.switch(site).unwrap_or_default();
        if counter.wrapping_sub(word.counter) <= self.slots {
            self.set_switch_counter(site, counter);
        }
    }

    /// Has a consumer ring say of its newest head what that of another replica says.
    pub(super) fn set_record(&self, site: &mut dyn Site, record: CommitRecord) {
        self.store(site, COMMIT_RECORD, record.into());
    }

    /// Tells the node how the flow ended. A consumer that knows of the end keeps knowing it.
    /// Returns the counter of what the switch had said last, if the ring is there.
    pub(super) fn tell(&self, site: &mut dyn Site, state: SwitchState) -> Option<u32> {
        let said = self.switch(site);
        let word = said.unwrap_or_default();
        if word.state != SwitchState::Ended {
            self.store(site, SWITCH_WORD, SwitchWord { state, ..word }.into());
        }
        said.map(|word| word.counter)
    }

    fn load(&self, site: &mut dyn Site, offset: u64) -> Option<u64> {
        let bytes = site.load_word(self.node, self.region.rkey, offset)?;
        Some(self.order.from_bytes(bytes))
    }

    fn store(&self, site: &mut dyn Site, offset: u64, word: u64) {
        let bytes = self.order.to_bytes(word);
        site.store_word(self.node, self.region.rkey, offset, bytes);
    }

    /// The bytes of a ring of this shape.
    pub(super) fn bytes(item_size: u32, slots: u32) -> u64 {
        ring::region_bytes(item_size, slots)
    }
}
