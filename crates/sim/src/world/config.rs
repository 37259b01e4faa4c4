//! The configuration of a world.

use crate::{CpuModel, LinkModel, NicModel, devices};
use rackweave_base::{Duration, PortId};
use rackweave_link::{FaultConfig, FaultError};
use rackweave_switch::SwitchConfig;

/// Maximum number of nodes: ports of a switch are counted in 16 bits.
pub const NODES_MAX: usize = 1 << 15;

/// One node: its CPU, its NIC, its cable.
#[derive(Clone, Copy, PartialEq, Debug, Default)]
pub struct NodeModel {
    /// The cores.
    pub cpu: CpuModel,
    /// The NIC.
    pub nic: NicModel,
    /// The cable to the switch and the NIC's own queue in front of it.
    pub to_switch: LinkModel,
    /// The cable from the switch and the queue of the switch's port.
    pub from_switch: LinkModel,
}

/// The switch's latencies.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct SwitchModel {
    /// One pass through the pipeline, port to egress queue.
    pub pipeline_latency: Duration,
    /// From one pass of a recirculated task to the next.
    pub recirculation_latency: Duration,
    /// From a digest to the controller.
    pub digest_latency: Duration,
}

/// A port of one of the world's switches.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub struct SwitchPort {
    /// The switch, by number.
    pub switch: u16,
    /// Its port.
    pub port: PortId,
}

/// A cable between two switches.
#[derive(Clone, Copy, PartialEq, Debug)]
pub struct CableModel {
    /// The two ports.
    pub ends: [SwitchPort; 2],
    /// The cable and the queue of the port in front of it, in each direction.
    pub link: LinkModel,
}

/// The configuration of a world.
#[derive(Clone, Debug)]
pub struct WorldConfig {
    /// The seed of everything random.
    pub seed: u64,
    /// The nodes.
    pub nodes: Vec<NodeModel>,
    /// The switch port of each node; if empty, node `i` is on port `i` of switch 0.
    pub places: Vec<SwitchPort>,
    /// The cables between switches.
    pub cables: Vec<CableModel>,
    /// The model of every switch.
    pub switch: SwitchModel,
    /// The faults of every link.
    pub faults: FaultConfig,
}

/// Why a world cannot be built.
#[derive(Clone, Copy, PartialEq, Debug, thiserror::Error)]
pub enum WorldError {
    /// The numbers of NICs and node models differ.
    #[error("the world has {models} nodes but {nics} NICs; give one NIC for each node")]
    Nodes {
        /// Node models given.
        models: usize,
        /// NICs given.
        nics: usize,
    },
    /// More nodes than port numbers.
    #[error("the world has {nodes} nodes; at most {NODES_MAX} are possible")]
    TooMany {
        /// Nodes given.
        nodes: usize,
    },
    /// Some nodes have no switch port.
    #[error(
        "the world has {nodes} nodes but {places} places; give one place for each node, or none"
    )]
    Places {
        /// Nodes given.
        nodes: usize,
        /// Places given.
        places: usize,
    },
    /// A node or a cable is at a port that does not exist or is taken.
    #[error(
        "port {} of switch {} is no port or taken; give every node and cable a port of its own",
        .0.port.0, .0.switch
    )]
    Port(SwitchPort),
    /// The fault configuration is invalid.
    #[error(transparent)]
    Faults(#[from] FaultError),
}

impl NodeModel {
    /// The same node with this link in both directions. The NIC's own queue does not mark.
    pub fn with_link(self, link: LinkModel) -> Self {
        Self {
            to_switch: LinkModel { ecn: None, ..link },
            from_switch: link,
            ..self
        }
    }

    /// A BlueField-2 as a node of its own, in separated mode, on one of its ports.
    pub fn bluefield_2() -> Self {
        let link = LinkModel {
            bits_per_second: devices::DPU_LINK_BITS_PER_SECOND,
            ..LinkModel::default()
        };
        let nic = NicModel {
            memory_read_latency: devices::DPU_READ_LATENCY,
            ..NicModel::default()
        };
        Self {
            cpu: CpuModel::bluefield_2(),
            nic,
            ..Self::default()
        }
        .with_link(link)
    }
}

impl Default for SwitchModel {
    fn default() -> Self {
        Self {
            pipeline_latency: devices::SWITCH_PIPELINE_LATENCY,
            recirculation_latency: devices::SWITCH_RECIRCULATION_LATENCY,
            digest_latency: devices::SWITCH_DIGEST_LATENCY,
        }
    }
}

impl SwitchModel {
    /// A configuration for a switch of `ports` ports with this model's recirculation latency.
    pub fn switch_config(&self, ports: u16) -> SwitchConfig {
        SwitchConfig {
            ports,
            recirculation_latency: self.recirculation_latency,
            ..SwitchConfig::default()
        }
    }
}

impl WorldConfig {
    /// A world of `nodes` nodes of the testbed.
    pub fn new(seed: u64, nodes: usize) -> Self {
        let node = NodeModel::default().with_link(LinkModel::default());
        Self {
            seed,
            nodes: vec![node; nodes],
            places: Vec::new(),
            cables: Vec::new(),
            switch: SwitchModel::default(),
            faults: FaultConfig::default(),
        }
    }
}

impl Default for WorldConfig {
    /// The testbed of zero-sided RDMA: four nodes.
    fn default() -> Self {
        Self::new(0, 4)
    }
}
