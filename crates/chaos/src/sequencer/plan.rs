//! The rack, the sequencers in it, their clients and the timed faults, as they follow from a seed.

use crate::wrong::{self, Odds, Wrong, nanos};
use core::fmt;
use rackweave_base::{Duration, Instant, NodeId, Rng};
use rackweave_endpoint::sequencer::SequencerConfig;
use rackweave_rack::RackConfig;
use rackweave_rack::config::{BudgetName, IcrcMethod, NodeConfig, Role};

/// The kinds of sequencers.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub(super) enum Kind {
    /// A register of the switch.
    Switch,
    /// A word in a node's memory.
    Memory,
    /// A counter in a server.
    Server,
}

impl Kind {
    pub const ALL: [Kind; 3] = [Kind::Switch, Kind::Memory, Kind::Server];
}

/// A client: a connection to one sequencer, and the node that uses it.
#[derive(Clone, Copy, Debug)]
pub(super) struct Client {
    pub node: NodeId,
    pub kind: Kind,
    pub config: SequencerConfig,
    /// Maximum concurrent calls.
    pub at_once: usize,
}

/// A rack, its sequencers, their clients, and the faults.
#[derive(Clone)]
pub(super) struct SequencerPlan {
    pub seed: u64,
    pub config: RackConfig,
    pub kinds: Vec<Kind>,
    pub clients: Vec<Client>,
    /// The node with the word, and the node with the server.
    pub memory: NodeId,
    pub server: NodeId,
    /// Numbers that the controller records at a time.
    pub block: u64,
    pub habits: Habits,
    pub disturbances: Vec<(Instant, Disturbance)>,
}

/// What clients do.
#[derive(Clone, Copy, Debug)]
pub(super) struct Habits {
    /// Calls of one client.
    pub calls: u32,
    /// Maximum numbers of one call.
    pub count_max: u64,
    /// Maximum rest of a client after a call.
    pub pause_max: Duration,
    /// How long a connection waits for an answer before it repeats the request.
    pub timeout: Duration,
}

/// An event at a certain time.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Disturbance {
    /// A node crashes; the controller does not know yet.
    Crash(NodeId),
    /// The controller learns of the crash.
    Tell(NodeId),
    /// The node returns with empty memory.
    Return(NodeId),
    CutCable(NodeId),
    MendCable(NodeId),
    RestartSwitch,
}

/// Odds of packet faults.
const ODDS: Odds = Odds {
    share: 0.5,
    rate_max: 0.03,
    delays_us: &[1, 5, 50],
};

impl SequencerPlan {
    pub fn new(seed: u64) -> Self {
        let mut rng = Rng::new(seed ^ 0x7365_7175_656e_6365);
        let mut kinds: Vec<Kind> = Kind::ALL.into_iter().filter(|_| rng.chance(0.6)).collect();
        if kinds.is_empty() {
            kinds.push(*rng.pick(&Kind::ALL));
        }
        let nodes = rng.between(1, 3);
        let mut clients = Vec::new();
        for node in 0..nodes {
            for &kind in &kinds {
                for _ in 0..rng.between(1, 2) {
                    clients.push(client(&mut rng, NodeId(node as u16), kind));
                }
            }
        }
        let (memory, server) = (NodeId(nodes as u16), NodeId(nodes as u16 + 1));
        let count_max = *rng.pick(&[1, 4, 16, 1000]);
        // Half a block holds any request that clients combine, or just barely not.
        let most = clients.iter().map(|client| client.at_once as u64).max();
        let most = most.unwrap_or(1);
        let least = (count_max * most * 2).next_power_of_two().max(16);
        let block = least << rng.below(12);
        let habits = Habits {
            calls: rng.between(10, 240) as u32,
            count_max,
            pause_max: Duration::from_nanos(*rng.pick(&[200, 2_000, 20_000])),
            timeout: Duration::from_micros(rng.between(50, 500)),
        };
        let mut config = config(&mut rng, nodes);
        config.switch.sequencer_clients = 64;
        Self {
            seed,
            disturbances: disturbances(&mut rng, &kinds, nodes, memory, server),
            config,
            kinds,
            clients,
            memory,
            server,
            block,
            habits,
        }
    }
}

impl SequencerPlan {
    /// Whether connections may break other than by consecutive packet losses, or the controller may
    /// learn too late that a block is used up.
    pub fn may_break(&self) -> bool {
        !self.disturbances.is_empty() || self.kinds.contains(&Kind::Switch)
    }
}

fn client(rng: &mut Rng, node: NodeId, kind: Kind) -> Client {
    let config = SequencerConfig {
        calls_max: 64,
        combine_max: *rng.pick(&[1, 3, 64]),
        requests_max: *rng.pick(&[1, 2, 16]),
    };
    Client {
        node,
        kind,
        config,
        at_once: rng.between(1, 24) as usize,
    }
}

fn config(rng: &mut Rng, clients: u64) -> RackConfig {
    let mut node = wrong::nodes(clients, "client", Role::Compute);
    let role = *rng.pick(&[Role::Memory, Role::Dpu]);
    node.push(NodeConfig::new("memory", role));
    node.push(NodeConfig::new("server", Role::Storage));
    let mut config = wrong::rack(rng, 64 << 20, node, &ODDS);
    config.switch.budget = *rng.pick(&[BudgetName::Tofino1, BudgetName::Tofino2]);
    if config.switch.budget == BudgetName::Tofino1 {
        config.switch.consumer_rings = 0;
        config.switch.producer_rings = 0;
    }
    config.switch.sequencers = 4;
    config.switch.icrc = *rng.pick(&[IcrcMethod::Update, IcrcMethod::Balance]);
    config
}

/// Most runs last hundreds of microseconds to a few milliseconds; early is as likely as late.
fn some_time(rng: &mut Rng) -> Instant {
    wrong::some_time(rng, 12, 21)
}

fn disturbances(
    rng: &mut Rng,
    kinds: &[Kind],
    clients: u64,
    memory: NodeId,
    server: NodeId,
) -> Vec<(Instant, Disturbance)> {
    let mut all = Vec::new();
    if kinds.contains(&Kind::Switch) && rng.chance(0.5) || rng.chance(0.1) {
        for _ in 0..rng.between(1, 4) {
            all.push((some_time(rng), Disturbance::RestartSwitch));
        }
    }
    let mut crash = |rng: &mut Rng, node: NodeId, returns: bool| {
        let at = some_time(rng);
        let reported_at = at + nanos(rng, 0, 500_000);
        all.push((at, Disturbance::Crash(node)));
        all.push((reported_at, Disturbance::Tell(node)));
        if returns {
            all.push((
                reported_at + nanos(rng, 0, 500_000),
                Disturbance::Return(node),
            ));
        }
    };
    if rng.chance(0.3) {
        for _ in 0..rng.between(1, 3) {
            let node = NodeId(rng.below(clients) as u16);
            let returns = rng.chance(0.6);
            crash(rng, node, returns);
        }
    }
    for (kind, node) in [(Kind::Memory, memory), (Kind::Server, server)] {
        if kinds.contains(&kind) && rng.chance(0.3) {
            crash(rng, node, true);
        }
    }
    if rng.chance(0.2) {
        let (cut, node) = (some_time(rng), NodeId(rng.below(clients + 2) as u16));
        let mended = cut + nanos(rng, 1000, 3_000_000);
        all.push((cut, Disturbance::CutCable(node)));
        all.push((mended, Disturbance::MendCable(node)));
    }
    all
}

impl fmt::Display for SequencerPlan {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let habits = &self.habits;
        write!(
            f,
            "{:?}; blocks of {}; {} calls each for up to {} numbers, pauses {}, timeout {}",
            self.kinds,
            self.block,
            habits.calls,
            habits.count_max,
            habits.pause_max,
            habits.timeout,
        )?;
        for client in &self.clients {
            let SequencerConfig {
                combine_max,
                requests_max,
                ..
            } = client.config;
            write!(
                f,
                "; {:?} on {:?}: {} at once, {combine_max} combined, {requests_max} requests",
                client.kind, client.node, client.at_once,
            )?;
        }
        let wrong = Wrong(&self.config.faults, &self.disturbances);
        write!(f, "; {wrong}")
    }
}
