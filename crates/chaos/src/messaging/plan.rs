//! The rack, its nodes, their calls and the timed faults, as they follow from a seed.

use super::misbehaviour::{Lie, Misbehaviour, Nonsense};
use super::stream::{Cut, StreamPlan};
use crate::wrong::{Odds, Wrong};
use core::fmt;
use rackweave_base::{Duration, Instant, NodeId, Rng};
use rackweave_endpoint::messaging::{MessagingConfig, Role};
use rackweave_rack::RackConfig;
use rackweave_rack::config::{IcrcMethod, NodeConfig, Role as NodeRole};
use rackweave_sim::checkers::messages::Peer;
use rackweave_wire::fabric::message::CloseReason;

/// How a connection is left when all work is done.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Leaving {
    /// Each end leaves when its own work is done.
    Singly,
    /// All ends leave when the work of all is done.
    Together,
    /// The same, and the node closes the connection first.
    Closing,
}

/// How a node behaves in a connection.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) struct Manners {
    /// Messages on each channel.
    pub messages: u32,
    /// Maximum bytes of all messages of a channel together.
    pub bytes: u64,
    /// Maximum rest of the node between messages.
    pub pause_max: Duration,
    /// Maximum time for which it looks at a piece, or rests after it.
    pub hold_max: Duration,
    /// After how many pieces it stops reading, and for how long.
    pub stall: Option<(u64, Duration)>,
    /// After how many messages and pieces it closes the connection, and why.
    pub closes: Option<(u64, CloseReason)>,
    pub leaving: Leaving,
}

/// Caller, target, time and behaviour of a call.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) struct CallPlan {
    pub from: NodeId,
    pub to: NodeId,
    pub at: Instant,
    /// Maximum duration of the handshake.
    pub patience: Duration,
    pub stream: StreamPlan,
    /// Of the compute node, of the storage node.
    pub manners: [Manners; 2],
    /// The node that gives up the handshake, and when.
    pub gives_up: Option<(Peer, Duration)>,
    /// The node that is a rogue, and its misbehaviour.
    pub misbehaviour: Option<(Peer, Misbehaviour)>,
    /// Whether anything may break the connection.
    pub may_break: bool,
}

/// A node.
#[derive(Clone, Debug)]
pub(super) struct NodePlan {
    pub role: Role,
    pub config: MessagingConfig,
}

/// An event at a certain time.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Disturbance {
    Crash(NodeId),
    /// The node returns with empty memory.
    Return(NodeId),
    CutCable(NodeId),
    MendCable(NodeId),
    RestartSwitch,
}

/// A rack, its nodes, their calls, and the faults.
#[derive(Clone)]
pub(super) struct MessagingPlan {
    pub seed: u64,
    pub config: RackConfig,
    /// By node: compute nodes, then storage nodes.
    pub nodes: Vec<NodePlan>,
    pub calls: Vec<CallPlan>,
    /// Whether NICs give up so early that packet faults alone may break a connection.
    pub impatient: bool,
    /// Whether the NIC tables, or memory, may be too small for all connections.
    pub tight: bool,
    pub disturbances: Vec<(Instant, Disturbance)>,
}

/// Odds of packet faults.
const ODDS: Odds = Odds {
    share: 0.5,
    rate_max: 0.02,
    delays_us: &[1, 5, 50],
};

/// Maximum bytes of a channel's messages.
const BYTES_MAX: u64 = 300_000;

impl MessagingPlan {
    pub fn new(seed: u64) -> Self {
        let mut rng = Rng::new(seed ^ 0x6d65_7373_6167_6573);
        let (compute, storage) = (rng.between(1, 3), rng.between(1, 2));
        let breakable = rng.chance(0.55);
        let impatient = breakable && rng.chance(0.3);
        let roles = (0..compute).map(|_| Role::Compute);
        let roles = roles.chain((0..storage).map(|_| Role::Storage));
        let nodes: Vec<_> = roles
            .map(|role| NodePlan {
                role,
                config: node_config(&mut rng, role, impatient),
            })
            .collect();
        let tight = rng.chance(0.15);
        let config = rack_config(&mut rng, &nodes, tight);
        let mut calls = Vec::new();
        for from in 0..compute {
            for _ in 0..rng.between(1, 3) {
                let to = NodeId((compute + rng.below(storage)) as u16);
                calls.push(call(&mut rng, NodeId(from as u16), to, breakable));
            }
        }
        let disturbances = match breakable {
            true => disturbances(&mut rng, &nodes, &calls),
            false => Vec::new(),
        };
        Self {
            seed,
            config,
            nodes,
            calls,
            impatient,
            tight,
            disturbances,
        }
    }

    /// The nodes of a role.
    pub fn nodes_of(&self, role: Role) -> impl Iterator<Item = NodeId> {
        let nodes = self.nodes.iter().enumerate();
        nodes
            .filter(move |(_, node)| node.role == role)
            .map(|(at, _)| NodeId(at as u16))
    }

    /// A call after everything is repaired.
    pub fn last_call(&self, rng: &mut Rng, from: NodeId, to: NodeId, at: Instant) -> CallPlan {
        CallPlan {
            at,
            stream: StreamPlan {
                delay_max: Duration::from_micros(10),
                cut: None,
            },
            patience: Duration::from_millis(20),
            misbehaviour: None,
            gives_up: None,
            manners: [manners(rng, false), manners(rng, false)],
            may_break: self.impatient,
            ..call(rng, from, to, false)
        }
    }
}

fn node_config(rng: &mut Rng, role: Role, impatient: bool) -> MessagingConfig {
    let receive_buffers = rng.between(1, 7) as u8;
    let receive_bytes = match rng.below(3) {
        0 => *rng.pick(&[1 << 10, 4 << 10, 64 << 10]),
        1 => 64 * rng.between(16, 64) as u32,
        _ => 64 * rng.between(16, 1024) as u32,
    };
    let channels = |rng: &mut Rng, most: u8| rng.between(1, u64::from(most.min(3))) as u8;
    // A node has a receive buffer for each incoming channel.
    let (most_up, most_down) = match role {
        Role::Compute => (3, receive_buffers),
        Role::Storage => (receive_buffers, 3),
    };
    let (channels_up, channels_down) = (channels(rng, most_up), channels(rng, most_down));
    let sends = match role {
        Role::Compute => channels_up,
        Role::Storage => channels_down,
    };
    let send_bytes = match rng.chance(0.5) {
        true => 0,
        // Often less than a receive buffer of the peer.
        false => 64 * rng.between(16 * u64::from(sends), 512 + 16 * u64::from(sends)),
    };
    MessagingConfig {
        receive_buffers,
        receive_bytes,
        send_bytes,
        message_max: *rng.pick(&[1, 100, 5_000, 1 << 20, 1 << 20, 1 << 32]),
        channels_up,
        channels_down,
        keepalive: Duration::from_micros(rng.between(100, 2_000)),
        timeout: Duration::from_micros(rng.between(30, 150)),
        // With all retries, packet faults alone do not break a connection.
        retries: match impatient {
            true => rng.between(2, 6) as u8,
            false => 7,
        },
        word_last: rng.chance(0.75),
        pd: None,
    }
}

fn rack_config(rng: &mut Rng, nodes: &[NodePlan], tight: bool) -> RackConfig {
    let node = nodes.iter().enumerate().map(|(at, node)| match node.role {
        Role::Compute => NodeConfig::new(format!("compute{at}"), NodeRole::Compute),
        Role::Storage => NodeConfig::new(format!("storage{at}"), NodeRole::Storage),
    });
    let mut config = RackConfig {
        seed: rng.next_u64() >> 1,
        memory_limit: if tight && rng.chance(0.4) {
            2 << 20
        } else {
            256 << 20
        },
        node: node.collect(),
        faults: ODDS.draw(rng),
        ..RackConfig::default()
    };
    config.switch.icrc = *rng.pick(&[IcrcMethod::Update, IcrcMethod::Balance]);
    let capacity: u32 = if tight { rng.between(6, 14) as u32 } else { 96 };
    config.nic.queue_pairs = capacity;
    config.nic.completion_queues = capacity;
    config.nic.regions = 2 * capacity;
    config
}

fn manners(rng: &mut Rng, breakable: bool) -> Manners {
    let slow = Duration::from_micros(rng.between(5, 40));
    let reasons = [
        CloseReason::Normal,
        CloseReason::NodeStops,
        CloseReason::BadMessage,
    ];
    Manners {
        messages: rng.between(0, 25) as u32,
        bytes: rng.between(1, BYTES_MAX),
        pause_max: Duration::from_nanos(*rng.pick(&[1, 500, 5_000, 50_000])),
        hold_max: match rng.chance(0.5) {
            true => slow,
            false => Duration::ZERO,
        },
        stall: rng.chance(0.3).then(|| {
            let lasts = Duration::from_micros(rng.between(50, 5_000));
            (rng.below(30), lasts)
        }),
        closes: (breakable && rng.chance(0.25)).then(|| (rng.below(40), *rng.pick(&reasons))),
        leaving: *rng.pick(&[Leaving::Singly, Leaving::Together, Leaving::Closing]),
    }
}

fn call(rng: &mut Rng, from: NodeId, to: NodeId, breakable: bool) -> CallPlan {
    let misbehaviour = rng.chance(0.25).then(|| {
        let peer = *rng.pick(&[Peer::Compute, Peer::Storage]);
        let misbehaviour = match rng.chance(0.5) {
            true => Misbehaviour::Nonsense(Nonsense::draw(rng, peer)),
            false => Misbehaviour::Lie(Lie::draw(rng), rng.below(8)),
        };
        (peer, misbehaviour)
    });
    // A rogue's stream is not cut, so that the reason for its detection is known.
    let cut = (breakable && misbehaviour.is_none() && rng.chance(0.2)).then(|| {
        let peer = *rng.pick(&[Peer::Compute, Peer::Storage]);
        let after = rng.below(160) as usize;
        (peer, after, *rng.pick(&[Cut::Silent, Cut::End]))
    });
    let mut manners = [manners(rng, breakable), manners(rng, breakable)];
    if let Some((_, Misbehaviour::Lie(..))) = misbehaviour {
        for manners in &mut manners {
            (manners.closes, manners.leaving) = (None, Leaving::Together);
        }
    }
    CallPlan {
        from,
        to,
        at: within(rng, 10, 21),
        patience: Duration::from_micros(rng.between(2_000, 10_000)),
        stream: StreamPlan {
            delay_max: Duration::from_nanos(rng.between(100, 20_000)),
            cut,
        },
        manners,
        gives_up: (breakable && misbehaviour.is_none() && rng.chance(0.1)).then(|| {
            let peer = *rng.pick(&[Peer::Compute, Peer::Storage]);
            (peer, Duration::from_nanos(rng.below(100_000)))
        }),
        misbehaviour,
        may_break: breakable,
    }
}

/// A time below 2^n nanoseconds, with n drawn from `least` to `most`: early is as likely as late.
fn within(rng: &mut Rng, least: u64, most: u64) -> Instant {
    let exponent = rng.between(least, most);
    Instant::from_nanos(rng.below(1 << exponent))
}

/// Most runs last hundreds of microseconds to some milliseconds. Many of these times fall into the
/// steps of a handshake.
fn some_time(rng: &mut Rng, calls: &[CallPlan]) -> Instant {
    if rng.chance(0.5) {
        let call = rng.pick(calls);
        let within = call.stream.delay_max.as_nanos() * 10;
        return call.at + Duration::from_nanos(rng.below(within));
    }
    within(rng, 14, 23)
}

fn disturbances(
    rng: &mut Rng,
    nodes: &[NodePlan],
    calls: &[CallPlan],
) -> Vec<(Instant, Disturbance)> {
    let mut all = Vec::new();
    let node = |rng: &mut Rng| NodeId(rng.below(nodes.len() as u64) as u16);
    if rng.chance(0.2) {
        for _ in 0..rng.between(1, 3) {
            all.push((some_time(rng, calls), Disturbance::RestartSwitch));
        }
    }
    if rng.chance(0.6) {
        for _ in 0..rng.between(1, 3) {
            let (at, node) = (some_time(rng, calls), node(rng));
            all.push((at, Disturbance::Crash(node)));
            if rng.chance(0.6) {
                let back = at + Duration::from_nanos(rng.between(1_000, 3_000_000));
                all.push((back, Disturbance::Return(node)));
            }
        }
    }
    if rng.chance(0.4) {
        let (cut, node) = (some_time(rng, calls), node(rng));
        let lasts = Duration::from_nanos(1 << rng.between(10, 24));
        all.push((cut, Disturbance::CutCable(node)));
        all.push((cut + lasts, Disturbance::MendCable(node)));
    }
    all
}

impl fmt::Display for MessagingPlan {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for (at, node) in self.nodes.iter().enumerate() {
            let config = &node.config;
            write!(
                f,
                "{} {at}: {} x {} bytes, send {}, message_max {}, channels {} up {} down; ",
                node.role,
                config.receive_buffers,
                config.receive_bytes,
                config.send_bytes,
                config.message_max,
                config.channels_up,
                config.channels_down,
            )?;
        }
        for (is, word) in [(self.impatient, "impatient; "), (self.tight, "tight; ")] {
            f.write_str(if is { word } else { "" })?;
        }
        for (number, call) in self.calls.iter().enumerate() {
            write!(
                f,
                "call {number}: {:?} to {:?} at {:?}",
                call.from, call.to, call.at
            )?;
            if let Some((peer, after, cut)) = call.stream.cut {
                write!(f, ", cut behind {after} bytes of {peer:?}: {cut:?}")?;
            }
            if let Some((peer, after)) = call.gives_up {
                write!(f, ", {peer:?} gives up after {after}")?;
            }
            if let Some((peer, misbehaviour)) = call.misbehaviour {
                write!(f, ", {peer:?} {misbehaviour:?}")?;
            }
            for (peer, manners) in ["compute", "storage"].iter().zip(&call.manners) {
                if let Some((after, reason)) = manners.closes {
                    write!(f, ", {peer} closes behind {after}: {reason:?}")?;
                }
            }
            f.write_str("; ")?;
        }
        let wrong = Wrong(&self.config.faults, &self.disturbances);
        write!(f, "{wrong}")
    }
}
