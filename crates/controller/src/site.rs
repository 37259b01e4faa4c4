//! What the controller acts on.

use rackweave_base::{Instant, MacAddr, NodeId, PortId, Qpn};
use rackweave_programs::Pipeline;
use rackweave_switch::Switch;
use rackweave_verbs::Verbs;
use std::net::Ipv4Addr;

/// Where a node is.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct NodeAddress {
    /// Its Ethernet address.
    pub mac: MacAddr,
    /// Its IP address.
    pub ip: Ipv4Addr,
    /// The switch port that leads to it.
    pub port: PortId,
}

/// Where the switch is.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct SwitchAddress {
    /// Its Ethernet address.
    pub mac: rackweave_base::MacAddr,
    /// Its IP address.
    pub ip: Ipv4Addr,
}

/// A node's management side.
pub trait NodeControl: Verbs {
    /// Lets READ responses of a queue pair refer to the region instead of copying it, where the
    /// link allows. The owner of the queue pair promises not to change what it reads meanwhile.
    fn read_by_reference(&mut self, qpn: Qpn);
}

/// A rack, as far as the controller acts on it.
pub trait Site {
    /// The time.
    fn now(&self) -> Instant;
    /// The nodes that there are, dead ones included.
    fn nodes(&self) -> Vec<(NodeId, NodeAddress)>;
    /// Acts on a node. False if there is no such node or it is dead; then `act` is not called.
    fn node(&mut self, node: NodeId, act: &mut dyn FnMut(&mut dyn NodeControl)) -> bool;
    /// Acts on the switch.
    fn switch(&mut self, act: &mut dyn FnMut(Instant, &mut Switch<Pipeline>));
}
