//! Makes the rack, its connections and its threads.

use super::cache::Cache;
use super::channel::Channel;
use super::frames::Frames;
use super::housekeeper::{Housekeeper, TAGS};
use super::server::{Handler, Line, Owner};
use super::worker::{Accesses, SCRATCH, Worker};
use super::{Config, Pages, Shared};
use crate::baseline::requests::Remote;
use crate::baseline::set_up::{Station, connect, connect_two_sided, nic};
use crate::experiment::ExperimentError;
use crate::experiment::drive::OrFailed;
use crate::experiment::seamless_4::blank::BlankBackend;
use core::cell::RefCell;
use rackweave_base::{NodeId, Rng};
use rackweave_rack::config::{NicSection, NodeConfig, Role};
use rackweave_rack::{RackConfig, SimulatedRack, SsdBackend};
use rackweave_sim::SsdModel;
use std::rc::Rc;

/// Staging buffers of the storage node, per drive: a queue depth of 128 (seamless, section 3), and
/// as many that are on their way over the network.
const STAGING_PER_DRIVE: u32 = 2 * 128;

/// A run in the making: all threads have been started, and no time has passed.
pub struct Store {
    pub rack: SimulatedRack,
    pub caches: Vec<Rc<RefCell<Cache>>>,
    pub owner: Rc<RefCell<Owner>>,
    pub seen: Shared,
    handlers: Vec<Station>,
    tags_max: u32,
}

/// The rack that a configuration needs. Compute nodes come first, then the storage node.
fn rack_config(config: &Config, seed: u64) -> RackConfig {
    let compute = |at| NodeConfig::new(format!("compute{at}"), Role::Compute);
    let nodes = (0..config.compute_nodes).map(compute);
    let storage = NodeConfig::new("storage0", Role::Storage);
    let count = u64::from(config.compute_nodes);
    let threads = u64::from(config.workers) + 1;
    let frames = Frames::bytes(config.frames_per_node, config.page_size) as u64;
    let tags = count * threads * u64::from(tags_max(config));
    let nic = NicSection {
        queue_pairs: (4 * count * threads + 16) as u32,
        completion_entries: 1 << 17,
        congestion_control: config.congestion_control,
        ..NicSection::default()
    };
    RackConfig {
        seed,
        // Regions are rounded up to whole pages, and keys and scratch lie beside the buffers.
        memory_limit: count * frames + staging_bytes(config) as u64 + tags * 2048 + (64 << 20),
        payload_buffers: 1 << 14,
        node: nodes.chain([storage]).collect(),
        nic,
        ..RackConfig::default()
    }
}

fn staging_bytes(config: &Config) -> usize {
    (config.ssds.max(1) * STAGING_PER_DRIVE) as usize * config.page_size as usize
}

fn tags_max(config: &Config) -> u32 {
    u32::from(config.depth).max(TAGS)
}

impl Store {
    /// Makes everything; `pages` says what worker so-and-so of all accesses.
    ///
    /// # Errors
    /// If the configuration makes no sense, or a node lacks room.
    pub fn new(
        config: &Config,
        seed: u64,
        pages: &mut dyn FnMut(usize) -> Pages,
    ) -> Result<Self, ExperimentError> {
        config.check()?;
        let mut rack = SimulatedRack::new(&rack_config(config, seed))?;
        let storage = NodeId(config.compute_nodes);
        let staging = Station::new(&mut rack, storage, staging_bytes(config), 1)?;
        let threads = u32::from(config.compute_nodes) * (u32::from(config.workers) + 1);
        let each = threads.div_ceil(u32::from(config.handlers));
        let bytes = u64::from(each) * Channel::bytes(tags_max(config));
        // Requests and answers of each thread, and a page from each staging buffer.
        let entries = 2 * each * tags_max(config) + config.ssds.max(1) * STAGING_PER_DRIVE + 64;
        let handlers = (0..config.handlers)
            .map(|_| Station::in_domain(&mut rack, storage, staging.pd, bytes as usize, entries));
        let handlers = handlers.collect::<Result<Vec<_>, _>>()?;
        let (size, ssds) = (config.page_size, config.ssds as usize);
        let (blank, mut rng) = (BlankBackend::new(config.pages, size), Rng::new(seed));
        let drives = SsdBackend::new(blank, &SsdModel::default(), ssds, size, &mut rng);
        let owner = Owner::new(config.pages, size, staging.region, Box::new(drives));
        let mut store = Self {
            rack,
            caches: Vec::new(),
            owner: Rc::new(RefCell::new(owner)),
            seen: Shared::default(),
            handlers,
            tags_max: tags_max(config),
        };
        store.spawn_computes(config, pages)?;
        store.spawn_handlers(storage);
        Ok(store)
    }

    fn spawn_computes(
        &mut self,
        config: &Config,
        pages: &mut dyn FnMut(usize) -> Pages,
    ) -> Result<(), ExperimentError> {
        let bytes = Frames::bytes(config.frames_per_node, config.page_size);
        let nodes = (0..config.compute_nodes).map(NodeId);
        let nodes = nodes.map(|node| Station::new(&mut self.rack, node, bytes, 1));
        let nodes: Vec<Station> = nodes.collect::<Result<_, _>>()?;
        for (at, own) in nodes.iter().enumerate() {
            let frames = Frames::new(own.region.clone(), config.page_size);
            let (count, workers) = (config.frames_per_node, config.workers);
            let cache = Cache::new(frames, count, config.pages, workers);
            let cache = Rc::new(RefCell::new(cache));
            let (station, channel) = self.thread(own, TAGS)?;
            let housekeeper = Housekeeper::new(&cache, station.cq, channel, &self.seen);
            self.rack.spawn_server(own.node, Box::new(housekeeper));
            for number in 0..config.workers {
                let tags = u32::from(config.depth);
                let (station, channel) = self.thread(own, tags)?;
                let worker = Worker {
                    number,
                    cache: Rc::clone(&cache),
                    cq: station.cq,
                    channel,
                    remotes: self.remotes(&station, at, &nodes, 4 * tags + 64)?,
                    scratch: Channel::bytes(tags),
                    region: station.region,
                    pages: pages(at * usize::from(config.workers) + usize::from(number)),
                    work: config.work,
                    window: config.window(),
                    seen: Rc::clone(&self.seen),
                    accesses: Accesses::new(config.depth),
                };
                self.rack.spawn(own.node, Box::new(worker));
            }
            self.caches.push(cache);
        }
        Ok(())
    }

    /// Makes a thread's part of a NIC, beside the frames of its node, and connects it with its
    /// handler at the owner.
    fn thread(&mut self, own: &Station, tags: u32) -> Result<(Station, Channel), ExperimentError> {
        let bytes = Channel::bytes(tags) + u64::from(tags) * SCRATCH;
        let (node, entries) = (own.node, 4 * tags + 64);
        let station = Station::in_domain(&mut self.rack, node, own.pd, bytes as usize, entries)?;
        let mut owner = self.owner.borrow_mut();
        let number = owner.lines.len();
        let handler = &self.handlers[number % self.handlers.len()];
        // A page and an answer per tag; what is answered may not be acknowledged yet.
        let room = (4 * tags + 64, tags);
        let (near, far) = connect_two_sided(&mut self.rack, &station, handler, room)?;
        // Every thread has as much of its handler's memory as the one that needs the most.
        let base = Channel::bytes(self.tags_max) * (number / self.handlers.len()) as u64;
        let line = Line {
            channel: Channel::new(far, number as u32, &handler.region, base, tags),
            node: node.0,
            frames: Remote::new(far, &own.region),
        };
        let channel = Channel::new(near, 0, &station.region, 0, tags);
        for (end, node) in [(&line.channel, handler.node), (&channel, node)] {
            let opened = end.open(&mut *nic(&mut self.rack, node)?);
            opened.or_failed("receives")?;
        }
        owner.lines.push(line);
        Ok((station, channel))
    }

    /// Connects a thread of node `at` with the frames of all other nodes.
    fn remotes(
        &mut self,
        station: &Station,
        at: usize,
        nodes: &[Station],
        sends: u32,
    ) -> Result<Vec<Option<Remote>>, ExperimentError> {
        let mut remotes = Vec::new();
        for (other, far) in nodes.iter().enumerate() {
            if other == at {
                remotes.push(None);
                continue;
            }
            let (qpn, _) = connect(&mut self.rack, station, far, sends)?;
            remotes.push(Some(Remote::new(qpn, &far.region)));
        }
        Ok(remotes)
    }

    fn spawn_handlers(&mut self, storage: NodeId) {
        for handler in &self.handlers {
            let handler = Handler {
                owner: Rc::clone(&self.owner),
                cq: handler.cq,
                seen: Rc::clone(&self.seen),
            };
            self.rack.spawn_server(storage, Box::new(handler));
        }
    }
}
