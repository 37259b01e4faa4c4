//! One operation on a page whose entry is in a server's memory: the node itself is the directory,
//! by READ and compare-and-swap on the entry's two words, and asks the switch only to move data.
//!
//! What makes that safe:
//! - Nobody takes, changes or gives back a latch but by compare-and-swap of the whole first word,
//!   which fails once the controller has made it [`FallbackLatch::INDEXED`]. Then the operation
//!   goes on in the switch, where the latch is too, if it was held.
//! - The place changes by compare-and-swap as well, so that nobody's mark of a write is lost. While
//!   the switch has the entry, the controller keeps a value there that is no place, and it takes no
//!   entry over that bears the mark.

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
    /// Brings a page.
    Fetch(Fetch),
    /// Looks at the latch, or gives it back.
    Latch(Latch),
    /// Writes a page home.
    Evict(Evict),
}

impl FallbackWalk {
    /// The machine of node `me`, if the goal is about a page, and its first step: the entry is
    /// read.
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

    /// What it is to do, should it begin anew.
    pub fn goal(&self) -> Goal {
        match self {
            Self::Fetch(fetch) => fetch.owes().unwrap_or(fetch.goal()),
            Self::Latch(latch) => latch.goal(),
            Self::Evict(evict) => evict.goal(),
        }
    }

    /// What is to be done in place of it, should nobody be there to do it.
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

    /// What to do now.
    pub fn next(&mut self, event: Event) -> Step {
        match self {
            Self::Fetch(fetch) => fetch.next(event),
            Self::Latch(latch) => latch.next(event),
            Self::Evict(evict) => evict.next(event),
        }
    }
}

/// How often a machine reads the entry again at once because another node's change came between its
/// READ and its compare-and-swap. After that it pauses: who changes the entry on and on, by mistake
/// or on purpose, must not keep an operation from its end.
const OVERTAKEN_AT_ONCE: u8 = 3;

/// Counts how often a machine was overtaken, and says whether it is to pause.
fn is_overtaken_often(overtaken: &mut u8) -> bool {
    *overtaken = overtaken.saturating_add(1);
    *overtaken > OVERTAKEN_AT_ONCE
}

/// The word of a latch that `me` takes.
fn taken(word: FallbackLatch, me: u16) -> FallbackLatch {
    FallbackLatch::new(word.latch().locked(), Some(me))
}

/// The word of a latch that is given back, nothing changed.
fn released(word: FallbackLatch) -> FallbackLatch {
    FallbackLatch::new(word.latch().released(), None)
}

/// The end of an operation whose server is gone.
fn gone() -> Step {
    Step::End(Answer::Gone, super::step::NO_LATCH)
}

#[cfg(test)]
mod tests;
