//! What a run is asked to be, and what follows from it: the rack, its pools, the size of the store.

use super::error::PagesError;
use super::heap::Heap;
use rackweave_base::{Instant, NodeId};
use rackweave_controller::PageNode;
use rackweave_rack::config::{BudgetName, NodeConfig, Role};
use rackweave_rack::services::{PageOptions, PageService, Prepare, StoreMedium};
use rackweave_rack::{Rack, RackConfig};
use rackweave_target::Backend;
use rackweave_wire::fabric::page::request::{FRAMES_MAX, SLOTS_MAX};
use rackweave_workload::ycsb::{PoissonSchedule, YcsbOptions};

/// Entries of the switch's page table: what the paper's program has room for (Seamless,
/// section 3).
pub const INDEXED_MAX: u64 = 280_000;

/// Bytes of a logical block of the store's namespace.
pub const BLOCK: u32 = 4096;

/// Buffer frames of a pool beside those that its operations may hold at a time.
const FRAMES_SPARE: u64 = 4;

/// A run of YCSB over pages.
#[derive(Clone, PartialEq, Debug)]
pub struct PagesOptions {
    /// The workload.
    pub ycsb: YcsbOptions,
    /// Bytes of a page.
    pub page_size: u32,
    /// Bytes of each compute node's buffer frames.
    pub buffer_bytes: u64,
    /// Worker threads of each compute node.
    pub threads: u16,
    /// Operations of each thread under way at a time.
    pub depth: u16,
    /// Pages that the switch indexes; none: all that fit.
    pub indexed: Option<u64>,
    /// Operations per second of all threads together, at times of a Poisson process; none: each
    /// operation begins when another has ended.
    pub rate: Option<f64>,
}

/// The nodes of a rack as a run uses them.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Nodes {
    /// Those with buffer frames and workers.
    pub compute: Vec<NodeId>,
    /// The one with the NVMe target.
    pub storage: NodeId,
    /// The one whose memory has the entries of pages that the switch does not index.
    pub memory: Option<NodeId>,
}

impl Default for PagesOptions {
    fn default() -> Self {
        Self {
            ycsb: YcsbOptions::default(),
            page_size: 64 << 10,
            buffer_bytes: 16 << 20,
            threads: 1,
            depth: 8,
            indexed: None,
            rate: None,
        }
    }
}

impl PagesOptions {
    /// Looks whether this can be run.
    ///
    /// # Errors
    /// The first option that is out of range.
    pub fn check(&self) -> Result<(), PagesError> {
        self.ycsb.validate()?;
        let slots = u64::from(SLOTS_MAX) - BACKGROUND_SLOTS;
        let out = |what, number: u64, range| PagesError::OutOfRange {
            what,
            number,
            range,
        };
        if self.threads == 0 || self.threads > 64 {
            let range = "1 to 64 per node are possible";
            return Err(out("the number of threads", self.threads.into(), range));
        }
        if self.depth == 0 || u64::from(self.depth) > slots {
            let range = "1 to 248 are possible";
            return Err(out("the queue depth", self.depth.into(), range));
        }
        if !rackweave_wire::fabric::page::is_page_size(self.page_size) {
            let range = "a power of two from 4096 to 1048576 is possible";
            return Err(out("the page size", self.page_size.into(), range));
        }
        let frames = self.buffer_bytes / u64::from(self.page_size);
        let frames_min = u64::from(self.threads) * u64::from(self.depth) + FRAMES_SPARE;
        if !(frames_min..=u64::from(FRAMES_MAX)).contains(&frames) {
            return Err(PagesError::Buffer {
                bytes: self.buffer_bytes,
                frames,
                page_size: self.page_size,
                min: frames_min,
                max: FRAMES_MAX.into(),
            });
        }
        if let Some(rate) = self.rate {
            PoissonSchedule::new(0, 0, rate, Instant::ZERO)?;
        }
        Heap::layout(self).map(|_| ())
    }

    /// Buffer frames of each compute node.
    pub fn frames(&self) -> u32 {
        (self.buffer_bytes / u64::from(self.page_size)) as u32
    }

    /// Requests of one worker to the directory that may be under way: one for each operation, and
    /// some for what happens behind them.
    pub fn slots(&self) -> u16 {
        (u64::from(self.depth) * 2 + BACKGROUND_SLOTS).min(SLOTS_MAX.into()) as u16
    }

    /// Pages of `pages` that the switch indexes.
    pub fn indexed(&self, pages: u64) -> u64 {
        self.indexed.unwrap_or(INDEXED_MAX).min(pages)
    }

    /// `config`, with room for a store of `pages` pages.
    ///
    /// # Errors
    /// If pages that the switch does not index have no server.
    pub fn rack(
        &self,
        config: &RackConfig,
        nodes: &Nodes,
        pages: u64,
    ) -> Result<RackConfig, PagesError> {
        let indexed = self.indexed(pages);
        if nodes.memory.is_none() && indexed < pages {
            return Err(PagesError::NoFallback { indexed, pages });
        }
        let mut config = config.clone();
        let workers = nodes.compute.len() as u64 * u64::from(self.threads);
        let slots = workers * u64::from(self.slots());
        // The page directory and the flows do not fit a hardware switch together.
        if config.switch.budget != BudgetName::Software {
            config.switch.consumer_rings = 0;
            config.switch.producer_rings = 0;
        }
        config.switch.page_size = self.page_size;
        // A directory without entries is none.
        config.switch.page_entries = indexed.clamp(1, 1 << 24) as u32;
        let at_least = |setting: &mut u16, needed: u64| {
            *setting = (*setting).max(needed.min(u16::MAX.into()) as u16);
        };
        at_least(&mut config.switch.page_workers, workers);
        at_least(&mut config.switch.page_slots, slots);
        let lanes = nodes.compute.len() as u64 * (8 + u64::from(self.threads)) + slots * 4 + 64;
        at_least(&mut config.switch.lanes, lanes.min(1 << 14));
        let needs = nodes.compute.len() as u64 * self.buffer_bytes
            + TARGET_BUFFERS * u64::from(self.page_size)
            + pages * ENTRY_BYTES
            + (64 << 20);
        config.memory_limit = config.memory_limit.max(needs);
        let pairs = (slots * 2 + 256).min(u32::MAX.into()) as u32;
        config.nic.queue_pairs = config.nic.queue_pairs.max(pairs);
        config.nic.completion_queues = config.nic.completion_queues.max(pairs / 2);
        config.nic.regions = config.nic.regions.max(pairs);
        Ok(config)
    }
}

/// Slots of a worker for latches given back and pages written.
const BACKGROUND_SLOTS: u64 = 8;
/// Pages that the target has in memory at a time.
const TARGET_BUFFERS: u64 = 128;
/// Bytes of an entry in a memory server.
const ENTRY_BYTES: u64 = 16;

impl Nodes {
    /// A rack's nodes for `compute` compute nodes.
    pub fn configs(compute: u16) -> Vec<NodeConfig> {
        let mut nodes: Vec<_> = (0..compute)
            .map(|at| NodeConfig::new(format!("compute{at}"), Role::Compute))
            .collect();
        nodes.push(NodeConfig::new("storage0", Role::Storage));
        nodes.push(NodeConfig::new("memory0", Role::Memory));
        nodes
    }

    /// The nodes of a configuration: all compute nodes, the first storage node, the first memory
    /// node if there is one. Nothing if there is no compute or storage node.
    pub fn of(config: &RackConfig) -> Option<Self> {
        let compute = config.nodes_of(Role::Compute);
        let storage = *config.nodes_of(Role::Storage).first()?;
        let memory = config.nodes_of(Role::Memory).first().copied();
        (!compute.is_empty()).then_some(Self {
            compute,
            storage,
            memory,
        })
    }

    /// The pages of a rack that is large enough, with a store in `backend` that nobody has
    /// opened.
    pub(super) fn pages(
        &self,
        rack: &Rack,
        options: &PagesOptions,
        backend: Box<dyn Backend>,
    ) -> Result<PageService, PagesError> {
        let page_size = rack.config().switch.page_size;
        if page_size != options.page_size {
            return Err(PagesError::OtherPageSize {
                rack: page_size,
                asked: options.page_size,
            });
        }
        let pages = backend.blocks() / u64::from(page_size / backend.block_size()).max(1);
        let node = |&node: &NodeId| PageNode {
            node,
            frames: options.frames(),
            workers: options.threads,
            slots: options.slots(),
        };
        let wanted = PageOptions {
            nodes: self.compute.iter().map(node).collect(),
            indexed: Some(options.indexed(pages)),
            fallback: self.memory,
            prepare: Prepare::Leave,
            ..PageOptions::default()
        };
        let store = StoreMedium {
            name: "ycsb".into(),
            node: self.storage,
            backend,
        };
        Ok(PageService::with_stores(rack, &wanted, vec![store])?)
    }
}
