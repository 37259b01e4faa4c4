//! What a seed makes of a rack.

use core::fmt;
use rackweave_base::{Duration, Instant, NodeId, Rng};
use rackweave_controller::FlowSpec;
use rackweave_rack::RackConfig;
use rackweave_rack::config::{Endianness, FaultSection, IcrcMethod, NodeConfig, Role};
use rackweave_verbs::Mtu;

/// Something that goes wrong at a certain time.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Disturbance {
    RestartSwitch,
    CutCable(NodeId),
    MendCable(NodeId),
    /// `told`: whether the controller hears of it at once or must find out.
    Crash {
        node: NodeId,
        told: bool,
    },
}

/// A rack, a flow, and what goes wrong.
pub(super) struct Plan {
    pub config: RackConfig,
    pub spec: FlowSpec,
    /// Items that each producer sends to each consumer.
    pub items: u64,
    /// How long a producer or consumer works on an item at most.
    pub pause_max: Duration,
    pub seed: u64,
    pub disturbances: Vec<(Instant, Disturbance)>,
}

/// Bytes that one producer sends to one consumer at most: enough to go round every ring.
const BYTES_PER_RING: u64 = 192 << 10;

impl Plan {
    pub fn new(seed: u64) -> Self {
        let mut rng = Rng::new(seed);
        let nodes = rng.between(1, 5);
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
            node: (0..nodes).map(|at| node(&mut rng, at)).collect(),
            faults: faults(&mut rng),
            ..RackConfig::default()
        };
        config.switch.icrc = *rng.pick(&[IcrcMethod::Update, IcrcMethod::Balance]);
        config.flow.poll_interval_us = rng.between(1, 20);
        config.flow.poll_interval_max_us = rng.between(20, 200);
        config.nic.congestion_control = rng.chance(0.3);
        config.transfer.acknowledge_every = *rng.pick(&[1, 4, 32]);
        let spec = spec(&mut rng, nodes);
        let items_max = (BYTES_PER_RING / u64::from(spec.item_size)).clamp(8, 300);
        let items = rng.between(1, items_max);
        let pause_max = Duration::from_nanos(*rng.pick(&[1, 200, 2000, 20_000]));
        let mut plan = Self {
            config,
            spec,
            items,
            pause_max,
            seed,
            disturbances: Vec::new(),
        };
        plan.disturb(&mut rng);
        plan
    }

    fn disturb(&mut self, rng: &mut Rng) {
        let nodes = self.config.node.len() as u64;
        let some_time = |rng: &mut Rng| {
            // Most runs last from tens to hundreds of microseconds; early is as likely as late.
            let exponent = rng.between(12, 20);
            Instant::from_nanos(rng.between(0, 1 << exponent))
        };
        if rng.chance(0.35) {
            for _ in 0..rng.between(1, 3) {
                self.disturbances
                    .push((some_time(rng), Disturbance::RestartSwitch));
            }
        }
        if rng.chance(0.2) {
            let (at, node) = (some_time(rng), NodeId(rng.below(nodes) as u16));
            let back = at + Duration::from_nanos(rng.between(1000, 1_000_000));
            self.disturbances.push((at, Disturbance::CutCable(node)));
            self.disturbances.push((back, Disturbance::MendCable(node)));
        }
        if rng.chance(0.2) {
            let node = NodeId(rng.below(nodes) as u16);
            let told = rng.chance(0.5);
            self.disturbances
                .push((some_time(rng), Disturbance::Crash { node, told }));
        }
    }

    pub fn producers_on(&self, node: NodeId) -> impl Iterator<Item = u16> + '_ {
        places(&self.spec.producers, node)
    }

    pub fn consumers_on(&self, node: NodeId) -> impl Iterator<Item = u16> + '_ {
        places(&self.spec.consumers, node)
    }
}

fn places(nodes: &[NodeId], node: NodeId) -> impl Iterator<Item = u16> + '_ {
    let places = nodes.iter().enumerate().filter(move |&(_, &n)| n == node);
    places.map(|(at, _)| at as u16)
}

fn faults(rng: &mut Rng) -> FaultSection {
    let mut rate = || {
        if rng.chance(0.5) {
            rng.unit() * 0.05
        } else {
            0.0
        }
    };
    let (loss, duplicate, reorder, corrupt) = (rate(), rate(), rate(), rate());
    // Long enough, at times, for a packet to come back from an earlier life of its slot.
    let reorder_delay_us = *rng.pick(&[1, 5, 50, 500]);
    FaultSection {
        loss,
        duplicate,
        reorder,
        corrupt,
        reorder_delay_us,
    }
}

fn spec(rng: &mut Rng, nodes: u64) -> FlowSpec {
    let some_nodes = |rng: &mut Rng| {
        let count = rng.between(1, 3);
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
    let slots = |rng: &mut Rng| 1 << rng.between(1, 6);
    FlowSpec {
        producers,
        consumers,
        item_size,
        producer_slots: slots(rng),
        consumer_slots: slots(rng),
        batch_bytes: item_size * rng.between(1, 20) as u32,
        transfers: *rng.pick(&[1, 2, 4]),
        mtu: *rng.pick(&Mtu::ALL),
        ..FlowSpec::new(&[], &[], item_size, 0)
    }
}

impl fmt::Display for Plan {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (spec, faults) = (&self.spec, &self.config.faults);
        write!(
            f,
            "{}:{} on {} nodes, {} items of {} bytes per ring, {} and {} slots, batch {}, {} transfers, \
             MTU {}, loss {:.3} duplicate {:.3} reorder {:.3} corrupt {:.3}",
            spec.producers.len(),
            spec.consumers.len(),
            self.config.node.len(),
            self.items,
            spec.item_size,
            spec.producer_slots,
            spec.consumer_slots,
            spec.batch_bytes,
            spec.transfers,
            spec.mtu.bytes(),
            faults.loss,
            faults.duplicate,
            faults.reorder,
            faults.corrupt,
        )?;
        for (at, disturbance) in &self.disturbances {
            write!(f, ", {disturbance:?} at {at:?}")?;
        }
        Ok(())
    }
}
