//! What can go wrong with pages, by the call that it goes wrong in.

use crate::config::StoreError;
use core::time::Duration;
use rackweave_base::NodeId;
use rackweave_controller::PageSetUpError;
use rackweave_endpoint::page_store::{
    AllocateError, CloseError, CommitError, FixError, FlushError, OpenError, PoolError,
};
use rackweave_target::TargetError;
use rackweave_wire::fabric::page::PageId;

/// Why a rack has no pages, a node no worker, or stores were not closed in an orderly way, though
/// what could be written has been.
#[derive(Debug, thiserror::Error)]
pub enum PageServiceError {
    /// The switch has no page directory.
    #[error(
        "the switch has no page directory; set switch.page_entries in the configuration of the rack"
    )]
    NoDirectory,
    /// The rack has pages already.
    #[error("this rack has pages already; share its page service")]
    Exists,
    /// Nobody to have buffer frames.
    #[error("the rack has no compute node to have buffer frames; name nodes")]
    NoCompute,
    /// Nobody to have a store.
    #[error("the rack has no storage node to have a store; name another node")]
    NoStorage,
    /// No such node, or it is dead.
    #[error("{0:?} is not in the rack, or dead")]
    NoNode(NodeId),
    /// More stores than page numbers can name.
    #[error("{0} stores; 1 to 255 are possible")]
    Stores(usize),
    /// A medium is too small for a store, or has blocks that are larger than a page.
    #[error(
        "store {name}: {blocks} blocks of {block_size} bytes are no store of pages of {page_size} \
         bytes; blocks must not be larger than a page, and there must be room for three pages"
    )]
    Medium {
        /// The store.
        name: String,
        /// Blocks that it has.
        blocks: u64,
        /// Bytes of each.
        block_size: u32,
        /// Bytes of a page.
        page_size: u32,
    },
    /// A store of the configuration could not be opened.
    #[error(transparent)]
    Store(#[from] StoreError),
    /// No NVMe target.
    #[error("{node:?}: {error}")]
    Target {
        /// Its node.
        node: NodeId,
        /// Why not.
        error: TargetError,
    },
    /// No page directory.
    #[error(transparent)]
    SetUp(#[from] PageSetUpError),
    /// A store could not be opened (it is none of ours, or damaged), made or closed.
    #[error("store {name}: {error}")]
    AtStore {
        /// The store.
        name: String,
        /// Why not.
        error: PageError,
    },
    /// The node has no pages.
    #[error("{0:?} has no buffer frames; name it when the page service is made")]
    NoFrames(NodeId),
    /// All workers of the node are taken.
    #[error("all {workers} workers of {node:?} are taken; drop one, or make more of them")]
    AllTaken {
        /// The node.
        node: NodeId,
        /// Its workers.
        workers: usize,
    },
    /// The node was taken for dead and could not come back.
    #[error("{node:?} was taken for dead and could not come back: {source}")]
    Rejoin {
        /// The node.
        node: NodeId,
        /// Why not.
        source: PageSetUpError,
    },
    /// No pool.
    #[error(transparent)]
    Pool(#[from] PoolError),
    /// Stores cannot be closed while workers are in use.
    #[error("{0} workers are in use; drop them first")]
    InUse(usize),
    /// Pages that are changed could not be written when stores were to be closed.
    #[error("{node:?}: {error}")]
    Flush {
        /// Whose pages they are.
        node: NodeId,
        /// Why not.
        error: PageError,
    },
}

/// Why a worker did not do what it was asked for.
#[derive(Clone, Copy, PartialEq, Eq, Debug, thiserror::Error)]
pub enum PageError {
    /// It was not had within the time given: somebody holds its latch, or the storage is slow.
    #[error(
        "{page} was not had within {after:?}; somebody holds its latch, or the storage is slow"
    )]
    TimedOut {
        /// The page.
        page: PageId,
        /// How long was waited.
        after: Duration,
    },
    /// It cannot be had.
    #[error(transparent)]
    Fix(#[from] FixError),
    /// It was had and changed, and the change was not taken, or nobody knows whether it was.
    #[error(transparent)]
    Commit(#[from] CommitError),
    /// Changed pages could not be written home.
    #[error(transparent)]
    Flush(#[from] FlushError),
    /// A page could not be allocated or freed, or its state not be read.
    #[error(transparent)]
    Allocate(#[from] AllocateError),
    /// A store could not be opened or made.
    #[error(transparent)]
    Open(#[from] OpenError),
    /// A store could not be closed.
    #[error(transparent)]
    Close(#[from] CloseError),
}
