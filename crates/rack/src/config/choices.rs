//! Values of settings that a configuration leaves open, per kind of rack, with reasons.
//!
//! Racks are built from the values; [`crate::paths`] reports the reasons, so the report always
//! matches the rack. A reason is the rest of a sentence that begins with "because".

mod programs;

pub(crate) use programs::{flows, index, pages, sequencers};

use super::{
    BudgetName, CheckPolicy, FaultSection, IcrcMethod, LinkKind, NodeConfig, RackConfig, Role,
    TopologyName,
};
use rackweave_base::{KeyRng, NodeId, Rng};
use rackweave_wire::Rewrite;
use serde::Serialize;
use std::borrow::Cow;

/// Maximum fragments of one train: 128 KiB at the largest MTU, so that a copy stays within a core's
/// cache and its lock is released soon.
const TRAIN_MAX: u32 = 32;

rackweave_base::named! {
    /// The kind of a rack: the defaults of some settings depend on it.
    #[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug, Serialize)]
    #[serde(rename_all = "lowercase")]
    pub enum Kind {
        /// All in this process.
        Embedded = "embedded",
        /// In virtual time.
        Simulated = "simulated",
        /// A process per node.
        Hosted = "hosted",
    }
}

impl Kind {
    /// The source of keys for such a rack: only those of a simulated one repeat with the seed.
    pub(crate) fn keys(self, rng: Rng) -> KeyRng {
        match self {
            Kind::Simulated => KeyRng::seeded(rng),
            Kind::Embedded | Kind::Hosted => KeyRng::system(),
        }
    }
}

/// A chosen value and its reason.
#[derive(Clone, PartialEq, Debug)]
pub(crate) struct Choice<T> {
    pub value: T,
    pub why: Cow<'static, str>,
}

impl<T> Choice<T> {
    pub fn new(value: T, why: impl Into<Cow<'static, str>>) -> Self {
        Self {
            value,
            why: why.into(),
        }
    }
}

/// How a node is connected to the switch.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Way {
    /// A queue in this process, through which payloads pass by reference.
    InProcess,
    /// A modelled cable with its queues.
    Modelled,
    /// A link between processes.
    Between(LinkKind),
}

/// How a node's packets reach the switch.
pub(crate) fn way(config: &RackConfig, kind: Kind, node: &NodeConfig) -> Choice<Way> {
    match kind {
        Kind::Embedded => Choice::new(
            Way::InProcess,
            "all of an embedded rack is in one process; hosted.link and node.link are for others",
        ),
        Kind::Simulated => Choice::new(
            Way::Modelled,
            "a simulated rack has modelled cables; hosted.link and node.link are for others",
        ),
        Kind::Hosted => {
            let chosen = node.link_kind(&config.hosted());
            Choice::new(
                Way::Between(chosen),
                match node.link {
                    Some(_) => "node.link says so",
                    None => "hosted.link says so for nodes without a link of their own",
                },
            )
        }
    }
}

/// Bits per second of a node's link in a simulated rack.
pub(crate) fn bits_per_second(config: &RackConfig, node: NodeId) -> Choice<u64> {
    let node = &config.node[usize::from(node.0)];
    let bits = |gigabits: f64| (gigabits * 1e9) as u64;
    match (node.gigabits_per_second, node.role) {
        (Some(rate), _) => Choice::new(bits(rate), "node.gigabits_per_second says so"),
        (None, Role::Dpu) => Choice::new(
            rackweave_sim::devices::DPU_LINK_BITS_PER_SECOND,
            "a DPU's ports have this rate",
        ),
        (None, _) => Choice::new(
            bits(config.link.gigabits_per_second),
            "link.gigabits_per_second says so",
        ),
    }
}

/// The faults of a node's link.
pub(crate) fn faults(config: &RackConfig, node: NodeId) -> Choice<FaultSection> {
    let own = &config.node[usize::from(node.0)].faults;
    let value = config.faults_of(node);
    Choice::new(
        value,
        match (own.is_empty(), value.any()) {
            (false, _) => "node.faults says so, and [faults] what it leaves open",
            (true, true) => "[faults] says so of every link",
            (true, false) => "neither [faults] nor node.faults asks for any",
        },
    )
}

/// Maximum bytes of a packet's payload.
pub(crate) fn mtu(config: &RackConfig, kind: Kind, node: &NodeConfig) -> Choice<u32> {
    Choice::new(
        config.nic.mtu,
        match way(config, kind, node).value {
            Way::Between(LinkKind::Packet) => {
                "nic.mtu says so; if the interface carries less, that counts when the node joins"
            }
            _ => "nic.mtu says so, and the link carries it",
        },
    )
}

/// How the switch keeps the ICRC valid in packets that it rewrites.
pub(crate) fn rewrite(config: &RackConfig) -> Choice<Rewrite> {
    match config.switch.icrc {
        IcrcMethod::Update => Choice::new(Rewrite::Update, "switch.icrc is \"update\""),
        IcrcMethod::Balance => Choice::new(Rewrite::Balance, "switch.icrc is \"balance\""),
    }
}

/// Whether the ICRC is computed and checked. Packets of one connection travel over two links, so
/// all nodes of a rack do the same.
pub(crate) fn icrc(config: &RackConfig, kind: Kind) -> Choice<bool> {
    if config.link.icrc == CheckPolicy::Always {
        return Choice::new(true, "link.icrc is \"always\"");
    }
    if config.faults.corrupt > 0.0 {
        return Choice::new(true, "faults.corrupt is above 0");
    }
    if let Some(node) = config.node.iter().find(|node| damages(config, node)) {
        return Choice::new(true, format!("faults.corrupt of {} is above 0", node.name));
    }
    let hosted = config.hosted();
    let leaves = |node: &&NodeConfig| !node.link_kind(&hosted).shares_memory();
    if let (Kind::Hosted, Some(node)) = (kind, config.node.iter().find(leaves)) {
        let (link, name) = (node.link_kind(&hosted).name(), &node.name);
        let why = format!("the {link} link of {name} is no memory that both ends share");
        return Choice::new(true, why);
    }
    if let (Kind::Hosted, Some(host)) = (kind, config.host.first()) {
        return Choice::new(true, format!("the NIC of host {} checks it", host.name));
    }
    Choice::new(
        false,
        "link.icrc is \"auto\", and no link damages packets: they promise integrity",
    )
}

fn damages(config: &RackConfig, node: &NodeConfig) -> bool {
    node.faults.over(config.faults).corrupt > 0.0
}

/// Maximum fragments that travel as one. One means single packets.
pub(crate) fn train_max(config: &RackConfig, kind: Kind) -> Choice<u32> {
    if kind == Kind::Simulated {
        return Choice::new(1, "a modelled cable carries each packet in its own time");
    }
    if let Some(whose) = faulty(config) {
        return Choice::new(1, format!("{whose} faults, which befall single packets"));
    }
    if icrc(config, kind).value {
        return Choice::new(1, "the ICRC is that of a single packet");
    }
    Choice::new(
        TRAIN_MAX,
        "no link loses or damages packets, and none crosses a network",
    )
}

/// Whether requests from node to node are executed without packets.
pub(crate) fn cut_through(config: &RackConfig, kind: Kind) -> Choice<bool> {
    match kind {
        Kind::Simulated => return Choice::new(false, "a modelled cable takes its time"),
        Kind::Hosted => return Choice::new(false, "each node is a process of its own"),
        Kind::Embedded => {}
    }
    if !config.link.cut_through {
        return Choice::new(false, "link.cut_through is false");
    }
    if let Some(whose) = faulty(config) {
        return Choice::new(false, format!("{whose} faults, which befall packets"));
    }
    if icrc(config, kind).value {
        return Choice::new(false, "the ICRC is that of a packet");
    }
    Choice::new(true, "the nodes are in one process, and no link has faults")
}

/// The nodes whose links have faults; `None` if there are none.
fn faulty(config: &RackConfig) -> Option<String> {
    if config.faults.any() {
        return Some("the links have".into());
    }
    let mut nodes = config.node.iter();
    let node = nodes.find(|node| node.faults.over(config.faults).any())?;
    Some(format!("the link of {} has", node.name))
}

/// How a node's link carries the bytes of READ responses.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Reads {
    /// Packets refer to the region.
    ByReference,
    /// The link copies them into its own packets.
    Serialised,
}

/// How the READs with which the switch moves data take their bytes from a node. The switch promises
/// not to have the memory freed before the data has arrived, so its lanes refer to it.
pub(crate) fn reads(config: &RackConfig, kind: Kind, node: &NodeConfig) -> Choice<Reads> {
    match way(config, kind, node).value {
        Way::InProcess => Choice::new(
            Reads::ByReference,
            "both ends are in one process, and the switch keeps what it reads from being freed",
        ),
        Way::Modelled => Choice::new(
            Reads::ByReference,
            "virtual time stands still while a NIC reads",
        ),
        Way::Between(link) if link.shares_memory() => Choice::new(
            Reads::ByReference,
            "both processes map the regions, and the switch keeps what it reads from being freed",
        ),
        Way::Between(link) => Choice::new(
            Reads::Serialised,
            format!("a packet leaves the process by {}", link.name()),
        ),
    }
}

/// The retransmission timeout that a setting of 0 stands for, in the setting's own unit.
pub(crate) fn timeout_us(config: &RackConfig, kind: Kind) -> Choice<u64> {
    match (config.transfer.timeout_us, kind) {
        (0, Kind::Simulated) => {
            Choice::new(250, "in virtual time a round trip takes a few microseconds")
        }
        (0, _) => Choice::new(
            50_000,
            "the rack's threads may be off the processor for a while, and nothing is lost meanwhile",
        ),
        (micros, _) => Choice::new(micros, "transfer.timeout_us says so"),
    }
}

/// Whether packets of a hosted rack go through sockets.
fn by_sockets(config: &RackConfig, kind: Kind) -> bool {
    kind == Kind::Hosted && config.leaves_the_machine()
}

/// Maximum bytes of one transfer.
pub(crate) fn batch_bytes(config: &RackConfig, kind: Kind) -> Choice<u32> {
    match (config.flow.batch_bytes, kind) {
        (0, Kind::Embedded) => Choice::new(1 << 20, "so much is copied within a core's cache"),
        (0, Kind::Simulated) => Choice::new(
            256 << 10,
            "all transfers of a consumer fit the queue of its port, wherever they come from",
        ),
        (0, Kind::Hosted) if by_sockets(config, kind) => {
            Choice::new(256 << 10, "so much fits a socket's buffer")
        }
        (0, Kind::Hosted) => Choice::new(4 << 20, "every transfer costs processes their turns"),
        (bytes, _) => Choice::new(bytes, "flow.batch_bytes says so"),
    }
}

/// Transfers of one consumer in flight at a time.
pub(crate) fn transfers(config: &RackConfig, kind: Kind) -> Choice<u8> {
    match (config.flow.transfers, kind) {
        (0, Kind::Embedded) => Choice::new(2, "they stay within a cache"),
        (0, Kind::Hosted) if by_sockets(config, kind) => {
            Choice::new(2, "they fit a socket's buffer")
        }
        (0, Kind::Hosted) => Choice::new(4, "no process waits for another"),
        (0, Kind::Simulated) => Choice::new(4, "no link idles"),
        (transfers, _) => Choice::new(transfers, "flow.transfers says so"),
    }
}

/// Whether ends of flows ring doorbells by themselves, if their flow leaves that open: when their
/// ring changes after it was quiet.
pub(crate) fn doorbells(kind: Kind) -> bool {
    kind == Kind::Hosted
}

/// Maximum interval, in microseconds, between two polls of a ring that has not changed for long.
pub(crate) fn poll_interval_max_us(
    config: &RackConfig,
    kind: Kind,
    doorbells: bool,
) -> Choice<u64> {
    let least = config.flow.poll_interval_us;
    match (config.flow.poll_interval_max_us, kind) {
        (0, Kind::Simulated) => Choice::new(
            least.max(200),
            "polls cost a simulated switch nothing but bandwidth",
        ),
        (0, Kind::Hosted) if doorbells => {
            Choice::new(least.max(200_000), "nodes ring doorbells after a silence")
        }
        (0, _) => Choice::new(least.max(4000), "an idle rack is to sleep"),
        (micros, _) => Choice::new(micros, "flow.poll_interval_max_us says so"),
    }
}

/// The node whose memory holds the entries of pages that the switch does not index.
pub(crate) fn page_server(config: &RackConfig) -> Choice<Option<NodeId>> {
    match config.nodes_of(Role::Memory).first() {
        Some(&node) => Choice::new(Some(node), "it is the first memory node"),
        None => Choice::new(None, "there is no memory node"),
    }
}

/// How many of the `pages` pages of all stores the switch indexes from the beginning.
pub(crate) fn pages_indexed(config: &RackConfig, pages: u64) -> u64 {
    pages.min(u64::from(config.switch.page_entries))
}

/// The switch that a node's configuration asks for, if any.
pub(crate) fn switch_of(config: &RackConfig, node: &NodeConfig) -> Choice<Option<u16>> {
    match (config.switch.topology, node.switch) {
        (_, Some(switch)) => Choice::new(Some(switch), "node.switch says so"),
        (TopologyName::One, None) => Choice::new(None, "switch.topology is \"one\""),
        (TopologyName::Two, None) => Choice::new(
            Some(u16::from(node.role != Role::Compute)),
            "of two switches compute nodes hang at the first, others at the second",
        ),
        (TopologyName::FatTree, None) => {
            Choice::new(None, "nodes fill the edge switches of a fat tree in order")
        }
    }
}
