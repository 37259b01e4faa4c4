//! The operations of one worker on a heap of pages.
//!
//! An operation holds at most one page at a time, and only within one call, so operations cannot
//! deadlock. One that changes a record ends when it drops the page's guard: the latch is then being
//! released, and no reader sees an older version before the release is complete.

use super::heap::Heap;
use crate::ycsb::prelude::*;
use rackweave_endpoint::page_store::{Fix, Mode, Worker};
use rackweave_workload::ycsb::HeapLayout;

/// A worker's access to pages.
pub(super) trait Pages {
    /// The worker that fixes pages.
    fn worker(&mut self) -> &mut Worker<Channel>;

    /// Begins to fix a page.
    fn fix(&mut self, page: PageId, mode: Mode) -> Fix {
        self.worker().fix_in_turn(page, mode)
    }

    /// Allocates an unused page of the store.
    fn allocate(&mut self) -> Result<PageId, AllocateError>;
}

/// A heap of pages, for one worker.
pub(super) struct PageTable<P> {
    pub pages: P,
    heap: Arc<Heap>,
    stamp: Stamp,
    doing: Vec<Doing>,
    /// Reusable memory for floors.
    spare: Vec<Vec<Floor>>,
}

struct Doing {
    task: Task,
    state: State,
    /// The floors of the records that are read, taken before the page was requested.
    floors: Vec<Floor>,
}

#[derive(Clone, Copy)]
enum State {
    /// An insert whose page may not exist yet.
    Waiting,
    /// An insert that needs a page.
    Wanting,
    /// A page was requested.
    Fixing(Goal, PageId, Fix),
}

#[derive(Clone, Copy)]
enum Goal {
    /// Reads the records of a range that are in the page, then those after it.
    Read { next: u64, end: u64 },
    /// An update, or a read-modify-write.
    Change,
    /// Writes a new record; `fresh` if the catalogue does not have its page yet.
    Insert { fresh: bool },
    /// Enters a new record's page in the catalogue.
    Enter { page: PageId },
}

/// The page of an operation's step, and what the step did so far.
struct Reached<'a> {
    run: &'a Run,
    page: PageId,
    stepped: &'a mut Stepped,
}

/// The outcome of a step of an operation.
enum Turn {
    GoesOn,
    Ended,
    /// The operation failed, and the run has the error.
    Failed,
}

impl<P: Pages> PageTable<P> {
    pub fn new(pages: P, heap: &Arc<Heap>, number: u32) -> Self {
        Self {
            pages,
            heap: Arc::clone(heap),
            stamp: Stamp {
                writer: number as u16,
                sequence: 0,
            },
            doing: Vec::new(),
            spare: Vec::new(),
        }
    }

    fn fix(&mut self, goal: Goal, page: PageId) -> State {
        let mode = match goal {
            Goal::Read { .. } => Mode::Shared,
            Goal::Change | Goal::Insert { .. } | Goal::Enter { .. } => Mode::Exclusive,
        };
        State::Fixing(goal, page, self.pages.fix(page, mode))
    }

    /// Requests the page of the first record from `next` to `end`. False if there is none.
    fn read(&mut self, doing: &mut Doing, next: u64, end: u64, run: &Run) -> bool {
        let Some(page) = self.page_of(next) else {
            return false;
        };
        let here = self.in_page(next, end);
        let floors = here.map(|key| run.expectations.before_read(key));
        doing.floors.clear();
        doing.floors.extend(floors);
        doing.state = self.fix(Goal::Read { next, end }, page);
        true
    }

    /// Requests the page of a record that is to be changed. False if that is impossible.
    fn change(&mut self, doing: &mut Doing, run: &Run) -> bool {
        let key = doing.task.key;
        let Some(page) = self.page_of(key) else {
            return false;
        };
        doing.floors.clear();
        doing.floors.push(run.expectations.before_read(key));
        if let Err(error) = run.expectations.begin_update(key) {
            run.note(key, Some(page.index()), error);
            return false;
        }
        doing.state = self.fix(Goal::Change, page);
        true
    }

    /// Advances the operation by one step.
    fn go_on(&mut self, doing: &mut Doing, run: &Run, stepped: &mut Stepped) -> Turn {
        let key = doing.task.key;
        let (goal, page, fix) = match doing.state {
            State::Waiting => return self.look(doing, run, stepped),
            State::Wanting => return Turn::GoesOn,
            State::Fixing(goal, page, fix) => (goal, page, fix),
        };
        let Some(result) = self.pages.worker().take(fix) else {
            return Turn::GoesOn;
        };
        stepped.happened = true;
        stepped.handled += 1;
        let guard = match result {
            Ok(guard) => guard,
            Err(error) => return refused(run, goal, key, page, error),
        };
        let mut reached = Reached { run, page, stepped };
        match goal {
            Goal::Read { next, end } => {
                let here = self.in_page(next, end);
                for (key, floor) in here.clone().zip(&doing.floors) {
                    self.judge(&mut reached, key, *floor, &guard);
                }
                drop(guard);
                match here.end < end {
                    false => return Turn::Ended,
                    true if self.read(doing, here.end, end, run) => {}
                    true => return Turn::Failed,
                }
            }
            Goal::Change => {
                self.changed(&mut reached, key, doing.floors[0], guard);
                return Turn::Ended;
            }
            Goal::Insert { fresh } => {
                self.write(&mut reached, key, 0, guard);
                if fresh && !self.heap.has_catalogue {
                    self.heap.enter(self.heap_page(key), page);
                }
                if !fresh || !self.heap.has_catalogue {
                    run.inserts.acknowledge(key);
                    return Turn::Ended;
                }
                let (entry, _) = self.heap.entry_place(self.heap_page(key));
                doing.state = self.fix(Goal::Enter { page }, entry);
            }
            Goal::Enter { page } => {
                self.enter(key, page, guard);
                run.inserts.acknowledge(key);
                return Turn::Ended;
            }
        }
        Turn::GoesOn
    }

    /// Checks whether the page of an insert exists now.
    fn look(&mut self, doing: &mut Doing, run: &Run, stepped: &mut Stepped) -> Turn {
        let key = doing.task.key;
        let first = self.heap.layout.records_of(self.heap_page(key), u64::MAX);
        doing.state = match self.page_of(key) {
            Some(page) => self.fix(Goal::Insert { fresh: false }, page),
            // The insert of a page's first record allocates the page.
            None if key == first.start => State::Wanting,
            None if run.is_stopped() => {
                stepped.happened = true;
                return Turn::Failed;
            }
            None => return Turn::GoesOn,
        };
        stepped.happened = true;
        Turn::GoesOn
    }

    fn changed(&mut self, reached: &mut Reached<'_>, key: u64, floor: Floor, guard: PageGuard) {
        let (run, at) = (reached.run, Some(reached.page.index()));
        let expectations = &run.expectations;
        match self.judge(reached, key, floor, &guard) {
            Some(version) => {
                self.write(reached, key, version + 1, guard);
                run.check(key, at, expectations.commit_update(key, version + 1));
            }
            None => run.check(key, at, expectations.cancel_update(key)),
        }
    }

    /// Enters a page whose first record is `key` into the catalogue.
    fn enter(&self, key: u64, page: PageId, mut catalogue: PageGuard) {
        let at = self.heap_page(key);
        let (_, offset) = self.heap.entry_place(at);
        let entry = page.index().to_le_bytes();
        catalogue.data_mut().write(offset, &entry);
        drop(catalogue);
        self.heap.enter(at, page);
    }

    /// Verifies a record that was read. Returns its version if it is intact.
    fn judge(
        &self,
        Reached { run, page, stepped }: &mut Reached<'_>,
        key: u64,
        floor: Floor,
        guard: &PageGuard,
    ) -> Option<u64> {
        let place = place(&self.heap.layout, key);
        stepped.bytes += place.len() as u64;
        let bytes = guard.data().slice(place).to_vec();
        run.verify(key, Some(page.index()), &bytes, floor)
    }

    fn write(&mut self, reached: &mut Reached<'_>, key: u64, version: u64, mut guard: PageGuard) {
        let place = place(&self.heap.layout, key);
        reached.stepped.bytes += place.len() as u64;
        let stamp = self.stamp;
        let written = guard.update(place, |bytes| write_record(bytes, key, version, stamp));
        reached.run.check(key, Some(reached.page.index()), written);
        self.stamp.sequence += 1;
    }

    fn heap_page(&self, key: u64) -> u64 {
        self.heap.layout.place(key).page
    }

    fn page_of(&self, key: u64) -> Option<PageId> {
        self.heap.page(self.heap_page(key))
    }

    /// The records from `next` to `end` that are in the page of the first.
    fn in_page(&self, next: u64, end: u64) -> Range<u64> {
        let page = self.heap.layout.records_of(self.heap_page(next), end);
        next..page.end
    }
}

impl<P: Pages> Table for PageTable<P> {
    fn begin(&mut self, run: &Run, task: Task, _stepped: &mut Stepped) {
        let mut doing = Doing {
            task,
            state: State::Waiting,
            floors: self.spare.pop().unwrap_or_default(),
        };
        let begun = match task.kind {
            Kind::Insert => true,
            Kind::Update | Kind::ReadModifyWrite => self.change(&mut doing, run),
            Kind::Read | Kind::Scan => {
                let end = task.key + u64::from(task.length);
                let end = end.min(run.inserts.inserted());
                self.read(&mut doing, task.key, end, run)
            }
        };
        if begun {
            self.doing.push(doing);
        }
    }

    fn advance(&mut self, run: &Run, stepped: &mut Stepped, mut ended: impl FnMut(Task)) {
        let mut doing = core::mem::take(&mut self.doing);
        doing.retain_mut(|one| {
            match self.go_on(one, run, stepped) {
                Turn::GoesOn => return true,
                Turn::Ended => ended(one.task),
                Turn::Failed => {}
            }
            self.spare.push(core::mem::take(&mut one.floors));
            false
        });
        self.doing = doing;
    }

    /// Gives pages to inserts that want one.
    fn end_step(&mut self, run: &Run) {
        let wants = |doing: &Doing| matches!(doing.state, State::Wanting);
        while let Some(at) = self.doing.iter().position(wants) {
            match self.pages.allocate() {
                Ok(page) => self.doing[at].state = self.fix(Goal::Insert { fresh: true }, page),
                Err(error) => {
                    run.fail(error);
                    self.doing.retain(|doing| !wants(doing));
                }
            }
        }
    }

    fn under_way(&self) -> usize {
        self.doing.len()
    }

    fn is_waiting(&self) -> bool {
        let waits = |doing: &Doing| matches!(doing.state, State::Waiting);
        self.doing.iter().any(waits)
    }
}

/// A page could not be fixed. If that reveals damage to a page that was to be read it is a
/// verification error; every other error ends the run. No record after one that could not be
/// inserted will be counted.
fn refused(run: &Run, goal: Goal, key: u64, page: PageId, error: FixError) -> Turn {
    let (at, key) = match goal {
        Goal::Read { next, .. } => (Some(page.index()), next),
        _ => (Some(page.index()), key),
    };
    match (goal, error) {
        (
            Goal::Read { .. } | Goal::Change,
            FixError::Corrupt { .. } | FixError::WrongPage { .. } | FixError::Lost(_),
        ) => run.note(key, at, error),
        _ => run.fail(error),
    }
    if let Goal::Change = goal {
        run.check(key, at, run.expectations.cancel_update(key));
    }
    Turn::Failed
}

/// The position of a record after its page's header.
pub(super) fn place(layout: &HeapLayout, key: u64) -> Range<usize> {
    let place = layout.place(key);
    let first = (place.offset - layout.header_bytes()) as usize;
    first..first + layout.record_size() as usize
}
