//! The specification of a page directory, and what its set-up returns to nodes.

use crate::{LaneError, RegionError, RegionName};
use rackweave_base::text::Text;
use rackweave_base::{NodeId, Psn, Qpn};
use rackweave_switch::table::TableError;
use rackweave_target::TargetError;
use rackweave_verbs::{CqId, Mtu};
use rackweave_wire::fabric::page::control::PoolLayout;
use rackweave_wire::fabric::page::{self, request};
use rackweave_wire::nvme::Status;
use serde::{Deserialize, Serialize};

/// A node with buffer frames.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub struct PageNode {
    /// The node.
    pub node: NodeId,
    /// Number of its buffer frames, each of the rack's smallest page size.
    pub frames: u32,
    /// Number of its workers: each has a channel.
    pub workers: u16,
    /// Pending requests of one worker at a time.
    pub slots: u16,
}

/// A store: a namespace of the NVMe target on a node.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub struct PageStoreSpec {
    /// The target's node.
    pub target: NodeId,
    /// The namespace.
    pub nsid: u32,
    /// Bytes of a logical block.
    pub block_size: u32,
    /// Bytes of a page.
    pub page_size: u32,
    /// Number of pages.
    pub pages: u64,
}

/// The specification of a page directory with its nodes and stores.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub struct PageSpec {
    /// Bytes of the smallest page, and of a buffer frame.
    pub frame_size: u32,
    /// Nodes with buffer frames.
    pub nodes: Vec<PageNode>,
    /// Stores, by their numbers in page ids.
    pub stores: Vec<PageStoreSpec>,
    /// The node whose memory holds the entries of pages that the switch does not index; `None` if
    /// it indexes all.
    pub fallback: Option<NodeId>,
    /// Nodes that replace it, in this order, when it dies.
    pub standbys: Vec<NodeId>,
    /// Pages that the switch indexes from the beginning: the first ones of each store in turn.
    pub indexed: u64,
    /// How long a node waits for a reply before it repeats a request.
    pub timeout: rackweave_base::Duration,
    /// The path MTU of its connections.
    pub mtu: Mtu,
    /// How often a page is verified without being changed before nodes get leases on it, at most
    /// seven times; `None`: they get none.
    pub lease_after: Option<u8>,
}

/// A node's buffer frames, as made.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub struct PagePool {
    /// The node.
    pub node: NodeId,
    /// Their region.
    pub region: RegionName,
    /// Where its frames and words are in the region.
    pub layout: PoolLayout,
}

/// The entries of a store in a server's memory, with a channel's access to them.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub struct PageFallback {
    /// The store.
    pub store: u8,
    /// The channel's queue pair to the server.
    pub qpn: Qpn,
    /// The address of page 0's entry; [`rackweave_wire::fabric::page::control::NO_ENTRIES`] if the
    /// store is not open to the node.
    pub address: u64,
    /// The key of the server's region.
    pub rkey: rackweave_base::Rkey,
    /// Number of entries.
    pub entries: u64,
}

/// A worker's connection, as made.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub struct PageChannel {
    /// The node.
    pub node: NodeId,
    /// The number of the worker at its node.
    pub worker: u16,
    /// The queue pair to the switch.
    pub requests: Qpn,
    /// The completion queue of the channel.
    pub cq: CqId,
    /// Number of its slots.
    pub slots: u16,
    /// The region of completions and responses.
    pub control: RegionName,
    /// How many times it was connected, counted from 1 ([`rackweave_wire::fabric::page::control`]).
    pub generation: u64,
    /// The same of its connection to the memory server.
    pub server_generation: u64,
    /// The PSN of the first request.
    pub first: Psn,
    /// One for each store, if there is a fallback.
    pub fallback: Vec<PageFallback>,
}

/// Why a page directory was not set up.
#[derive(Clone, PartialEq, Eq, Debug, thiserror::Error, Serialize, Deserialize)]
pub enum PageSetUpError {
    /// The switch has no page directory, or a smaller one.
    #[error("the switch has room for {has} {what}, {needs} are needed; raise {setting}")]
    TooSmall {
        /// The resource.
        #[serde(with = "rackweave_base::text")]
        what: Text,
        /// The number needed.
        needs: u64,
        /// The number available.
        has: u64,
        /// The setting to raise.
        #[serde(with = "rackweave_base::text")]
        setting: Text,
    },
    /// The page size is invalid.
    #[error("a page of {0} bytes; page sizes are powers of two from 4096 to 1048576")]
    PageSize(u32),
    /// The switch was set up for larger pages, or nodes have buffer frames of another size.
    #[error(
        "pages of {asked} bytes; the switch was set up for {has} or more (switch.page_size is the \
         rack's smallest page size)"
    )]
    OtherPageSize {
        /// The requested size.
        asked: u32,
        /// The size in the switch.
        has: u32,
    },
    /// A number of the specification is out of range.
    #[error("{what}: {number} is out of range, {range}")]
    OutOfRange {
        /// The number.
        #[serde(with = "rackweave_base::text")]
        what: Text,
        /// Its value.
        number: u64,
        /// The valid range.
        #[serde(with = "rackweave_base::text")]
        range: Text,
    },
    /// There is a page directory already.
    #[error("this rack has a page directory already")]
    Exists,
    /// None of the nodes with buffer frames answers.
    #[error("none of the nodes with buffer frames is in the rack, or answers")]
    NoNode,
    /// There is no NVMe target on the node.
    #[error("{0:?} has no NVMe target, or does not answer")]
    NoTarget(NodeId),
    /// The target refused a queue.
    #[error("{node:?}: {error}")]
    Target {
        /// Its node.
        node: NodeId,
        /// The cause.
        error: TargetError,
    },
    /// The target refused to connect a queue.
    #[error("the NVMe target on {node:?} refused: {status}")]
    Refused {
        /// Its node.
        node: NodeId,
        /// Its status.
        status: Status,
    },
    /// A lane could not be connected.
    #[error(transparent)]
    Lane(#[from] LaneError),
    /// A region could not be made.
    #[error("{node:?}: {error}")]
    Region {
        /// The node.
        node: NodeId,
        /// The cause.
        error: RegionError,
    },
    /// A table of the switch is full.
    #[error(transparent)]
    Table(#[from] TableError),
}

impl PageSpec {
    /// The region of so many buffer frames.
    pub fn layout(&self, frames: u32) -> PoolLayout {
        let sizes = self.stores.iter().map(|store| store.page_size);
        PoolLayout::new(self.frame_size, frames).with_page_sizes(sizes)
    }

    /// Number of pages of all stores.
    pub fn pages(&self) -> u64 {
        self.stores.iter().map(|store| store.pages).sum()
    }

    /// Number of all slots.
    pub fn slots(&self) -> u32 {
        let nodes = self.nodes.iter();
        nodes
            .map(|node| u32::from(node.workers) * u32::from(node.slots))
            .sum()
    }

    /// Number of all channels.
    pub fn channels(&self) -> u32 {
        self.nodes.iter().map(|node| u32::from(node.workers)).sum()
    }

    pub(super) fn check(
        &self,
        has: &rackweave_programs::pages::PagesConfig,
    ) -> Result<(), PageSetUpError> {
        let sizes = self.stores.iter().map(|store| store.page_size);
        for size in sizes.chain([self.frame_size]) {
            if !page::is_page_size(size) {
                return Err(PageSetUpError::PageSize(size));
            }
        }
        let node_last = self
            .nodes
            .iter()
            .map(|node| u64::from(node.node.0) + 1)
            .max();
        let (slots, channels) = (u64::from(self.slots()), u64::from(self.channels()));
        let (stores, nodes) = (self.stores.len() as u64, node_last.unwrap_or(0));
        let indexed = self.indexed.max(1);
        for (what, needs, has, setting) in [
            (
                "indexed pages",
                indexed,
                u64::from(has.entries),
                "switch.page_entries",
            ),
            (
                "slots of workers",
                slots,
                has.slots.into(),
                "switch.page_slots",
            ),
            (
                "workers",
                channels,
                has.channels.into(),
                "switch.page_workers",
            ),
            ("stores", stores, has.stores.into(), "switch.page_stores"),
            (
                "nodes with buffer frames",
                nodes,
                has.nodes.into(),
                "the number of nodes",
            ),
        ] {
            if needs > has {
                return Err(PageSetUpError::TooSmall {
                    what,
                    needs,
                    has,
                    setting,
                });
            }
        }
        let smallest = self.stores.iter().map(|store| store.page_size).min();
        let fits = smallest.is_none_or(|size| size >= self.frame_size);
        if self.frame_size != has.frame_size || !fits {
            return Err(PageSetUpError::OtherPageSize {
                asked: smallest.unwrap_or(self.frame_size).min(self.frame_size),
                has: has.frame_size,
            });
        }
        if self.fallback.is_none() && self.indexed < self.pages() {
            return Err(PageSetUpError::TooSmall {
                what: "indexed pages, without a memory server for the others",
                needs: self.pages(),
                has: self.indexed,
                setting: "switch.page_entries, or name a fallback",
            });
        }
        self.check_ranges()
    }

    /// Whether the sizes of nodes and stores are within their ranges.
    fn check_ranges(&self) -> Result<(), PageSetUpError> {
        let out = |what, number: u64, range| PageSetUpError::OutOfRange {
            what,
            number,
            range,
        };
        for node in &self.nodes {
            if node.frames == 0 || node.frames > request::FRAMES_MAX {
                let range = "1 to 2^24";
                return Err(out("buffer frames of a node", node.frames.into(), range));
            }
            if node.slots == 0 || node.slots > request::SLOTS_MAX {
                return Err(out("slots of a worker", node.slots.into(), "1 to 256"));
            }
            if node.workers == 0 {
                return Err(out("workers of a node", 0, "at least 1"));
            }
        }
        for store in &self.stores {
            let size = store.block_size;
            if !size.is_power_of_two() || size > store.page_size {
                let range = "a power of two up to the page size";
                return Err(out("bytes of a block", size.into(), range));
            }
            if store.pages == 0 || store.pages > 1 << 40 {
                return Err(out("pages of a store", store.pages, "1 to 2^40"));
            }
        }
        Ok(())
    }
}
