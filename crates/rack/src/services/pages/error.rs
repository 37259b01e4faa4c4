//! Errors of pages, by call.

use crate::config::StoreError;
use core::time::Duration;
use rackweave_base::NodeId;
use rackweave_controller::PageSetUpError;
use rackweave_endpoint::page_store::{
    AllocateError, CloseError, CommitError, FixError, FlushError, OpenError, PoolError,
};
use rackweave_target::TargetError;
use rackweave_wire::fabric::page::PageId;

/// Why a rack has no pages, a node has no worker, or stores were not closed properly, though what
/// could be written has been.
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
    /// The rack has no node for buffer frames.
    #[error("the rack has no compute node to have buffer frames; name nodes")]
    NoCompute,
    /// The rack has no node for a store.
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
        /// The number of its blocks.
        blocks: u64,
        /// Bytes of each.
        block_size: u32,
        /// Bytes of a page.
        page_size: u32,
    },
    /// A store of the configuration could not be opened.
    #[error(transparent)]
    Store(#[from] StoreError),
    /// An NVMe target could not be made.
    #[error("{node:?}: {error}")]
    Target {
        /// Its node.
        node: NodeId,
        /// The cause.
        error: TargetError,
    },
    /// The page directory could not be set up.
    #[error(transparent)]
    SetUp(#[from] PageSetUpError),
    /// A store could not be opened (its format is foreign, or it is damaged), made or closed.
    #[error("store {name}: {error}")]
    AtStore {
        /// The store.
        name: String,
        /// The cause.
        error: PageError,
    },
    /// The node has no buffer frames.
    #[error("{0:?} has no buffer frames; name it when the page service is made")]
    NoFrames(NodeId),
    /// All workers of the node are taken.
    #[error("all {workers} workers of {node:?} are taken; drop one, or make more of them")]
    AllTaken {
        /// The node.
        node: NodeId,
        /// The number of its workers.
        workers: usize,
    },
    /// The node was declared dead and could not rejoin.
    #[error("{node:?} was declared dead and could not rejoin: {source}")]
    Rejoin {
        /// The node.
        node: NodeId,
        /// The cause.
        source: PageSetUpError,
    },
    /// The pool could not be made.
    #[error(transparent)]
    Pool(#[from] PoolError),
    /// Stores cannot be closed while workers are in use.
    #[error("{0} workers are in use; drop them first")]
    InUse(usize),
    /// Changed pages could not be written when stores were to be closed.
    #[error("{node:?}: {error}")]
    Flush {
        /// The node whose pages they are.
        node: NodeId,
        /// The cause.
        error: PageError,
    },
}

/// Why a call of a worker failed.
#[derive(Clone, Copy, PartialEq, Eq, Debug, thiserror::Error)]
pub enum PageError {
    /// The page could not be fixed within the time limit: its latch is held elsewhere, or the
    /// storage is slow.
    #[error(
        "{page} was not had within {after:?}; somebody holds its latch, or the storage is slow"
    )]
    TimedOut {
        /// The page.
        page: PageId,
        /// The time waited.
        after: Duration,
    },
    /// The page cannot be fixed.
    #[error(transparent)]
    Fix(#[from] FixError),
    /// The page was fixed and changed, but the change was rejected, or its outcome is unknown.
    #[error(transparent)]
    Commit(#[from] CommitError),
    /// Changed pages could not be written to storage.
    #[error(transparent)]
    Flush(#[from] FlushError),
    /// A page could not be allocated or freed, or its state could not be read.
    #[error(transparent)]
    Allocate(#[from] AllocateError),
    /// A store could not be opened or made.
    #[error(transparent)]
    Open(#[from] OpenError),
    /// A store could not be closed.
    #[error(transparent)]
    Close(#[from] CloseError),
}
