//! Builds the rack, its connections and its threads.

use super::cache::Cache;
use super::channel::Channel;
use super::frames::Frames;
use super::possession::{Handler, LOADS, PageOwner, STORAGE};
use super::server::{Line, Owner, handler};
use super::worker::{Owners, SCRATCH, Slot, TAGS, Worker, housekeeper};
use super::{Config, Pages, Shared};
use crate::baseline::verbs::{NodeEnd, Remote, connect};
use crate::harness::blank::BlankBackend;
use crate::harness::prelude::*;
use rackweave_rack::SsdBackend;
use rackweave_rack::config::NicSection;
use rackweave_sim::SsdModel;
use std::collections::BTreeMap;

/// Staging buffers of the storage node, per drive: a queue depth of 128 (seamless, section 3), and
/// as many in flight over the network.
const STAGING_PER_DRIVE: u32 = 2 * 128;

/// A prepared run: all threads have been started, and no time has passed.
pub struct Store {
    pub rack: Testbed,
    pub caches: Vec<Rc<RefCell<Cache>>>,
    pub owner: Rc<RefCell<Owner>>,
    /// The compute nodes as owners, if these own the pages.
    pub page_owners: Vec<Rc<RefCell<PageOwner>>>,
    pub found: Shared,
    handlers: Vec<NodeEnd>,
}

/// Connections to the storage node: of each worker and housekeeper, and if there are message
/// handlers, those for each core of a node.
fn connections(config: &Config) -> u32 {
    let of_handlers = config
        .message_handlers
        .map_or(0, |handlers| handlers * config.handlers.div_ceil(handlers));
    u32::from(config.compute_nodes) * u32::from(config.workers + 1 + of_handlers)
}

/// The rack that a configuration needs. Compute nodes come first, then the storage node.
fn rack_config(config: &Config, seed: u64) -> RackConfig {
    let compute = nodes("compute", Role::Compute, config.compute_nodes.into());
    let storage = NodeConfig::new("storage0", Role::Storage);
    let nic = NicSection {
        queue_pairs: (4 + u32::from(config.compute_nodes)) * connections(config) + 16,
        completion_entries: 1 << 17,
        congestion_control: config.congestion_control,
        ..NicSection::default()
    };
    RackConfig {
        seed,
        memory_limit: 16 << 30,
        payload_buffers: 1 << 14,
        node: compute.chain([storage]).collect(),
        nic,
        ..RackConfig::default()
    }
}

impl Store {
    /// Builds everything; `pages` returns the pages of a worker by its number among all workers.
    pub fn new(config: &Config, seed: u64, pages: &mut dyn FnMut(usize) -> Pages) -> Result<Self> {
        config.check()?;
        let rack = Testbed::new(&rack_config(config, seed))?;
        let storage = NodeId(config.compute_nodes);
        let buffers = config.ssds.max(1) * STAGING_PER_DRIVE;
        let bytes = buffers as usize * config.page_size as usize;
        let staging = NodeEnd::new(&rack, storage, bytes, 1)?;
        let each = connections(config).div_ceil(u32::from(config.handlers));
        // Requests and answers of each connection, and a page from each staging buffer.
        let entries = 2 * each * TAGS.max(config.depth.into()) + buffers + 64;
        let handlers = (0..config.handlers)
            .map(|_| NodeEnd::in_domain(&rack, storage, staging.pd, 1, entries));
        let handlers = handlers.collect::<Result<Vec<_>, _>>()?;
        let (size, ssds) = (config.page_size, config.ssds as usize);
        let (blank, mut rng) = (BlankBackend::new(config.pages, size), Rng::new(seed));
        let drives = SsdBackend::new(blank, &SsdModel::default(), ssds, size, &mut rng);
        let owner = Owner::new(config.pages, size, staging.region, Box::new(drives));
        let mut store = Self {
            rack,
            caches: Vec::new(),
            owner: Rc::new(RefCell::new(owner)),
            page_owners: Vec::new(),
            found: Shared::default(),
            handlers,
        };
        store.spawn_computes(config, pages)?;
        for end in &store.handlers {
            let handler = handler(Rc::clone(&store.owner), end.cq);
            store.rack.spawn_server(storage, handler);
        }
        Ok(store)
    }

    fn spawn_computes(
        &mut self,
        config: &Config,
        pages: &mut dyn FnMut(usize) -> Pages,
    ) -> Result<()> {
        let bytes = Frames::bytes(config.frames_per_node, config.page_size);
        let nodes = (0..config.compute_nodes).map(NodeId);
        let nodes = nodes.map(|node| NodeEnd::new(&self.rack, node, bytes, 1));
        let nodes: Vec<NodeEnd> = nodes.collect::<Result<_, _>>()?;
        for own in &nodes {
            let frames = Frames::new(own.region.clone(), config.page_size);
            let (count, workers) = (config.frames_per_node, config.workers);
            let cache = Cache::new(frames, count, config.pages, workers);
            self.caches.push(Rc::new(RefCell::new(cache)));
        }
        let page_owners = self.page_owners(config, &nodes)?;
        for (at, own) in nodes.iter().enumerate() {
            let cache = &self.caches[at].clone();
            let (node_end, channel) = self.thread(own, TAGS, 0)?;
            let owners = self.owners(&page_owners, at, own, (&node_end, TAGS))?;
            let (channels, owner) = drops(channel, owners);
            let housekeeper = housekeeper(Rc::clone(cache), node_end.cq, channels, owner);
            self.rack.spawn_server(own.node, housekeeper);
            for number in 0..config.workers {
                let tags = u32::from(config.depth);
                let (node_end, channel) = self.thread(own, tags, SCRATCH)?;
                let owners = self.owners(&page_owners, at, own, (&node_end, tags))?;
                let mut remotes = vec![None; nodes.len()];
                for (to, far) in nodes.iter().enumerate().filter(|&(to, _)| to != at) {
                    let (qpn, _) = connect(&self.rack, &node_end, far, (4 * tags + 64, 1))?;
                    remotes[to] = Some(Remote::new(qpn, &far.region));
                }
                let worker = Worker {
                    number,
                    cache: Rc::clone(cache),
                    cq: node_end.cq,
                    channel,
                    owners,
                    remotes,
                    scratch: node_end.region,
                    pages: pages(at * usize::from(config.workers) + usize::from(number)),
                    work: config.work,
                    window: config.window(),
                    found: Rc::clone(&self.found),
                    slots: vec![Slot::default(); tags as usize],
                    free: (0..config.depth).rev().collect(),
                    blocked: VecDeque::new(),
                    is_exhausted: false,
                };
                self.rack.spawn(own.node, worker);
            }
        }
        self.page_owners = page_owners
            .into_iter()
            .map(|(page_owner, _)| page_owner)
            .collect();
        Ok(())
    }

    /// Starts the message handlers of the compute nodes, if these own the pages. Returns each
    /// node as an owner of pages, and its handlers' parts of the NIC.
    fn page_owners(&mut self, config: &Config, nodes: &[NodeEnd]) -> Result<Vec<OwnerNode>> {
        let Some(handlers) = config.message_handlers else {
            return Ok(Vec::new());
        };
        let mut page_owners = Vec::new();
        for (own, cache) in nodes.iter().zip(self.caches.clone()) {
            let page_owner = PageOwner::new(own.node.0, config.compute_nodes, config.pages, cache);
            let page_owner = Rc::new(RefCell::new(page_owner));
            let mut ends = Vec::new();
            for _ in 0..handlers {
                let end = NodeEnd::in_domain(&self.rack, own.node, own.pd, 1, HANDLER_ENTRIES)?;
                let owner = &mut *self.owner.borrow_mut();
                // As a host of Linux has an I/O queue for each core.
                let queues = u32::from(config.handlers.div_ceil(handlers));
                let storage = (0..queues).map(|at| {
                    let far = &self.handlers[owner.lines.len() % self.handlers.len()];
                    let number = (STORAGE + at, LOADS);
                    line(&self.rack, (&end, own), far, &mut owner.lines, number)
                });
                let storage = storage.collect::<Result<Vec<_>>>()?;
                let tags = (0..LOADS as u16).flat_map(|tag| (0..queues).map(move |at| (at, tag)));
                let handler = Handler {
                    page_owner: Rc::clone(&page_owner),
                    cq: end.cq,
                    storage,
                    free: tags.collect(),
                    loads: vec![[0; LOADS as usize]; queues as usize],
                    requests: VecDeque::new(),
                };
                self.rack.spawn_server(own.node, handler);
                ends.push(end);
            }
            page_owners.push((page_owner, ends));
        }
        Ok(page_owners)
    }

    /// Connects a thread of node `at` with the handlers of the other nodes.
    fn owners(
        &self,
        page_owners: &[OwnerNode],
        at: usize,
        own: &NodeEnd,
        (node_end, tags): (&NodeEnd, u32),
    ) -> Result<Option<Owners>> {
        let Some((page_owner, _)) = page_owners.get(at) else {
            return Ok(None);
        };
        let mut channels = Vec::new();
        for (to, (other, ends)) in page_owners.iter().enumerate() {
            let lines = &mut other.borrow_mut().lines;
            let far = &ends[lines.len() % ends.len()];
            let number = (1 + to as u32, tags);
            channels.push(match to == at {
                true => None,
                false => Some(line(&self.rack, (node_end, own), far, lines, number)?),
            });
        }
        let page_owner = Rc::clone(page_owner);
        Ok(Some(Owners {
            page_owner,
            channels,
        }))
    }

    /// Creates a thread's part of a NIC, with this many bytes for each tag, beside the frames of
    /// its node, and connects it with its handler at the storage node.
    fn thread(&mut self, own: &NodeEnd, tags: u32, bytes: u64) -> Result<(NodeEnd, Channel)> {
        let (rack, entries) = (&mut self.rack, HANDLER_ENTRIES.max(4 * tags + 64));
        let bytes = u64::from(tags) * bytes.max(1);
        let node_end = NodeEnd::in_domain(rack, own.node, own.pd, bytes as usize, entries)?;
        let lines = &mut self.owner.borrow_mut().lines;
        let handler = &self.handlers[lines.len() % self.handlers.len()];
        let channel = line(rack, (&node_end, own), handler, lines, (0, tags))?;
        Ok((node_end, channel))
    }
}

/// A node as an owner of pages, and its handlers' parts of the NIC.
type OwnerNode = (Rc<RefCell<PageOwner>>, Vec<NodeEnd>);

/// Completions of a message handler, or of a thread with several connections.
const HANDLER_ENTRIES: u32 = 4096;

/// Connects a thread of the node with the frames of `own` to a handler, which gets a line for it;
/// returns the thread's end with this number and this many tags.
fn line(
    rack: &Rack,
    (node_end, own): (&NodeEnd, &NodeEnd),
    handler: &NodeEnd,
    lines: &mut Vec<Line>,
    (number, tags): (u32, u32),
) -> Result<Channel> {
    // A page and an answer per tag; an earlier answer may not be acknowledged yet.
    let (near, far) = connect(rack, node_end, handler, (4 * tags + 64, tags))?;
    lines.push(Line {
        channel: Channel::open(rack, handler, far, lines.len() as u32, tags)?,
        node: own.node.0,
        frames: Remote::new(far, &own.region),
    });
    Channel::open(rack, node_end, near, number, tags)
}

/// A housekeeper's connections to the owners of pages, by number, and the number of a page's owner.
fn drops(
    storage: Channel,
    owners: Option<Owners>,
) -> (BTreeMap<u32, Channel>, impl Fn(u64) -> Option<u32>) {
    let Some(Owners {
        page_owner,
        channels,
    }) = owners
    else {
        let all: Box<dyn Fn(u64) -> Option<u32>> = Box::new(|_| Some(0));
        return (BTreeMap::from([(0, storage)]), all);
    };
    let numbered = (1..).zip(channels);
    let channels: BTreeMap<u32, Channel> = numbered
        .filter_map(|(number, channel)| Some((number, channel?)))
        .collect();
    let known: Vec<u32> = channels.keys().copied().collect();
    let owner = move |page| {
        let owner = 1 + u32::from(page_owner.borrow().owner(page));
        known.contains(&owner).then_some(owner)
    };
    (channels, Box::new(owner))
}
