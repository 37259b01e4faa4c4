//! Direct cables between nodes that share memory: packets that no program of the switch acts on
//! pass from node to node.
//!
//! The NIC records to which peers it sends without such a cable. The controller learns of it with
//! the next heartbeat, has one node make the cable, and gives its other end to the other. It has
//! both cut the cable before it acts on the death of either.

use super::shared::NodeCore;
use crate::address::Address;
use crate::config::{LinkKind, RackConfig};
use crate::linked::DirectCable;
use rackweave_base::NodeId;
use rackweave_base::packet::Pool;
use rackweave_link::shared_memory::{Handover, SharedMemory, handover};
use std::os::fd::OwnedFd;
use std::os::unix::net::UnixStream;

/// What the ends of cables are made from.
pub(super) struct CableMaker<'a> {
    pub config: &'a RackConfig,
    pub pool: Pool,
}

impl CableMaker<'_> {
    /// The nodes to which the NIC would use a cable.
    pub fn wanted(&self, core: &NodeCore) -> Vec<NodeId> {
        let wanted = core.pump.peek(|machine| Some(machine.nic()?.take_wanted()));
        let wanted = wanted.unwrap_or_default();
        if wanted.is_empty() {
            return Vec::new();
        }
        let hosted = self.config.hosted();
        let nodes = Address::of_nodes(self.config).into_iter();
        let wanted = nodes.filter(|(_, address)| wanted.contains(&address.ip));
        let shares = |node: NodeId| {
            let node = &self.config.node[usize::from(node.0)];
            node.link_kind(&hosted) == LinkKind::SharedMemory
        };
        wanted
            .map(|(node, _)| node)
            .filter(|&node| shares(node))
            .collect()
    }

    /// Makes a cable to a node, and sends its other end on the channel.
    ///
    /// # Errors
    /// Why there is none.
    pub fn make(
        &self,
        core: &NodeCore,
        channel: Option<&UnixStream>,
        peer: NodeId,
    ) -> Result<(), String> {
        let channel = channel.ok_or("this link shares no memory")?;
        let capacity = self.config.link.packets as usize;
        let made = SharedMemory::create(capacity, core.memory.clone(), self.pool.clone());
        let (link, end) = made.map_err(|error| error.to_string())?;
        handover::send(channel, b"cable", &end.descriptors()).map_err(|error| error.to_string())?;
        self.plug(core, link, peer)
    }

    /// Takes the end of a cable to a node from the channel.
    ///
    /// # Errors
    /// Why there is none.
    pub fn take(
        &self,
        core: &NodeCore,
        channel: Option<&UnixStream>,
        peer: NodeId,
    ) -> Result<(), String> {
        let channel = channel.ok_or("this link shares no memory")?;
        let (_, fds) = handover::receive(channel).map_err(|error| error.to_string())?;
        let fds = <[OwnedFd; 3]>::try_from(fds).map_err(|_| "no cable came along")?;
        let end = Handover::from_descriptors(fds);
        let link = SharedMemory::attach(end, core.memory.clone(), self.pool.clone());
        self.plug(core, link.map_err(|error| error.to_string())?, peer)
    }

    fn plug(&self, core: &NodeCore, link: SharedMemory, peer: NodeId) -> Result<(), String> {
        let mut nodes = Address::of_nodes(self.config).into_iter();
        let address = nodes.find(|(node, _)| *node == peer);
        let (_, address) = address.ok_or("there is no such node")?;
        let cable = DirectCable::new(peer, Box::new(link));
        core.plug_cable(cable, address.ip);
        Ok(())
    }
}
