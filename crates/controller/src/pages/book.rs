//! What the controller knows of the page directory that it has set up.

use super::{PageChannel, PagePool, PageSpec};
use crate::RegionName;
use crate::lanes::Connected;
use rackweave_base::{NodeId, Qpn};
use rackweave_programs::pages::LostPage;
use rackweave_switch::transfer::LaneId;

/// The lanes of a slot that lead to its node.
#[derive(Clone, Copy, Debug)]
pub(crate) struct SlotBook {
    /// Which of the specification's nodes.
    pub node: usize,
    pub target: Connected,
    pub word: Connected,
    pub relay: Connected,
}

/// A node that is there.
#[derive(Clone, Debug)]
pub(crate) struct NodeBook {
    pub pool: PagePool,
    pub sources: Vec<Connected>,
    pub requests: Vec<Connected>,
    pub channels: Vec<PageChannel>,
    /// Queue pairs to the memory server, at both ends.
    pub fallback: Vec<(Qpn, NodeId, Qpn)>,
}

/// A store whose target is there.
#[derive(Clone, Debug)]
pub(crate) struct StoreBook {
    pub admin: Qpn,
    pub controller: u16,
    /// By slot.
    pub queues: Vec<Option<Connected>>,
}

#[derive(Debug)]
pub(crate) struct PageBook {
    pub spec: PageSpec,
    /// Numbers of lanes, fixed at the beginning.
    pub first_source: Vec<LaneId>,
    pub first_request: Vec<LaneId>,
    pub first_slot: Vec<u16>,
    pub slot_lanes: LaneId,
    pub queue_lanes: Vec<LaneId>,
    /// Entries of each store in the server's memory.
    pub fallback: Vec<RegionName>,
    pub nodes: Vec<Option<NodeBook>>,
    /// By slot.
    pub slots: Vec<Option<SlotBook>>,
    pub stores: Vec<Option<StoreBook>>,
    pub lost: Vec<LostPage>,
}

impl PageBook {
    /// Which of the specification's nodes this is.
    pub fn index(&self, node: NodeId) -> Option<usize> {
        self.spec
            .nodes
            .iter()
            .position(|member| member.node == node)
    }

    /// The slots of one of the nodes.
    pub fn slots_of(&self, index: usize) -> std::ops::Range<u16> {
        let node = &self.spec.nodes[index];
        let first = self.first_slot[index];
        first..first + node.workers * node.slots
    }

    /// The lanes of a slot: target, word, relay.
    pub fn lanes_of(&self, slot: u16) -> [LaneId; 3] {
        let first = self.slot_lanes.0 + slot * 3;
        [LaneId(first), LaneId(first + 1), LaneId(first + 2)]
    }

    /// The node and bit of a source lane.
    pub fn source(&self, lane: LaneId) -> Option<(usize, u8)> {
        let sources = u16::from(rackweave_programs::pages::SOURCES);
        let at = self
            .first_source
            .iter()
            .position(|first| (first.0..first.0 + sources).contains(&lane.0))?;
        Some((at, (lane.0 - self.first_source[at].0) as u8))
    }
}
