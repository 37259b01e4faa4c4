//! Statistics of a hosted rack for a command, in the same form.

use super::split::{is_drop, split_nic};
use super::{Counters, NodeStatistics, RackStatistics, SwitchStatistics};
use crate::RackConfig;
use crate::hosted::{HostedError, HostedRack};
use rackweave_base::NodeId;

impl HostedRack {
    /// The state of the rack at this moment: its switch and the NICs of all nodes. Flows and
    /// programs are not reported. A node that has not joined is reported as dead, with all counters
    /// zero.
    ///
    /// # Errors
    /// If the controller is gone.
    pub fn statistics(&mut self) -> Result<RackStatistics, HostedError> {
        let status = self.status()?;
        let names = self.config().clone();
        let mut nodes = Vec::new();
        for (at, node) in status.nodes.iter().enumerate() {
            let role = role(&names, at);
            let counters = match node.joined {
                // A node that has just died has none.
                true => self.node_counters(NodeId(at as u16)).ok(),
                false => None,
            };
            nodes.push(node_statistics(&node.name, role, counters));
        }
        let (drops, counters) = status
            .switch_counters
            .into_iter()
            .partition(|(name, _)| is_drop(name));
        Ok(RackStatistics {
            elapsed_seconds: status.up_seconds,
            nodes,
            switches: vec![SwitchStatistics {
                role: "switch".to_owned(),
                counters,
                drops,
            }],
            ..RackStatistics::default()
        })
    }
}

fn role(config: &RackConfig, at: usize) -> &'static str {
    config.node.get(at).map_or("", |node| node.role.name())
}

fn node_statistics(name: &str, role: &str, counters: Option<Counters>) -> NodeStatistics {
    let dead = counters.is_none();
    let (drops, counters) = split_nic(counters.unwrap_or_default());
    let count = |name: &str| counters.get(name).copied().unwrap_or(0);
    NodeStatistics {
        name: name.to_owned(),
        role: role.to_owned(),
        dead,
        packets_in: count("rcvd_pkts"),
        packets_out: count("sent_pkts"),
        bytes_in: count("rdma_rx_bytes"),
        bytes_out: count("rdma_tx_bytes"),
        drops,
        target: None,
        counters,
    }
}
