//! What those who use pages and the harness tell each other.

use super::log::Logs;
use super::plan::Habits;
use core::cell::{Cell, RefCell};
use rackweave_endpoint::page_store::Worker;
use rackweave_endpoint::page_store::directory::Channel;
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
    pub history: RefCell<PageHistory>,
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

/// A worker's place: it leaves its connection here when it has done its part.
pub(super) struct Seat {
    pub who: Who,
    pub worker: RefCell<Option<Worker<Channel>>>,
    /// Its node is taken for dead: what it does counts for nothing.
    pub is_presumed_dead: Cell<bool>,
}

impl Shared {
    /// The page with this index.
    pub fn page(&self, index: u64) -> PageId {
        PageId::new(0, index).expect("an index below the number of pages")
    }

    pub fn wrong(&self, what: String) {
        let mut wrong = self.wrong.borrow_mut();
        if wrong.len() < WRONG_MAX {
            wrong.push(what);
        }
    }
}

impl Seat {
    pub fn new(who: Who, worker: Worker<Channel>) -> Rc<Self> {
        Rc::new(Self {
            who,
            worker: RefCell::new(Some(worker)),
            is_presumed_dead: Cell::new(false),
        })
    }
}

/// Counts one more.
pub(super) fn count(cell: &Cell<u64>) {
    cell.set(cell.get() + 1);
}
