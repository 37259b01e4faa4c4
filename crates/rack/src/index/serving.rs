//! Running the server threads of endpoints that are in this process.

use super::agent::{EndpointName, IndexAgent};
use super::{SharedDatagramServer, SharedReplica, SharedServer};
use crate::{Node, Rack};

/// A thread that answers datagrams.
#[derive(Debug)]
struct Answering {
    node: Node,
    server: SharedDatagramServer,
    /// The rack, and the only incarnation of the node in which it answers, if it may have been
    /// replaced in a later one. Queue pairs fail with the incarnation; datagrams still arrive.
    only_in: Option<(Rack, u64)>,
}

impl Answering {
    fn serve(&self) -> bool {
        let now = self.node.now();
        // The NIC is locked, so no packet to a later incarnation arrives after the look.
        let answered = self.node.poll(|nic| {
            let node = self.node.id();
            let is_it = |(rack, only): &(Rack, u64)| rack.backend().incarnation(node) == *only;
            let may_answer = self.only_in.as_ref().is_none_or(is_it);
            may_answer.then(|| self.server.poll(now, nic))
        });
        answered.is_some_and(|served| served || self.server.is_waiting())
    }
}

/// Server threads of endpoints that are here, with their nodes.
#[derive(Debug, Default)]
pub(crate) struct Servers {
    connected: Vec<(Node, SharedServer)>,
    datagrams: Vec<Answering>,
    replicas: Vec<(Node, SharedReplica)>,
}

impl Servers {
    /// Adds those of an index.
    pub fn add(&mut self, rack: &Rack, agent: &IndexAgent, index: u64) {
        let connected = agent.servers(index).into_iter();
        let connected = connected.map(|(_, node, server)| (rack.node_at(node), server));
        self.connected.extend(connected);
        for (endpoint, node, server) in agent.datagram_servers(index) {
            let only_in = agent.only_incarnation(EndpointName { index, endpoint });
            self.datagrams.push(Answering {
                node: rack.node_at(node),
                server,
                only_in: only_in.map(|only| (rack.clone(), only)),
            });
        }
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
        for thread in &self.datagrams {
            served |= thread.serve();
        }
        for (node, server) in &self.replicas {
            let now = node.now();
            served |= node.poll(|nic| server.poll(now, nic));
        }
        served
    }
}
