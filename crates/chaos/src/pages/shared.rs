//! What those who use pages and the harness tell each other.

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
    pub wrong: Findings,
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

/// What came of going on with a job.
pub(super) enum Next<J> {
    Wait(J),
    Go(J),
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

    /// What a worker draws from as a user of this kind.
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

    /// A page that is fixed does not change, however it goes on elsewhere.
    pub fn look_again(&self, who: Who, guard: &PageGuard, got: Got) {
        if self.got(guard) != got {
            let page = guard.page();
            let wrong = format!("{page} changed while {who} had it fixed");
            self.wrong.push(wrong);
        }
    }

    /// Writes the first half of a new version, the other before it is given back: who reads in
    /// between is torn.
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
    /// How long to wait for what is due at `due` even if no packet comes: the longer nothing has
    /// happened, the longer, or one that waits for a stalled device polls a million times a second.
    /// But not so long that the run is over by then: what it waits for may be another actor.
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
