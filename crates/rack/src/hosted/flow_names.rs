//! Flows and rings of a hosted rack, as data.

use rackweave_base::{Lkey, NodeId, Rkey};
use rackweave_controller::Ring;
use rackweave_endpoint::flow::RingLayout;
use rackweave_wire::fabric::ring::ByteOrder;
use serde::{Deserialize, Serialize};

/// A ring, by its identity at its node.
#[derive(Serialize, Deserialize, Debug, Clone, Copy, PartialEq, Eq)]
pub struct RingName {
    /// The node.
    pub node: NodeId,
    /// The address of the region that it fills.
    pub address: u64,
    /// The key of that region for peers.
    pub rkey: Rkey,
    /// The key of that region for the node itself.
    pub lkey: Lkey,
    /// Bytes of an item.
    pub item_size: u32,
    /// The number of slots.
    pub slots: u32,
    /// Whether its words are big-endian.
    pub big_endian: bool,
}

impl RingName {
    pub(super) fn layout(&self) -> RingLayout {
        RingLayout {
            item_size: self.item_size,
            slots: self.slots,
            order: if self.big_endian {
                ByteOrder::Big
            } else {
                ByteOrder::Little
            },
        }
    }
}

impl From<&Ring> for RingName {
    fn from(ring: &Ring) -> Self {
        Self {
            node: ring.node,
            address: ring.region.address,
            rkey: ring.region.rkey,
            lkey: ring.region.lkey,
            item_size: ring.item_size,
            slots: ring.slots,
            big_endian: ring.order == ByteOrder::Big,
        }
    }
}

/// A flow on a hosted rack.
#[derive(Serialize, Deserialize, Debug, Clone, PartialEq, Eq)]
pub struct HostedFlow {
    /// Its number at the controller.
    pub id: u32,
    /// The ring of each consumer.
    pub consumers: Vec<RingName>,
    /// Per consumer, the rings of all producers that send to it.
    pub producers: Vec<Vec<RingName>>,
}

impl HostedFlow {
    /// The rings of one producer, one per consumer.
    pub fn of_producer(&self, index: usize) -> Vec<RingName> {
        self.producers.iter().map(|rings| rings[index]).collect()
    }
}
