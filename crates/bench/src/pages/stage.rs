//! How far an operation has come, and its next step.

use super::session::{Session, Stepped};
use crate::ycsb::Kind;
use core::ops::Range;
use rackweave_base::Instant;
use rackweave_base::memory::SharedBytes;
use rackweave_endpoint::page_store::directory::Directory;
use rackweave_endpoint::page_store::{Fix, FixError, Mode, PageGuard, Worker};
use rackweave_wire::fabric::page::PageId;
use rackweave_workload::ycsb::{Floor, verify_record, write_record};

/// An operation under way.
#[derive(Debug)]
pub(super) struct Doing {
    pub kind: Kind,
    /// When it began, or was to begin.
    pub began: Instant,
    pub stage: Stage,
}

/// How far an operation has come.
#[derive(Debug)]
pub(super) enum Stage {
    Read {
        key: u64,
        page: PageId,
        floor: Floor,
        fix: Fix,
    },
    /// An update, or a read-modify-write.
    Change {
        key: u64,
        page: PageId,
        floor: Floor,
        fix: Fix,
    },
    /// The next page of a scan. The floors are those of its records there.
    Scan {
        next: u64,
        end: u64,
        page: PageId,
        floors: Vec<Floor>,
        fix: Fix,
    },
    /// An insert whose page may not be there yet.
    Waiting { key: u64 },
    /// An insert that wants a page.
    Wanting { key: u64 },
    /// An insert that writes its record; `fresh` if its page is not in the catalogue yet.
    Insert {
        key: u64,
        page: PageId,
        fresh: bool,
        fix: Fix,
    },
    /// An insert that enters its page in the catalogue.
    Enter { key: u64, page: PageId, fix: Fix },
    /// It came to nothing, and the run knows.
    Failed,
}

impl Session {
    /// Begins to read a record.
    pub(super) fn read<D: Directory>(&self, key: u64, worker: &mut Worker<D>) -> Option<Stage> {
        let page = self.page_of(key)?;
        Some(Stage::Read {
            key,
            page,
            floor: self.run.expectations.before_read(key),
            fix: worker.fix_in_turn(page, Mode::Shared),
        })
    }

    /// Begins to change a record.
    pub(super) fn change<D: Directory>(&self, key: u64, worker: &mut Worker<D>) -> Option<Stage> {
        let page = self.page_of(key)?;
        let floor = self.run.expectations.before_read(key);
        if let Err(error) = self.run.expectations.begin_update(key) {
            self.run.note(key, page, error);
            return None;
        }
        Some(Stage::Change {
            key,
            page,
            floor,
            fix: worker.fix_in_turn(page, Mode::Exclusive),
        })
    }

    /// Begins with the records of a scan that lie in one page.
    pub(super) fn scan<D: Directory>(
        &self,
        next: u64,
        end: u64,
        mut floors: Vec<Floor>,
        worker: &mut Worker<D>,
    ) -> Option<Stage> {
        let page = self.page_of(next)?;
        let here = self.in_page(next, end);
        floors.clear();
        floors.extend(here.map(|key| self.run.expectations.before_read(key)));
        Some(Stage::Scan {
            next,
            end,
            page,
            floors,
            fix: worker.fix_in_turn(page, Mode::Shared),
        })
    }

    /// One step further. False when it has ended.
    pub(super) fn advance<D: Directory>(
        &mut self,
        doing: &mut Doing,
        worker: &mut Worker<D>,
        stepped: &mut Stepped,
    ) -> bool {
        let taken = match &doing.stage {
            Stage::Waiting { key } => {
                let key = *key;
                doing.stage = self.waited(key, worker);
                let waits = matches!(doing.stage, Stage::Waiting { .. });
                stepped.happened |= !waits;
                return true;
            }
            Stage::Wanting { .. } => return true,
            Stage::Failed => return false,
            Stage::Read { fix, .. }
            | Stage::Change { fix, .. }
            | Stage::Scan { fix, .. }
            | Stage::Insert { fix, .. }
            | Stage::Enter { fix, .. } => worker.take(*fix),
        };
        let Some(result) = taken else {
            return true;
        };
        stepped.happened = true;
        stepped.pages += 1;
        let stage = core::mem::replace(&mut doing.stage, Stage::Failed);
        let ended = match stage {
            Stage::Read {
                key, page, floor, ..
            } => self.have_read(key, page, floor, result, stepped),
            Stage::Change {
                key, page, floor, ..
            } => self.have_to_change(key, page, floor, result, stepped),
            Stage::Scan {
                next,
                end,
                page,
                floors,
                ..
            } => {
                let after = self.have_scanned(next..end, page, &floors, result, stepped);
                match after {
                    Some(next) if next < end => match self.scan(next, end, floors, worker) {
                        Some(stage) => {
                            doing.stage = stage;
                            return true;
                        }
                        None => false,
                    },
                    other => other.is_some(),
                }
            }
            Stage::Insert {
                key, page, fresh, ..
            } => {
                let written = self.have_to_insert(key, page, result, stepped);
                if written && fresh {
                    let entry = self.run.heap.entry_place(self.heap_page(key));
                    let fix = worker.fix_in_turn(entry.page, Mode::Exclusive);
                    doing.stage = Stage::Enter { key, page, fix };
                    return true;
                }
                if written {
                    self.run.inserts.acknowledge(key);
                }
                written
            }
            Stage::Enter { key, page, .. } => self.have_to_enter(key, page, result),
            Stage::Waiting { .. } | Stage::Wanting { .. } | Stage::Failed => false,
        };
        if ended {
            // Any stage but that of a failure will do.
            doing.stage = Stage::Waiting { key: 0 };
        }
        false
    }

    /// An insert whose page may be there now.
    fn waited<D: Directory>(&self, key: u64, worker: &mut Worker<D>) -> Stage {
        if let Some(page) = self.page_of(key) {
            let fix = worker.fix_in_turn(page, Mode::Exclusive);
            return Stage::Insert {
                key,
                page,
                fresh: false,
                fix,
            };
        }
        let layout = &self.run.heap.layout;
        let first = layout.records_of(self.heap_page(key), u64::MAX).start;
        // The insert of a page's first record brings the page.
        if key == first {
            Stage::Wanting { key }
        } else if self.run.is_stopped() {
            Stage::Failed
        } else {
            Stage::Waiting { key }
        }
    }

    fn have_read(
        &self,
        key: u64,
        page: PageId,
        floor: Floor,
        result: Result<PageGuard, FixError>,
        stepped: &mut Stepped,
    ) -> bool {
        match result {
            Ok(guard) => {
                self.judge(key, page, floor, guard.data(), stepped);
                true
            }
            Err(error) => {
                self.run.fix_failed(key, page, error);
                false
            }
        }
    }

    /// The records of a scan that lie in one page. Returns the record behind them.
    fn have_scanned(
        &self,
        range: Range<u64>,
        page: PageId,
        floors: &[Floor],
        result: Result<PageGuard, FixError>,
        stepped: &mut Stepped,
    ) -> Option<u64> {
        let here = self.in_page(range.start, range.end);
        match result {
            Ok(guard) => {
                for (key, floor) in here.clone().zip(floors) {
                    self.judge(key, page, *floor, guard.data(), stepped);
                }
                Some(here.end)
            }
            Err(error) => {
                self.run.fix_failed(range.start, page, error);
                None
            }
        }
    }

    fn have_to_change(
        &mut self,
        key: u64,
        page: PageId,
        floor: Floor,
        result: Result<PageGuard, FixError>,
        stepped: &mut Stepped,
    ) -> bool {
        let mut guard = match result {
            Ok(guard) => guard,
            Err(error) => {
                self.run.fix_failed(key, page, error);
                self.cancel(key, page);
                return false;
            }
        };
        let Some(version) = self.judge(key, page, floor, guard.data(), stepped) else {
            self.cancel(key, page);
            return true;
        };
        self.write(key, version + 1, page, &mut guard, stepped);
        drop(guard);
        if let Err(error) = self.run.expectations.commit_update(key, version + 1) {
            self.run.note(key, page, error);
        }
        true
    }

    fn have_to_insert(
        &mut self,
        key: u64,
        page: PageId,
        result: Result<PageGuard, FixError>,
        stepped: &mut Stepped,
    ) -> bool {
        match result {
            Ok(mut guard) => {
                self.write(key, 0, page, &mut guard, stepped);
                true
            }
            // No record behind it will ever be counted.
            Err(error) => {
                self.run.fail(error);
                false
            }
        }
    }

    fn have_to_enter(&self, key: u64, page: PageId, result: Result<PageGuard, FixError>) -> bool {
        match result {
            Ok(mut guard) => {
                let at = self.heap_page(key);
                let entry = self.run.heap.entry_place(at);
                guard
                    .data_mut()
                    .write(entry.offset, &page.index().to_le_bytes());
                drop(guard);
                self.run.heap.enter(at, page);
                self.run.inserts.acknowledge(key);
                true
            }
            Err(error) => {
                self.run.fail(error);
                false
            }
        }
    }

    /// Verifies a record that was read. Returns its version if it is whole.
    fn judge(
        &self,
        key: u64,
        page: PageId,
        floor: Floor,
        data: SharedBytes<'_>,
        stepped: &mut Stepped,
    ) -> Option<u64> {
        let place = self.place(key);
        stepped.bytes += place.len() as u64;
        let view = match verify_record(&data.slice(place).to_vec(), key) {
            Ok(view) => view,
            Err(error) => {
                self.run.note(key, page, error);
                return None;
            }
        };
        let judged = self.run.expectations.after_read(key, view.version, floor);
        if let Err(error) = judged {
            self.run.note(key, page, error);
        }
        Some(view.version)
    }

    fn write(
        &mut self,
        key: u64,
        version: u64,
        page: PageId,
        guard: &mut PageGuard,
        stepped: &mut Stepped,
    ) {
        let place = self.place(key);
        stepped.bytes += place.len() as u64;
        let stamp = self.stamp;
        let written = guard.update(place, |bytes| write_record(bytes, key, version, stamp));
        if let Err(error) = written {
            self.run.note(key, page, error);
        }
        self.stamp.sequence += 1;
    }

    fn cancel(&self, key: u64, page: PageId) {
        if let Err(error) = self.run.expectations.cancel_update(key) {
            self.run.note(key, page, error);
        }
    }

    /// Where a record is behind its page's header.
    fn place(&self, key: u64) -> Range<usize> {
        place(&self.run.heap.layout, key)
    }

    fn heap_page(&self, key: u64) -> u64 {
        self.run.heap.layout.place(key).page
    }

    fn page_of(&self, key: u64) -> Option<PageId> {
        self.run.heap.page(self.heap_page(key))
    }

    /// The records from `next` to `end` that lie in the page of the first.
    fn in_page(&self, next: u64, end: u64) -> Range<u64> {
        let page = self.run.heap.layout.records_of(self.heap_page(next), end);
        next..page.end
    }
}

/// Where a record is behind its page's header.
pub(super) fn place(layout: &rackweave_workload::ycsb::HeapLayout, key: u64) -> Range<usize> {
    let place = layout.place(key);
    let first = (place.offset - layout.header_bytes()) as usize;
    first..first + layout.record_size() as usize
}
