//! Opens an existing store and reads all of it.

use super::heap::{CatalogueHead, Heap, STORE, catalogue_page};
use super::load::{Store, Worker, each, each_page};
use super::options::PagesOptions;
use super::table::place;
use crate::ycsb::Damage;
use crate::ycsb::prelude::*;
use rackweave_endpoint::page_store::directory::Mode;
use rackweave_workload::ycsb::InsertCounter;

pub(super) fn open(
    workers: &mut [Worker<Store>],
    options: &PagesOptions,
    progress: Progress<'_>,
) -> Result<(Run, Heap)> {
    let mut heap = None;
    for worker in &mut *workers {
        let superblock = worker.table.open(STORE)?;
        if heap.is_none() {
            heap = Some(catalogue(&mut worker.table, options, superblock.capacity)?);
        }
    }
    let heap = heap.ok_or(YcsbError::Unfinished)?;
    let mut load = options.load.clone();
    load.ycsb.records = heap.loaded;
    let mut run = Run::new(load, 0, heap.records_max());
    let watch = &mut |fraction| progress(Phase::Open, fraction);
    let records = read_all(workers, &run, &heap, watch)?;
    run.inserts = Arc::new(InsertCounter::new(records, heap.records_max()));
    Ok((run, heap))
}

fn catalogue(store: &mut Store, options: &PagesOptions, capacity: u64) -> Result<Heap> {
    let page = catalogue_page(options.page_size, 0);
    let none = || YcsbError::NoHeap { page };
    let guard = store.fix(page, Mode::Shared)?;
    let head = CatalogueHead::parse(&guard.data().to_vec()).filter(|head| head.number == 0);
    drop(guard);
    let head = head.ok_or_else(none)?;
    if head.loaded == 0 {
        return Err(YcsbError::Unfinished);
    }
    let record_size = u64::from(options.load.ycsb.record_size);
    let records = options.records_there.unwrap_or(head.loaded);
    for (what, found, asked) in [
        ("bytes in a record", head.record_size, record_size),
        ("records", head.loaded, records),
    ] {
        if found != asked {
            return Err(YcsbError::OtherHeap { what, found, asked });
        }
    }
    let layout = Heap::layout(options)?;
    if head.pages_max > capacity || layout.pages(head.loaded) > head.pages_max {
        return Err(none());
    }
    let heap = Heap::new(layout, head.loaded, head.pages_max);
    for number in 0..heap.catalogue_pages() {
        let page = catalogue_page(options.page_size, number);
        let guard = store.fix(page, Mode::Shared)?;
        let other = CatalogueHead::parse(&guard.data().to_vec());
        if other.is_none_or(|other| other.number != number) {
            return Err(YcsbError::NoHeap { page });
        }
        heap.take(number, &guard.data().to_vec());
    }
    Ok(heap)
}

/// Damage found while a store is read.
struct Found {
    damaged: u64,
    first: Option<(u64, Damage)>,
    /// The first missing record.
    end: u64,
}

impl Found {
    fn damage(&mut self, key: u64, reason: impl Into<Damage>) {
        self.damaged += 1;
        self.first.get_or_insert((key, reason.into()));
    }
}

/// Reads all pages, verifies all records, and registers their versions with the run. Returns the
/// number of records.
fn read_all(
    workers: &mut [Worker<Store>],
    run: &Run,
    heap: &Heap,
    watch: &mut dyn FnMut(f64) -> bool,
) -> Result<u64> {
    let is_there = |at: &u64| heap.page(*at).is_some();
    let pages = (0..heap.pages_max()).take_while(is_there).count() as u64;
    let there = pages * u64::from(heap.layout.records_per_page());
    let found = Mutex::new(Found {
        damaged: 0,
        first: None,
        end: there,
    });
    let next = AtomicU64::new(0);
    each(workers, &next, pages, watch, |worker, stop| {
        let begin = |store: &mut Store| {
            let at = next.fetch_add(1, Ordering::Relaxed);
            let page = heap.page(at).filter(|_| at < pages);
            let worker = store.worker_mut();
            Ok(page.map(|page| (at, worker.fix_in_turn(page, Mode::Shared))))
        };
        each_page(worker, run.load.depth, stop, begin, |at, result| {
            let mut found = found.lock().expect("no holder of this lock panics");
            Ok(look_at(run, heap, at, result, &mut found)?)
        })
    })?;
    let mut found = found.into_inner().expect("no holder of this lock panics");
    if found.end < heap.loaded {
        let key = found.end;
        found.damage(key, RecordError::Unwritten { key });
    }
    if let Some((key, reason)) = found.first {
        let count = found.damaged;
        return Err(YcsbError::Damaged { count, key, reason });
    }
    // Records after a gap will be overwritten.
    for key in found.end..there {
        run.expectations.reset(key, 0);
    }
    Ok(found.end)
}

fn look_at(
    run: &Run,
    heap: &Heap,
    at: u64,
    result: Result<PageGuard, FixError>,
    found: &mut Found,
) -> Result<(), FixError> {
    let keys = heap.layout.records_of(at, u64::MAX);
    let guard = match result {
        Ok(guard) => guard,
        Err(error @ (FixError::Corrupt { .. } | FixError::WrongPage { .. })) => {
            found.damage(keys.start, error);
            return Ok(());
        }
        Err(other) => return Err(other),
    };
    for key in keys {
        let place = place(&heap.layout, key);
        match verify_record(&guard.data().slice(place).to_vec(), key) {
            Ok(view) => run.expectations.reset(key, view.version),
            Err(RecordError::Unwritten { .. }) => found.end = found.end.min(key),
            Err(error) => found.damage(key, error),
        }
    }
    Ok(())
}
