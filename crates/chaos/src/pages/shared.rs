//! What those who use pages and the harness tell each other.

use super::allocators::{self, Store};
use super::log::Logs;
use super::plan::Habits;
use core::cell::{Cell, RefCell};
use rackweave_base::{Duration, Instant};
use rackweave_endpoint::page_store::directory::Channel;
use rackweave_endpoint::page_store::{Allocator, FixError, Worker};
use rackweave_sim::checkers::PageHistory;
use rackweave_sim::checkers::page_history::Who;
use rackweave_wire::fabric::page::PageId;
use std::collections::BTreeSet;
use std::rc::Rc;

/// Violations kept that the checker of histories does not judge.
const WRONG_MAX: usize = 10;

/// What all share.
pub(super) struct Shared {
    pub seed: u64,
    pub habits: Habits,
    pub pages: u64,
    /// The nodes' pools wait for less time than a run may take.
    pub is_impatient: bool,
    pub history: RefCell<PageHistory>,
    /// The second store, if there is one.
    pub store: Option<Store>,
    /// What must not be and the history does not show.
    pub wrong: RefCell<Vec<String>>,
    /// Fixes that found the device full, or the newest version lost.
    pub full: Cell<u64>,
    pub lost: Cell<u64>,
    /// Pages whose home was damaged, and how many fixes found that.
    pub damaged: RefCell<BTreeSet<PageId>>,
    pub damage_found: Cell<u64>,
    pub excuses: Cell<Excuses>,
    pub logs: RefCell<Logs>,
}

/// What requests may fail with while something is wrong, and no longer when it is mended.
#[derive(Clone, Copy, Default, Debug)]
pub(super) struct Excuses {
    /// Blocks were broken.
    pub storage_fails: bool,
    /// The device did not answer for longer than anybody waits.
    pub nobody_answers: bool,
}

impl Excuses {
    /// Whether a request may fail so.
    pub fn cover(self, error: FixError) -> bool {
        match error {
            FixError::Storage { .. } => self.storage_fails,
            FixError::Gone | FixError::TimedOut(_) => self.nobody_answers,
            _ => false,
        }
    }
}

/// A worker's place: it leaves its connection here when it has done its part.
pub(super) struct Session {
    pub who: Who,
    pub worker: RefCell<Option<Worker<Channel>>>,
    /// What a user of the second store goes on allocating with.
    pub allocator: RefCell<Option<Allocator>>,
    /// Its node is taken for dead: what it does counts for nothing.
    pub is_presumed_dead: Cell<bool>,
    /// Since when nothing has happened.
    pub idle_since: Cell<Instant>,
}

impl Shared {
    /// The page with this index; those of the second store follow on those of the first.
    pub fn page(&self, index: u64) -> PageId {
        let page = match index.checked_sub(self.pages) {
            Some(index) => PageId::new(allocators::STORE, index),
            None => PageId::new(0, index),
        };
        page.expect("an index below the number of pages")
    }

    /// A node dies or is taken for dead.
    pub fn crash(&self, now: Instant, node: u16) {
        self.history.borrow_mut().crash(now, node);
        if let Some(store) = &self.store {
            store.crash(node);
        }
    }

    /// Changes of the worker's node that were not taken.
    pub fn tell_losses(&self, who: Who, worker: &Worker<Channel>) {
        for loss in worker.losses() {
            if Store::is_judged(loss.page) {
                let mut history = self.history.borrow_mut();
                history.not_taken(who, loss.page.number(), loss.version);
            }
        }
    }

    pub fn wrong(&self, what: String) {
        let mut wrong = self.wrong.borrow_mut();
        if wrong.len() < WRONG_MAX {
            wrong.push(what);
        }
    }
}

impl Session {
    /// When to poll a worker that is due at `due` if no packet comes: the longer nothing has
    /// happened, the later, or one that waits for a stalled device polls a million times a second.
    /// But not so late that the run is over by then: what it waits for may be another actor.
    pub fn rest(&self, now: Instant, happened: bool, due: Instant) -> Instant {
        if happened {
            self.idle_since.set(now);
        }
        let idle = now.since(self.idle_since.get());
        let pause = Duration::from_nanos(1 + idle.as_nanos() / 8);
        due.max(now + pause.min(Duration::from_millis(10)))
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

/// Counts one more.
pub(super) fn count(cell: &Cell<u64>) {
    cell.set(cell.get() + 1);
}
