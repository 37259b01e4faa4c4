//! Checks the pages of a page store: every version of every page that a worker saw.
//!
//! Users of the store report each request, its result and each release, in the order in which they
//! happen; the harness reports deaths, losses and flushes. From these the checker keeps a sequence
//! of states of each page, and decides of each page returned whether it could be in that state at
//! that time. It knows nothing of latch words, directories or buffer frames.
//!
//! Requirements (docs/faults.md, docs/pages.md):
//! - at most one worker has a page exclusively, from the moment it gets it until it releases it;
//! - a worker that gets a page exclusively gets the newest version, and the next version is one
//!   more;
//! - a reader gets a version that was the newest at some time between its request and the answer;
//! - every page is exactly one version;
//! - what dies with a node is reported lost and is never replaced by something older until the loss
//!   is accepted; what did not die is not reported lost;
//! - the latch of a dead node passes to others in bounded time.
//!
//! A change whose writer died before it knew whether the change was taken may or may not have been,
//! until an observation shows which.

mod content;
mod faults;
mod page;
mod violation;

pub use content::{CONTENT_BYTES_MIN, PageStamp, Torn, check_page, fill_page};
pub use violation::{PageFault, PageViolation};

use super::found::Found;
use core::fmt;
use page::{Content, Holder, Page, State};
use rackweave_base::{Duration, Instant};
use std::collections::{BTreeMap, BTreeSet};

/// A worker of a node. A node that returns after its death has another number.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub struct Who {
    /// The node.
    pub node: u16,
    /// The worker on it.
    pub worker: u16,
}

impl fmt::Display for Who {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "worker {} of node {}", self.worker, self.node)
    }
}

/// A request for a page: what was certain when it was made.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Asked {
    who: Who,
    page: u64,
    at: Instant,
    /// The oldest state that may be the answer.
    floor: usize,
}

/// The pages of a node that a flush has to write home.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct FlushAsked(Vec<(u64, usize)>);

/// The result of a request.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Got {
    /// The version that the store reported.
    pub version: u64,
    /// The result of [`check_page`] on the bytes.
    pub content: Result<Option<PageStamp>, Torn>,
}

/// The history of all pages of a store.
#[derive(Debug)]
pub struct PageHistory {
    pages: BTreeMap<u64, Page>,
    /// Nodes that died or were declared dead.
    dead: BTreeSet<u16>,
    patience: Duration,
    reads: u64,
    writes: u64,
    violations: Found<PageViolation>,
}

impl PageHistory {
    /// A history in which the latch of a dead node must pass to others within `patience`.
    pub fn new(patience: Duration) -> Self {
        Self {
            pages: BTreeMap::new(),
            dead: BTreeSet::new(),
            patience,
            reads: 0,
            writes: 0,
            violations: Found::default(),
        }
    }

    /// Records a new, empty page, of any version.
    pub fn create(&mut self, page: u64) {
        let first = State::unseen(0, vec![None]);
        self.pages.insert(page, Page::new(first));
    }

    /// Records a request for a page.
    ///
    /// # Panics
    /// If there is no such page.
    pub fn ask(&self, now: Instant, who: Who, page: u64) -> Asked {
        let entry = &self.pages[&page];
        // A node knows its own released changes, whether taken by the store or not.
        let by_node = entry.newest().writer.is_some_and(|w| w.node == who.node);
        let floor = if by_node && !self.dead.contains(&who.node) {
            entry.last()
        } else {
            entry.floor()
        };
        Asked {
            who,
            page,
            at: now,
            floor,
        }
    }

    /// Records that a request returned the page shared.
    pub fn shared(&mut self, now: Instant, asked: Asked, got: Got) {
        self.reads += 1;
        self.judge_wait(now, asked);
        let Some(content) = self.whole(asked, got) else {
            return;
        };
        let page = self.page(asked.page);
        let mut states = page.states.iter().enumerate();
        let matching = states.rfind(|(_, state)| state.matches(got.version, content));
        match matching.map(|(at, _)| at) {
            Some(at) if at >= asked.floor.min(page.last()) => {
                page.seen(at, got.version, content);
                page.orphaned = None;
            }
            Some(_) => {
                let fault = too_old(page, asked.who, got.version);
                self.violate(asked.page, fault);
            }
            None => {
                let (who, version, known) = (asked.who, got.version, known(page, asked.floor));
                let fault = PageFault::Unknown {
                    who,
                    version,
                    content,
                    known,
                };
                self.violate(asked.page, fault);
            }
        }
    }

    /// Records that a request returned the page exclusively.
    pub fn exclusive(&mut self, now: Instant, asked: Asked, got: Got) {
        self.judge_wait(now, asked);
        let content = self.whole(asked, got);
        let page = self.page(asked.page);
        page.orphaned = None;
        let (who, version) = (asked.who, got.version);
        if let Some(Holder { who: holder, .. }) = page.holder.replace(Holder { who, version }) {
            return self.violate(asked.page, PageFault::TwoHolders { who, holder });
        }
        let Some(content) = content else {
            return;
        };
        if !page.newest().matches(version, content) {
            page.drop_doubtful();
        }
        if page.newest().matches(version, content) {
            let last = page.last();
            return page.seen(last, version, content);
        }
        let was = page.states.iter().any(|s| s.matches(version, content));
        let fault = match was && page.newest().may_be_lost {
            true => too_old(page, who, version),
            false => PageFault::NotNewest {
                who,
                version,
                content,
                newest: page.newest().to_string(),
            },
        };
        self.violate(asked.page, fault);
    }

    /// Records that a request was refused because the newest version is lost.
    pub fn refused_as_lost(&mut self, now: Instant, asked: Asked) {
        self.judge_wait(now, asked);
        let page = self.page(asked.page);
        let newest = page.newest().to_string();
        let may_be = page.may_be_lost(asked.floor);
        let reported = page.was_reported(asked.floor);
        if !may_be {
            self.violate(asked.page, PageFault::LostWithoutCause { newest });
        } else if !reported {
            self.violate(asked.page, PageFault::LossUnreported { who: asked.who });
        }
    }

    /// Records that a request failed for a reason that proves nothing.
    pub fn failed(&mut self, now: Instant, asked: Asked) {
        self.judge_wait(now, asked);
    }

    /// Records that a holder releases a page, with this content if it changed it.
    pub fn give_back(&mut self, who: Who, page: u64, changed: Option<PageStamp>) {
        let is_dead = self.dead.contains(&who.node);
        let entry = self.page(page);
        let Some(holder) = entry.holder.take_if(|holder| holder.who == who) else {
            if !is_dead {
                self.violate(page, PageFault::NotHeld { who });
            }
            return;
        };
        let Some(content) = changed else {
            return;
        };
        entry.states.push(State {
            version: Some(holder.version + 1),
            least: 0,
            contents: vec![Some(content)],
            writer: Some(who),
            certain: false,
            doubtful: false,
            may_be_lost: false,
            renumbered: false,
        });
        entry.lost = None;
        self.writes += 1;
    }

    /// Records that a previously used page was allocated, and that the allocating node has written
    /// zeroes over it.
    pub fn zeroed(&mut self, who: Who, page: u64) {
        let entry = self.page(page);
        entry.states.push(State {
            writer: Some(who),
            certain: false,
            ..State::unseen(0, vec![None])
        });
        entry.lost = None;
        entry.orphaned = None;
        self.writes += 1;
    }

    /// Records that a worker knows that everything its node released before was taken.
    pub fn confirmed(&mut self, node: u16) {
        self.pages.values_mut().for_each(|page| page.taken(node));
    }

    /// Records that a worker of a node knows that what it released of this page was taken.
    pub fn committed(&mut self, node: u16, page: u64) {
        self.page(page).taken(node);
    }

    /// Whether this page was created.
    pub fn knows(&self, page: u64) -> bool {
        self.pages.contains_key(&page)
    }

    /// Records that the store did not take a change: it has declared the writer's node dead, or the
    /// change was lost in flight and reported.
    pub fn not_taken(&mut self, who: Who, page: u64, version: u64) {
        let is_dead = self.dead.contains(&who.node);
        let entry = self.page(page);
        let newest = entry.newest();
        // The version of zeroes was not reported.
        let is_newest = newest.version.is_none_or(|newest| newest == version)
            && newest.writer.is_some_and(|writer| writer.node == who.node);
        let was_taken = is_newest && newest.certain;
        let was_lost = entry.lost_on_its_way(who.node, version);
        if is_newest && !was_taken {
            entry.states.pop();
        }
        if was_taken || !(is_dead || was_lost) {
            self.violate(page, PageFault::ChangeRefused { who, version });
        }
    }

    /// Records that a node begins to write home everything that it has changed and released. Pages
    /// being changed again are left out.
    pub fn ask_flush(&self, node: u16) -> FlushAsked {
        let is_its = |page: &Page| {
            page.newest().writer.is_some_and(|w| w.node == node)
                && page.holder.is_none_or(|holder| holder.who.node != node)
        };
        let pages = self.pages.iter().filter(|(_, page)| is_its(page));
        FlushAsked(pages.map(|(&page, entry)| (page, entry.last())).collect())
    }

    /// Records that the flush is done: the home has those versions, except those replaced
    /// meanwhile.
    pub fn flushed(&mut self, asked: &FlushAsked) {
        for &(page, state) in &asked.0 {
            let entry = self.page(page);
            // A version that was reported lost meanwhile was not available for writing.
            let is_lost = entry.reported.iter().any(|&at| at >= state);
            if state == entry.last() && !is_lost {
                entry.home = state;
            }
        }
    }

    /// Numbers of reads and changes of pages.
    pub fn counts(&self) -> (u64, u64) {
        (self.reads, self.writes)
    }

    /// Number of violations so far, including those not kept in full.
    pub fn violation_count(&self) -> u64 {
        self.violations.count()
    }

    /// The verdict.
    ///
    /// # Errors
    /// All violations, the first ones in full.
    pub fn finish(self) -> Result<(), Vec<PageViolation>> {
        self.violations.judge(())
    }

    fn page(&mut self, page: u64) -> &mut Page {
        self.pages.get_mut(&page).expect("a page that was created")
    }

    /// The content, if it is exactly one version of this page.
    fn whole(&mut self, asked: Asked, got: Got) -> Option<Content> {
        let Asked { who, page, .. } = asked;
        let version = got.version;
        let fault = match got.content {
            Err(error) => PageFault::Torn {
                who,
                version,
                error,
            },
            Ok(Some(content)) if content.page != page => PageFault::OtherPage { who, content },
            Ok(content) => return Some(content),
        };
        self.violate(page, fault);
        None
    }

    fn judge_wait(&mut self, now: Instant, asked: Asked) {
        let patience = self.patience;
        let Some(died) = self.page(asked.page).orphaned else {
            return;
        };
        let waited = now.since(died.max(asked.at));
        if waited > patience {
            let who = asked.who;
            self.violate(asked.page, PageFault::LatchNotReleased { who, waited });
        }
    }

    #[cold]
    fn violate(&mut self, page: u64, fault: PageFault) {
        self.violations.push(PageViolation { page, fault });
    }
}

/// A worker got a version other than the newest state of a page.
fn too_old(page: &Page, who: Who, version: u64) -> PageFault {
    let newest = page.newest().to_string();
    match page.newest().may_be_lost {
        true => PageFault::SilentlyOld {
            who,
            version,
            newest,
        },
        false => PageFault::Stale {
            who,
            version,
            oldest: newest,
        },
    }
}

/// The states from `floor` on, as text.
fn known(page: &Page, floor: usize) -> String {
    let states = page.states[floor.min(page.last())..]
        .iter()
        .map(ToString::to_string);
    states.collect::<Vec<_>>().join("; ")
}

#[cfg(test)]
mod tests;
