//! What the machines of single operations say to the channel that carries them, and hear from it.
//!
//! A machine ([`super::switch::SwitchWalk`], [`super::fallback::FallbackWalk`]) is a value with
//! pure transitions: an [`Event`] in, a [`Step`] out. It waits for one thing at a time, so that a
//! slot's places in the control region are never in use twice.

use super::{Answer, Op};
use rackweave_wire::fabric::page::{
    Completion, FallbackLatch, LatchWord, Operation, PageId, Place, Response,
};

/// How often an operation asks again by itself after a source or target went away. The directory
/// has a new place, or the target is back, after the first time in all but double failures.
pub(super) const FAILURES_MAX: u8 = 3;

/// No latch word.
pub(super) const NO_LATCH: LatchWord = LatchWord(0);

/// What is to be done, wherever the entry is: the part of an operation that outlives a move of the
/// entry between switch and server.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Goal {
    /// The operation as it was asked for.
    Do(Op),
    /// It has ended so, but the latch is to be given back first.
    Undo {
        page: PageId,
        answer: Answer,
        latch: LatchWord,
    },
    /// An [`Op::Evict`] ended, nobody knows how: the mark, that a write is under way, is to be
    /// taken away. If it is not `sure` that it was made, only while the page is at this node.
    Unmark {
        page: PageId,
        frame: u32,
        sure: bool,
    },
    /// An [`Op::Evict`] whose mark, that a write is under way, is in the entry already, or may be.
    Rewrite {
        page: PageId,
        frame: u32,
        keep: bool,
        sure: bool,
    },
}

impl Goal {
    /// The page it is about, if it is about one.
    pub fn page(&self) -> Option<PageId> {
        match *self {
            Goal::Do(op) => op.page(),
            Goal::Undo { page, .. } | Goal::Unmark { page, .. } | Goal::Rewrite { page, .. } => {
                Some(page)
            }
        }
    }

    /// What is left of it for a directory that was made again, in which nobody writes a page home.
    pub fn anew(self) -> Option<Self> {
        match self {
            Goal::Rewrite {
                page, frame, keep, ..
            } => Some(Goal::Do(Op::Evict { page, frame, keep })),
            Goal::Unmark { .. } => None,
            other => Some(other),
        }
    }

    /// Whether the node says what it has found out about a page in doubt.
    pub fn finds_out(&self) -> bool {
        matches!(self, Goal::Do(Op::Own { .. } | Op::Disown { .. }))
    }
}

/// A word of an entry in a server's memory.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Word {
    /// The first.
    Latch,
    /// The second.
    Place,
}

/// What the channel is to do next for an operation.
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
    /// Nothing for a while, ever longer. [`Event::Due`] follows.
    Pause,
    /// The entry is in the switch: a new machine gets on with it.
    Switch(Goal),
    /// The entry is in the server's memory: a new machine gets on with it.
    Fallback(Goal),
    /// It has ended.
    End(Answer, LatchWord),
}

/// What became of a step.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Event {
    /// The switch's response, and no data follows.
    Answered(Response),
    /// Response and completion.
    Moved(Response, Completion),
    /// The entry.
    Entry(FallbackLatch, Place),
    /// What the word was before.
    Swapped(u64),
    /// The pause is over. Tired: it has been tried for so long that it should end.
    Due { tired: bool },
    /// The switch does not answer, and will not.
    Lost,
    /// The server does not answer, and will not.
    ServerLost,
}

/// The answer to an error of the NVMe target.
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
