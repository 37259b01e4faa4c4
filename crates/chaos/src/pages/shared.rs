//! State shared between the users of pages and the harness.

use super::allocators::{self, Store};
use super::log::Logs;
use super::plan::Habits;
use crate::campaign::Findings;
use core::cell::{Cell, RefCell};
use rackweave_base::{Duration, Instant, Rng};
use rackweave_endpoint::page_store::directory::Channel;
use rackweave_endpoint::page_store::{Allocator, FixError, PageGuard, Worker};
use rackweave_sim::checkers::PageHistory;
use rackweave_sim::checkers::page_history::{Got, PageStamp, Who, check_page, fill_page};
use rackweave_sim::world::Step;
use rackweave_wire::fabric::page::PageId;
use std::collections::BTreeSet;
use std::rc::Rc;

/// The state that all users share.
pub(super) struct Shared {
    pub seed: u64,
    pub habits: Habits,
    pub pages: u64,
    /// The nodes' pools wait for less time than a run may take.
    pub is_impatient: bool,
    pub history: RefCell<PageHistory>,
    /// The second store, if the seed has one.
    pub store: Option<Store>,
    /// Violations that the history does not show.
    pub wrong: Findings,
    /// Fixes that found the device full, or the newest version lost.
    pub full: Cell<u64>,
    pub lost: Cell<u64>,
    /// Pages whose home was damaged, and how many fixes detected that.
    pub damaged: RefCell<BTreeSet<PageId>>,
    pub damage_found: Cell<u64>,
    pub excuses: Cell<Excuses>,
    pub logs: RefCell<Logs>,
}

/// Errors that requests may return while faults last, and not after the repair.
#[derive(Clone, Copy, Default, Debug)]
pub(super) struct Excuses {
    /// Blocks were broken.
    pub storage_fails: bool,
    /// The device did not answer for longer than any pool or channel waits.
    pub nobody_answers: bool,
}

impl Excuses {
    /// Whether a request may fail with this error.
    pub fn cover(self, error: FixError) -> bool {
        match error {
            FixError::Storage { .. } => self.storage_fails,
            FixError::Gone | FixError::TimedOut(_) => self.nobody_answers,
            _ => false,
        }
    }
}

/// The slot of a worker: its actor returns the connection here when it is done.
pub(super) struct Session {
    pub who: Who,
    pub worker: RefCell<Option<Worker<Channel>>>,
    /// The allocator that a user of the second store continues with.
    pub allocator: RefCell<Option<Allocator>>,
    /// Its node is presumed dead: its actions do not count.
    pub is_presumed_dead: Cell<bool>,
    /// Since when nothing has happened.
    pub idle_since: Cell<Instant>,
}

/// The result of advancing a job.
pub(super) enum Next<J> {
    Wait(J),
    Go(J),
}

impl Shared {
    /// The page with this index; pages of the second store follow those of the first.
    pub fn page(&self, index: u64) -> PageId {
        let page = match index.checked_sub(self.pages) {
            Some(index) => PageId::new(allocators::STORE, index),
            None => PageId::new(0, index),
        };
        page.expect("an index below the number of pages")
    }

    /// A node crashes or is presumed dead.
    pub fn crash(&self, now: Instant, node: u16) {
        self.history.borrow_mut().crash(now, node);
        if let Some(store) = &self.store {
            store.crash(node);
        }
    }

    /// Reports changes of the worker's node that were refused.
    pub fn tell_losses(&self, who: Who, worker: &Worker<Channel>) {
        for loss in worker.losses() {
            if Store::is_judged(loss.page) {
                let mut history = self.history.borrow_mut();
                history.not_taken(who, loss.page.number(), loss.version);
            }
        }
    }

    /// The random generator of a user of this kind.
    pub fn rng(&self, who: Who, kind: &str) -> Rng {
        let number = u64::from(who.node) << 16 | u64::from(who.worker);
        Rng::new(self.seed ^ number << 8).fork(kind)
    }

    pub fn got(&self, guard: &PageGuard) -> Got {
        Got {
            version: guard.version(),
            content: check_page(&guard.data().to_vec(), self.seed),
        }
    }

    /// Checks that a fixed page has not changed, whatever happens elsewhere.
    pub fn look_again(&self, who: Who, guard: &PageGuard, got: Got) {
        if self.got(guard) != got {
            let page = guard.page();
            let wrong = format!("{page} changed while {who} had it fixed");
            self.wrong.push(wrong);
        }
    }

    /// Writes the first half of a new version; the other half follows before the page is released.
    /// A reader in between sees a torn page.
    pub fn begin_change(&self, who: Who, guard: &mut PageGuard) -> PageStamp {
        let stamp = PageStamp {
            page: guard.page().number(),
            version: guard.version() + 1,
            writer: who,
        };
        let bytes = self.content(guard, stamp);
        guard.data_mut().write(0, &bytes[..bytes.len() / 2]);
        stamp
    }

    pub fn end_change(&self, guard: &mut PageGuard, stamp: PageStamp) {
        let bytes = self.content(guard, stamp);
        let half = bytes.len() / 2;
        guard.data_mut().write(half, &bytes[half..]);
    }

    fn content(&self, guard: &PageGuard, stamp: PageStamp) -> Vec<u8> {
        let mut bytes = vec![0; guard.data().len()];
        fill_page(&mut bytes, stamp, self.seed);
        bytes
    }
}

impl Session {
    /// How long to wait for work that is due at `due` even if no packet arrives. The wait grows
    /// with the time in which nothing has happened; otherwise a wait for a stalled device would
    /// poll a million times a second. It is short enough that the run is not over by then, because
    /// the awaited event may come from another actor.
    pub fn rest(&self, now: Instant, happened: bool, due: Option<Instant>) -> Step {
        let Some(due) = due else {
            return Step::WaitForPacket;
        };
        if happened {
            self.idle_since.set(now);
        }
        let idle = now.since(self.idle_since.get());
        let pause = Duration::from_nanos(1 + idle.as_nanos() / 8);
        Step::WaitUntil(due.max(now + pause.min(Duration::from_millis(10))))
    }

    pub fn new(who: Who, worker: Worker<Channel>) -> Rc<Self> {
        Rc::new(Self {
            who,
            worker: RefCell::new(Some(worker)),
            allocator: RefCell::default(),
            is_presumed_dead: Cell::new(false),
            idle_since: Cell::new(Instant::ZERO),
        })
    }
}
