//! One operation on a page whose entry is in a server's memory. The node itself acts as the
//! directory, by READ and compare-and-swap on the entry's two words, and uses the switch only to
//! move data.
//!
//! This is safe for two reasons:
//! - A latch is taken, changed or released only by compare-and-swap of the whole first word, which
//!   fails once the controller has set it to [`FallbackLatch::INDEXED`]. The operation then
//!   continues in the switch, which also has the latch if it was held.
//! - The place changes by compare-and-swap as well, so that no node's mark of a write is lost.
//!   While the switch has the entry, the controller keeps a value there that is not a place, and it
//!   does not take over an entry that bears the mark.

mod evict;
mod fetch;
mod latch;

use super::step::{Event, Goal, Step};
use super::{Answer, Op};
use evict::Evict;
use fetch::Fetch;
use latch::Latch;
use rackweave_wire::fabric::page::FallbackLatch;

/// The machine.
#[derive(Clone, Copy, Debug)]
pub(super) enum FallbackWalk {
    /// Fetches a page.
    Fetch(Fetch),
    /// Reads the latch, or releases it.
    Latch(Latch),
    /// Writes a page home.
    Evict(Evict),
}

impl FallbackWalk {
    /// The machine of node `me`, if the goal concerns a page, and its first step, which reads the
    /// entry.
    pub fn start(me: u16, goal: Goal) -> Option<(Self, Step)> {
        let walk = match goal {
            Goal::Do(Op::Fetch {
                page,
                mode,
                frame,
                have,
            }) => Self::Fetch(Fetch::new(me, page, mode, frame, have)),
            Goal::Do(Op::Evict { page, frame, keep }) => {
                Self::Evict(Evict::new(me, page, frame, keep))
            }
            Goal::Rewrite {
                page,
                frame,
                keep,
                sure,
            } => Self::Evict(Evict::again(me, page, frame, keep, sure)),
            Goal::Unmark { page, frame, sure } => Self::Evict(Evict::unmark(me, page, frame, sure)),
            Goal::Do(
                Op::Verify { .. }
                | Op::Unfix { .. }
                | Op::Release { .. }
                | Op::Own { .. }
                | Op::Disown { .. },
            )
            | Goal::Undo { .. } => Self::Latch(Latch::new(me, goal)),
            Goal::Do(Op::Quiesce | Op::Flush { .. } | Op::ReadHome { .. }) => return None,
        };
        Some((walk, Step::ReadEntry))
    }

    /// What it has to do if it is restarted.
    pub fn goal(&self) -> Goal {
        match self {
            Self::Fetch(fetch) => fetch.owes().unwrap_or(fetch.goal()),
            Self::Latch(latch) => latch.goal(),
            Self::Evict(evict) => evict.goal(),
        }
    }

    /// What must be done in its place if it is abandoned.
    pub fn owes(&self) -> Option<Goal> {
        match self {
            Self::Fetch(fetch) => fetch.owes().or(fetch.may_hold()),
            Self::Latch(latch) => match latch.goal() {
                goal @ Goal::Undo { .. } => Some(goal),
                _ => None,
            },
            Self::Evict(evict) => Some(evict.owes()),
        }
    }

    /// The next step after an event.
    pub fn next(&mut self, event: Event) -> Step {
        match self {
            Self::Fetch(fetch) => fetch.next(event),
            Self::Latch(latch) => latch.next(event),
            Self::Evict(evict) => evict.next(event),
        }
    }
}

/// How often a machine rereads the entry at once because another node's change came between its
/// READ and its compare-and-swap. After that it pauses: a node that keeps changing the entry, by
/// mistake or on purpose, must not prevent an operation from ending.
const OVERTAKEN_AT_ONCE: u8 = 3;

/// Counts how often a machine was overtaken, and returns whether it must pause.
fn is_overtaken_often(overtaken: &mut u8) -> bool {
    *overtaken = overtaken.saturating_add(1);
    *overtaken > OVERTAKEN_AT_ONCE
}

/// The latch word after `me` has taken the latch.
fn taken(word: FallbackLatch, me: u16) -> FallbackLatch {
    FallbackLatch::new(word.latch().locked(), Some(me))
}

/// The latch word after a release without a change.
fn released(word: FallbackLatch) -> FallbackLatch {
    FallbackLatch::new(word.latch().released(), None)
}

/// The end of an operation whose server does not respond.
fn gone() -> Step {
    Step::End(Answer::Gone, super::step::NO_LATCH)
}

#[cfg(test)]
mod tests;
