//! The testbed of the Seamless paper: two compute nodes, a storage node, a memory server, and a
//! switch with a page table of the requested size.

use crate::harness::Result;
use crate::harness::blank::BlankBackend;
use crate::harness::drive::OrFailed;
use rackweave_base::{NodeId, Rng};
use rackweave_controller::PageNode;
use rackweave_rack::config::{BudgetName, NodeConfig, Role};
use rackweave_rack::services::{PageOptions, PageService, Prepare, StoreMedium};
use rackweave_rack::{Rack, RackConfig, SsdBackend, TargetOptions};
use rackweave_sim::SsdModel;

/// Bytes of a page. Source: seamless, section 3.
pub const PAGE_BYTES: u32 = 64 << 10;

/// Threads of a compute node. Source: seamless, section 3.
pub const THREADS: u16 = 28;

/// SSDs of the storage node. Source: seamless, section 3.
pub const SSDS: usize = 4;

/// Commands that the target executes concurrently. Source: seamless, section 3 (queue depth).
const NVME_DEPTH: u32 = 128;

/// The node with the SSDs.
const STORAGE: NodeId = NodeId(2);

/// The node with the entries that the switch lacks.
pub const SERVER: NodeId = NodeId(3);

/// Capacity of the page directory in the switch.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Directory {
    /// Entries of pages.
    pub entries: u32,
    /// Workers of all nodes.
    pub workers: u16,
    /// Maximum number of pending requests of all workers.
    pub slots: u16,
}

/// The testbed's configuration. The caller sets how many queue pairs and completion queues the NICs
/// support.
pub fn config(seed: u64, directory: Directory) -> RackConfig {
    let mut config = RackConfig {
        seed,
        memory_limit: 16 << 30,
        payload_buffers: 1 << 15,
        node: vec![
            NodeConfig::new("compute0", Role::Compute),
            NodeConfig::new("compute1", Role::Compute),
            NodeConfig::new("storage", Role::Storage),
            NodeConfig::new("memory", Role::Memory),
        ],
        ..RackConfig::default()
    };
    let switch = &mut config.switch;
    switch.budget = BudgetName::Software;
    switch.memory = 2 << 30;
    (switch.consumer_rings, switch.producer_rings) = (0, 0);
    switch.page_size = PAGE_BYTES;
    switch.page_entries = directory.entries;
    switch.page_workers = directory.workers;
    switch.page_slots = directory.slots;
    // Three lanes of each slot to its node and one to its queue at the target, and some for each
    // node and worker.
    switch.lanes = directory.slots * 4 + 256;
    config.nic.completion_entries = 1 << 16;
    config
}

/// Adds the pages to these nodes of the rack, the first `indexed` of them in the switch. They hold
/// only their number, and are on the storage node's SSDs.
pub fn add_pages(
    rack: &Rack,
    nodes: Vec<PageNode>,
    pages: u64,
    indexed: u64,
    seed: u64,
) -> Result<PageService> {
    let mut rng = Rng::new(seed).fork("page rack");
    let blank = BlankBackend::new(pages, PAGE_BYTES);
    let ssds = SsdBackend::new(blank, &SsdModel::default(), SSDS, PAGE_BYTES, &mut rng);
    let store = StoreMedium {
        name: "blank".into(),
        node: STORAGE,
        backend: Box::new(ssds),
    };
    let options = PageOptions {
        nodes,
        indexed: Some(indexed.min(pages)),
        fallback: Some(SERVER),
        target: TargetOptions {
            commands: NVME_DEPTH,
        },
        prepare: Prepare::Leave,
        ..PageOptions::default()
    };
    PageService::with_stores(rack, &options, vec![store]).or_failed("pages")
}
