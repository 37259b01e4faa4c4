//! Parts shared by embedded and simulated racks: NICs, the switch, the controller.

use crate::address::Address;
use crate::config::choices;
pub(crate) use crate::config::choices::Kind;
use crate::config::{BudgetName, ConfigError, RackConfig, index_config};
use rackweave_base::packet::Pool;
use rackweave_base::{Duration, KeyRng, Memory, NodeId, PortId, Rng};
use rackweave_controller::topology::NodePlacement;
use rackweave_controller::{Controller, FlowSpec, NodeAddress, SwitchAddress, Topology};
use rackweave_nic::{Dcqcn, Nic, NicConfig};
use rackweave_programs::flows::FlowConfig;
use rackweave_programs::pages::PagesConfig;
use rackweave_programs::sequencer::{self, SequencerConfig};
use rackweave_programs::{Pipeline, PipelineConfig};
use rackweave_switch::transfer::EngineConfig;
use rackweave_switch::{Budget, BudgetError, Switch, SwitchConfig};
use rackweave_verbs::Mtu;

/// Why a rack could not be built, or does not have a node.
#[derive(Clone, PartialEq, Debug, thiserror::Error)]
pub enum RackError {
    /// The configuration is invalid.
    #[error(transparent)]
    Config(#[from] ConfigError),
    /// The programs do not fit the switch.
    #[error("switch.budget: {0}")]
    Budget(#[from] BudgetError),
    /// The switch's tables are too small for the nodes.
    #[error(transparent)]
    Table(#[from] rackweave_switch::table::TableError),
    /// The simulated world is invalid.
    #[error(transparent)]
    World(#[from] rackweave_sim::WorldError),
    /// The configured faults of the links are invalid.
    #[error(transparent)]
    Faults(#[from] rackweave_link::FaultError),
    /// A driver thread could not be started.
    #[error("a driver thread could not be started: {0}; lower driver_threads")]
    Thread(String),
    /// The configuration has no node of this name.
    #[error("the rack has no node {name:?}; it has {known}")]
    NoNode {
        /// The requested name.
        name: String,
        /// The existing names.
        known: String,
    },
    /// The node is in another process.
    #[error("node {0:?} is in another process")]
    Elsewhere(String),
    /// There is no such foreign host, or it is out of reach.
    #[error("no foreign host {name:?}: {why}")]
    NoForeignHost {
        /// The requested name.
        name: String,
        /// The cause.
        why: String,
    },
    /// The running rack could not be joined.
    #[error("{0}")]
    NotJoined(String),
}

impl RackError {
    /// The error for a node that a configuration does not have.
    pub fn no_node(name: &str, config: &RackConfig) -> Self {
        let names: Vec<_> = config.node.iter().map(|node| node.name.as_str()).collect();
        Self::NoNode {
            name: name.to_owned(),
            known: names.join(", "),
        }
    }
}

/// The parts of a rack in one process, not yet connected.
pub(crate) struct Parts {
    pub memory: Memory,
    pub pool: Pool,
    pub nics: Vec<Nic>,
    /// The switches, by number.
    pub switches: Vec<Switch<Pipeline>>,
    pub pipelines: Vec<PipelineConfig>,
    pub topology: Topology,
    pub controller: Controller,
    pub rng: Rng,
}

/// The switch and port of a node. Every node of a configuration has a place in its topology.
pub(crate) fn place_of(topology: &Topology, node: NodeId) -> (usize, PortId) {
    let place = topology.place(node).expect("every node has a place");
    (place.switch, place.port)
}

/// The addresses of all nodes, with the port of each one's own edge switch.
pub(crate) fn addresses(topology: &Topology) -> Vec<(NodeId, NodeAddress)> {
    let address = |(node, place): (NodeId, NodePlacement)| {
        let port = place.port;
        (
            node,
            NodeAddress {
                port,
                ..Address::of_node(node)
            },
        )
    };
    topology.nodes().map(address).collect()
}

pub(crate) fn nic_config(config: &RackConfig, node: NodeId, kind: Kind) -> NicConfig {
    let address = Address::of_node(node);
    let line_rate = choices::bits_per_second(config, node).value;
    NicConfig {
        qps_max: config.nic.queue_pairs,
        cqs_max: config.nic.completion_queues,
        regions_max: config.nic.regions,
        cq_entries_max: config.nic.completion_entries,
        queue_entries_max: config.nic.queue_entries,
        check: choices::icrc(config, kind).value,
        train_max: choices::train_max(config, kind).value,
        datagram_max: config.nic.mtu,
        cut_through_peers: match kind {
            Kind::Hosted => Vec::new(),
            Kind::Embedded | Kind::Simulated => Address::of_others(config, node),
        },
        congestion: (kind == Kind::Simulated && config.nic.congestion_control)
            .then(|| Dcqcn::new(line_rate)),
        ..NicConfig::new(address.ip, address.mac)
    }
}

/// The programs of a switch.
pub(crate) fn pipeline_config_at(
    config: &RackConfig,
    kind: Kind,
    topology: &Topology,
    at: usize,
) -> PipelineConfig {
    switch_config_of(pipeline_config(config, kind), config, topology, at)
}

/// The programs of a switch, derived from those of switch 0. Only switch 0 has lanes, flows, pages
/// and sequencers; the others forward packets, and have the part of an index that fits their role.
pub fn switch_config_of(
    all: PipelineConfig,
    config: &RackConfig,
    topology: &Topology,
    at: usize,
) -> PipelineConfig {
    if at == 0 {
        return all;
    }
    let SwitchAddress { mac, ip } = Address::of_switch(at);
    PipelineConfig {
        ip,
        engine: EngineConfig {
            lanes: 0,
            mac,
            ..all.engine
        },
        flows: FlowConfig {
            threads: 0,
            producers: 0,
        },
        pages: PagesConfig::NONE,
        sequencer: SequencerConfig::NONE,
        index: index_config(config, topology.role(at)),
        ..all
    }
}

/// The programs of switch 0.
pub fn pipeline_config(config: &RackConfig, kind: Kind) -> PipelineConfig {
    let micros = choices::timeout_us(config, kind).value;
    PipelineConfig {
        ip: Address::SWITCH.ip,
        engine: EngineConfig {
            lanes: config.switch.lanes,
            timeout: Duration::from_micros(micros),
            retries: config.transfer.retries,
            acknowledge_every: config.transfer.acknowledge_every,
            check: choices::icrc(config, kind).value,
            rewrite: choices::rewrite(config).value,
            mac: Address::SWITCH.mac,
        },
        flows: FlowConfig {
            threads: config.switch.consumer_rings,
            producers: config.switch.producer_rings,
        },
        pages: pages_config(config),
        sequencer: sequencer_config(config),
        index: index_config(config, config.shape().top()),
        hosts: 256,
        routes: 256,
    }
}

/// The page directory of the switch, if it has one.
fn pages_config(config: &RackConfig) -> PagesConfig {
    let switch = &config.switch;
    if !choices::pages(config).value {
        return PagesConfig::NONE;
    }
    PagesConfig {
        entries: switch.page_entries,
        channels: switch.page_workers,
        slots: switch.page_slots,
        stores: switch.page_stores,
        nodes: config.node.len() as u16,
        frame_size: switch.page_size,
        promote_at: switch.page_promote_at,
    }
}

/// The sequencers of the switch, if it has any.
fn sequencer_config(config: &RackConfig) -> SequencerConfig {
    let switch = &config.switch;
    if !choices::sequencers(config).value {
        return SequencerConfig::NONE;
    }
    SequencerConfig {
        sequencers: switch.sequencers,
        clients: switch.sequencer_clients,
        first_stage: match switch.budget {
            BudgetName::Tofino1 => sequencer::STAGE_BESIDE_ENGINE,
            BudgetName::Tofino2 | BudgetName::Software => sequencer::STAGE_BEHIND_ALL,
        },
    }
}

pub(crate) fn build(
    config: &RackConfig,
    kind: Kind,
    switch_config: SwitchConfig,
) -> Result<Parts, RackError> {
    config.check()?;
    let mut rng = Rng::new(config.seed);
    let memory = Memory::new(usize::try_from(config.memory_limit).unwrap_or(usize::MAX));
    let pool = Pool::new(config.payload_buffers as usize);
    let mut nics = Vec::new();
    for (node, _) in Address::of_nodes(config) {
        let nic = nic_config(config, node, kind);
        let keys = kind.keys(rng.fork(&config.node[usize::from(node.0)].name));
        nics.push(Nic::new(nic, memory.clone(), pool.clone(), keys));
    }
    let topology = config.topology()?;
    let mut switches = Vec::new();
    let mut pipelines = Vec::new();
    for at in 0..topology.switches() {
        let pipeline = pipeline_config_at(config, kind, &topology, at);
        let ports = topology.ports(at);
        let switch_config = SwitchConfig {
            ports,
            ..switch_config
        };
        switches.push(load(config, &pipeline, &memory, switch_config)?);
        pipelines.push(pipeline);
    }
    let controller = build_controller(config, kind.keys(rng.fork("controller")));
    Ok(Parts {
        memory,
        pool,
        nics,
        switches,
        pipelines,
        topology,
        controller,
        rng,
    })
}

/// The only switch of a rack, with its programs and empty tables.
#[cfg(feature = "hosted")]
pub(crate) fn build_switch(
    config: &RackConfig,
    kind: Kind,
    memory: &Memory,
    switch_config: SwitchConfig,
) -> Result<(Switch<Pipeline>, PipelineConfig), RackError> {
    let switch_config = SwitchConfig {
        ports: (config.node.len() + config.host.len()) as u16,
        ..switch_config
    };
    let pipeline = pipeline_config(config, kind);
    let switch = load(config, &pipeline, memory, switch_config)?;
    Ok((switch, pipeline))
}

fn load(
    config: &RackConfig,
    pipeline: &PipelineConfig,
    memory: &Memory,
    switch_config: SwitchConfig,
) -> Result<Switch<Pipeline>, RackError> {
    let budget = match config.switch.budget {
        BudgetName::Software => Budget::Software {
            bytes: usize::try_from(config.switch.memory).unwrap_or(usize::MAX),
        },
        BudgetName::Tofino1 => Budget::Tofino1,
        BudgetName::Tofino2 => Budget::Tofino2,
    };
    let switch_config = SwitchConfig {
        egress_packets: config.switch.egress_packets as usize,
        ..switch_config
    };
    let program = Pipeline::new(pipeline, memory.clone());
    Ok(Switch::load(program, budget, switch_config)?)
}

/// The controller, with no connections yet.
pub(crate) fn build_controller(config: &RackConfig, keys: KeyRng) -> Controller {
    let sizes = &config.switch;
    let controller = Controller::new(
        Address::SWITCH,
        sizes.lanes,
        sizes.consumer_rings,
        sizes.producer_rings,
        keys,
    );
    for (at, node) in config.node.iter().enumerate() {
        controller.set_byte_order(NodeId(at as u16), node.byte_order.into());
    }
    controller
}

/// A flow's specification with a rack's settings for batches, transfers, polls and MTU.
pub(crate) fn flow_spec(
    config: &RackConfig,
    kind: Kind,
    producers: &[NodeId],
    consumers: &[NodeId],
    (item_size, ring_bytes): (u32, u32),
    doorbells: bool,
) -> FlowSpec {
    let batch_bytes = choices::batch_bytes(config, kind).value;
    let transfers = choices::transfers(config, kind).value;
    let poll_max = choices::poll_interval_max_us(config, kind, doorbells).value;
    FlowSpec {
        // One item always fits a transfer, however large it is.
        batch_bytes: batch_bytes.max(item_size),
        transfers,
        mtu: Mtu::from_bytes(config.nic.mtu).unwrap_or(Mtu::B4096),
        poll_interval: Duration::from_micros(config.flow.poll_interval_us),
        poll_interval_max: Duration::from_micros(poll_max),
        doorbells,
        ..FlowSpec::new(producers, consumers, item_size, ring_bytes)
    }
}
