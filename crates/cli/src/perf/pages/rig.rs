//! A rack with a page directory, and one node's requests to it, at maximum rate.

use crate::globals::Globals;
use crate::outcome::CliError;
use crate::programs::RealRack;
use rackweave_base::{Block, NodeId};
use rackweave_controller::PageNode;
use rackweave_endpoint::flow::wait_until;
use rackweave_endpoint::page_store::directory::{
    Answer, Channel, Directory, Mode, Op, Reply, Ticket,
};
use rackweave_rack::config::{NodeConfig, Role};
use rackweave_rack::services::{BLOCK, PageOptions, PageService, Prepare, StoreMedium};
use rackweave_rack::{Node, Rack, RackConfig, TargetOptions};
use rackweave_target::Backend;
use rackweave_wire::fabric::page::header::VOID;
use rackweave_wire::fabric::page::{PageId, PageSource};

/// The requesting node.
pub const READER: NodeId = NodeId(0);
/// The node whose memory pages are read from.
const HOLDER: NodeId = NodeId(1);
const STORAGE: NodeId = NodeId(2);
const SERVER: NodeId = NodeId(3);

/// A rack with either all or none of its pages indexed by the switch.
pub struct Rig {
    pub rack: RealRack,
    pub service: PageService,
    pub page_size: u32,
    pub pages: u64,
    /// Pages that the holder can have in its memory.
    held: u64,
}

/// A node that fetches, by its first channel into its buffer frames.
pub struct Reader {
    handle: Node,
    channel: Channel,
    slots: u16,
    frames: Block,
    count: u32,
    page_size: u32,
}

impl Rig {
    pub fn new(
        (config, globals): (&RackConfig, &Globals),
        (page_size, indexed): (u32, bool),
        depth: u16,
        namespace: Box<dyn Backend>,
    ) -> Result<Self, CliError> {
        let mut config = config.clone();
        config.node = vec![
            NodeConfig::new("reader", Role::Compute),
            NodeConfig::new("holder", Role::Compute),
            NodeConfig::new("storage", Role::Storage),
            NodeConfig::new("server", Role::Memory),
        ];
        let pages = namespace.blocks() * u64::from(BLOCK) / u64::from(page_size);
        config.switch.consumer_rings = 0;
        config.switch.producer_rings = 0;
        config.switch.page_size = page_size;
        config.switch.page_entries = pages.clamp(1, 280_000) as u32;
        config.switch.page_slots = depth * 2;
        config.switch.page_workers = 2;
        config.memory_limit = config.memory_limit.max(2 << 30);
        let rack = RealRack::embedded(&config, globals)?;
        let node = |node, frames| PageNode {
            node,
            frames,
            workers: 1,
            slots: depth,
        };
        let held = (pages as u32).min(HELD_BYTES / page_size);
        let options = PageOptions {
            // The holder has some more buffer frames, so that it need not write pages home.
            nodes: vec![
                node(READER, u32::from(depth)),
                node(HOLDER, held + held / 4),
            ],
            indexed: (!indexed).then_some(0),
            fallback: Some(SERVER),
            target: TargetOptions {
                commands: u32::from(depth),
                ..TargetOptions::default()
            },
            prepare: Prepare::Leave,
            ..PageOptions::default()
        };
        let store = StoreMedium {
            name: "perf".into(),
            node: STORAGE,
            backend: namespace,
            page_size: None,
        };
        Ok(Self {
            service: PageService::with_stores(&rack, &options, vec![store])?,
            rack,
            page_size,
            pages,
            held: held.into(),
        })
    }

    pub fn reader(&self) -> Result<Reader, CliError> {
        Reader::new(&self.rack, READER, self.page_size)
    }

    /// Makes the holder change pages from the first on, so that they are in its memory. Returns
    /// their number.
    pub fn hold(&self) -> Result<u64, CliError> {
        let worker = self.service.worker(HOLDER)?;
        for index in 0..self.held {
            worker.change(page(index), |bytes| bytes[0] ^= 1)?;
        }
        Ok(self.held)
    }
}

/// Bytes that the holder has in its memory.
const HELD_BYTES: u32 = 256 << 20;

/// A page of the only store.
pub fn page(index: u64) -> PageId {
    PageId::new(0, index).expect("the store is small")
}

impl Reader {
    /// A node of a rack with pages, of which nobody has taken a worker.
    ///
    /// # Errors
    /// If the node has no buffer frames.
    pub fn new(rack: &Rack, node: NodeId, page_size: u32) -> Result<Self, CliError> {
        let ends = rack.page_ends(node);
        let ends =
            ends.ok_or_else(|| CliError::run(format!("node {} has no buffer frames", node.0)))?;
        let parts = ends.channels[0].clone();
        Ok(Self {
            handle: rack.node_at(node),
            slots: parts.slots,
            channel: Channel::new(parts),
            frames: ends.frames,
            count: ends.count,
            page_size,
        })
    }

    /// Requests that it can have in flight, `wanted` at most.
    pub fn requests_max(&self, wanted: u32) -> u32 {
        wanted.min(self.slots.into()).min(self.count)
    }

    /// The source of a page, which is fetched.
    ///
    /// # Errors
    /// If it cannot be fetched.
    pub fn source_of(&mut self, page: PageId) -> Result<PageSource, CliError> {
        self.void(0);
        let fetch = Op::Fetch {
            page,
            mode: Mode::Shared,
            frame: 0,
            have: None,
        };
        let begun = self.begin(fetch);
        begun.ok_or_else(|| CliError::run("an idle channel takes no operation"))?;
        match self.wait().answer {
            Answer::Fetched(served) => Ok(served.source),
            other => Err(CliError::run(format!("{fetch:?} ended in {other:?}"))),
        }
    }

    /// Voids a buffer frame, which is required before a fetch.
    pub fn void(&self, frame: u32) {
        let at = frame as usize * self.page_size as usize;
        self.frames.write(at, &VOID.to_le_bytes());
    }

    pub fn begin(&mut self, op: Op) -> Option<Ticket> {
        let now = self.handle.now();
        let channel = &mut self.channel;
        self.handle.with(|nic| channel.begin(now, nic, op))
    }

    pub fn poll(&mut self) -> Option<Reply> {
        let now = self.handle.now();
        let channel = &mut self.channel;
        self.handle.poll(|nic| channel.poll(now, nic))
    }

    /// Waits for the next reply.
    pub fn wait(&mut self) -> Reply {
        let node = self.handle.clone();
        wait_until(&node, || self.poll())
    }
}
