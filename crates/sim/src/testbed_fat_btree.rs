//! The two testbeds of "Fat-B+Tree: Fast B+tree Indexing with In-Network Memory" (fat-btree in
//! [`devices`], section V-A).
//!
//! ```text
//!  RDMA:      client ── switch ── switch ── memory server
//!  Ethernet:  client ── edge ── aggregation ── core ── aggregation ── edge ── 2 memory servers
//!                                                            └─────── edge ── 2 memory servers
//! ```
//!
//! All cables are of 40 Gbit/s, all switches Tofinos. Nodes and cables are described here; the rack
//! defines how switches are connected.

use crate::world::NodeModel;
use crate::{CacheModel, CpuModel, LinkModel, NicModel, devices};
use rackweave_base::Duration;

/// Cycles of posting one work request, as the host takes in [`devices::HOST_POST_COST`].
const POST_CYCLES: u64 = devices::WORK_REQUEST_CYCLES + devices::DOORBELL_CYCLES;

/// One of the two testbeds.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Network {
    /// One client and one memory server with a ConnectX-5 each, two switches in a row.
    Rdma,
    /// Clients and four memory servers with a ConnectX-3 each, in a fat tree of four pods.
    Ethernet,
}

impl Network {
    /// Clock of all hosts in hertz.
    pub fn hertz(self) -> u64 {
        match self {
            Self::Rdma => devices::FAT_BTREE_RDMA_HERTZ,
            Self::Ethernet => devices::FAT_BTREE_ETHERNET_HERTZ,
        }
    }

    /// The model of every node.
    pub fn node(self) -> NodeModel {
        let node = NodeModel {
            cpu: self.cpu(),
            nic: self.nic(),
            ..NodeModel::default()
        };
        node.with_link(self.cable())
    }

    /// The model of every cable. The paper mentions neither losses nor congestion control.
    pub fn cable(self) -> LinkModel {
        LinkModel {
            bits_per_second: devices::FAT_BTREE_LINK_BITS_PER_SECOND,
            lossless: true,
            ecn: None,
            check_needed: false,
            ..LinkModel::default()
        }
    }

    /// The CPU of every host: a Xeon of the same generation as in the other testbeds, at this
    /// clock. Times in core cycles scale with the clock; loads from the last level cache or from
    /// memory do not.
    pub fn cpu(self) -> CpuModel {
        let cycle_ns = 1e9 / self.hertz() as f64;
        CpuModel {
            cores: devices::FAT_BTREE_CLIENTS,
            hertz: self.hertz(),
            post_cost: Duration::from_nanos((POST_CYCLES as f64 * cycle_ns).ceil() as u64),
            ..CpuModel::default()
        }
    }

    /// The memory hierarchy of a core.
    pub fn caches(self) -> CacheModel {
        let cycle_ns = 1e9 / self.hertz() as f64;
        let [first, second] = devices::STORAGE_CACHE_CYCLES.map(|cycles| cycles as f64 * cycle_ns);
        let xeon = CacheModel::xeon_5220();
        CacheModel {
            latency_ns: [first, second, xeon.latency_ns[2], xeon.latency_ns[3]],
            tlb_second_ns: devices::TLB_SECOND_CYCLES as f64 * cycle_ns,
            walk_ns: devices::TLB_WALK_CYCLES as f64 * cycle_ns,
            cycle_ns,
            ..xeon
        }
    }

    fn nic(self) -> NicModel {
        match self {
            Self::Rdma => NicModel::default(),
            Self::Ethernet => NicModel {
                message_interval_picos: devices::CONNECTX_3_MESSAGE_INTERVAL_PICOS,
                transmit_latency: devices::CONNECTX_3_LATENCY,
                receive_latency: devices::CONNECTX_3_LATENCY,
                pcie_bits_per_second: devices::CONNECTX_3_PCIE_BITS_PER_SECOND,
                ..NicModel::default()
            },
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn cycles_go_with_the_clock_and_memory_does_not() {
        let [fast, slow] = [Network::Rdma, Network::Ethernet].map(Network::caches);
        assert_eq!(slow.work(100.0), 2.0 * fast.work(100.0));
        assert_eq!(slow.latency_ns[0], 2.0 * fast.latency_ns[0]);
        assert_eq!(slow.latency_ns[2..], fast.latency_ns[2..]);
        let posts = [Network::Rdma, Network::Ethernet].map(|network| network.cpu().post_cost);
        assert_eq!(posts.map(Duration::as_nanos), [53, 105]);
    }

    #[test]
    fn cables_are_of_40_gbit_and_lose_nothing() {
        for network in [Network::Rdma, Network::Ethernet] {
            let node = network.node();
            // 1024 bytes of payload and its overhead: 1106 bytes in 221 ns.
            assert_eq!(node.to_switch.occupancy(1082), 221_200);
            assert!(node.from_switch.lossless && node.from_switch.ecn.is_none());
        }
    }
}
