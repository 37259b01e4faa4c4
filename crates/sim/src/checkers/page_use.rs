//! Checks which pages of a store are in use, and whether the store was closed.
//!
//! Users report each allocation, free, open and close in the order in which they happen; the
//! harness reports crashes. The checker knows nothing of extents, stamps or latches. Of the format
//! it knows only the two bits that a map has for each page.
//!
//! Requirements (docs/pages.md, "What is promised"):
//! - an allocated page is in use, whatever crashes, until it is freed: it is not allocated a second
//!   time, and its map says so;
//! - superblock and maps are never allocated;
//! - without a crash or an error no page is leaked;
//! - a store is found closed if it was closed and not opened since, and never if it was opened.
//!
//! The *content* of pages is checked by [`super::PageHistory`].

use super::found::Found;
use super::page_history::Who;
use rackweave_base::Rng;
use std::collections::BTreeMap;

/// Bytes of a map before its bits, after the header of the page.
const MAP_HEAD: usize = 1024;

/// The map state of an allocated page; even numbers mean that it may be allocated.
const IN_USE: u8 = 1;

/// A violation by the allocations of a store.
#[derive(Clone, Copy, PartialEq, Eq, Debug, thiserror::Error)]
pub enum UseViolation {
    /// A page that is in use was allocated again.
    #[error("page {page:#x} was handed out to {who} while it is in use by {owner}")]
    HandedOutTwice {
        /// The page.
        page: u64,
        /// The worker that got it.
        who: Who,
        /// The worker that had got it before.
        owner: Who,
    },
    /// The allocated page cannot be allocated.
    #[error("page {page:#x} was handed out to {who}, and is superblock, map or beyond the end")]
    NoSuchPage {
        /// The page.
        page: u64,
        /// The worker that got it.
        who: Who,
    },
    /// A page in use cannot be freed, because it is reported as free.
    #[error("page {page:#x}: {who} was told that it is not in use; nobody has freed it")]
    TakenBack {
        /// The page.
        page: u64,
        /// The worker that was refused.
        who: Who,
    },
    /// A page in use is not marked in the map.
    #[error("page {page:#x} is in use by {owner}; its map says {state}")]
    NotMarked {
        /// The page.
        page: u64,
        /// The worker that allocated it.
        owner: Who,
        /// The two bits of the map.
        state: u8,
    },
    /// The map has unowned pages in use, and nothing has happened that may leak any.
    #[error("the map has {pages} pages in use that nobody was handed out, one of them {first:#x}")]
    Leaked {
        /// Their number.
        pages: u64,
        /// The first of them.
        first: u64,
    },
    /// A store that was opened is found closed.
    #[error("{who} found the store closed; it was opened, and not closed since")]
    FoundClosed {
        /// The worker that opened it.
        who: Who,
    },
    /// A store that was closed is found open.
    #[error("{who} found the store open; it was closed, and nobody has opened it since")]
    FoundOpen {
        /// The worker that opened it.
        who: Who,
    },
    /// The store miscounts its closings: an old superblock.
    #[error("{who} found a store that was closed {found} times; {least} to {most} are possible")]
    Closings {
        /// The worker that opened it.
        who: Who,
        /// The number in the superblock.
        found: u64,
        /// Closings that were confirmed.
        least: u64,
        /// Closings that were begun.
        most: u64,
    },
}

/// The state of a page.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Known {
    /// It was never allocated.
    Unused,
    /// It was allocated to this worker.
    InUse(Who),
    /// It is being freed: it may be in use or free.
    Freed,
}

/// The durable state of the superblock.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Mark {
    Open,
    Closed,
    /// It is being changed, or the worker changing it died.
    Unknown,
}

/// The beginning of an opening, with the state known then.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct OpenAsked {
    who: Who,
    mark: Mark,
    changes: u64,
    /// The number of openings, including this one.
    openings: u64,
    closings: u64,
}

/// The pages of a store, as known to its users.
#[derive(Debug)]
pub struct PageUse {
    pages: BTreeMap<u64, Known>,
    may_leak: bool,
    mark: Mark,
    /// The number of changes of the mark.
    changes: u64,
    /// Openings that were begun.
    openings: u64,
    /// Closings that were confirmed, and those that were begun.
    closed: u64,
    closings: u64,
    handed_out: u64,
    freed: u64,
    violations: Found<UseViolation>,
}

impl PageUse {
    /// A store of these pages, without superblock and maps. It is not formatted yet.
    pub fn new(pages: impl IntoIterator<Item = u64>) -> Self {
        let pages = pages.into_iter().map(|page| (page, Known::Unused));
        Self {
            pages: pages.collect(),
            may_leak: false,
            mark: Mark::Unknown,
            changes: 0,
            openings: 0,
            closed: 0,
            closings: 0,
            handed_out: 0,
            freed: 0,
            violations: Found::default(),
        }
    }

    /// Whether this page can be allocated.
    pub fn has(&self, page: u64) -> bool {
        self.pages.contains_key(&page)
    }

    /// Records that a page was allocated. Returns whether it had been allocated before, so that
    /// zeroes were written to it.
    pub fn handed_out(&mut self, who: Who, page: u64) -> bool {
        self.handed_out += 1;
        let Some(known) = self.pages.get_mut(&page) else {
            self.violations.push(UseViolation::NoSuchPage { page, who });
            return false;
        };
        match core::mem::replace(known, Known::InUse(who)) {
            Known::Unused => false,
            Known::Freed => true,
            Known::InUse(owner) => {
                self.violations
                    .push(UseViolation::HandedOutTwice { page, who, owner });
                true
            }
        }
    }

    /// Records that a page in use begins to be freed: from now on it may be allocated to others.
    ///
    /// # Panics
    /// If it is not in use: the harness has freed it twice.
    pub fn free(&mut self, page: u64) {
        let known = self.pages.insert(page, Known::Freed);
        let was_in_use = matches!(known, Some(Known::InUse(_)));
        assert!(was_in_use, "page {page:#x} is not in use");
        self.freed += 1;
    }

    /// Records that a worker freeing a page got the error that it is not in use.
    pub fn already_free(&mut self, who: Who, page: u64) {
        self.violations.push(UseViolation::TakenBack { page, who });
    }

    /// Records a crash, or an error returned to a user: pages may be leaked from now on.
    pub fn may_leak(&mut self) {
        self.may_leak = true;
    }

    /// The pages in use, in order.
    pub fn in_use(&self) -> impl Iterator<Item = u64> {
        let in_use = |known: &Known| matches!(known, Known::InUse(_));
        let pages = self.pages.iter();
        pages.filter_map(move |(page, known)| in_use(known).then_some(*page))
    }

    /// A random page in use for which `is_fit`.
    pub fn pick(&self, rng: &mut Rng, is_fit: impl Fn(u64) -> bool) -> Option<u64> {
        let fit: Vec<u64> = self.in_use().filter(|page| is_fit(*page)).collect();
        (!fit.is_empty()).then(|| *rng.pick(&fit))
    }

    /// Checks the map of a group, read while no page is allocated or freed, all allocators have
    /// returned their reserved pages, or died, and nothing is lost. `first` is the first page of
    /// the group, `bytes` the data after the header of the map's page. Returns how many pages can
    /// be allocated.
    pub fn judge_map(&mut self, first: u64, bytes: &[u8]) -> u64 {
        let (mut available, mut leaked, mut first_leaked) = (0, 0, 0);
        for (&page, &known) in self.pages.range(first..) {
            let at = page - first;
            let byte = bytes.get(MAP_HEAD + (at / 4) as usize);
            let Some(state) = byte.map(|byte| byte >> (at % 4 * 2) & 3) else {
                break;
            };
            available += u64::from(state % 2 == 0);
            match known {
                Known::InUse(owner) if state != IN_USE => {
                    self.violations
                        .push(UseViolation::NotMarked { page, owner, state });
                }
                Known::Unused | Known::Freed if state == IN_USE && !self.may_leak => {
                    first_leaked = if leaked == 0 { page } else { first_leaked };
                    leaked += 1;
                }
                _ => {}
            }
        }
        if leaked > 0 {
            let (pages, first) = (leaked, first_leaked);
            self.violations.push(UseViolation::Leaked { pages, first });
        }
        available
    }

    /// Records that the store was formatted, which opens it.
    pub fn formatted(&mut self) {
        self.set_mark(Mark::Open);
    }

    /// Records the beginning of an opening.
    pub fn ask_open(&mut self, who: Who) -> OpenAsked {
        self.openings += 1;
        let asked = OpenAsked {
            who,
            mark: self.mark,
            changes: self.changes,
            openings: self.openings,
            closings: self.closed,
        };
        if self.mark == Mark::Closed {
            // Unknown, whatever the outcome; earlier openings are not affected.
            self.mark = Mark::Unknown;
        }
        asked
    }

    /// Records that the store is open, whether it was found closed, and its number of closings.
    pub fn opened(&mut self, asked: OpenAsked, found_closed: bool, closings: u64) {
        let who = asked.who;
        if asked.changes == self.changes {
            // An opening begun since may have marked it before.
            let is_alone = asked.openings == self.openings;
            match asked.mark {
                Mark::Open if found_closed => {
                    self.violations.push(UseViolation::FoundClosed { who })
                }
                Mark::Closed if !found_closed && is_alone => {
                    self.violations.push(UseViolation::FoundOpen { who });
                }
                _ => {}
            }
        }
        if !(asked.closings..=self.closings).contains(&closings) {
            self.violations.push(UseViolation::Closings {
                who,
                found: closings,
                least: asked.closings,
                most: self.closings,
            });
        }
        if self.mark != Mark::Open {
            self.set_mark(Mark::Open);
        }
    }

    /// Records that a worker begins to mark the store as closed while no other worker uses it.
    pub fn ask_close(&mut self) {
        self.closings += 1;
        self.set_mark(Mark::Unknown);
    }

    /// Records that the closing is done.
    pub fn closed(&mut self) {
        self.closed += 1;
        self.set_mark(Mark::Closed);
    }

    /// Numbers of allocations and frees.
    pub fn counts(&self) -> (u64, u64) {
        (self.handed_out, self.freed)
    }

    /// The verdict.
    ///
    /// # Errors
    /// All violations, the first ones in full.
    pub fn finish(self) -> Result<(), Vec<UseViolation>> {
        self.violations.judge(())
    }

    fn set_mark(&mut self, mark: Mark) {
        self.mark = mark;
        self.changes += 1;
    }
}

#[cfg(test)]
mod tests;
