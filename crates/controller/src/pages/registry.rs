//! The controller's state of the page directory.

use super::{PageChannel, PagePool, PageSpec};
use crate::lanes::Connected;
use crate::{Controller, RegionName};
use rackweave_base::{NodeId, Qpn, Rkey};
use rackweave_programs::pages::{LostPage, SOURCES, StoreSet};
use rackweave_switch::transfer::LaneId;
use rackweave_wire::fabric::page::PageId;
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;

/// The lanes of a slot that lead to its node.
#[derive(Clone, Copy, Debug, Serialize, Deserialize)]
pub(crate) struct SlotRegistry {
    /// The index of the node in the specification.
    pub node: usize,
    pub target: Connected,
    pub word: Connected,
    pub relay: Connected,
    /// The address and key of its completion.
    pub completions: (u64, Rkey),
}

/// A live node.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub(crate) struct NodeRegistry {
    pub pool: PagePool,
    pub sources: Vec<Connected>,
    pub requests: Vec<Connected>,
    pub channels: Vec<PageChannel>,
    /// Queue pairs to the memory server, at both ends, by channel.
    pub fallback: Vec<(Qpn, NodeId, Qpn)>,
}

/// A store whose target is present.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub(crate) struct StoreRegistry {
    pub admin: Qpn,
    pub controller: u16,
    /// The I/O queues, by slot.
    pub queues: Vec<Option<Connected>>,
}

#[derive(Clone, Debug, Serialize, Deserialize)]
pub(crate) struct PageRegistry {
    pub spec: PageSpec,
    /// Numbers of lanes, fixed at set-up.
    pub first_source: Vec<LaneId>,
    pub first_request: Vec<LaneId>,
    pub first_slot: Vec<u16>,
    pub slot_lanes: LaneId,
    pub queue_lanes: Vec<LaneId>,
    /// The memory server, if it is present.
    pub server: Option<NodeId>,
    /// Entries of each store in the server's memory.
    pub fallback: Vec<RegionName>,
    pub nodes: Vec<Option<NodeRegistry>>,
    /// By slot; `None` if its node is dead.
    pub slots: Vec<Option<SlotRegistry>>,
    pub stores: Vec<Option<StoreRegistry>>,
    /// By node: the stores that are open to it.
    pub members: Vec<StoreSet>,
    pub lost: Vec<LostPage>,
    /// Pages with an accepted loss, and the version since then.
    pub accepted: BTreeMap<PageId, u64>,
    /// A random number that separates versions of different directories.
    pub epoch: u64,
    /// How many times the directory was rebuilt after a loss.
    pub restarts: u64,
}

impl Controller {
    /// Calls `act` with a node that is taken out of the registry meanwhile; `None` if it is dead.
    pub(super) fn with_node<R>(
        &mut self,
        index: usize,
        act: impl FnOnce(&mut Self, &mut NodeRegistry) -> R,
    ) -> Option<R> {
        let mut node = self.pages.as_mut()?.nodes[index].take()?;
        let result = act(self, &mut node);
        self.pages.as_mut()?.nodes[index] = Some(node);
        Some(result)
    }

    /// The channels of all live nodes: node and worker.
    pub(super) fn all_channels(&self) -> Vec<(usize, usize)> {
        let nodes = self.pages.iter().flat_map(|registry| &registry.nodes);
        let counts = nodes.map(|node| node.as_ref().map_or(0, |node| node.channels.len()));
        let channels = counts.enumerate();
        channels
            .flat_map(|(index, count)| (0..count).map(move |worker| (index, worker)))
            .collect()
    }

    /// The memory server, if there is one.
    pub(super) fn page_server(&self) -> Option<NodeId> {
        self.pages.as_ref()?.server
    }

    /// The state of a slot, if its node is not dead.
    pub(super) fn slot_mut(&mut self, slot: u16) -> Option<&mut SlotRegistry> {
        self.pages.as_mut()?.slots[usize::from(slot)].as_mut()
    }
}

impl PageRegistry {
    /// The lanes that it has in the switch.
    pub fn lane_numbers(&self) -> impl Iterator<Item = LaneId> {
        let run = |first: &LaneId, count: u16| (first.0..first.0 + count).map(LaneId);
        let sources = u16::from(SOURCES) + 1;
        let slots = self.slots.len() as u16;
        let requests = self.first_request.iter().zip(&self.spec.nodes);
        let requests = requests.flat_map(move |(first, node)| run(first, node.workers));
        let first_source = self.first_source.iter();
        let of_sources = first_source.flat_map(move |first| run(first, sources));
        let queues = self
            .queue_lanes
            .iter()
            .flat_map(move |first| run(first, slots));
        let of_slots = run(&self.slot_lanes, slots * 3);
        of_sources.chain(requests).chain(of_slots).chain(queues)
    }

    /// The index of a node in the specification.
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

    /// The node and bit of a source lane, or of the node's lane for lease words ([`SOURCES`]).
    pub fn source(&self, lane: LaneId) -> Option<(usize, u8)> {
        let sources = u16::from(SOURCES) + 1;
        let at = self
            .first_source
            .iter()
            .position(|first| (first.0..first.0 + sources).contains(&lane.0))?;
        Some((at, (lane.0 - self.first_source[at].0) as u8))
    }
}
