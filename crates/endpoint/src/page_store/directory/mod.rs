//! The interface between a page store and a page directory, wherever the directory is.
//!
//! [`Directory`] is the seam: the pool and its workers know nothing else. [`Channel`] is the real
//! implementation: requests to the switch, and, for pages that the switch does not index, one-sided
//! operations on the same entries in a server's memory. Each worker has its own channel.
//!
//! `channel` carries operations to queue pairs and back. Two machines that know no queue pairs
//! define what an operation does: `switch` and `fallback`. `conformance` tests what every directory
//! must do.

mod channel;
#[doc(hidden)]
pub mod conformance;
mod fallback;
mod parts;
mod renewal;
mod step;
mod switch;
mod task;

#[cfg(test)]
mod fake;
#[cfg(test)]
mod history_tests;
#[cfg(test)]
mod rogue_tests;
#[cfg(test)]
mod tests;

pub use channel::Channel;
pub use parts::{ChannelParts, FallbackParts, Owed};

use rackweave_base::Instant;
use rackweave_verbs::Verbs;
use rackweave_wire::fabric::page::{LatchWord, PageId, PageSource};

/// The mode in which a page is fixed.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub enum Mode {
    /// For reading a version.
    Shared,
    /// For changing; no other node gets the page meanwhile.
    Exclusive,
}

/// An operation on the directory. For a page of a node, at most one operation may be in flight at a
/// time, apart from any number of [`Op::Verify`].
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Op {
    /// Fetches the page into a buffer frame that is either unused on this node (its header is void)
    /// or holds version `have` of the page. In the latter case nothing is moved if that is the
    /// newest.
    Fetch {
        /// The page.
        page: PageId,
        /// With [`Mode::Exclusive`] the node holds the latch afterwards.
        mode: Mode,
        /// The destination.
        frame: u32,
        /// The version that the buffer frame holds.
        have: Option<u64>,
    },
    /// Reads the latch word of a page.
    Verify {
        /// The page.
        page: PageId,
        /// The version for which the node asks for a lease.
        lease: Option<u64>,
    },
    /// Releases the latch; the page was changed, and is in this buffer frame.
    Unfix {
        /// The page.
        page: PageId,
        /// The buffer frame with the page.
        frame: u32,
    },
    /// Releases the latch; nothing was changed.
    Release {
        /// The page.
        page: PageId,
    },
    /// Writes a changed page home. No thread of this node may change the buffer frame meanwhile.
    Evict {
        /// The page.
        page: PageId,
        /// The buffer frame with the page.
        frame: u32,
        /// Whether the buffer frame stays the page's place, from which other nodes read.
        keep: bool,
    },
    /// Reads the page's home into the pool's spare buffer frame, whatever the directory says.
    ReadHome {
        /// The page.
        page: PageId,
    },
    /// The directory granted this node a page's latch because the node may have the newest version,
    /// and it has: as [`Op::Unfix`]. It ends in [`Answer::Gone`] when the channel is reconnected,
    /// since that may be another directory. If it is repeated while the doubt is still open,
    /// [`Answer::Superseded`] means that it was done before.
    Own {
        /// The page.
        page: PageId,
        /// The buffer frame with the page.
        frame: u32,
    },
    /// As [`Op::Own`], but the node does not have the newest version: it is at home, and the latch
    /// is released.
    Disown {
        /// The page.
        page: PageId,
    },
    /// Asks whether all transfers out of this node's buffer frames that started earlier have ended.
    /// Buffer frames whose headers were voided may be reused after [`Answer::Done`] has come twice
    /// since.
    Quiesce,
    /// Makes durable everything written to this store so far.
    Flush {
        /// The store.
        store: u8,
    },
}

impl Op {
    /// The page that it concerns; `None` for [`Op::Quiesce`] and [`Op::Flush`].
    pub fn page(&self) -> Option<PageId> {
        match *self {
            Op::Fetch { page, .. }
            | Op::Verify { page, .. }
            | Op::Unfix { page, .. }
            | Op::Release { page }
            | Op::Evict { page, .. }
            | Op::ReadHome { page }
            | Op::Own { page, .. }
            | Op::Disown { page } => Some(page),
            Op::Quiesce | Op::Flush { .. } => None,
        }
    }
}

/// The result of an operation.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Answer {
    /// [`Op::Fetch`]: the page is complete in the buffer frame, with the version in the reply. With
    /// [`Mode::Exclusive`] the node holds the latch.
    Fetched(Served),
    /// [`Op::Fetch`]: the version in the buffer frame is the newest. With [`Mode::Exclusive`] the
    /// node holds the latch.
    Unchanged,
    /// Any other operation: it is done. [`Op::Verify`]: the reply has the latch word.
    Done,
    /// [`Op::Verify`]: the same, and the node has the lease that it asked for.
    Leased,
    /// Another node holds the latch, or changed the page while it was moved. Nothing is granted;
    /// retry.
    Locked,
    /// [`Op::Evict`]: a newer version is elsewhere, or home is up to date: the buffer frame may be
    /// dropped. [`Op::Unfix`], [`Op::Release`]: the node did not hold the latch.
    Superseded,
    /// [`Op::Quiesce`]: not yet; retry.
    Pending,
    /// The newest version was lost with a node. The version at home is older.
    Lost,
    /// The SSD is full.
    Full,
    /// The SSD refused the command or failed: NVMe status.
    Storage(u16),
    /// The peer does not respond at present; nothing is granted. Retry.
    Gone,
    /// The page or buffer frame does not exist.
    Invalid,
    /// The page's store is not open to this node.
    NotMember,
    /// This node was declared dead: its latches, and data that only it had, are lost.
    Fenced,
}

/// The source of a page, and how its entry was found.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub struct Served {
    /// The source.
    pub source: PageSource,
    /// Whether the switch indexes the page; otherwise the entry was in the server's memory.
    pub indexed: bool,
}

/// An operation in flight.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub struct Ticket(pub u32);

/// The end of an operation.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Reply {
    /// The operation.
    pub ticket: Ticket,
    /// Its result.
    pub answer: Answer,
    /// The page's latch word; after an exclusive fetch as granted (locked); zero for
    /// [`Op::Quiesce`].
    pub latch: LatchWord,
}

/// A page directory as one worker sees it. It is sans-IO: it acts only inside calls.
pub trait Directory {
    /// Number of operations that can be started now.
    fn capacity(&self) -> usize;

    /// Starts an operation; `None` if no slot is free.
    fn begin(&mut self, now: Instant, verbs: &mut dyn Verbs, op: Op) -> Option<Ticket>;

    /// Advances all pending operations and returns the next result. Call until it returns `None`.
    fn poll(&mut self, now: Instant, verbs: &mut dyn Verbs) -> Option<Reply>;

    /// When [`Directory::poll`] is due even if no packet arrives, in order to retry.
    fn poll_timeout(&self) -> Option<Instant>;

    /// How often the directory has been rebuilt. When this changes, buffer frames may be in doubt
    /// ([`rackweave_wire::fabric::page::FrameState`]).
    fn beginnings(&self) -> u64 {
        0
    }
}
