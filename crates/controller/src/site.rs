//! The interface of a rack to the controller.

use crate::lanes::{PairError, PairRequest};
use crate::pages::{TargetReply, TargetRequest};
use crate::regions::{LocalRegions, RegionError, RegionName, RegionPurpose};
use crate::topology::Topology;
use rackweave_base::{Instant, MacAddr, NodeId, PortId, Qpn, Rkey};
use rackweave_programs::Pipeline;
use rackweave_switch::Switch;
use rackweave_target::TargetError;
use rackweave_verbs::{Access, PdId, Verbs};
use std::net::Ipv4Addr;

/// The address of a node.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct NodeAddress {
    /// Its Ethernet address.
    pub mac: MacAddr,
    /// Its IP address.
    pub ip: Ipv4Addr,
    /// The port of its own edge switch that leads to it. The [`Topology`] says which switch that
    /// is, and which port of another switch leads towards it.
    pub port: PortId,
}

/// The address of the switch.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct SwitchAddress {
    /// Its Ethernet address.
    pub mac: MacAddr,
    /// Its IP address.
    pub ip: Ipv4Addr,
}

/// A rack, as far as the controller acts on it.
pub trait Site {
    /// The current time.
    fn now(&self) -> Instant;
    /// All nodes, including dead ones.
    fn nodes(&self) -> Vec<(NodeId, NodeAddress)>;
    /// Calls `act` with a node. Returns false if there is no such node or it is dead; then `act` is
    /// not called.
    fn node(&mut self, node: NodeId, act: &mut dyn FnMut(&mut dyn Verbs)) -> bool;
    /// Connects queue pairs of a node to the switch, in order. `None` if the node is dead.
    fn connect_pairs(
        &mut self,
        node: NodeId,
        requests: &[PairRequest],
    ) -> Option<Vec<Result<Qpn, PairError>>> {
        let mut made = None;
        self.node(node, &mut |verbs| {
            let pairs = requests.iter().map(|request| request.answer(verbs));
            made = Some(pairs.collect());
        });
        made
    }
    /// The regions of nodes in this process. A site with remote nodes asks them instead.
    fn regions(&self) -> Option<&LocalRegions> {
        None
    }
    /// Allocates `len` zero bytes on a node and registers them. A node that is not in this process
    /// treats them according to their purpose when it has lost the controller.
    ///
    /// # Errors
    /// If the node is dead or lacks capacity.
    fn make_region(
        &mut self,
        node: NodeId,
        pd: PdId,
        len: u64,
        access: Access,
        _purpose: RegionPurpose,
    ) -> Result<RegionName, RegionError> {
        let regions = self.regions().ok_or(RegionError::NoNode)?.clone();
        let mut made = Err(RegionError::NoNode);
        self.node(node, &mut |verbs| {
            made = regions.make(verbs, node, pd, len, access);
        });
        made
    }
    /// Removes a region. A dead node needs no action.
    fn remove_region(&mut self, node: NodeId, name: &RegionName) {
        let regions = self.regions();
        if let Some(region) = regions.and_then(|regions| regions.remove(node, name.rkey)) {
            // Unknown if the node has restarted meanwhile.
            self.node(node, &mut |verbs| _ = verbs.deregister(&region));
        }
    }
    /// The eight bytes at `offset` of a region, read atomically; `None` if the node is dead.
    fn load_word(&mut self, node: NodeId, rkey: Rkey, offset: u64) -> Option<[u8; 8]> {
        self.regions()?.load(node, rkey, offset)
    }
    /// The same at several offsets, one after the other.
    fn load_words(&mut self, node: NodeId, rkey: Rkey, offsets: &[u64]) -> Option<Vec<[u8; 8]>> {
        let mut words = offsets
            .iter()
            .map(|&offset| self.load_word(node, rkey, offset));
        words.try_fold(Vec::new(), |mut all, word| {
            all.push(word?);
            Some(all)
        })
    }
    /// Writes eight bytes atomically. A dead node needs no action.
    fn store_word(&mut self, node: NodeId, rkey: Rkey, offset: u64, bytes: [u8; 8]) {
        if let Some(regions) = self.regions() {
            regions.store(node, rkey, offset, bytes);
        }
    }
    /// Replaces the first of two little-endian words by the second if it is present, and returns
    /// the previous value, atomically with respect to peers' atomics; `None` if the node is dead,
    /// or the site does not support it.
    fn compare_swap_word(
        &mut self,
        node: NodeId,
        rkey: Rkey,
        offset: u64,
        words: (u64, u64),
    ) -> Option<u64> {
        self.regions()?.compare_swap(node, rkey, offset, words)
    }
    /// Replaces a little-endian word that peers may change at any moment by the result of `change`,
    /// and returns the previous value; `None` if the node is dead.
    fn update_word(
        &mut self,
        node: NodeId,
        rkey: Rkey,
        offset: u64,
        change: &mut dyn FnMut(u64) -> Option<u64>,
    ) -> Option<u64> {
        let mut word = u64::from_le_bytes(self.load_word(node, rkey, offset)?);
        while let Some(next) = change(word) {
            let found = self.compare_swap_word(node, rkey, offset, (word, next))?;
            if found == word {
                break;
            }
            word = found;
        }
        Some(word)
    }
    /// Asks the NVMe target of a node. `None` if it has none, or is dead.
    fn target(
        &mut self,
        _node: NodeId,
        _request: TargetRequest,
    ) -> Option<Result<TargetReply, TargetError>> {
        None
    }
    /// Sends the NVMe target of a node several requests, one after the other. `None` if it has
    /// none, or is dead.
    fn target_all(
        &mut self,
        node: NodeId,
        requests: Vec<TargetRequest>,
    ) -> Option<Vec<Result<TargetReply, TargetError>>> {
        let replies = requests.into_iter().map(|it| self.target(node, it));
        replies.collect()
    }
    /// The number of switches.
    fn switches(&self) -> usize {
        1
    }
    /// Calls `act` with one of the switches. If there is no such switch, `act` is not called.
    fn switch_at(&mut self, at: usize, act: &mut dyn FnMut(Instant, &mut Switch<Pipeline>)) {
        if at == 0 {
            self.switch(act);
        }
    }
    /// The cabling of the switches and the places of nodes; by default, all nodes are at one
    /// switch.
    fn topology(&self) -> Topology {
        let nodes = self.nodes();
        Topology::one(nodes.iter().map(|(node, address)| (*node, address.port)))
    }
    /// Calls `act` with switch 0, which has the lanes, transfers, flows, pages and sequencers.
    fn switch(&mut self, act: &mut dyn FnMut(Instant, &mut Switch<Pipeline>));
}
