//! What the controller acts on.

use rackweave_base::{Instant, MacAddr, NodeId, PortId};
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
    pub mac: MacAddr,
    /// Its IP address.
    pub ip: Ipv4Addr,
}

/// A rack, as far as the controller acts on it.
pub trait Site {
    /// The time.
    fn now(&self) -> Instant;
    /// The nodes that there are, dead ones included.
    fn nodes(&self) -> Vec<(NodeId, NodeAddress)>;
    /// Acts on a node. False if there is no such node or it is dead; then `act` is not called.
    fn node(&mut self, node: NodeId, act: &mut dyn FnMut(&mut dyn Verbs)) -> bool;
    /// Acts on the switch.
    fn switch(&mut self, act: &mut dyn FnMut(Instant, &mut Switch<Pipeline>));
}
