//! Rings in the controller's view: regions with words in them.

use crate::{RegionName, Site};
use rackweave_base::{NodeId, Qpn};
use rackweave_wire::fabric::ring::{
    self, ByteOrder, COMMIT_RECORD, CommitRecord, NODE_WORD, NodeState, NodeWord, SWITCH_WORD,
    SwitchState, SwitchWord,
};
use serde::{Deserialize, Serialize};

/// A ring in a region of a node.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct Ring {
    /// The node.
    pub node: NodeId,
    /// The region, which the ring fills.
    pub region: RegionName,
    /// The size of an item in bytes.
    pub item_size: u32,
    /// The number of slots, a power of two.
    pub slots: u32,
    /// The byte order of its words.
    pub order: ByteOrder,
    /// The queue pair with which its node rings the switch's doorbell, if it has one.
    pub bell: Option<Bell>,
}

/// A queue pair that is connected to the switch: a SEND of the eight bytes of the ring's node word
/// reports what a poll would find later. It stays the same as long as the ring exists.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub struct Bell {
    /// The node's queue pair.
    pub qpn: Qpn,
}

/// The rings of a flow.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct FlowRings {
    /// The ring of each consumer.
    pub consumers: Vec<Ring>,
    /// The rings of all producers: per consumer in a shuffle, else one list, since all consumers
    /// are served from the same rings.
    pub producers: Vec<Vec<Ring>>,
}

impl FlowRings {
    /// All rings.
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
    /// Initializes it as an empty active ring, whose first item has number `counter`.
    pub(super) fn open(&self, site: &mut dyn Site, counter: u32) {
        let word = NodeWord {
            counter,
            state: NodeState::Open,
        };
        let switch = SwitchWord {
            counter,
            state: SwitchState::Open,
        };
        self.store(site, NODE_WORD, word.into());
        self.store(site, SWITCH_WORD, switch.into());
        self.store(site, COMMIT_RECORD, 0);
    }

    /// Its node and remote key, which no other ring has.
    pub(super) fn name(&self) -> (NodeId, u32) {
        (self.node, self.region.rkey.0)
    }

    /// The word written by the node.
    pub(super) fn node_word(&self, site: &mut dyn Site) -> Option<NodeWord> {
        NodeWord::try_from(self.load(site, NODE_WORD)?).ok()
    }

    /// The word written by the switch.
    pub(super) fn switch(&self, site: &mut dyn Site) -> Option<SwitchWord> {
        SwitchWord::try_from(self.load(site, SWITCH_WORD)?).ok()
    }

    /// Whether its node still has it.
    pub fn is_there(&self, site: &mut dyn Site) -> bool {
        self.switch(site).is_some()
    }

    /// Whether the switch has written that its flow has ended regularly.
    pub fn has_ended(&self, site: &mut dyn Site) -> bool {
        self.switch(site)
            .is_some_and(|word| word.state == SwitchState::Ended)
    }

    /// The commit record of the newest head of a consumer ring.
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

    /// The same, unless it is already higher.
    pub(super) fn raise_switch_counter(&self, site: &mut dyn Site, counter: u32) {
        let word = self.switch(site).unwrap_or_default();
        if counter.wrapping_sub(word.counter) <= self.slots {
            self.set_switch_counter(site, counter);
        }
    }

    /// Copies the record of another replica's newest head to a consumer ring.
    pub(super) fn set_record(&self, site: &mut dyn Site, record: CommitRecord) {
        self.store(site, COMMIT_RECORD, record.into());
    }

    /// Writes to the node how the flow ended; a ring that says it ended regularly is not changed.
    /// Returns the counter last written by the switch, if the ring exists.
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

    /// The size of a ring of this shape in bytes.
    pub(super) fn bytes(item_size: u32, slots: u32) -> u64 {
        ring::region_bytes(item_size, slots)
    }
}
