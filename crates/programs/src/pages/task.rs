//! The recirculated tasks of the page directory, and its reports to the controller.

use rackweave_base::Psn;
use rackweave_switch::transfer::{EngineTask, LaneId};
use rackweave_wire::fabric::page::{LatchWord, Outcome, PageId, PageSource};

/// Tasks of a switch with a page directory: its own and the transfer engine's.
pub trait Tasks: Copy + From<PageTask> + From<EngineTask> {}

impl<T: Copy + From<PageTask> + From<EngineTask>> Tasks for T {}

/// Digests of a switch with a page directory.
pub trait Digests: PartialEq + From<PageDigest> {}

impl<D: PartialEq + From<PageDigest>> Digests for D {}

/// The end of a movement, as it recirculates: the low half of a completion's first word.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct End(pub u32);

impl End {
    /// An end without NVMe status.
    pub const fn new(outcome: Outcome, source: PageSource) -> Self {
        Self(outcome as u32 | (source as u32) << 8)
    }

    /// The end of an NVMe command.
    pub const fn storage(status: u16) -> Self {
        let outcome = if status == 0 {
            Outcome::Done
        } else {
            Outcome::StorageError
        };
        let Self(end) = Self::new(outcome, PageSource::Storage);
        Self(end | (status as u32) << 16)
    }

    /// Whether the data has reached its destination.
    pub const fn is_done(self) -> bool {
        self.0 as u8 == Outcome::Done as u8
    }

    /// Whether the data came from, or went to, an SSD.
    pub const fn is_storage(self) -> bool {
        (self.0 >> 8) as u8 == PageSource::Storage as u8
    }

    /// The same with another outcome.
    pub const fn with_outcome(self, outcome: Outcome) -> Self {
        Self(self.0 & !0xff | outcome as u32)
    }
}

/// A report of the directory to the controller.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum PageDigest {
    /// A page that is not indexed is requested often.
    Hot(PageId),
    /// A page could not be moved between the memories of two nodes. The slot waits for its
    /// completion, and the source lane stays reserved until it is repaired.
    MoveFailed {
        /// The slot.
        slot: u16,
        /// The source lane.
        source: LaneId,
        /// The PSN of the slot's request.
        command: Psn,
    },
    /// A node does not accept a completion. The slot's further completions wait for it.
    RequesterSilent {
        /// The slot.
        slot: u16,
    },
    /// An NVMe target does not answer. The slot waits for its completion.
    StorageSilent {
        /// The slot.
        slot: u16,
        /// The store.
        store: u8,
    },
}

/// A task.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum PageTask {
    /// Send the slot's NVMe command: read or write the home of its page.
    Command {
        /// The slot.
        slot: u16,
        /// The store.
        store: u8,
    },
    /// A response capsule has arrived, and all data before it.
    Finish {
        /// The slot.
        slot: u16,
        /// The store.
        store: u8,
        /// The capsule's PSN.
        psn: Psn,
        /// The PSN of the next request passed on to the slot's node.
        relay: Psn,
        /// The NVMe status.
        status: u16,
    },
    /// The slot's movement has ended: notify its node.
    Complete {
        /// The slot.
        slot: u16,
        /// How it ended.
        end: End,
    },
    /// The slot's request has been answered and moves nothing: the slot may be reused.
    Idle {
        /// The slot.
        slot: u16,
    },
    /// The lane of the slot's completions is reconnected: its last completion is sent again.
    Repeat {
        /// The slot.
        slot: u16,
    },
    /// Revoke the lease of a node on the slot's page.
    Revoke {
        /// The slot.
        slot: u16,
        /// The node.
        node: u16,
    },
    /// Move the slot's page out of a buffer frame: another one did not have it.
    MoveFrom {
        /// The slot.
        slot: u16,
        /// The node.
        node: u16,
        /// Its buffer frame.
        frame: u32,
    },
    /// The slot's node has received the page in the version of this latch word.
    Received {
        /// The slot.
        slot: u16,
        /// The latch word.
        latch: LatchWord,
    },
}

impl PageTask {
    /// The slot of this task.
    pub const fn slot(&self) -> u16 {
        match *self {
            PageTask::Command { slot, .. }
            | PageTask::Finish { slot, .. }
            | PageTask::Complete { slot, .. }
            | PageTask::Idle { slot }
            | PageTask::Repeat { slot }
            | PageTask::Revoke { slot, .. }
            | PageTask::MoveFrom { slot, .. }
            | PageTask::Received { slot, .. } => slot,
        }
    }
}
