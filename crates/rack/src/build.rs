//! What embedded and simulated racks have in common: addresses, NICs, the switch, the controller.

use crate::config::{BudgetName, ConfigError, IcrcMethod, RackConfig, Role, index_config};
use rackweave_base::packet::Pool;
use rackweave_base::{Duration, MacAddr, Memory, NodeId, PortId, Rng};
use rackweave_controller::topology::NodePlace;
use rackweave_controller::{Controller, FlowSpec, NodeAddress, SwitchAddress, Topology};
use rackweave_nic::{Dcqcn, Nic, NicConfig};
use rackweave_programs::flows::FlowConfig;
use rackweave_programs::pages::PagesConfig;
use rackweave_programs::sequencer::{self, SequencerConfig};
use rackweave_programs::{Pipeline, PipelineConfig};
use rackweave_switch::transfer::EngineConfig;
use rackweave_switch::{Budget, BudgetError, Switch, SwitchConfig};
use rackweave_verbs::Mtu;
use rackweave_wire::Rewrite;
use std::net::Ipv4Addr;

/// Why a rack could not be built.
#[derive(Clone, PartialEq, Debug, thiserror::Error)]
pub enum RackError {
    /// The configuration makes no sense.
    #[error(transparent)]
    Config(#[from] ConfigError),
    /// The programs do not fit the switch.
    #[error("switch.budget: {0}")]
    Budget(#[from] BudgetError),
    /// The switch's tables are too small for the nodes.
    #[error(transparent)]
    Table(#[from] rackweave_switch::table::TableError),
    /// The simulated world cannot be.
    #[error(transparent)]
    World(#[from] rackweave_sim::WorldError),
    /// Faults of the links cannot be.
    #[error(transparent)]
    Faults(#[from] rackweave_link::FaultError),
    /// A driver thread could not be started.
    #[error("a driver thread could not be started: {0}; lower driver_threads")]
    Thread(String),
}

/// Which addresses the parts of a rack have.
#[derive(Clone, Copy, Debug)]
pub struct Address;

impl Address {
    /// The switch's.
    pub const SWITCH: SwitchAddress = SwitchAddress {
        mac: MacAddr([0x02, 0, 0, 0, 0xff, 0]),
        ip: Ipv4Addr::new(10, 77, 255, 254),
    };

    /// A switch's: the last byte of the MAC address is its number, which the last byte of the IP
    /// address falls short of 254 by. Switch 0 is [`Address::SWITCH`].
    pub fn of_switch(at: usize) -> SwitchAddress {
        let mut address = Self::SWITCH;
        let [.., last] = &mut address.mac.0;
        // A topology has fewer switches than there are numbers here.
        let number = at as u8;
        *last = number;
        let [a, b, c, d] = address.ip.octets();
        address.ip = Ipv4Addr::new(a, b, c, d.wrapping_sub(number));
        address
    }

    /// A node's: its MAC and IP address end in its number plus one, its port is its number, as it
    /// is where there is one switch.
    pub fn of_node(node: NodeId) -> NodeAddress {
        let [high, low] = (node.0 + 1).to_be_bytes();
        NodeAddress {
            mac: MacAddr([0x02, 0, 0, 0, high, low]),
            ip: Ipv4Addr::new(10, 77, high, low),
            port: PortId(node.0),
        }
    }

    /// Every node's.
    pub fn of_nodes(config: &RackConfig) -> Vec<(NodeId, NodeAddress)> {
        let ids = (0..config.node.len()).map(|at| NodeId(at as u16));
        ids.map(|node| (node, Self::of_node(node))).collect()
    }
}

/// The parts of a rack in one process, not yet joined.
pub(crate) struct Parts {
    pub memory: Memory,
    pub pool: Pool,
    pub nics: Vec<Nic>,
    /// By number.
    pub switches: Vec<Switch<Pipeline>>,
    pub pipelines: Vec<PipelineConfig>,
    pub topology: Topology,
    pub controller: Controller,
    pub rng: Rng,
}

/// Where a node hangs. Every node of a configuration has a place in its topology.
pub(crate) fn place_of(topology: &Topology, node: NodeId) -> (usize, PortId) {
    let place = topology.place(node).expect("every node has a place");
    (place.switch, place.port)
}

/// Every node's address, with the port of its own edge switch.
pub(crate) fn addresses(topology: &Topology) -> Vec<(NodeId, NodeAddress)> {
    let address = |(node, place): (NodeId, NodePlace)| {
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

/// The kind of a rack: some settings that the configuration leaves open depend on it.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Kind {
    /// All in this process.
    Embedded,
    /// In virtual time.
    Simulated,
    /// A process per node.
    Hosted,
}

impl Kind {
    /// Whether its links carry trains: those that lose and damage nothing and cross no network.
    fn carries_trains(self, config: &RackConfig) -> bool {
        let quiet = !config.faults.any() && !self.needs_check(config);
        match self {
            Kind::Embedded | Kind::Hosted => quiet,
            Kind::Simulated => false,
        }
    }

    /// Whether the ICRC is computed and demanded.
    pub fn needs_check(self, config: &RackConfig) -> bool {
        config.needs_check() || (self == Kind::Hosted && config.leaves_the_machine())
    }
}

pub(crate) fn nic_config(config: &RackConfig, node: NodeId, kind: Kind) -> NicConfig {
    let address = Address::of_node(node);
    let line_rate = match config.node[usize::from(node.0)].role {
        Role::Dpu => rackweave_sim::devices::DPU_LINK_BITS_PER_SECOND,
        _ => (config.link.gigabits_per_second * 1e9) as u64,
    };
    NicConfig {
        qps_max: config.nic.queue_pairs,
        cqs_max: config.nic.completion_queues,
        regions_max: config.nic.regions,
        cq_entries_max: config.nic.completion_entries,
        queue_entries_max: config.nic.queue_entries,
        check: kind.needs_check(config),
        train_max: if kind.carries_trains(config) {
            TRAIN_MAX
        } else {
            1
        },
        datagram_max: config.nic.mtu,
        congestion: (kind == Kind::Simulated && config.nic.congestion_control)
            .then(|| Dcqcn::new(line_rate)),
        ..NicConfig::new(address.ip, address.mac)
    }
}

/// Fragments of one train: 128 KiB at the largest MTU, so that a copy stays within a core's cache
/// and its lock is soon free.
const TRAIN_MAX: u32 = 32;

/// The programs of a switch.
pub(crate) fn pipeline_config_at(
    config: &RackConfig,
    kind: Kind,
    topology: &Topology,
    at: usize,
) -> PipelineConfig {
    switch_config_of(pipeline_config(config, kind), config, topology, at)
}

/// The programs of a switch, from those of switch 0: it has lanes, flows, pages and sequencers
/// alone; others pass packets on, and have the part of an index that their role has room for.
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
pub(crate) fn pipeline_config(config: &RackConfig, kind: Kind) -> PipelineConfig {
    let micros = match (config.transfer.timeout_us, kind) {
        // In real time the rack's threads may be off the processor for a while; nothing is lost
        // meanwhile. In virtual time a round trip takes a few microseconds.
        (0, Kind::Simulated) => 250,
        (0, _) => 50_000,
        (micros, _) => micros,
    };
    PipelineConfig {
        ip: Address::SWITCH.ip,
        engine: EngineConfig {
            lanes: config.switch.lanes,
            timeout: Duration::from_micros(micros),
            retries: config.transfer.retries,
            acknowledge_every: config.transfer.acknowledge_every,
            check: kind.needs_check(config),
            rewrite: match config.switch.icrc {
                IcrcMethod::Update => Rewrite::Update,
                IcrcMethod::Balance => Rewrite::Balance,
            },
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
pub fn pages_config(config: &RackConfig) -> PagesConfig {
    let switch = &config.switch;
    if switch.page_entries == 0 {
        return PagesConfig::NONE;
    }
    PagesConfig {
        entries: switch.page_entries,
        channels: switch.page_workers,
        slots: switch.page_slots,
        stores: switch.page_stores,
        nodes: config.node.len() as u16,
        page_size: switch.page_size,
        promote_at: switch.page_promote_at,
    }
}

/// The sequencers of the switch, if it has any.
pub fn sequencer_config(config: &RackConfig) -> SequencerConfig {
    let switch = &config.switch;
    if switch.sequencers == 0 {
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
        let rng = rng.fork(&config.node[usize::from(node.0)].name);
        nics.push(Nic::new(nic, memory.clone(), pool.clone(), rng));
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
    let controller = build_controller(config, rng.fork("controller"));
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

/// The only switch of a rack, with its programs, tables empty.
pub(crate) fn build_switch(
    config: &RackConfig,
    kind: Kind,
    memory: &Memory,
    switch_config: SwitchConfig,
) -> Result<(Switch<Pipeline>, PipelineConfig), RackError> {
    let switch_config = SwitchConfig {
        ports: config.node.len() as u16,
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

/// The controller, which has connected nothing yet.
pub(crate) fn build_controller(config: &RackConfig, rng: Rng) -> Controller {
    let sizes = &config.switch;
    let mut controller = Controller::new(
        Address::SWITCH,
        sizes.lanes,
        sizes.consumer_rings,
        sizes.producer_rings,
        rng,
    );
    for (at, node) in config.node.iter().enumerate() {
        controller.set_byte_order(NodeId(at as u16), node.byte_order.into());
    }
    controller
}

/// A flow's specification with a rack's settings for batches, transfers and MTU.
pub(crate) fn flow_spec(
    config: &RackConfig,
    kind: Kind,
    producers: &[NodeId],
    consumers: &[NodeId],
    item_size: u32,
    ring_bytes: u32,
) -> FlowSpec {
    let by_sockets = kind == Kind::Hosted && config.leaves_the_machine();
    let batch_bytes = match (config.flow.batch_bytes, kind) {
        (0, Kind::Embedded) => 1 << 20,
        // All transfers of a consumer fit the queue of its port, wherever they come from.
        (0, Kind::Simulated) => 256 << 10,
        (0, Kind::Hosted) if by_sockets => 256 << 10,
        (0, Kind::Hosted) => 4 << 20,
        (bytes, _) => bytes,
    };
    let transfers = match (config.flow.transfers, kind) {
        (0, Kind::Embedded) => 2,
        (0, Kind::Hosted) if by_sockets => 2,
        (0, _) => 4,
        (transfers, _) => transfers,
    };
    let poll_max = match (config.flow.poll_interval_max_us, kind) {
        (0, Kind::Simulated) => config.flow.poll_interval_us.max(200),
        (0, _) => config.flow.poll_interval_us.max(4000),
        (micros, _) => micros,
    };
    FlowSpec {
        // One item always fits a transfer, however large it is.
        batch_bytes: batch_bytes.max(item_size),
        transfers,
        mtu: Mtu::from_bytes(config.nic.mtu).unwrap_or(Mtu::B4096),
        poll_interval: Duration::from_micros(config.flow.poll_interval_us),
        poll_interval_max: Duration::from_micros(poll_max),
        ..FlowSpec::new(producers, consumers, item_size, ring_bytes)
    }
}
