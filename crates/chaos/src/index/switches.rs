//! The switches that follow from a seed: how many, how much of a tree fits into them, how it is
//! loaded, and their faults.
//!
//! They are drawn apart from the rest, so that a seed without an index in the network keeps its
//! run.

use super::disturb::{Disturbance, some_time};
use super::plan::{IndexPlan, tree};
use crate::IndexAccess;
use crate::wrong::nanos;
use core::fmt;
use rackweave_base::{Duration, Instant, Rng};
use rackweave_rack::IndexNetworkSpec;
use rackweave_rack::config::{BudgetName, RackConfig, TopologyName};
use rackweave_sim::world::WorldConfig;
use rackweave_sim::{NicModel, devices};
use rackweave_wire::fabric::tree::{FAN_OUT_MIN, NODE_SIZES};

/// The share of seeds with an index in the network, if the clients may read in any way.
const SHARE: f64 = 0.3;

/// The share of those with neither moving ranges nor stopping endpoints: there no query may be led
/// astray.
const CALM_SHARE: f64 = 0.6;

/// Bytes of a queue. More are dropped, so that the grace time is a few hundred microseconds, as
/// long as a run.
const QUEUE_BYTES: usize = 256 << 10;

/// The shortest packet with all framing.
const PACKET_BYTES_MIN: usize =
    (devices::ETHERNET_PACKET_BYTES_MIN + devices::ETHERNET_PREAMBLE_BYTES) as usize;

/// Maximum bytes of a packet's headers.
const HEADER_BYTES_MAX: u64 = 128;

/// An index in the network.
#[derive(Clone, Copy, Debug)]
pub(super) struct Switches {
    pub spec: IndexNetworkSpec,
    /// Time from one step of a load to the next.
    pub period: Duration,
    /// Maximum time from the end of a load to the beginning of the next one.
    pub pause_max: Duration,
    /// Parts of a scan that are read at a time.
    pub scan_parts: u16,
    /// No range moves and no endpoint stops.
    pub is_calm: bool,
}

impl Switches {
    /// Adds an index in the network, if the seed or the access requires it.
    pub fn enter(plan: &mut IndexPlan, access: Option<IndexAccess>) {
        let mut rng = Rng::new(plan.seed ^ 0x7377_6974_6368);
        let wanted = match access {
            Some(access) => access == IndexAccess::InNetwork,
            None => rng.chance(SHARE),
        };
        if !wanted {
            return;
        }
        for (at, client) in plan.clients.iter_mut().enumerate() {
            if at == 0 || rng.chance(0.6) {
                client.access = access.unwrap_or(IndexAccess::InNetwork);
            }
        }
        size(&mut rng, plan);
        let is_calm = rng.chance(CALM_SHARE);
        disturb(&mut rng, plan, is_calm);
        plan.network = Some(Self {
            spec: IndexNetworkSpec {
                limits: None,
                outline_max: *rng.pick(&[1, 5, 1000, 1000]),
                step: *rng.pick(&[1, 1, 2, 8]),
                grace: grace(plan),
            },
            period: Duration::from_nanos(*rng.pick(&[500, 2_000, 10_000])),
            pause_max: Duration::from_nanos(*rng.pick(&[1, 20_000, 200_000])),
            scan_parts: rng.between(1, 4) as u16,
            is_calm,
        });
    }

    /// The models of a rack whose grace time is known.
    pub fn change_models(world: &mut WorldConfig) {
        for node in &mut world.nodes {
            node.to_switch.queue_bytes = QUEUE_BYTES;
            node.from_switch.queue_bytes = QUEUE_BYTES;
        }
        for cable in &mut world.cables {
            cable.link.queue_bytes = QUEUE_BYTES;
        }
    }
}

/// Small tables and small trees.
fn size(rng: &mut Rng, plan: &mut IndexPlan) {
    // A query is answered by one packet.
    let mtu = plan.pair.mtu.bytes();
    let small = NODE_SIZES.into_iter().take(1).cycle().take(4);
    let sizes = NODE_SIZES.into_iter().filter(|&size| size <= mtu);
    let sizes: Vec<u32> = small.chain(sizes).collect();
    // With 0 some tree nodes have too many children for a switch. Small values give many levels.
    let fan_out = *rng.pick(&[0, FAN_OUT_MIN, FAN_OUT_MIN, FAN_OUT_MIN, 5, 6, 8, 16]);
    if plan.keys.stride <= 1 << 40 && rng.chance(0.5) {
        plan.keys.count = 1000;
    }
    let fit = tree(rng, plan.keys, plan.values, &sizes).with_fan_out(fan_out);
    plan.tree = rackweave_endpoint::btree::TreeConfig {
        // Pinned tree nodes stay in use when they are empty.
        tree_nodes: fit.tree_nodes + rng.below(32) as u32,
        ..fit
    };
    let config = &mut plan.config;
    // With congestion control a NIC may hold an answer back for any time.
    config.nic.congestion_control = false;
    let switch = &mut config.switch;
    (switch.topology, switch.pods) = *rng.pick(&[
        (TopologyName::One, 4),
        (TopologyName::One, 4),
        (TopologyName::One, 4),
        (TopologyName::Two, 4),
        (TopologyName::Two, 4),
        (TopologyName::FatTree, 4),
    ]);
    // No hardware switch has the resources for an index beside flows.
    switch.budget = BudgetName::Software;
    (switch.consumer_rings, switch.producer_rings) = (0, 0);
    // The whole path has the packet faults of a path through one switch; otherwise retries run out.
    let share = 2.0 / f64::from(2 + cables(switch.topology));
    let faults = &mut config.faults;
    for rate in [
        &mut faults.loss,
        &mut faults.duplicate,
        &mut faults.reorder,
        &mut faults.corrupt,
    ] {
        *rate *= share;
    }
    let switch = &mut config.switch;
    switch.index_queries = 1024;
    switch.index_servers = 16;
    // At least the trees of all endpoints, and the gaps between them.
    let least = 2 * plan.endpoints.len() as u64 + 1;
    // With few of them, layers do much work.
    let most = *rng.pick(&[least + 1, least + 1, 8, 64]);
    switch.index_fat_ranges = rng.between(least, most.max(least)) as u16;
    let most = config.shape().layers_max();
    let switch = &mut config.switch;
    switch.index_layers = *rng.pick(&[0, 1, most, most, most]);
    switch.index_nodes = match switch.index_layers {
        0 => 0,
        _ => rng.between(2, 64) as u16,
    };
}

/// Restarts of switches and cuts of cables between them. A calm run has no other fault that may
/// lead a query astray; other runs have more of them.
fn disturb(rng: &mut Rng, plan: &mut IndexPlan, is_calm: bool) {
    let all = &mut plan.disturbances;
    if is_calm {
        plan.rebalances = false;
        all.retain(|(_, disturbance)| {
            !matches!(
                disturbance,
                Disturbance::Move(..)
                    | Disturbance::StopEndpoint(..)
                    | Disturbance::StartEndpoint(..)
            )
        });
    } else if rng.chance(0.5) {
        let stop = some_time(rng);
        let at = rng.below(plan.endpoints.len() as u64) as u16;
        let down = nanos(rng, 1000, 200_000);
        all.push((stop, Disturbance::StopEndpoint(at, rng.chance(0.4))));
        all.push((stop + down, Disturbance::StartEndpoint(at, true)));
    }
    let shape = plan.config.shape();
    let switches = shape.roles().len() as u64;
    if rng.chance(0.4) {
        for _ in 0..rng.between(1, 4) {
            let at = rng.below(switches) as u16;
            all.push((some_time(rng), Disturbance::RestartSwitch(at)));
        }
    }
    if switches > 1 && rng.chance(0.2) {
        // All switches but one are attached to another one.
        let cable = rng.below(switches - 1) as u16;
        let cut = some_time(rng);
        let lasts = nanos(rng, 1000, 300_000);
        all.push((cut, Disturbance::CutTrunk(cable)));
        all.push((cut + lasts, Disturbance::MendTrunk(cable)));
    }
}

/// Cables between switches on the longest path.
fn cables(topology: TopologyName) -> u32 {
    match topology {
        TopologyName::One => 0,
        TopologyName::Two => 1,
        TopologyName::FatTree => 4,
    }
}

/// The maximum time for which a query can be in flight, from its first switch until the last byte
/// of the tree node that it led to has been read.
fn grace(plan: &IndexPlan) -> Duration {
    let world = WorldConfig::default();
    let slowest = devices::DPU_LINK_BITS_PER_SECOND;
    let per_second = |bytes: u64, bits: u64| Duration::from_nanos(bytes * 8_000_000_000 / bits);
    let held = match plan.config.faults.reorder > 0.0 {
        true => Duration::from_micros(plan.config.faults.reorder_delay_us),
        false => Duration::ZERO,
    };
    let way = |bits| {
        // A full queue, and the packet on the wire.
        let bytes = QUEUE_BYTES as u64 + 2 * (4096 + HEADER_BYTES_MAX);
        let propagation = devices::CABLE_DELAY_PER_METRE * devices::CABLE_METRES;
        world.switch.pipeline_latency + held + per_second(bytes, bits) + propagation
    };
    let nic = NicModel::default();
    // Packets from a full queue may wait for the NIC's turns.
    let packets = (QUEUE_BYTES / PACKET_BYTES_MIN) as u64;
    let received =
        Duration::from_nanos(packets * nic.message_interval_picos / 1000 + 1) + nic.receive_latency;
    // All answers to all outstanding requests are sent before this one: those of 8 walks of two
    // READs, 8 records, and 8 replies. Twice, as requests may have been duplicated.
    let each = 24 * u64::from(plan.pair.mtu.bytes()) + 8 * 2048 + 32 * HEADER_BYTES_MAX;
    let answers = 2 * each * plan.clients.len() as u64;
    let answered = per_second(answers, slowest)
        + nic.transmit_latency * 2
        + devices::DPU_READ_LATENCY.max(nic.memory_read_latency) * 2;
    let cables = cables(plan.config.switch.topology);
    let between = way(devices::LINK_BITS_PER_SECOND) * u64::from(cables);
    between + way(slowest) + received + answered
}

/// Whether any of these may break a connection, or end one while its packets are in flight.
pub(super) fn breaks_connections(disturbances: &[(Instant, Disturbance)]) -> bool {
    let breaks = |(_, disturbance): &(Instant, Disturbance)| {
        matches!(
            disturbance,
            Disturbance::Crash(_)
                | Disturbance::CutCable(_)
                | Disturbance::CutTrunk(_)
                | Disturbance::StopEndpoint(..)
        )
    };
    disturbances.iter().any(breaks)
}

pub(super) fn describe(
    f: &mut fmt::Formatter<'_>,
    switches: &Switches,
    config: &RackConfig,
) -> fmt::Result {
    let (spec, switch) = (&switches.spec, &config.switch);
    write!(
        f,
        "; {} with {} ranges, {} layers of {}, {} nodes a step of {}, outlines of {}, grace {}, \
         pauses {}, scans in {} parts{}",
        switch.topology.name(),
        switch.index_fat_ranges,
        switch.index_layers,
        switch.index_nodes,
        spec.step,
        switches.period,
        spec.outline_max,
        spec.grace,
        switches.pause_max,
        switches.scan_parts,
        if switches.is_calm { ", calm" } else { "" },
    )
}
