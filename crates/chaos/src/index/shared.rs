//! State shared between the users of the index and the harness.

use super::plan::{Habits, Keys, Values};
use crate::campaign::{Findings, count};
use core::cell::{Cell, RefCell};
use rackweave_base::Instant;
use rackweave_endpoint::btree::Direction;
use rackweave_sim::checkers::IndexHistory;
use rackweave_sim::checkers::index_history::{
    Operation, Outcome, PointId, ScanOrder, Scanned, TornValue, ValueStamp, check_value, fill_value,
};

/// The state that all users share.
pub(super) struct Shared {
    pub seed: u64,
    pub keys: Keys,
    pub values: Values,
    pub habits: Habits,
    pub history: RefCell<IndexHistory>,
    /// The next stamp of a value.
    pub stamp: Cell<u32>,
    /// Violations that the history does not show.
    pub wrong: Findings,
    /// Operations that were refused, and operations whose outcome is unknown.
    pub refused: Cell<u64>,
    pub unknown: Cell<u64>,
    /// Operations whose result is unknown and which may still be executed.
    pub open: RefCell<Vec<PointId>>,
    /// No further fault is to occur.
    pub quiet: Cell<bool>,
}

impl Shared {
    pub fn new(seed: u64, keys: Keys, values: Values, habits: Habits) -> Self {
        Self {
            seed,
            keys,
            values,
            habits,
            history: RefCell::default(),
            stamp: Cell::new(0),
            wrong: Findings::default(),
            refused: Cell::new(0),
            unknown: Cell::new(0),
            open: RefCell::default(),
            quiet: Cell::new(false),
        }
    }

    /// A value of `len` bytes that was never written before.
    pub fn value(&self, key: u64, len: usize) -> (ValueStamp, Vec<u8>) {
        let stamp = ValueStamp::new(self.stamp.replace(self.stamp.get() + 1));
        let mut bytes = vec![0; len];
        fill_value(&mut bytes, key, stamp, self.seed);
        (stamp, bytes)
    }

    /// Records the result of a get.
    pub fn found(&self, now: Instant, id: PointId, key: u64, value: Option<&[u8]>) {
        let mut history = self.history.borrow_mut();
        match value.map(|bytes| check_value(bytes, key, self.seed)) {
            None => history.end(now, id, Outcome::Found(None)),
            Some(Ok(stamp)) => history.end(now, id, Outcome::Found(Some(stamp))),
            Some(Err(error)) => history.torn(now, id, error),
        }
    }

    /// Records the result of a change: whether the key was present before.
    pub fn changed(&self, now: Instant, id: PointId, operation: Operation, was_there: bool) {
        let done = match operation {
            Operation::Insert(_) | Operation::Put(_) => !was_there,
            Operation::Get | Operation::Update(_) | Operation::Remove => was_there,
        };
        self.history.borrow_mut().end(now, id, Outcome::Done(done));
    }

    pub fn refused(&self, id: PointId) {
        count(&self.refused);
        self.history.borrow_mut().refused(id);
    }

    /// Records a change whose result will not be known.
    pub fn unknown(&self, id: PointId) {
        count(&self.unknown);
        self.open.borrow_mut().push(id);
    }

    /// Every operation with unknown result has been executed by now or never will be.
    pub fn settle(&self, now: Instant) {
        for id in self.open.take() {
            self.history.borrow_mut().lost(now, id);
        }
    }

    /// Records what a scan returned, as far as the values belong to their keys.
    pub fn scanned<V: AsRef<[u8]>>(
        &self,
        entries: &[(u64, V)],
        whole: bool,
        mut torn: impl FnMut(u64, TornValue),
    ) -> Scanned {
        let mut stamped = Vec::with_capacity(entries.len());
        for (key, bytes) in entries {
            match check_value(bytes.as_ref(), *key, self.seed) {
                Ok(stamp) => stamped.push((*key, stamp)),
                Err(error) => torn(*key, error),
            }
        }
        Scanned {
            entries: stamped,
            whole,
        }
    }
}

/// The direction in the checker's terms.
pub(super) fn order(direction: Direction) -> ScanOrder {
    match direction {
        Direction::Forward => ScanOrder::Ascending,
        Direction::Backward => ScanOrder::Descending,
    }
}
