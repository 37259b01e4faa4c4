//! The rack and the flows that follow from a seed. `disturb` plans the faults.

use super::disturb::{self, Disturbance};
use crate::wrong::{Odds, Wrong};
use core::fmt;
use rackweave_base::{Duration, Instant, NodeId, Rng};
use rackweave_controller::{FlowShape, FlowSpec, LossPolicy};
use rackweave_rack::RackConfig;
use rackweave_rack::config::{Endianness, IcrcMethod, NodeConfig, Role};
use rackweave_verbs::Mtu;

/// A rack, its flows, and the faults.
pub(super) struct FlowsPlan {
    pub config: RackConfig,
    /// One flow, sometimes a second one over the same nodes.
    pub flows: Vec<FlowPlan>,
    pub disturbances: Vec<(Instant, Disturbance)>,
}

/// A flow and its producers and consumers.
#[derive(Clone)]
pub(super) struct FlowPlan {
    pub spec: FlowSpec,
    /// Maximum number of items that a producer sends to each of its rings.
    pub items_max: u64,
    /// Maximum time for which a producer or consumer works on an item.
    pub pause_max: Duration,
    /// Probability that a node rings its doorbell after a change, if it has one.
    pub bell_chance: f64,
    /// The seed of all random choices of the nodes and of the items' contents.
    pub seed: u64,
}

/// Maximum number of bytes that a flow moves, divided among its rings; every ring gets enough to
/// wrap around.
const BYTES: u64 = 640 << 10;

/// Maximum bytes of a ring.
const RING_BYTES: u32 = 320 << 10;

/// Odds of packet faults.
const ODDS: Odds = Odds {
    share: 0.5,
    rate_max: 0.05,
    // The longest delays sometimes let a packet arrive from an earlier use of its slot.
    delays_us: &[1, 5, 50, 500],
};

impl FlowsPlan {
    pub fn new(seed: u64) -> Self {
        let mut rng = Rng::new(seed);
        let nodes = rng.between(2, 6);
        let config = config(&mut rng, nodes);
        let mut flows = vec![flow(&mut rng, &config, seed)];
        if rng.chance(0.25) {
            let weight = |rng: &mut Rng| Some(rng.between(1, 20) as u32);
            flows[0].spec.weight = weight(&mut rng);
            if rng.chance(0.6) {
                let mut second = flow(&mut rng, &config, !seed);
                second.spec.weight = weight(&mut rng);
                flows.push(second);
            }
        }
        let disturbances = disturb::plan(&mut rng, nodes, &flows);
        Self {
            config,
            flows,
            disturbances,
        }
    }
}

impl FlowPlan {
    /// Number of items that producer `index` sends to each of its rings; some finish early.
    pub fn items_of(&self, index: u16) -> u64 {
        let mut rng = Rng::new(self.seed ^ u64::from(index)).fork("items");
        if rng.chance(0.5) {
            self.items_max
        } else {
            rng.between(1, self.items_max)
        }
    }
}

fn config(rng: &mut Rng, nodes: u64) -> RackConfig {
    let node = |rng: &mut Rng, at: u64| NodeConfig {
        byte_order: if rng.chance(0.2) {
            Endianness::Big
        } else {
            Endianness::Little
        },
        ..NodeConfig::new(format!("node{at}"), Role::Compute)
    };
    let mut config = RackConfig {
        seed: rng.next_u64() >> 1,
        memory_limit: 64 << 20,
        node: (0..nodes).map(|at| node(rng, at)).collect(),
        faults: ODDS.draw(rng),
        ..RackConfig::default()
    };
    config.switch.icrc = *rng.pick(&[IcrcMethod::Update, IcrcMethod::Balance]);
    config.flow.poll_interval_us = rng.between(1, 20);
    config.flow.poll_interval_max_us = rng.between(20, 200);
    config.nic.congestion_control = rng.chance(0.3);
    config.transfer.acknowledge_every = *rng.pick(&[1, 4, 32]);
    config
}

fn flow(rng: &mut Rng, config: &RackConfig, seed: u64) -> FlowPlan {
    let spec = spec(rng, config);
    let rings = spec.producers.len() as u64
        * match spec.shape {
            FlowShape::Balance => 1,
            FlowShape::Shuffle | FlowShape::Replicate => spec.consumers.len() as u64,
        };
    let items_max = (BYTES / rings.max(3) / u64::from(spec.item_size)).clamp(8, 300);
    FlowPlan {
        items_max: rng.between(1, items_max),
        pause_max: Duration::from_nanos(*rng.pick(&[1, 200, 2000, 20_000])),
        bell_chance: *rng.pick(&[1.0, 0.5, 0.1]),
        spec,
        seed,
    }
}

fn spec(rng: &mut Rng, config: &RackConfig) -> FlowSpec {
    let nodes = config.node.len() as u64;
    let some_nodes = |rng: &mut Rng| {
        let count = rng.between(1, 4);
        (0..count)
            .map(|_| NodeId(rng.below(nodes) as u16))
            .collect::<Vec<_>>()
    };
    let (producers, consumers) = (some_nodes(rng), some_nodes(rng));
    let item_size = match rng.below(4) {
        0 => 8 * rng.between(2, 16) as u32,
        1 => 8 * rng.between(2, 200) as u32,
        2 => *rng.pick(&[256, 1024, 4096, 8192]),
        _ => 8 * rng.between(500, 2500) as u32,
    };
    let slots = |rng: &mut Rng| {
        let slots: u32 = 1 << rng.between(1, 6);
        slots.min(1 << (RING_BYTES / item_size).ilog2())
    };
    let micros = |value: u64| Duration::from_micros(value);
    FlowSpec {
        shape: *rng.pick(&[FlowShape::Shuffle, FlowShape::Balance, FlowShape::Replicate]),
        producers,
        consumers,
        item_size,
        producer_slots: slots(rng),
        consumer_slots: slots(rng),
        batch_bytes: item_size * rng.between(1, 20) as u32,
        transfers: *rng.pick(&[1, 2, 4]),
        mtu: *rng.pick(&Mtu::ALL),
        poll_interval: micros(config.flow.poll_interval_us),
        poll_interval_max: micros(config.flow.poll_interval_max_us),
        doorbells: rng.chance(0.35),
        on_loss: *rng.pick(&[
            LossPolicy::Abort,
            LossPolicy::Report,
            LossPolicy::Redeliver,
            LossPolicy::Redeliver,
        ]),
        ..FlowSpec::new(&[], &[], item_size, 0)
    }
}

impl fmt::Display for FlowPlan {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let spec = &self.spec;
        let nodes = |nodes: &[NodeId]| nodes.iter().map(|n| n.0.to_string()).collect::<Vec<_>>();
        write!(
            f,
            "{} {:?} of [{}] to [{}], {} items of {} bytes per ring, {} and {} slots, batch {}, \
             {} transfers, MTU {}, polls {} to {}, pauses {}{}",
            spec.shape.name(),
            spec.on_loss,
            nodes(&spec.producers).join(" "),
            nodes(&spec.consumers).join(" "),
            self.items_max,
            spec.item_size,
            spec.producer_slots,
            spec.consumer_slots,
            spec.batch_bytes,
            spec.transfers,
            spec.mtu.bytes(),
            spec.poll_interval,
            spec.poll_interval_max,
            self.pause_max,
            if spec.doorbells { ", doorbells" } else { "" },
        )?;
        match spec.weight {
            Some(weight) => write!(f, ", weight {weight}"),
            None => Ok(()),
        }
    }
}

impl fmt::Display for FlowsPlan {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} nodes", self.config.node.len())?;
        for flow in &self.flows {
            write!(f, "; {flow}")?;
        }
        let wrong = Wrong(&self.config.faults, &self.disturbances);
        write!(f, "; {wrong}")
    }
}
