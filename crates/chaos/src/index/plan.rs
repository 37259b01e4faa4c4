//! The rack, the index on it, and its users, as they follow from a seed. `disturb` plans the
//! faults.

use super::disturb::{self, Disturbance};
use super::switches::{self, Switches};
use crate::IndexAccess;
use crate::wrong::{self, Odds, Wrong};
use core::fmt;
use rackweave_base::{Duration, Instant, NodeId, Rng};
use rackweave_controller::connect::PairAttributes;
use rackweave_endpoint::btree::TreeConfig;
use rackweave_rack::RackConfig;
use rackweave_rack::config::{NodeConfig, Role};
use rackweave_verbs::Mtu;

/// A rack, the index on it, its users, and the faults.
#[derive(Clone)]
pub(super) struct IndexPlan {
    pub seed: u64,
    pub config: RackConfig,
    /// Nodes with clients: the first ones.
    pub compute: Vec<NodeId>,
    /// Nodes with a part of the index, by endpoint: a host, its DPU, sometimes another host.
    pub endpoints: Vec<NodeId>,
    pub clients: Vec<ClientPlan>,
    /// Programs on the cores of each endpoint that access its part directly.
    pub locals: u64,
    pub keys: Keys,
    /// The initial boundaries between the endpoints' ranges.
    pub boundaries: Vec<u64>,
    pub tree: TreeConfig,
    pub values: Values,
    /// Whether the coordinator moves boundaries on its own.
    pub rebalances: bool,
    /// The share of keys that exist from the beginning.
    pub loaded: f64,
    pub habits: Habits,
    pub pair: PairAttributes,
    /// Time after which a client gives up a request.
    pub patience: Duration,
    pub disturbances: Vec<(Instant, Disturbance)>,
    /// The index in the network, if the run has one.
    pub network: Option<Switches>,
    /// Whether endpoints have replicas.
    pub replicas: bool,
}

/// A client.
#[derive(Clone, Copy, Debug)]
pub(super) struct ClientPlan {
    pub node: NodeId,
    pub access: IndexAccess,
    /// Bytes of inner tree nodes that it caches; zero for none.
    pub cache_bytes: u64,
}

/// Keys, evenly spread.
#[derive(Clone, Copy, Debug)]
pub(super) struct Keys {
    pub count: u64,
    pub first: u64,
    pub stride: u64,
}

/// Lengths of values.
#[derive(Clone, Copy, Debug)]
pub(super) struct Values {
    /// The share that is stored in the tree node itself: values of eight bytes.
    pub inline_share: f64,
    /// Minimum bytes of the others.
    pub least: u32,
    pub most: u32,
}

/// What the users of the index do.
#[derive(Clone, Copy, Debug)]
pub(super) struct Habits {
    /// Operations of one user, and how many it has pending at a time.
    pub operations: u32,
    pub at_once: usize,
    pub pause_max: Duration,
    /// Relative weights of get, insert, update, put, delete and scan.
    pub weights: [u64; 6],
    /// The share of operations on the first keys, and how many keys those are.
    pub hot_share: f64,
    pub hot_keys: u64,
    /// The share of changes that sweep over the keys in order, alternately inserting and deleting,
    /// so that tree nodes fill and become empty.
    pub sweep_share: f64,
    pub sweep_keys: u64,
    /// Maximum number of keys within the range of a scan, and of keys that it requests.
    pub scan_keys: u64,
    pub scan_limit: u32,
}

const COMPUTE_MAX: u64 = 3;

/// Odds of packet faults.
const ODDS: Odds = Odds {
    share: 0.4,
    rate_max: 0.02,
    delays_us: &[1, 5, 50],
};

impl IndexPlan {
    pub fn new(seed: u64, access: Option<IndexAccess>) -> Self {
        let mut rng = Rng::new(seed ^ 0x696e_6465_7800);
        let compute: Vec<_> = (0..rng.between(1, COMPUTE_MAX) as u16)
            .map(NodeId)
            .collect();
        let hosts = compute.len() as u16;
        let endpoints: Vec<_> = (0..*rng.pick(&[1, 2, 2, 2, 3]))
            .map(|at| NodeId(hosts + at))
            .collect();
        let keys = keys(&mut rng);
        let values = values(&mut rng);
        let clients = clients(&mut rng, &compute, access);
        let locals = *rng.pick(&[0, 0, 1, 2]);
        let sizes = [512, 512, 512, 1024, 2048, 4096];
        let tree = tree(&mut rng, keys, values, &sizes);
        let mut boundaries: Vec<u64> = (1..endpoints.len())
            .map(|_| keys.key(rng.below(keys.count)))
            .collect();
        boundaries.sort_unstable();
        let users = clients.len() as u64 + locals * endpoints.len() as u64;
        let habits = habits(&mut rng, keys, users);
        let config = config(&mut rng, compute.len(), endpoints.len());
        let pair = PairAttributes {
            mtu: *rng.pick(&[Mtu::B512, Mtu::B1024, Mtu::B4096]),
            timeout: Duration::from_micros(*rng.pick(&[100, 200, 400])),
            ..PairAttributes::default()
        };
        let disturbances = disturb::plan(&mut rng, &compute, &endpoints);
        let mut plan = Self {
            seed,
            config,
            compute,
            endpoints,
            clients,
            locals,
            keys,
            boundaries,
            tree,
            values,
            rebalances: rng.chance(0.3),
            loaded: *rng.pick(&[0.0, 0.5, 0.9, 1.0]),
            habits,
            pair,
            patience: Duration::from_millis(*rng.pick(&[1, 5, 20])),
            disturbances,
            network: None,
            replicas: false,
        };
        // Of its own, so that earlier seeds draw what they drew.
        let mut rng = Rng::new(seed).fork("replicas");
        plan.replicas = plan.endpoints.len() > 1 && rng.chance(0.4);
        if plan.replicas && rng.chance(0.5) {
            disturb::add_stops(&mut rng, &mut plan.disturbances, plan.endpoints.len());
        }
        Switches::enter(&mut plan, access);
        plan
    }
}

impl Keys {
    pub fn key(self, index: u64) -> u64 {
        self.first + index * self.stride
    }
}

impl Values {
    pub fn len(self, rng: &mut Rng) -> usize {
        if rng.chance(self.inline_share) {
            8
        } else {
            rng.between(self.least.into(), self.most.into()) as usize
        }
    }
}

fn keys(rng: &mut Rng) -> Keys {
    let count = *rng.pick(&[8, 40, 100, 200, 400]);
    // Adjacent; spaced; over the whole key space, both ends included.
    let (first, stride) = match rng.below(3) {
        0 => (rng.below(1000), 1),
        1 => (rng.below(1000), 1 + rng.below(1 << 40)),
        _ => (0, u64::MAX / (count - 1)),
    };
    let last = first + (count - 1) * stride;
    let first = if stride > 1 << 50 {
        first + (u64::MAX - last)
    } else {
        first
    };
    Keys {
        count,
        first,
        stride,
    }
}

fn values(rng: &mut Rng) -> Values {
    let (least, most) = *rng.pick(&[(9, 24), (16, 100), (200, 300), (9, 1000)]);
    Values {
        inline_share: *rng.pick(&[1.0, 0.7, 0.3, 0.0]),
        least,
        most,
    }
}

fn clients(rng: &mut Rng, compute: &[NodeId], access: Option<IndexAccess>) -> Vec<ClientPlan> {
    let mut clients = Vec::new();
    for &node in compute {
        for _ in 0..rng.between(1, 2) {
            let drawn = *rng.pick(&[
                IndexAccess::Rpc,
                IndexAccess::OneSided,
                IndexAccess::OneSided,
            ]);
            let cache_bytes = *rng.pick(&[0, 1024, 1 << 16]);
            clients.push(ClientPlan {
                node,
                access: access.unwrap_or(drawn),
                cache_bytes,
            });
        }
    }
    clients
}

/// A tree with space for all keys and little more: freed memory is soon reused.
pub(super) fn tree(rng: &mut Rng, keys: Keys, values: Values, sizes: &[u32]) -> TreeConfig {
    let node_size = *rng.pick(sizes);
    let all_inline = values.inline_share >= 1.0;
    let longest = if all_inline { 8 } else { values.most };
    let ample = TreeConfig::for_keys(keys.count, node_size, longest);
    let record = u64::from(longest).next_multiple_of(64) + 64;
    let spare = *rng.pick(&[8, 32, 256]);
    let heap_bytes = match all_inline {
        true => 0,
        false => (keys.count * 2 + spare) * record * 2,
    };
    TreeConfig {
        tree_nodes: ample.tree_nodes + rng.below(8) as u32,
        heap_bytes,
        ..ample
    }
}

fn habits(rng: &mut Rng, keys: Keys, users: u64) -> Habits {
    let weights = match rng.below(5) {
        0 => [6, 1, 1, 1, 1, 0],
        1 => [2, 2, 1, 1, 2, 1],
        2 => [4, 1, 4, 2, 1, 1],
        3 => [1, 3, 0, 3, 5, 1],
        _ => [3, 2, 1, 2, 2, 4],
    };
    let hot_share = *rng.pick(&[0.0, 0.3, 0.8]);
    let users = users.max(1);
    // With this many operations on one key at a time the history can still be judged.
    let narrow = keys.count <= 8 || hot_share > 0.0;
    let at_once_max = if narrow { 16 / users } else { 64 / users };
    Habits {
        operations: (rng.between(100, 1500) / users).max(20) as u32,
        at_once: (*rng.pick(&[1, 2, 4, 8])).min(at_once_max.max(1)) as usize,
        pause_max: Duration::from_nanos(*rng.pick(&[1, 500, 5_000, 20_000])),
        weights,
        hot_share,
        hot_keys: rng.between(1, 8).min(keys.count),
        sweep_share: *rng.pick(&[0.0, 0.5, 0.95]),
        sweep_keys: rng.between(1, keys.count),
        scan_keys: *rng.pick(&[4, 30, 1000]),
        scan_limit: *rng.pick(&[3, 50, 100_000]),
    }
}

fn config(rng: &mut Rng, compute: usize, endpoints: usize) -> RackConfig {
    let mut node = wrong::nodes(compute as u64, "compute", Role::Compute);
    for at in 0..endpoints {
        node.push(match at {
            1 => NodeConfig::new("dpu", Role::Dpu),
            _ => NodeConfig::new(format!("storage{at}"), Role::Storage),
        });
    }
    let mut config = wrong::rack(rng, 128 << 20, node, &ODDS);
    config.nic.congestion_control = rng.chance(0.2);
    config
}

impl fmt::Display for IndexPlan {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (keys, values, habits) = (&self.keys, &self.values, &self.habits);
        write!(
            f,
            "{} endpoints with tree nodes of {} bytes, {} of them, heap {}; {} keys from {:#x} in \
             steps of {:#x}, {:.1} loaded; values: {:.1} inline, others {} to {} bytes; boundaries \
             {:x?}; ",
            self.endpoints.len(),
            self.tree.node_size,
            self.tree.tree_nodes,
            self.tree.heap_bytes,
            keys.count,
            keys.first,
            keys.stride,
            self.loaded,
            values.inline_share,
            values.least,
            values.most,
            self.boundaries,
        )?;
        for client in &self.clients {
            let ClientPlan {
                node,
                access,
                cache_bytes,
            } = client;
            let access = access.name();
            write!(f, "client on {node:?} by {access}, cache {cache_bytes}; ")?;
        }
        write!(
            f,
            "{} local on each{}; {} operations each, {} at once, pauses {}, weights {:?}, {:.1} \
             hot of {}, {:.2} in sweeps of {}, scans of {} and {}; {:?}, timeout {}, patience {}",
            self.locals,
            if self.rebalances { ", rebalanced" } else { "" },
            habits.operations,
            habits.at_once,
            habits.pause_max,
            habits.weights,
            habits.hot_share,
            habits.hot_keys,
            habits.sweep_share,
            habits.sweep_keys,
            habits.scan_keys,
            habits.scan_limit,
            self.pair.mtu,
            self.pair.timeout,
            self.patience,
        )?;
        if let Some(network) = &self.network {
            switches::describe(f, network, &self.config)?;
            write!(f, ", at most {} children", self.tree.fan_out)?;
        }
        if self.replicas {
            write!(f, "; with replicas")?;
        }
        let wrong = Wrong(&self.config.faults, &self.disturbances);
        write!(f, "; {wrong}")
    }
}
