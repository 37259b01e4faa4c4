//! The options of a run, and what follows from them: the rack, its pools, the size of the store.

use super::heap::Heap;
use crate::ycsb::prelude::*;
use rackweave_controller::PageNode;
use rackweave_controller::ask::PageSpecOf;
use rackweave_rack::services::{PageOptions, PageServiceError, Prepare, StoreMedium};
use rackweave_target::Backend;
use rackweave_wire::fabric::page::request::{FRAMES_MAX, SLOTS_MAX};

/// Entries of the switch's page table: the capacity of the paper's program (Seamless, section 3).
pub const INDEXED_MAX: u64 = 280_000;

/// Bytes of a logical block of the store's namespace.
pub const BLOCK: u32 = 4096;

/// Buffer frames of a pool beyond those that its operations may hold at a time.
const FRAMES_SPARE: u64 = 4;

/// A run of YCSB over pages.
#[derive(Clone, PartialEq, Debug)]
pub struct PagesOptions {
    /// The operations, by threads of each compute node.
    pub load: Load,
    /// Bytes of a page.
    pub page_size: u32,
    /// Bytes of each compute node's buffer frames.
    pub buffer_bytes: u64,
    /// Pages that the switch indexes; none: all that fit.
    pub indexed: Option<u64>,
    /// After how many verifications nodes get leases on a page, in real time; in virtual time they
    /// get none.
    pub lease_after: Option<u8>,
    /// Whether the store is the rack's, which may have pages of other programs: the run only
    /// allocates pages, and frees them at its end.
    pub shared: bool,
    /// Whether the medium has a store that is to be reused.
    pub reuse: bool,
    /// The required number of records of a reused store, if any.
    pub records_there: Option<u64>,
}

impl Default for PagesOptions {
    fn default() -> Self {
        Self {
            load: Load::default(),
            page_size: 64 << 10,
            buffer_bytes: 16 << 20,
            indexed: None,
            lease_after: PageOptions::default().lease_after,
            shared: false,
            reuse: false,
            records_there: None,
        }
    }
}

impl PagesOptions {
    /// Checks that this can be run.
    ///
    /// # Errors
    /// The first option that is out of range.
    pub fn check(&self) -> Result<()> {
        let depth_max = u64::from(SLOTS_MAX) - BACKGROUND_SLOTS;
        self.load.check(depth_max, "1 to 248 are possible")?;
        if !rackweave_wire::fabric::page::is_page_size(self.page_size) {
            return Err(YcsbError::OutOfRange {
                what: "the page size",
                number: self.page_size.into(),
                range: "a power of two from 4096 to 1048576 is possible",
            });
        }
        let frames = self.buffer_bytes / u64::from(self.page_size);
        let min = u64::from(self.load.threads) * u64::from(self.load.depth) + FRAMES_SPARE;
        let max = FRAMES_MAX.into();
        if !(min..=max).contains(&frames) {
            return Err(YcsbError::Buffer {
                bytes: self.buffer_bytes,
                frames,
                page_size: self.page_size,
                min,
                max,
            });
        }
        Heap::layout(self).map(|_| ())
    }

    /// Buffer frames of each compute node.
    pub fn frames(&self) -> u32 {
        (self.buffer_bytes / u64::from(self.page_size)) as u32
    }

    /// Requests of one worker to the directory that may be pending: one for each operation, and
    /// some for background work.
    pub fn slots(&self) -> u16 {
        (u64::from(self.load.depth) * 2 + BACKGROUND_SLOTS).min(SLOTS_MAX.into()) as u16
    }

    /// Pages of `pages` that the switch indexes.
    pub fn indexed(&self, pages: u64) -> u64 {
        self.indexed.unwrap_or(INDEXED_MAX).min(pages)
    }

    /// `config`, enlarged for a store of `pages` pages.
    ///
    /// # Errors
    /// If pages that the switch does not index have no memory server.
    pub fn rack(&self, config: &RackConfig, nodes: &Nodes, pages: u64) -> Result<RackConfig> {
        let indexed = self.indexed(pages);
        if nodes.memory.is_none() && indexed < pages {
            return Err(YcsbError::NoFallback { indexed, pages });
        }
        let mut config = config.clone();
        let workers = nodes.compute.len() as u64 * u64::from(self.load.threads);
        let slots = workers * u64::from(self.slots());
        // A hardware switch cannot hold both the page directory and flows.
        if config.switch.budget != BudgetName::Software {
            config.switch.consumer_rings = 0;
            config.switch.producer_rings = 0;
        }
        // Stores of the configuration may have smaller pages.
        config.switch.page_size = config.switch.page_size.min(self.page_size);
        // A directory needs at least one entry.
        config.switch.page_entries = indexed.clamp(1, 1 << 24) as u32;
        let at_least = |setting: &mut u16, needed: u64| {
            *setting = (*setting).max(needed.min(u16::MAX.into()) as u16);
        };
        at_least(&mut config.switch.page_workers, workers);
        at_least(&mut config.switch.page_slots, slots);
        let lanes =
            nodes.compute.len() as u64 * (8 + u64::from(self.load.threads)) + slots * 4 + 64;
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

    /// The pages of a rack that is large enough, with a store in `backend` that is not open.
    pub(super) fn pages(
        &self,
        rack: &Rack,
        nodes: &Nodes,
        backend: Box<dyn Backend>,
    ) -> Result<PageService> {
        let (smallest, page_size) = (rack.config().switch.page_size, self.page_size);
        if smallest > page_size {
            return Err(YcsbError::OtherPageSize {
                rack: smallest,
                asked: page_size,
            });
        }
        let pages = backend.blocks() / u64::from(page_size / backend.block_size()).max(1);
        let node = |&node: &NodeId| PageNode {
            node,
            frames: self.frames() * (page_size / smallest),
            workers: self.load.threads,
            slots: self.slots(),
        };
        let wanted = PageOptions {
            nodes: nodes.compute.iter().map(node).collect(),
            indexed: Some(self.indexed(pages)),
            fallback: nodes.memory,
            prepare: Prepare::Leave,
            lease_after: self.lease_after,
            ..PageOptions::default()
        };
        let store = StoreMedium {
            name: "ycsb".into(),
            node: nodes.storage,
            backend,
            page_size: Some(page_size),
        };
        Ok(PageService::with_stores(rack, &wanted, vec![store])?)
    }
}

impl PagesOptions {
    /// The pages that a rack has, or gets now on the stores of its configuration, and these options
    /// as far as they allow: no more threads, operations and buffer frames than nodes have.
    ///
    /// # Errors
    /// If the rack has no page directory, or no frames for the nodes.
    pub fn of_rack(mut self, rack: &Rack, nodes: &Nodes) -> Result<(Self, PageService)> {
        let (config, roles) = (rack.config(), [Role::Compute, Role::Guest]);
        // If the directory is to be made, all nodes get an equal part of it.
        let all: usize = roles.iter().map(|&role| config.nodes_of(role).len()).sum();
        let part = |whole: u16, of: u16| (usize::from(whole) / all.max(1)) as u16 / of.max(1);
        let workers = self.load.threads.max(2);
        let workers = workers.min(part(config.switch.page_workers, 1)).max(1);
        let wanted = PageOptions {
            workers,
            requests: self.slots().min(part(config.switch.page_slots, workers)),
            prepare: Prepare::Leave,
            lease_after: self.lease_after,
            ..PageOptions::default()
        };
        let service = PageService::new(rack, &wanted)?;
        // Each page size has buffer frames in proportion to the number of its stores.
        let sizes: Vec<_> = service.stores().iter().map(|it| it.page_size).collect();
        (self.page_size, self.shared) = (sizes.first().copied().unwrap_or(self.page_size), true);
        let same = sizes.iter().filter(|&&size| size == self.page_size);
        let (same, all) = (same.count() as u64, sizes.len().max(1) as u64);
        let spec = rack.ask(PageSpecOf {}).map_err(PageServiceError::from)?;
        let members = spec.iter().flat_map(|spec| &spec.nodes);
        for member in members.filter(|member| nodes.compute.contains(&member.node)) {
            self.load.threads = self.load.threads.min(member.workers);
            let depth = u64::from(member.slots).saturating_sub(BACKGROUND_SLOTS) / 2;
            self.load.depth = self.load.depth.min(depth.max(1) as u16);
            let bytes = u64::from(member.frames) * u64::from(config.switch.page_size);
            self.buffer_bytes = bytes * same / all;
        }
        Ok((self, service))
    }
}

/// Slots of a worker for released latches and page writes.
const BACKGROUND_SLOTS: u64 = 8;
/// Pages that the target buffers in memory at a time.
const TARGET_BUFFERS: u64 = 128;
/// Bytes of an entry in a memory server.
const ENTRY_BYTES: u64 = 16;
