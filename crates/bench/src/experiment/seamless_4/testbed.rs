//! The testbed of the Seamless paper: two compute nodes, a storage node, a memory server, and a
//! switch with a page table of the requested size; and what follows from its models alone.

use super::worker::ENTRY_BYTES;
use crate::harness::blank::BlankBackend;
use crate::harness::prelude::*;
use rackweave_rack::services::{PageOptions, PageService, Prepare, StoreMedium};
use rackweave_rack::{SsdBackend, TargetOptions};
use rackweave_sim::{LinkModel, NicModel, SsdModel, SwitchModel};

/// Bytes of a page. Source: seamless, section 3.
pub const PAGE_BYTES: u32 = 64 << 10;

/// Threads of a compute node. Source: seamless, section 3.
pub const THREADS: u16 = 28;

/// SSDs of the storage node. Source: seamless, section 3.
pub const SSDS: u16 = 4;

/// Commands that the target executes concurrently. Source: seamless, section 3 (queue depth).
const NVME_DEPTH: u32 = 128;

/// The node with the SSDs.
const STORAGE: NodeId = NodeId(2);

/// The node with the entries that the switch lacks.
pub const SERVER: NodeId = NodeId(3);

/// The testbed's configuration, with a page directory in the switch for this many entries, and
/// workers with this many pending requests in all. The caller sets how many queue pairs and
/// completion queues the NICs support.
pub fn config(seed: u64, entries: u32, (workers, slots): (u16, u16)) -> RackConfig {
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
    switch.page_entries = entries;
    switch.page_workers = workers;
    switch.page_slots = slots;
    // Three lanes of each slot to its node and one to its queue at the target, and some for each
    // node and worker.
    switch.lanes = slots * 4 + 256;
    config.nic.completion_entries = 1 << 16;
    config
}

/// The options of the page store, without its nodes.
pub fn options() -> PageOptions {
    PageOptions {
        fallback: Some(SERVER),
        target: TargetOptions {
            commands: NVME_DEPTH,
            ..TargetOptions::default()
        },
        prepare: Prepare::Leave,
        // The paper has none.
        lease_after: None,
        ..PageOptions::default()
    }
}

/// Adds the pages to the rack. They hold only their number, and are on so many SSDs of the storage
/// node.
pub fn add_pages(
    rack: &Rack,
    options: &PageOptions,
    (pages, ssds): (u64, usize),
    seed: u64,
) -> Result<PageService> {
    let mut rng = Rng::new(seed).fork("page rack");
    let blank = BlankBackend::new(pages, PAGE_BYTES);
    let ssds = SsdBackend::new(blank, &SsdModel::default(), ssds, PAGE_BYTES, &mut rng);
    let store = StoreMedium {
        name: "blank".into(),
        node: STORAGE,
        backend: Box::new(ssds),
        page_size: None,
    };
    PageService::with_stores(rack, options, vec![store]).or_failed("pages")
}

/// Time of a READ of an entry in the memory server, from posting it to its completion, with all
/// queues empty: the rack's round trip time, computed from the models.
pub fn round_trip() -> Duration {
    // Ethernet, IPv4, UDP, BTH; then RETH, or AETH and the entry. No ICRC within a simulated rack.
    const HEADERS: usize = 14 + 20 + 8 + 12;
    let request = HEADERS + 16;
    let response = HEADERS + 4 + ENTRY_BYTES as usize;
    let (cpu, nic, link) = (
        CpuModel::default(),
        NicModel::default(),
        LinkModel::default(),
    );
    let wires: u64 = [request, response]
        .map(|bytes| 2 * link.occupancy(bytes))
        .iter()
        .sum();
    let fixed = [
        cpu.post_cost,
        nic.transmit_latency * 2,
        nic.memory_read_latency,
        nic.receive_latency * 2,
        SwitchModel::default().pipeline_latency * 2,
        devices::CABLE_DELAY_PER_METRE * devices::CABLE_METRES * 4,
        Duration::from_nanos(wires.div_ceil(1000)),
        cpu.spin_latency,
        cpu.poll_cost,
    ];
    fixed
        .into_iter()
        .fold(Duration::ZERO, |sum, part| sum + part)
}

/// Pages per second of a link that carries only full packets.
pub fn link_pages_per_second() -> f64 {
    const MTU: usize = 4096;
    let link = LinkModel::default();
    let packet = 14 + 20 + 8 + 12 + MTU;
    let picos = link.occupancy(packet) * u64::from(PAGE_BYTES) / MTU as u64;
    1e12 / picos as f64
}
