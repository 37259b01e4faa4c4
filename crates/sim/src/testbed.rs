//! The testbed of "A DBMS-centric Evaluation of BlueField DPUs on Fast Networks" (bluefield in
//! [`devices`], tables 1 and 2): a compute node, and a storage node whose host and DPU share one
//! BlueField-2 card.
//!
//! ```text
//!  compute ─ConnectX-5─ port 0 ══ 25 Gbit/s ══ port 0 ─┐          ┌─ host function of either port
//!                     └ port 1 ══ 25 Gbit/s ══ port 1 ─┴─ eSwitch ┤
//!                                                                 └─ DPU function of either port
//! ```
//!
//! The world's switch is the card's eSwitch: it chooses between host and DPU by address, as the
//! card does in embedded mode. So the two share the bandwidth of a cable, which is the compute
//! node's link here; there is none behind the eSwitch. As in the paper each thread uses one port,
//! and a port of a server is a node of the world with half of that server's cores. The capacity of
//! the whole card or adapter (messages, PCIe) is divided evenly among its functions.
//!
//! The paper names no switch between the servers, so there is none.

use crate::world::{NodeModel, SwitchModel};
use crate::{CacheModel, CpuModel, LinkModel, NicModel, devices};
use rackweave_base::{Duration, NodeId};

/// Nodes of the world: each port of the compute node, of the storage node's host, of the DPU.
pub const NODES: usize = 3 * devices::CARD_PORTS as usize;

/// The card's functions: host and DPU, on each port.
const FUNCTIONS: u64 = 2 * devices::CARD_PORTS as u64;

/// A server of the testbed.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Server {
    /// The compute node.
    Compute,
    /// The storage node's host.
    Host,
    /// The storage node's DPU.
    Dpu,
}

impl Server {
    /// All three.
    pub const ALL: [Self; 3] = [Self::Compute, Self::Host, Self::Dpu];

    /// The world's node for this server at a port of the card.
    pub fn at_port(self, port: u16) -> NodeId {
        let place = match self {
            Self::Compute => 0,
            Self::Host => 1,
            Self::Dpu => 2,
        };
        NodeId(place * devices::CARD_PORTS + port % devices::CARD_PORTS)
    }

    /// The node that its thread `index` runs on: threads are assigned to ports in turn.
    pub fn of_thread(self, index: u16) -> NodeId {
        self.at_port(index)
    }

    /// Number of its threads in the paper.
    pub fn threads(self) -> u16 {
        match self {
            Self::Compute => devices::COMPUTE_THREADS,
            Self::Host => devices::STORAGE_THREADS,
            Self::Dpu => devices::DPU_CORES,
        }
    }

    /// The model of its node at one port.
    pub fn node(self) -> NodeModel {
        let node = NodeModel {
            cpu: self.cpu(),
            nic: self.nic(),
            ..NodeModel::default()
        };
        node.with_link(self.link())
    }

    /// The memory hierarchy of one of its cores.
    pub fn caches(self) -> CacheModel {
        match self {
            Self::Compute => CacheModel::xeon_5220(),
            Self::Host => CacheModel::xeon_6326(),
            Self::Dpu => CacheModel::bluefield_2(),
        }
    }

    /// The cores that use one port.
    pub fn cpu(self) -> CpuModel {
        let whole = match self {
            Self::Compute => CpuModel {
                cores: devices::COMPUTE_THREADS,
                ..CpuModel::default()
            },
            Self::Host => CpuModel {
                cores: devices::STORAGE_THREADS,
                hertz: devices::STORAGE_HERTZ,
                memory_bytes_per_second: devices::STORAGE_MEMORY_BYTES_PER_SECOND,
                ..CpuModel::default()
            },
            Self::Dpu => CpuModel::bluefield_2(),
        };
        CpuModel {
            cores: whole.cores / devices::CARD_PORTS,
            memory_bytes_per_second: whole.memory_bytes_per_second / u64::from(devices::CARD_PORTS),
            ..whole
        }
    }

    /// The NIC, or the function of the card, at one port.
    fn nic(self) -> NicModel {
        let ports = u64::from(devices::CARD_PORTS);
        let card = NicModel {
            message_interval_picos: devices::CARD_MESSAGE_INTERVAL_PICOS * FUNCTIONS,
            transmit_latency: devices::CARD_TRANSMIT_LATENCY,
            receive_latency: devices::CARD_RECEIVE_LATENCY,
            ..NicModel::default()
        };
        match self {
            Self::Compute => NicModel {
                message_interval_picos: devices::NIC_MESSAGE_INTERVAL_PICOS * ports,
                pcie_bits_per_second: devices::PCIE_BITS_PER_SECOND / ports,
                ..NicModel::default()
            },
            Self::Host => NicModel {
                doorbell_latency: devices::CARD_HOST_DISTANCE_ONE_WAY,
                delivery_latency: devices::CARD_HOST_DISTANCE_ONE_WAY,
                memory_read_latency: devices::CARD_HOST_READ_LATENCY,
                pcie_bits_per_second: devices::CARD_HOST_PCIE_BITS_PER_SECOND / ports,
                ..card
            },
            Self::Dpu => NicModel {
                memory_read_latency: devices::DPU_READ_LATENCY,
                pcie_bits_per_second: devices::CARD_DPU_PCIE_BITS_PER_SECOND / ports,
                ..card
            },
        }
    }

    /// The cable of a port, or the path from a function of the card to its eSwitch. Converged
    /// Ethernet loses nothing, and the paper mentions no congestion control.
    fn link(self) -> LinkModel {
        let cable = LinkModel {
            bits_per_second: devices::DPU_LINK_BITS_PER_SECOND,
            lossless: true,
            ecn: None,
            check_needed: false,
            ..LinkModel::default()
        };
        match self {
            Self::Compute => cable,
            Self::Host | Self::Dpu => LinkModel {
                bits_per_second: devices::CARD_ESWITCH_BITS_PER_SECOND,
                propagation: Duration::ZERO,
                ..cable
            },
        }
    }
}

/// The models of all nodes, in the order of their numbers.
pub fn nodes() -> Vec<NodeModel> {
    let ports = |server: Server| (0..devices::CARD_PORTS).map(move |_| server.node());
    Server::ALL.into_iter().flat_map(ports).collect()
}

/// The eSwitch.
pub fn eswitch() -> SwitchModel {
    SwitchModel {
        pipeline_latency: devices::CARD_ESWITCH_LATENCY,
        ..SwitchModel::default()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_node_has_the_model_of_its_server() {
        let nodes = nodes();
        assert_eq!(nodes.len(), NODES);
        for server in Server::ALL {
            let mut cores = 0;
            for port in 0..devices::CARD_PORTS {
                let node = &nodes[usize::from(server.at_port(port).0)];
                assert_eq!(*node, server.node(), "{server:?} at port {port}");
                cores += node.cpu.cores;
            }
            assert_eq!(cores, server.threads(), "{server:?}");
        }
    }

    #[test]
    fn the_host_is_farther_from_the_card_than_the_dpu() {
        let (host, dpu) = (Server::Host.nic(), Server::Dpu.nic());
        let one_way = |nic: &NicModel| (nic.transmit_latency + nic.doorbell_latency).as_nanos();
        // An ordinary adapter's path and the card's PCIe switch.
        assert_eq!(one_way(&host), 300 + 112);
        assert_eq!(one_way(&host) - one_way(&dpu), 200);
        let reads = host.memory_read_latency.as_nanos() - dpu.memory_read_latency.as_nanos();
        assert_eq!(reads, 400, "bluefield, section 4.2.2");
    }

    #[test]
    fn functions_share_the_card() {
        let nics = [Server::Host.nic(), Server::Dpu.nic()];
        for nic in nics {
            let of_all = nic.message_interval_picos / FUNCTIONS;
            assert_eq!(of_all, devices::CARD_MESSAGE_INTERVAL_PICOS);
        }
    }
}
