//! What a page store asks of a page directory, wherever the directory is.
//!
//! [`Directory`] is the seam: the pool and its workers know nothing else. [`Channel`] is the real
//! one: requests to the switch, and for pages that the switch does not index the same entries in a
//! server's memory, by one-sided operations. A worker has a channel of its own.
//!
//! `channel` carries operations to queue pairs and back; what an operation does is in two
//! machines that know no queue pair: `switch` and `fallback`. `conformance` is what every
//! directory must do.

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
use rackweave_wire::fabric::page::{LatchWord, PageId, Source};

/// How a page is wanted.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub enum Mode {
    /// To read a version of it.
    Shared,
    /// To change it; nobody else gets it meanwhile.
    Exclusive,
}

/// An operation on the directory. At most one at a time may be under way for a page of a node,
/// save any number of [`Op::Verify`].
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Op {
    /// The page into a buffer frame that nobody on this node uses (its header is void), or that
    /// holds version `have` of it: then nothing is moved if that is the newest.
    Fetch {
        /// The page.
        page: PageId,
        /// With [`Mode::Exclusive`] the latch is the node's afterwards.
        mode: Mode,
        /// Where to.
        frame: u32,
        /// The version that the buffer frame holds.
        have: Option<u64>,
    },
    /// The latch word of a page.
    Verify {
        /// The page.
        page: PageId,
    },
    /// Gives the latch back; the page was changed, and is in this buffer frame.
    Unfix {
        /// The page.
        page: PageId,
        /// Where it is.
        frame: u32,
    },
    /// Gives the latch back; nothing was changed.
    Release {
        /// The page.
        page: PageId,
    },
    /// Writes a changed page home. Nobody on this node may change the buffer frame meanwhile.
    Evict {
        /// The page.
        page: PageId,
        /// Where it is.
        frame: u32,
        /// Whether the buffer frame stays the page's place, for others to read from.
        keep: bool,
    },
    /// The page at home into the pool's spare buffer frame, whatever the directory says.
    ReadHome {
        /// The page.
        page: PageId,
    },
    /// The directory gave this node a page's latch because it may have the newest version, and it
    /// has: as [`Op::Unfix`]. It ends in [`Answer::Gone`] when the channel is connected anew, since
    /// the directory may be another one then. Asked again by who is still to find out,
    /// [`Answer::Superseded`] says that it was done before.
    Own {
        /// The page.
        page: PageId,
        /// Where it is.
        frame: u32,
    },
    /// The same, and it has not: the newest is at home, and the latch goes back. As [`Op::Own`]
    /// otherwise.
    Disown {
        /// The page.
        page: PageId,
    },
    /// Have all transfers out of this node's buffer frames ended that began before? Buffer frames
    /// whose headers were voided may be used again after this has been [`Answer::Done`] twice
    /// since.
    Quiesce,
    /// Everything that was written to this store before becomes durable.
    Flush {
        /// The store.
        store: u8,
    },
}

impl Op {
    /// The page it is about; [`Op::Quiesce`] and [`Op::Flush`] are about none.
    pub fn page(&self) -> Option<PageId> {
        match *self {
            Op::Fetch { page, .. }
            | Op::Verify { page }
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

/// How an operation ended.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Answer {
    /// [`Op::Fetch`]: the page is in the buffer frame, of the version in the reply, whole. With
    /// [`Mode::Exclusive`] the latch is the node's.
    Fetched(Served),
    /// [`Op::Fetch`]: the version that was there is the newest. With [`Mode::Exclusive`] the latch
    /// is the node's.
    Unchanged,
    /// Anything else: it is done. [`Op::Verify`]: the reply has the latch word.
    Done,
    /// Somebody has the latch, or has changed the page while it was moving: nothing is granted; ask
    /// again.
    Locked,
    /// [`Op::Evict`]: the page is elsewhere in a newer version, or home is up to date: the buffer
    /// frame may be dropped. [`Op::Unfix`], [`Op::Release`]: the latch was not the node's.
    Superseded,
    /// [`Op::Quiesce`]: not yet; ask again.
    Pending,
    /// The newest version went down with a node. The home's is older.
    Lost,
    /// The SSD has no room.
    Full,
    /// The SSD refused or failed: NVMe status.
    Storage(u16),
    /// Whoever had to answer is gone, for now; nothing is granted. Ask again.
    Gone,
    /// The page or buffer frame does not exist.
    Invalid,
    /// The page's store is not open to this node.
    NotMember,
    /// This node was taken for dead: its latches and what only it had are gone.
    Fenced,
}

/// Where a page came from, and how it was found.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub struct Served {
    /// From where.
    pub source: Source,
    /// Whether the switch indexes the page; else the server's memory was asked.
    pub indexed: bool,
}

/// An operation under way.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub struct Ticket(pub u32);

/// The end of an operation.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Reply {
    /// Which.
    pub ticket: Ticket,
    /// How it ended.
    pub answer: Answer,
    /// The page's latch word; of an exclusive fetch as granted (locked); zero of
    /// [`Op::Quiesce`].
    pub latch: LatchWord,
}

/// A page directory as one worker sees it. Sans-IO: what it does, it does in calls.
pub trait Directory {
    /// Operations that can begin now.
    fn room(&self) -> usize;

    /// Begins an operation; nothing if there is no room.
    fn begin(&mut self, now: Instant, verbs: &mut dyn Verbs, op: Op) -> Option<Ticket>;

    /// Gets on with everything under way; the next operation that has ended. Call until nothing
    /// comes.
    fn poll(&mut self, now: Instant, verbs: &mut dyn Verbs) -> Option<Reply>;

    /// When [`Directory::poll`] is due even if no packet comes: to ask again.
    fn poll_timeout(&self) -> Option<Instant>;

    /// How often the directory has begun anew. When that changes, buffer frames may be in doubt
    /// ([`rackweave_wire::fabric::page::FrameState`]).
    fn beginnings(&self) -> u64 {
        0
    }
}
