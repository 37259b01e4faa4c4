//! The addresses of nodes, switches and foreign hosts.

use crate::config::RackConfig;
use rackweave_base::{MacAddr, NodeId, PortId};
use rackweave_controller::{NodeAddress, SwitchAddress};
use std::net::Ipv4Addr;

/// The addresses of the parts of a rack.
#[derive(Clone, Copy, Debug)]
pub struct Address;

impl Address {
    /// The address of switch 0.
    pub const SWITCH: SwitchAddress = SwitchAddress {
        mac: MacAddr([0x02, 0, 0, 0, 0xff, 0]),
        ip: Ipv4Addr::new(10, 77, 255, 254),
    };

    /// The address of a switch: the last byte of the MAC address is its number, and the last byte
    /// of the IP address is 254 minus its number. Switch 0 is [`Address::SWITCH`].
    pub fn of_switch(at: usize) -> SwitchAddress {
        let mut address = Self::SWITCH;
        let [.., last] = &mut address.mac.0;
        // A topology has fewer switches than `u8` has values.
        let number = at as u8;
        *last = number;
        let [a, b, c, d] = address.ip.octets();
        address.ip = Ipv4Addr::new(a, b, c, d.wrapping_sub(number));
        address
    }

    /// The address of a node: its MAC and IP address end in its number plus one; its port is its
    /// number, which holds in a rack with one switch.
    pub fn of_node(node: NodeId) -> NodeAddress {
        let [high, low] = (node.0 + 1).to_be_bytes();
        NodeAddress {
            mac: MacAddr([0x02, 0, 0, 0, high, low]),
            ip: Ipv4Addr::new(10, 77, high, low),
            port: PortId(node.0),
        }
    }

    /// The address of a foreign host, by its position in the configuration: its ports follow those
    /// of the nodes.
    #[cfg(feature = "hosted")]
    pub(crate) fn of_host(config: &RackConfig, at: usize) -> (NodeId, NodeAddress) {
        let (host, number) = (&config.host[at], (config.node.len() + at) as u16);
        let address = NodeAddress {
            mac: host.mac,
            ip: host.ip,
            port: PortId(number),
        };
        (NodeId(number), address)
    }

    /// The addresses of all nodes.
    pub fn of_nodes(config: &RackConfig) -> Vec<(NodeId, NodeAddress)> {
        let ids = (0..config.node.len()).map(|at| NodeId(at as u16));
        ids.map(|node| (node, Self::of_node(node))).collect()
    }

    /// By number, the IP addresses of all nodes but one.
    pub(crate) fn of_others(config: &RackConfig, node: NodeId) -> Vec<Option<Ipv4Addr>> {
        let nodes = Self::of_nodes(config).into_iter();
        nodes
            .map(|(other, address)| (other != node).then_some(address.ip))
            .collect()
    }
}
