//! Quotas of peers at a listener's node.
//!
//! A peer is identified by what it cannot forge. A stream from another machine is named by its IP
//! address, which TCP has proven; the node that a Hello names is only a claim there. A stream of
//! this machine is named by that node: all have the same address, and a valid Hello contains the
//! rack's number, which only its own nodes know.

use crate::RackConfig;
use crate::address::Address;
use rackweave_base::NodeId;
use rackweave_endpoint::messaging::ConnectionWatch;
use std::net::{IpAddr, Ipv4Addr};

/// Minimum default quota of connections, however small the NIC is: its tables are the limit then.
const CONNECTIONS_MIN: usize = 8;

/// The quota of one peer at a listener.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct PeerQuota {
    /// Connections that are open or being established.
    pub connections: usize,
    /// Bytes of this node's memory for them: receive buffers, send buffers, words.
    pub bytes: u64,
}

impl PeerQuota {
    /// The default for a rack: half of its `memory_limit`, and connections of one channel each way
    /// until half of the NIC's queue pairs are used, but at least 8.
    pub fn of(config: &RackConfig) -> Self {
        Self {
            connections: (config.nic.queue_pairs as usize / 4).max(CONNECTIONS_MIN),
            bytes: config.memory_limit / 2,
        }
    }
}

/// The name by which connections are counted.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum PeerName {
    /// A node of this rack, over a stream of this machine.
    Node(NodeId),
    /// Another machine.
    Address(IpAddr),
}

/// Why a peer gets no further connection.
#[derive(Clone, Copy, PartialEq, Eq, Debug, thiserror::Error)]
pub(super) enum OverQuota {
    #[error("this peer has {open} connections, and one may have {max}")]
    Connections { open: usize, max: usize },
    #[error("{asked} bytes more; this peer has {open} of the {max} bytes that one may have")]
    Bytes { asked: u64, open: u64, max: u64 },
}

/// A connection that its user holds, closed or not: its memory is taken until the user drops it.
struct Open {
    name: PeerName,
    bytes: u64,
    watch: ConnectionWatch,
}

/// The resources held by the peers of a listener.
pub(super) struct Quotas {
    quota: PeerQuota,
    /// Nodes of the rack.
    nodes: usize,
    /// At most as many as the NIC has queue pairs for.
    open: Vec<Open>,
}

impl Quotas {
    pub fn new(quota: PeerQuota, nodes: usize) -> Self {
        Self {
            quota,
            nodes,
            open: Vec::new(),
        }
    }

    pub fn set_quota(&mut self, quota: PeerQuota) {
        self.quota = quota;
    }

    /// The name of the peer of a stream from an address, which says that its NIC is at `claimed`.
    pub fn name_of(&self, stream: IpAddr, claimed: Ipv4Addr) -> PeerName {
        let stream = stream.to_canonical();
        let nodes = (0..self.nodes).map(|node| NodeId(node as u16));
        let mut nodes = nodes.filter(|&node| Address::of_node(node).ip == claimed);
        match nodes.next() {
            Some(node) if stream.is_loopback() => PeerName::Node(node),
            _ => PeerName::Address(stream),
        }
    }

    /// Whether a peer may have a connection of `bytes` bytes, besides open connections and those,
    /// by name and bytes, that are being established.
    pub fn admit(
        &mut self,
        name: PeerName,
        asked: u64,
        pending: impl Iterator<Item = (PeerName, u64)>,
    ) -> Result<(), OverQuota> {
        self.open.retain(|open| !open.watch.is_gone());
        let open = self.open.iter().map(|open| (open.name, open.bytes));
        let all = open.chain(pending).filter(|&(of, _)| of == name);
        let (count, bytes) = all.fold((0, 0_u64), |(count, sum), (_, bytes)| {
            (count + 1, sum.saturating_add(bytes))
        });
        let PeerQuota {
            connections: max,
            bytes: bytes_max,
        } = self.quota;
        if count >= max {
            return Err(OverQuota::Connections { open: count, max });
        }
        if bytes.saturating_add(asked) > bytes_max {
            return Err(OverQuota::Bytes {
                asked,
                open: bytes,
                max: bytes_max,
            });
        }
        Ok(())
    }

    /// Records an admitted connection that has been established.
    pub fn opened(&mut self, name: PeerName, bytes: u64, watch: ConnectionWatch) {
        self.open.push(Open { name, bytes, watch });
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_peer_is_what_it_cannot_pretend_to_be() {
        let quotas = Quotas::new(PeerQuota::of(&RackConfig::default()), 4);
        let check = |stream: &str, claimed: Ipv4Addr, name: PeerName| {
            let stream = stream.parse().expect("an address");
            assert_eq!(quotas.name_of(stream, claimed), name, "{stream} {claimed}");
        };
        let node = |node: u16| Address::of_node(NodeId(node)).ip;
        for loopback in ["127.0.0.1", "127.1.2.3", "::1", "::ffff:127.0.0.1"] {
            check(loopback, node(3), PeerName::Node(NodeId(3)));
        }
        let address = |text: &str| PeerName::Address(text.parse().expect("an address"));
        // There is no node 4; and a peer on another host can claim to be any node.
        check("127.0.0.1", node(4), address("127.0.0.1"));
        check("192.0.2.7", node(3), address("192.0.2.7"));
        check("::ffff:192.0.2.7", node(2), address("192.0.2.7"));
    }
}
