//! What workers and housekeeper say to their cache, and what it says to them.

use crate::baseline::scalestore::message::{Message, Place};

/// One access that waits.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Waiter {
    /// The worker.
    pub worker: u16,
    /// Which of its accesses.
    pub slot: u16,
    /// Whether it changes the page.
    pub write: bool,
}

/// Where the page of an access was found.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Source {
    /// In the node's own frame.
    Local,
    /// It was being fetched for another access already.
    Joined,
    /// In the node's own frame, but the owner had to be asked for the right to change it.
    Kept,
    /// In another node's frame.
    Remote,
    /// In storage.
    Home,
}

/// What became of an access that waited.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Event {
    /// It is done.
    Done(u16, Source),
    /// It has to be tried again.
    Retry(u16),
}

/// What became of an access.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum Attempt {
    /// It is done.
    Hit,
    /// It waits for what another access has started.
    Waits,
    /// It waits; this has to be sent to the owner under the tag of its slot.
    Ask(Message),
    /// There is no free frame; the housekeeper makes some.
    NoFrame,
}

/// What follows from an answer.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum Next {
    /// Nothing.
    Nothing,
    /// This has to be sent to the owner.
    Ask(Message),
    /// A frame of another node has to be read: header and page into our frame, then its header.
    Read {
        /// Where from.
        from: Place,
        /// Where to.
        frame: u32,
    },
}

/// What the housekeeper has to do.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum Chore {
    /// Write a page into another node's frame, then call `Cache::pushed`.
    Push {
        /// Which frame.
        frame: u32,
        /// Where to.
        to: Place,
        /// The order's tag.
        tag: u16,
    },
    /// Tell the owner that an order has been complied with.
    Comply {
        /// The order's tag.
        tag: u16,
        /// What to tell.
        message: Message,
    },
    /// Tell the owner about pages that are gone or to be fetched. If there is a frame,
    /// `Cache::written_back` is to be called with the answer.
    Tell {
        /// Whose page is to be fetched.
        frame: Option<u32>,
        /// What to tell.
        message: Message,
    },
}

/// What nobody who keeps to the protocol does, or a page that is not what it should be.
#[derive(Clone, Copy, PartialEq, Eq, Debug, thiserror::Error)]
pub enum CacheError {
    /// An answer that nobody waits for.
    #[error("an answer came that nobody waits for")]
    Unasked,
    /// A page that is damaged or another one.
    #[error("page {0} is damaged, or another one was in its place")]
    Damaged(u64),
}

/// What the cache has done so far.
#[derive(Clone, Copy, PartialEq, Eq, Default, Debug)]
pub struct CacheCounters {
    /// Clean pages dropped.
    pub drops: u64,
    /// Changed pages written back.
    pub write_backs: u64,
    /// Pages given up because the owner wanted them.
    pub revocations: u64,
    /// Redirections that came too late.
    pub redirects_stale: u64,
}
