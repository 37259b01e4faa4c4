//! The rack, the page store on it, and its users, as they follow from a seed. `disturb` plans the
//! faults.

use super::allocators::StorePlan;
use super::disturb::{self, Disturbance};
use crate::wrong::{self, Odds, Wrong};
use core::fmt;
use rackweave_base::{Duration, Instant, NodeId, Rng};
use rackweave_controller::{PageNode, PageStoreSpec};
use rackweave_rack::RackConfig;
use rackweave_rack::config::{IcrcMethod, NodeConfig, Role, SwitchSection};

/// A rack, its pages, their users, and the faults.
#[derive(Clone)]
pub(super) struct PagesPlan {
    pub seed: u64,
    pub config: RackConfig,
    /// Nodes with buffer frames that read and change pages: the first ones.
    pub nodes: Vec<PageNode>,
    /// A node that requests what it must not get.
    pub rogue: Option<PageNode>,
    pub store: PageStoreSpec,
    /// The second store, whose pages are allocated, if the seed has one.
    pub second: Option<StorePlan>,
    /// The node with the entries of pages that the switch does not index.
    pub server: Option<NodeId>,
    /// The node that takes its place.
    pub standby: Option<NodeId>,
    pub indexing: Indexing,
    pub habits: Habits,
    /// The differences of the page stores from the defaults.
    pub checksums: bool,
    pub evict_batch: u32,
    /// How often pages are verified before they are leased, if they are.
    pub lease_after: Option<u8>,
    /// How long a component that has to answer may be unavailable.
    pub patience: Duration,
    /// By how many queries the nodes' logs lag behind, if there are logs.
    pub log_lag: Option<u64>,
    pub disturbances: Vec<(Instant, Disturbance)>,
}

/// Which pages the switch indexes.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Indexing {
    All,
    /// All entries are in the memory server.
    None,
    /// This many from the beginning, then those that are requested often; others are evicted.
    Hot(u64),
}

/// What workers do.
#[derive(Clone, Copy, Debug)]
pub(super) struct Habits {
    /// Fixes of one worker.
    pub fixes: u32,
    /// Maximum concurrent fixes and guards of one worker.
    pub at_once: usize,
    /// The share of exclusive fixes.
    pub write_share: f64,
    /// The share of those that change the page.
    pub change_share: f64,
    /// The share of fixes of the first pages, and how many pages those are.
    pub hot_share: f64,
    pub hot_pages: u64,
    /// Maximum time for which a page stays fixed.
    pub hold_max: Duration,
    /// Maximum rest of a worker after a fix.
    pub pause_max: Duration,
    /// Probability that all changes are written home after a fix.
    pub flush_chance: f64,
    /// Probability that a reader validates that its version is still the newest.
    pub validate_chance: f64,
    pub prefetch_chance: f64,
}

/// Maximum bytes of a node's buffer frames, and of all pages.
const POOL_BYTES: u64 = 1 << 20;
const STORE_BYTES: u64 = 4 << 20;

/// The patience of pools that do not outlast every stall.
const IMPATIENT: Duration = Duration::from_millis(25);

/// Time until a switch gives up a target that has given up on a node, and all is repaired.
const LOST_TARGET: Duration = Duration::from_secs(6);

/// Maximum number of nodes with buffer frames, including the rogue.
const NODES_MAX: u64 = 4;

pub(super) const BLOCK: u32 = 4096;

/// Odds of packet faults.
const ODDS: Odds = Odds {
    share: 0.5,
    rate_max: 0.02,
    delays_us: &[1, 5, 50, 500],
};

/// The sizes of the switch's directory, for so many pages and the nodes that ask.
fn size_directory(
    switch: &mut SwitchSection,
    rng: &mut Rng,
    asking: &[&PageNode],
    indexing: Indexing,
    pages: u64,
) {
    switch.page_workers = asking.iter().map(|node| node.workers).sum();
    switch.page_slots = asking.iter().map(|node| node.workers * node.slots).sum();
    switch.page_entries = match indexing {
        Indexing::All => pages as u32,
        Indexing::None => 1,
        Indexing::Hot(first) => rng.between(first.max(1), pages) as u32,
    };
    switch.page_promote_at = match indexing {
        Indexing::Hot(_) => rng.between(2, 12) as u32,
        _ => 0,
    };
}

impl PagesPlan {
    pub fn new(seed: u64) -> Self {
        let mut rng = Rng::new(seed ^ 0x7061_6765_7300);
        let page_size: u32 = 4096 << *rng.pick(&[0, 0, 0, 1, 2, 4]);
        let pages = rng.between(4, 96).min(STORE_BYTES / u64::from(page_size));
        let mut nodes = nodes(&mut rng, page_size, pages);
        let rogue = rng.chance(0.3).then_some(PageNode {
            node: NodeId(nodes.len() as u16),
            frames: 4,
            workers: 1,
            slots: 1,
        });
        let others = nodes.len() + usize::from(rogue.is_some());
        let storage = NodeId(others as u16);
        let indexing = match rng.below(4) {
            0 => Indexing::None,
            1 => Indexing::Hot(rng.between(0, pages / 2)),
            _ => Indexing::All,
        };
        let has_server = indexing != Indexing::All || rng.chance(0.5);
        let server = has_server.then(|| NodeId(storage.0 + 1));
        let habits = habits(&mut rng, &nodes, pages);
        // Another one stands by in case it crashes.
        let standby = server.map(|server| NodeId(server.0 + 1));
        let mut config = config(&mut rng, others, server.is_some());
        // The second store draws from a generator of its own, so that a seed without it keeps its
        // run.
        let mut own = Rng::new(seed).fork("allocators");
        let second = StorePlan::draw(&mut own, page_size).map(|it| mixed(seed, it));
        second.inspect(|it| it.enlarge(&mut nodes, page_size));
        let asking: Vec<_> = nodes.iter().chain(&rogue).collect();
        let switch = &mut config.switch;
        switch.page_size = second.map_or(page_size, |it| it.page_size.min(page_size));
        size_directory(switch, &mut rng, &asking, indexing, pages);
        let (checksums, evict_batch) = (rng.chance(0.7), rng.between(1, 4) as u32);
        let mut disturbances = disturb::plan(&mut rng, &nodes, storage, server, indexing, pages);
        if let Some(second) = &second {
            switch.page_stores = 2;
            switch.page_entries += second.indexed(&mut own, indexing);
            StorePlan::disturb(&mut own, &nodes, pages, server.is_some(), &mut disturbances);
        }
        let mut rng = rng.fork("device");
        let device = disturb::device(&mut rng, pages, u64::from(page_size / BLOCK), checksums);
        let stalls = device
            .iter()
            .any(|(_, it)| matches!(it, Disturbance::Stall(_)));
        disturbances.extend(device);
        Self {
            seed,
            config,
            rogue,
            store: PageStoreSpec {
                target: storage,
                nsid: 1,
                block_size: BLOCK,
                page_size,
                pages,
            },
            second,
            server,
            standby,
            indexing,
            habits,
            checksums,
            evict_batch,
            patience: match stalls && rng.chance(0.5) {
                true => IMPATIENT,
                false => Duration::from_secs(5),
            },
            log_lag: rng.chance(0.4).then(|| rng.below(4)),
            lease_after: lease_after(seed),
            nodes,
            disturbances,
        }
    }

    /// Bytes of each store's pages.
    pub fn page_sizes(&self) -> impl Iterator<Item = u32> {
        let second = self.second.map(|second| second.page_size);
        [self.store.page_size].into_iter().chain(second)
    }

    /// Whether the power fails.
    pub fn cuts_power(&self) -> bool {
        let mut all = self.disturbances.iter();
        all.any(|(_, disturbance)| *disturbance == Disturbance::CutPower)
    }

    /// How long the device answers nothing, or its answers do not arrive, in total: a switch that
    /// has lost the connection between a node and a target grants that target 5 s.
    pub fn stalls(&self) -> Duration {
        let disturbances = self.disturbances.iter();
        disturbances.fold(Duration::ZERO, |sum, (_, disturbance)| match disturbance {
            Disturbance::Stall(lasts) => sum + *lasts,
            Disturbance::LongCut(_) => sum + LOST_TARGET,
            _ => sum,
        })
    }

    /// Whether pools wait for less time than a run may take.
    pub fn is_impatient(&self) -> bool {
        self.patience <= IMPATIENT
    }

    /// The specifications of the stores, by number.
    pub fn stores(&self) -> Vec<PageStoreSpec> {
        let second = self.second.map(|second| second.spec(self.store.target));
        [self.store].into_iter().chain(second).collect()
    }

    /// Number of a node's workers that use the first store: the first ones.
    pub fn browsers(&self) -> usize {
        usize::from(self.nodes[0].workers) - usize::from(self.second.is_some())
    }

    /// Whether the target writes everything twice. The double-write area takes space that a full
    /// device does not have.
    pub fn double_writes(&self) -> bool {
        let mut all = self.disturbances.iter();
        let is_full = all.any(|(_, disturbance)| matches!(disturbance, Disturbance::Fill(_)));
        let mut rng = Rng::new(self.seed).fork("double writes");
        self.cuts_power() || !is_full && rng.chance(0.3)
    }

    /// Whether the store is open to the rogue.
    pub fn is_open_to_rogue(&self) -> bool {
        Rng::new(self.seed).fork("member").chance(0.5)
    }

    /// Pages that the switch indexes from the beginning.
    pub fn indexed(&self) -> u64 {
        match self.indexing {
            Indexing::All => self.stores().iter().map(|store| store.pages).sum(),
            Indexing::None => 0,
            Indexing::Hot(first) => first,
        }
    }
}

/// Draws from a generator of its own, so that a seed without leases keeps its run.
fn lease_after(seed: u64) -> Option<u8> {
    let mut rng = Rng::new(seed).fork("leases");
    *rng.pick(&[None, None, Some(0), Some(0), Some(1), Some(4)])
}

/// The second store with pages of a size that the first has not, in some seeds.
fn mixed(seed: u64, second: StorePlan) -> StorePlan {
    let mut rng = Rng::new(seed).fork("page sizes");
    let size = second.page_size;
    let other = *rng.pick(&[size, size, size << 1, size << 2, (size >> 1).max(BLOCK)]);
    match other == size {
        true => second,
        false => second.with_page_size(other),
    }
}

fn nodes(rng: &mut Rng, page_size: u32, pages: u64) -> Vec<PageNode> {
    let count = rng.between(2, NODES_MAX - 1);
    let most = POOL_BYTES / u64::from(page_size);
    // Much smaller than the data, or larger than it.
    let frames = match rng.below(3) {
        0 => rng.between(6, 12),
        1 => rng.between(6, 6.max(pages / 2)),
        _ => pages + rng.between(6, 16),
    };
    let shape = PageNode {
        node: NodeId(0),
        frames: frames.min(most) as u32,
        workers: rng.between(1, 3) as u16,
        slots: rng.between(1, 6) as u16,
    };
    let node = |node: u64| PageNode {
        node: NodeId(node as u16),
        ..shape
    };
    (0..count).map(node).collect()
}

fn habits(rng: &mut Rng, nodes: &[PageNode], pages: u64) -> Habits {
    let workers = u64::from(nodes[0].workers);
    // The guards of all workers must leave buffer frames for new pages.
    let at_once = (u64::from(nodes[0].frames) / 2 / workers).clamp(1, 6);
    let micros = |value: u64| Duration::from_micros(value);
    Habits {
        fixes: rng.between(10, 240 / workers) as u32 / nodes.len() as u32 * 2,
        at_once: rng.between(1, at_once) as usize,
        write_share: *rng.pick(&[0.0, 0.05, 0.2, 0.5, 0.5, 0.9]),
        change_share: *rng.pick(&[0.3, 0.8, 1.0]),
        hot_share: *rng.pick(&[0.0, 0.5, 0.8, 0.95]),
        hot_pages: rng.between(1, 8).min(pages),
        hold_max: *rng.pick(&[micros(1), micros(3), micros(10), micros(60)]),
        pause_max: *rng.pick(&[micros(1), micros(5), micros(30)]),
        flush_chance: *rng.pick(&[0.0, 0.0, 0.01, 0.05, 0.3]),
        validate_chance: *rng.pick(&[0.0, 0.2]),
        prefetch_chance: *rng.pick(&[0.0, 0.0, 0.2]),
    }
}

fn config(rng: &mut Rng, asking: usize, has_server: bool) -> RackConfig {
    let mut node = wrong::nodes(asking as u64, "node", Role::Compute);
    node.push(NodeConfig::new("storage", Role::Storage));
    if has_server {
        node.push(NodeConfig::new("memory", Role::Memory));
        node.push(NodeConfig::new("standby", Role::Memory));
    }
    let mut config = wrong::rack(rng, 128 << 20, node, &ODDS);
    config.switch.consumer_rings = 0;
    config.switch.producer_rings = 0;
    config.switch.icrc = *rng.pick(&[IcrcMethod::Update, IcrcMethod::Balance]);
    config.nic.congestion_control = rng.chance(0.2);
    config.transfer.acknowledge_every = *rng.pick(&[1, 4, 32]);
    config
}

impl fmt::Display for PagesPlan {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (node, habits) = (&self.nodes[0], &self.habits);
        write!(
            f,
            "{} nodes of {} workers with {} slots and {} buffer frames of {} bytes; {} pages, \
             indexed {:?} of {}{}{}; {} fixes each, {} at once, {:.2} exclusive, {:.2} hot of {}, \
             held {}, pauses {}",
            self.nodes.len(),
            node.workers,
            node.slots,
            node.frames,
            self.store.page_size,
            self.store.pages,
            self.indexing,
            self.config.switch.page_entries,
            if self.checksums { ", checksums" } else { "" },
            match self.rogue {
                Some(_) if self.is_open_to_rogue() => ", a rogue",
                Some(_) => ", a rogue from outside",
                None => "",
            },
            habits.fixes,
            habits.at_once,
            habits.write_share,
            habits.hot_share,
            habits.hot_pages,
            habits.hold_max,
            habits.pause_max,
        )?;
        if let Some(second) = &self.second {
            write!(f, "{second}")?;
        }
        if let Some(times) = self.lease_after {
            write!(f, "; leases after {times} verifications")?;
        }
        let wrong = Wrong(&self.config.faults, &self.disturbances);
        write!(f, "; {wrong}")
    }
}
