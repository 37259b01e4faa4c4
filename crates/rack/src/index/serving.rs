//! Running the server threads of endpoints that are in this process.

use super::agent::IndexAgent;
use super::{SharedDatagramServer, SharedReplica, SharedServer};
use crate::{Node, Rack};

/// Server threads of endpoints that are here, with their nodes.
#[derive(Debug, Default)]
pub(crate) struct Servers {
    connected: Vec<(Node, SharedServer)>,
    datagrams: Vec<(Node, SharedDatagramServer)>,
    replicas: Vec<(Node, SharedReplica)>,
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
        let replicas = agent.replicas(index).into_iter();
        let replicas = replicas.map(|(node, server)| (rack.node_at(node), server));
        self.replicas.extend(replicas);
    }

    /// Whether there are none.
    pub fn is_empty(&self) -> bool {
        self.connected.is_empty() && self.datagrams.is_empty() && self.replicas.is_empty()
    }

    /// Answers pending requests. Returns true if there were any, or more will be possible soon.
    pub fn serve(&self) -> bool {
        let mut served = false;
        for (node, server) in &self.connected {
            let began = node.now();
            if node.poll(|nic| server.poll(began, nic)) {
                served = true;
                // The rebalancer uses this value; a poll that finds nothing is not work.
                server.note_busy(node.now().since(began));
            }
            served |= server.is_waiting();
        }
        for (node, server) in &self.datagrams {
            let now = node.now();
            served |= node.poll(|nic| server.poll(now, nic)) || server.is_waiting();
        }
        for (node, server) in &self.replicas {
            let now = node.now();
            served |= node.poll(|nic| server.poll(now, nic));
        }
        served
    }
}
