//! Makes the regions, queue pairs and machines of a run, in a rack of either kind.

use super::cache::Cache;
use super::channel::Channel;
use super::drives::Storage;
use super::frames::{Frames, HEADER};
use super::housekeeper::{Housekeeper, ORDERS, REQUESTS};
use super::server::{Client, Line, Server};
use super::worker::{Remote, SCRATCH, Worker};
use super::{Accesses, Config, ScaleStoreError, server, worker};
use crate::baseline::set_up::SetUpError;
use rackweave_base::{Duration, Instant, NodeId, Qpn};
use rackweave_controller::connect::PairAttributes;
use rackweave_rack::config::{NicSection, NodeConfig, Role};
use rackweave_rack::{Rack, RackConfig};
use rackweave_verbs::{Access, CqId, PdId, QpCapabilities, Region, Verbs};

/// Staging buffers of the storage node, per drive: what a drive has under way, and as many that are
/// on their way over the network.
const STAGING_PER_DRIVE: u32 = 2 * super::drives::QUEUE_DEPTH as u32;

/// How long a NIC waits for an acknowledgement. Far above a round trip with full queues, so that it
/// fires only when the last packet of a message is lost.
const TIMEOUT: Duration = Duration::from_millis(1);

/// A compute node's machines.
pub(super) struct Compute {
    pub cache: Cache,
    pub workers: Vec<Worker>,
    pub housekeeper: Housekeeper,
}

/// All machines of a run. Compute nodes come first, then the storage node.
pub(super) struct Plant {
    pub computes: Vec<Compute>,
    pub server: Server,
}

/// The rack that a configuration needs.
pub(super) fn rack_config(config: &Config) -> RackConfig {
    let compute = |at| NodeConfig::new(format!("compute{at}"), Role::Compute);
    let nodes = (0..config.compute_nodes).map(compute);
    let storage = NodeConfig::new("storage0", Role::Storage);
    let (count, threads) = (
        u64::from(config.compute_nodes),
        u64::from(config.workers) + 1,
    );
    let frames = Frames::bytes(config.frames_per_node, config.page_size) as u64;
    let staging = u64::from(staging_count(config)) * u64::from(config.page_size);
    let slots = count * threads * (u64::from(config.depth) + u64::from(REQUESTS + ORDERS));
    let nic = NicSection {
        queue_pairs: (4 * count * threads + 16) as u32,
        completion_entries: 1 << 17,
        congestion_control: config.congestion_control,
        ..NicSection::default()
    };
    RackConfig {
        seed: config.seed,
        // Regions are rounded up to whole pages, and keys and scratch lie beside the buffers.
        memory_limit: count * frames + staging + slots * 2048 + (64 << 20),
        payload_buffers: 1 << 14,
        node: nodes.chain([storage]).collect(),
        nic,
        ..RackConfig::default()
    }
}

fn staging_count(config: &Config) -> u32 {
    config.ssds.max(1) * STAGING_PER_DRIVE
}

/// A thread's part of a NIC while queue pairs are still being made.
struct Post {
    node: NodeId,
    pd: PdId,
    cq: CqId,
}

struct Builder<'a> {
    rack: &'a Rack,
    attributes: PairAttributes,
    config: &'a Config,
    lines: Vec<Line>,
}

/// What connections of a simulated run are like.
pub(super) fn simulated_attributes() -> PairAttributes {
    PairAttributes {
        timeout: TIMEOUT,
        rnr_retries: 7,
        ..PairAttributes::default()
    }
}

/// Makes everything; `accesses` says what worker so-and-so of all accesses.
///
/// # Errors
/// If a node lacks room.
pub(super) fn build(
    rack: &Rack,
    attributes: PairAttributes,
    config: &Config,
    storage: Box<dyn Storage>,
    accesses: &mut dyn FnMut(usize) -> Accesses,
) -> Result<Plant, ScaleStoreError> {
    let mut builder = Builder {
        rack,
        attributes,
        config,
        lines: Vec::new(),
    };
    builder.plant(storage, accesses)
}

impl Builder<'_> {
    fn plant(
        &mut self,
        storage: Box<dyn Storage>,
        accesses: &mut dyn FnMut(usize) -> Accesses,
    ) -> Result<Plant, ScaleStoreError> {
        let config = self.config;
        let nodes: Vec<NodeId> = (0..config.compute_nodes).map(NodeId).collect();
        let owner = self.handlers(NodeId(config.compute_nodes))?;
        let slots_of = |post: usize| match post {
            0 => REQUESTS + ORDERS,
            _ => u32::from(config.depth),
        };
        // Every node's first post is its housekeeper's, the others are its workers'.
        let mut posts = Vec::new();
        let mut frames = Vec::new();
        for &node in &nodes {
            let pd = self.act(node, |verbs| Ok(verbs.create_pd()))?;
            let bytes = Frames::bytes(config.frames_per_node, config.page_size);
            frames.push(self.region(node, pd, bytes)?);
            let mut of_node = Vec::new();
            for post in 0..=usize::from(config.workers) {
                let entries = 4 * slots_of(post) + 64;
                let cq = self.act(node, |verbs| Ok(verbs.create_cq(entries)?))?;
                of_node.push(Post { node, pd, cq });
            }
            posts.push(of_node);
        }
        let mut clients = Vec::new();
        let mut computes = Vec::new();
        for (at, of_node) in posts.iter().enumerate() {
            let (region, number) = (&frames[at], at as u16);
            clients.push(Client {
                address: region.address,
                rkey: region.rkey,
                stride: HEADER + u64::from(config.page_size),
                housekeeper: self.lines.len() as u32,
            });
            let mut workers = Vec::new();
            let mut housekeeper = None;
            for (index, post) in of_node.iter().enumerate() {
                let slots = slots_of(index);
                let handler = &owner[self.lines.len() % owner.len()];
                let scratch = Channel::bytes(slots) as u64;
                let bytes = scratch as usize + (u64::from(slots) * SCRATCH) as usize;
                let own = self.region(post.node, post.pd, bytes)?;
                let channel = self.line(post, number, &own, handler, slots)?;
                let remotes = self.remotes(at, post, &posts, &frames, slots)?;
                if index == 0 {
                    housekeeper = Some(Housekeeper::new(post.cq, channel, remotes));
                    continue;
                }
                let all = at * usize::from(config.workers) + index - 1;
                workers.push(Worker::new(worker::Parts {
                    number: index as u16 - 1,
                    depth: config.depth,
                    cq: post.cq,
                    channel,
                    remotes,
                    region: own,
                    scratch,
                    accesses: accesses(all),
                    limit: config.limit,
                    work: config.work,
                    window: window(config),
                }));
            }
            let cache = Cache::new(
                Frames::new(region.clone(), config.page_size),
                config.frames_per_node,
                config.pages,
                config.workers,
                config.depth,
            );
            computes.extend(housekeeper.map(|housekeeper| Compute {
                cache,
                workers,
                housekeeper,
            }));
        }
        let count = staging_count(config);
        let bytes = count as usize * config.page_size as usize;
        let staging = self.region(owner[0].node, owner[0].pd, bytes)?;
        let server = Server::new(server::Parts {
            pages: config.pages,
            page_size: config.page_size,
            cqs: owner.iter().map(|post| post.cq).collect(),
            lines: core::mem::take(&mut self.lines),
            clients,
            staging,
            staging_count: count,
            storage,
        });
        Ok(Plant { computes, server })
    }

    /// The storage node's handlers.
    fn handlers(&mut self, node: NodeId) -> Result<Vec<Post>, ScaleStoreError> {
        let config = self.config;
        let lines = u32::from(config.compute_nodes) * (u32::from(config.workers) + 1);
        let each = lines.div_ceil(u32::from(config.handlers));
        let slots = u32::from(config.depth).max(REQUESTS + ORDERS);
        let entries = 2 * each * slots + staging_count(config) + 64;
        let pd = self.act(node, |verbs| Ok(verbs.create_pd()))?;
        let mut posts = Vec::new();
        for _ in 0..config.handlers {
            let cq = self.act(node, |verbs| Ok(verbs.create_cq(entries)?))?;
            posts.push(Post { node, pd, cq });
        }
        Ok(posts)
    }

    /// Connects a thread with its handler at the owner; returns the thread's end.
    fn line(
        &mut self,
        post: &Post,
        node: u16,
        own: &Region,
        handler: &Post,
        slots: u32,
    ) -> Result<Channel, ScaleStoreError> {
        // A page and an answer per slot; what is answered may not be acknowledged yet.
        let sends = 4 * slots + 64;
        let (near, far) = self.pair(post, handler, (sends, sends), slots)?;
        let region = self.region(handler.node, handler.pd, Channel::bytes(slots))?;
        let number = self.lines.len() as u32;
        let channel = Channel::new(far, number, &region, 0, slots);
        self.open(handler.node, &channel)?;
        self.lines.push(Line { channel, node });
        let channel = Channel::new(near, 0, own, 0, slots);
        self.open(post.node, &channel)?;
        Ok(channel)
    }

    fn open(&mut self, node: NodeId, channel: &Channel) -> Result<(), ScaleStoreError> {
        self.act(node, |verbs| Ok(channel.open(verbs)))?
    }

    /// Connects a thread with the frames of all other nodes.
    fn remotes(
        &mut self,
        at: usize,
        post: &Post,
        posts: &[Vec<Post>],
        frames: &[Region],
        slots: u32,
    ) -> Result<Vec<Option<Remote>>, ScaleStoreError> {
        let mut remotes = Vec::new();
        for (other, of_other) in posts.iter().enumerate() {
            if other == at {
                remotes.push(None);
                continue;
            }
            let (qpn, _) = self.pair(post, &of_other[0], (4 * slots + 64, 1), 1)?;
            remotes.push(Some(Remote {
                qpn,
                address: frames[other].address,
                rkey: frames[other].rkey,
            }));
        }
        Ok(remotes)
    }

    fn pair(
        &mut self,
        a: &Post,
        b: &Post,
        sends: (u32, u32),
        receives: u32,
    ) -> Result<(Qpn, Qpn), ScaleStoreError> {
        let mut make = |post: &Post, sends: u32| {
            let capabilities = QpCapabilities {
                send_max: sends,
                receive_max: receives,
                segments_max: 2,
            };
            self.act(post.node, |verbs| {
                Ok(verbs.create_qp(post.pd, post.cq, post.cq, capabilities)?)
            })
        };
        let (near, far) = (make(a, sends.0)?, make(b, sends.1)?);
        let ends = ((a.node, near), (b.node, far));
        let joined = self.rack.connect(ends.0, ends.1, &self.attributes);
        joined.map_err(SetUpError::from)?;
        Ok((near, far))
    }

    fn region(&mut self, node: NodeId, pd: PdId, bytes: usize) -> Result<Region, ScaleStoreError> {
        let block = self.rack.memory().allocate(bytes);
        let block = block.map_err(SetUpError::from)?;
        self.act(node, |verbs| {
            Ok(verbs.register(pd, block.clone(), Access::all())?)
        })
    }

    fn act<R>(
        &mut self,
        node: NodeId,
        act: impl FnOnce(&mut dyn Verbs) -> Result<R, SetUpError>,
    ) -> Result<R, ScaleStoreError> {
        let made = self.rack.on_node(node, act);
        Ok(made.ok_or(SetUpError::NoNode(node))??)
    }
}

/// Since when and until when what is done is counted.
pub(super) fn window(config: &Config) -> (Instant, Instant) {
    if config.limit.is_some() {
        return (Instant::ZERO, Instant::FAR_FUTURE);
    }
    let from = Instant::ZERO + config.warm_up;
    (from, from + config.window)
}
