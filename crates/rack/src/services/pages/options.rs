//! Options of the pages of a rack.

use super::PageServiceError;
use crate::TargetOptions;
use crate::services::TIME_LIMIT;
use core::time::Duration;
use rackweave_base::NodeId;
use rackweave_controller::PageNode;
use rackweave_target::Backend;

/// Bytes of a logical block of stores made by this crate: the smallest page.
pub const BLOCK: u32 = 4096;

/// What to do with stores when the service starts.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub enum Prepare {
    /// An existing store is opened, a blank medium is formatted. A damaged store is refused, as is
    /// one of another program, another format or another page size.
    #[default]
    OpenOrFormat,
    /// Stores are opened; a blank medium is refused.
    Open,
    /// Every medium is formatted: its previous contents are lost.
    Format,
    /// Nothing: workers open or format stores themselves
    /// ([`PageWorker::open`](super::PageWorker::open)).
    Leave,
}

impl Prepare {
    /// What is left to do at stores that another process has prepared.
    pub(super) fn of_another(self) -> Result<Self, PageServiceError> {
        match self {
            Prepare::OpenOrFormat | Prepare::Open => Ok(Prepare::Open),
            Prepare::Leave => Ok(Prepare::Leave),
            // The other's pages would be lost.
            Prepare::Format => Err(PageServiceError::Exists),
        }
    }
}

/// Options of the pages of a rack, besides the settings of the switch (`switch.page_size`,
/// `page_entries`, `page_workers`, `page_slots`, `page_stores`).
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct PageOptions {
    /// The nodes that get buffer frames and workers, and how many; empty: all compute nodes and
    /// places for guests, with the numbers below.
    pub nodes: Vec<PageNode>,
    /// Buffer frames of each compute node: 4 to 2^24, each of the rack's smallest page size. If
    /// stores have several page sizes, each size gets a part of them in proportion to the number of
    /// its stores.
    pub frames: u32,
    /// Workers of each of them: the number of threads that can fix pages there at a time.
    pub workers: u16,
    /// Maximum pending requests of a worker.
    pub requests: u16,
    /// Pages that the switch indexes from the beginning, the first ones of each store in turn;
    /// `None`: as many as its capacity allows.
    pub indexed: Option<u64>,
    /// The node whose memory holds the entries of pages that the switch does not index; `None`: the
    /// first memory node, if there is one. Without one the switch must index all pages.
    pub fallback: Option<NodeId>,
    /// Nodes that replace it, in this order, when it dies.
    pub standbys: Vec<NodeId>,
    /// The size of the NVMe targets.
    pub target: TargetOptions,
    /// Pages of the store in memory that is made if neither the configuration nor the program names
    /// a store.
    pub memory_pages: u64,
    /// What to do with stores now.
    pub prepare: Prepare,
    /// How often a page is verified by requests to the switch, without being changed meanwhile,
    /// before nodes get leases on it (more than 7 counts as 7); `None`: they get none. A node with
    /// a lease reads the page without a request, until another node changes it; that node's change
    /// then waits for a round trip to each node with a lease. The first 28 nodes of a rack can have
    /// leases.
    pub lease_after: Option<u8>,
    /// Default time limit of calls of a [`PageWorker`](super::PageWorker). A peer that does not
    /// answer is waited for half as long, at most 5 s.
    pub time_limit: Duration,
}

impl Default for PageOptions {
    /// 256 buffer frames, 2 workers and 16 requests of each, on all compute nodes; a store of 1024
    /// pages in memory, if none is named; leases after four verifications.
    fn default() -> Self {
        Self {
            nodes: Vec::new(),
            frames: 256,
            workers: 2,
            requests: 16,
            indexed: None,
            fallback: None,
            standbys: Vec::new(),
            target: TargetOptions::default(),
            memory_pages: 1024,
            prepare: Prepare::default(),
            lease_after: Some(4),
            time_limit: TIME_LIMIT,
        }
    }
}

/// A medium for a store of pages, and its node.
pub struct StoreMedium {
    /// The name of the store, for display.
    pub name: String,
    /// The node whose NVMe target has it.
    pub node: NodeId,
    /// The storage of its blocks, which must not be larger than a page.
    pub backend: Box<dyn Backend>,
    /// Bytes of its pages, a power of two; `None`: the rack's smallest page size
    /// (`switch.page_size`).
    pub page_size: Option<u32>,
}

impl core::fmt::Debug for StoreMedium {
    fn fmt(&self, f: &mut core::fmt::Formatter<'_>) -> core::fmt::Result {
        f.debug_struct("StoreMedium")
            .field("name", &self.name)
            .field("node", &self.node)
            .finish_non_exhaustive()
    }
}

/// The state in which a page service found a store.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum StoreState {
    /// It was closed: it contains everything that was flushed, and every page in use is accounted
    /// for.
    Closed,
    /// It was not closed: a program or the power failed, or another program has it open. It
    /// contains what was flushed. Pages may be marked in use without an owner: they had been set
    /// aside for allocation, or freed.
    NotClosed,
    /// It was newly formatted.
    Formatted,
    /// It was not checked: [`Prepare::Leave`].
    Unknown,
}

/// A store of a page service.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct StoreInfo {
    /// Its number in page numbers ([`PageId::store`](rackweave_wire::fabric::page::PageId)).
    pub number: u8,
    /// Its name.
    pub name: String,
    /// The node whose NVMe target has it.
    pub node: NodeId,
    /// Bytes of its pages, including the header of 48 bytes: guards show what follows it.
    pub page_size: u32,
    /// Its capacity in pages, including superblock (page 0) and maps of pages in use.
    pub pages: u64,
    /// The state in which the service found it.
    pub found: StoreState,
}
