//! What the pages of a rack are to be.

use crate::TargetOptions;
use crate::services::TIME_LIMIT;
use core::time::Duration;
use rackweave_base::NodeId;
use rackweave_controller::PageNode;
use rackweave_target::Backend;

/// Bytes of a logical block of stores that this crate makes: the smallest page.
pub const BLOCK: u32 = 4096;

/// What becomes of stores when the service begins.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub enum Prepare {
    /// A store that is there is opened, a blank medium is formatted. A damaged store is refused, as
    /// is one of another program, another format or another page size.
    #[default]
    OpenOrFormat,
    /// Stores are opened; a blank medium is refused.
    Open,
    /// Every medium is formatted: whatever was there is gone.
    Format,
    /// Nothing: workers open or format stores themselves
    /// ([`PageWorker::open`](super::PageWorker::open)).
    Leave,
}

/// What the pages of a rack are to be, beside what the configuration says of the switch
/// (`switch.page_size`, `page_entries`, `page_workers`, `page_slots`, `page_stores`).
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct PageOptions {
    /// The nodes that get buffer frames and workers, and how many; empty: all compute nodes, with
    /// as many as follow here.
    pub nodes: Vec<PageNode>,
    /// Buffer frames of each compute node: 4 to 2^24, of a page each.
    pub frames: u32,
    /// Workers of each of them: as many threads may fix pages there at a time.
    pub workers: u16,
    /// Requests that a worker may have under way.
    pub requests: u16,
    /// Pages that the switch indexes from the beginning, the first ones of each store in turn;
    /// nothing: as many as it has room for.
    pub indexed: Option<u64>,
    /// The node whose memory has the entries of pages that the switch does not index; nothing: the
    /// first memory node, if there is one. Without one the switch must index all pages.
    pub fallback: Option<NodeId>,
    /// Nodes that take its place, in this order, when it dies.
    pub standbys: Vec<NodeId>,
    /// The size of the NVMe targets.
    pub target: TargetOptions,
    /// Pages of a store in memory, which there is if neither the configuration nor the program
    /// names a store.
    pub memory_pages: u64,
    /// What becomes of stores now.
    pub prepare: Prepare,
    /// How long calls of a [`PageWorker`](super::PageWorker) wait that are given no time limit of
    /// their own. Who does not answer is waited for half as long, 5 s at most.
    pub time_limit: Duration,
}

impl Default for PageOptions {
    /// 256 buffer frames, 2 workers and 16 requests of each, on all compute nodes; a store of 1024
    /// pages in memory, if none is named.
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
            time_limit: TIME_LIMIT.into(),
        }
    }
}

/// A medium for a store of pages, and where it is.
pub struct StoreMedium {
    /// What the store is called; for people.
    pub name: String,
    /// The node whose NVMe target has it.
    pub node: NodeId,
    /// Where its blocks lie. They must not be larger than a page.
    pub backend: Box<dyn Backend>,
}

impl core::fmt::Debug for StoreMedium {
    fn fmt(&self, f: &mut core::fmt::Formatter<'_>) -> core::fmt::Result {
        f.debug_struct("StoreMedium")
            .field("name", &self.name)
            .field("node", &self.node)
            .finish_non_exhaustive()
    }
}

/// How a page service found a store.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum StoreState {
    /// It was closed: everything that was flushed is there, and no page that nobody knows of is in
    /// use.
    Closed,
    /// It was not closed: a program or the power failed, or somebody else has it open. What was
    /// flushed is there. Pages may be in use that nobody knows of: they had been set aside to be
    /// allocated, or freed.
    NotClosed,
    /// It was made.
    Formatted,
    /// Nobody has looked: [`Prepare::Leave`].
    Unknown,
}

/// A store of a page service.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct StoreInfo {
    /// By which page numbers name it ([`PageId::store`](rackweave_wire::fabric::page::PageId)).
    pub number: u8,
    /// What it is called.
    pub name: String,
    /// The node whose NVMe target has it.
    pub node: NodeId,
    /// Pages that it has room for, superblock (page 0) and maps of pages in use among them.
    pub pages: u64,
    /// How the service found it.
    pub found: StoreState,
}
