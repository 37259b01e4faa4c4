//! Running the server threads of endpoints that are in this process.

use super::agent::IndexAgent;
use super::{SharedDatagramServer, SharedServer};
use crate::{Node, Rack};

/// Server threads of endpoints that are here, with their nodes.
#[derive(Debug, Default)]
pub(crate) struct Servers {
    connected: Vec<(Node, SharedServer)>,
    datagrams: Vec<(Node, SharedDatagramServer)>,
}

impl Servers {
    /// Adds those of an index.
    pub fn add(&mut self, rack: &Rack, agent: &IndexAgent, index: u64) {
        let connected = agent.servers(index).into_iter();
        let connected = connected.map(|(_, node, server)| (rack.node_at(node), server));
        self.connected.extend(connected);
        let datagrams = agent.datagram_servers(index).into_iter();
        let datagrams = datagrams.map(|(_, node, server)| (rack.node_at(node), server));
        self.datagrams.extend(datagrams);
    }

    /// Whether there are none.
    pub fn is_empty(&self) -> bool {
        self.connected.is_empty() && self.datagrams.is_empty()
    }

    /// Answers pending requests. Returns true if there were any.
    pub fn serve(&self) -> bool {
        let mut served = false;
        for (node, server) in &self.connected {
            let began = node.now();
            if node.poll(|nic| server.poll(began, nic)) {
                served = true;
                // The rebalancer uses this value; a poll that finds nothing is not work.
                server.note_busy(node.now().since(began));
            }
        }
        for (node, server) in &self.datagrams {
            let now = node.now();
            served |= node.poll(|nic| server.poll(now, nic));
        }
        served
    }
}
