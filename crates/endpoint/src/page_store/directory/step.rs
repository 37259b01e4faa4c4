//! The interface between the machine of a single operation and the channel that carries it.
//!
//! A machine ([`super::switch::SwitchWalk`], [`super::fallback::FallbackWalk`]) is a value with
//! pure transitions: it takes an [`Event`] and returns a [`Step`]. It waits for one thing at a
//! time, so that a slot's areas in the control region are never in use twice.

use super::{Answer, Op};
use rackweave_wire::fabric::page::{
    Completion, FallbackLatch, LatchWord, Operation, PageId, PageLocation, Response,
};

/// How often an operation retries by itself after a source or target failed. Except in double
/// failures, the directory has a new place, or the target is back, after the first time.
pub(super) const FAILURES_MAX: u8 = 3;

/// No latch word.
pub(super) const NO_LATCH: LatchWord = LatchWord(0);

/// What an operation still has to do, wherever the entry is: the part of its state that survives a
/// move of the entry between switch and server.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Goal {
    /// The operation as requested.
    Do(Op),
    /// The operation has ended with this result, but the latch must be released first.
    Undo {
        page: PageId,
        answer: Answer,
        latch: LatchWord,
    },
    /// An [`Op::Evict`] ended with unknown outcome: the mark of a write in flight must be removed.
    /// If it is not `sure` that the mark was set, it is removed only while the page is at this
    /// node.
    Unmark {
        page: PageId,
        frame: u32,
        sure: bool,
    },
    /// An [`Op::Evict`] whose mark of a write in flight is, or may be, already in the entry.
    Rewrite {
        page: PageId,
        frame: u32,
        keep: bool,
        sure: bool,
    },
}

impl Goal {
    /// The page that it concerns, if any.
    pub fn page(&self) -> Option<PageId> {
        match *self {
            Goal::Do(op) => op.page(),
            Goal::Undo { page, .. } | Goal::Unmark { page, .. } | Goal::Rewrite { page, .. } => {
                Some(page)
            }
        }
    }

    /// What remains of it in a rebuilt directory, in which no page is being written home.
    pub fn anew(self) -> Option<Self> {
        match self {
            Goal::Rewrite {
                page, frame, keep, ..
            } => Some(Goal::Do(Op::Evict { page, frame, keep })),
            Goal::Unmark { .. } => None,
            other => Some(other),
        }
    }

    /// Whether the node reports what it has found out about a page in doubt.
    pub fn finds_out(&self) -> bool {
        matches!(self, Goal::Do(Op::Own { .. } | Op::Disown { .. }))
    }
}

/// A word of an entry in a server's memory.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Word {
    /// The first word.
    Latch,
    /// The second word.
    PageLocation,
}

/// The next action of the channel for an operation.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Step {
    /// A request to the switch. [`Event::Answered`], [`Event::Moved`] or [`Event::Lost`] follows.
    Ask {
        operation: Operation,
        page: PageId,
        argument: u8,
        frame: u32,
    },
    /// A READ of the entry. [`Event::Entry`] or [`Event::ServerLost`] follows.
    ReadEntry,
    /// A compare-and-swap. [`Event::Swapped`] or [`Event::ServerLost`] follows.
    Swap { word: Word, compare: u64, swap: u64 },
    /// A pause, longer each time. [`Event::Due`] follows.
    Pause,
    /// The entry is in the switch: a new machine continues.
    Switch(Goal),
    /// The entry is in the server's memory: a new machine continues.
    Fallback(Goal),
    /// The operation has ended.
    End(Answer, LatchWord),
}

/// The result of a step.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Event {
    /// The switch's response, without data to follow.
    Answered(Response),
    /// Response and completion.
    Moved(Response, Completion),
    /// The entry.
    Entry(FallbackLatch, PageLocation),
    /// The previous value of the word.
    Swapped(u64),
    /// The pause is over. `tired`: the operation has been tried for so long that it should end.
    Due { tired: bool },
    /// The switch does not respond, and will not.
    Lost,
    /// The server does not respond, and will not.
    ServerLost,
}

/// The result for an error of the NVMe target.
pub(super) fn storage(nvme_status: u16) -> Answer {
    /// Status code type and status code, without "more" and "do not retry".
    const CODE: u16 = 0x7ff;
    /// Generic command status "Capacity Exceeded" (NVM Command Set 1.0, figure 16).
    const CAPACITY_EXCEEDED: u16 = 0x81;
    if nvme_status & CODE == CAPACITY_EXCEEDED {
        Answer::Full
    } else {
        Answer::Storage(nvme_status)
    }
}
