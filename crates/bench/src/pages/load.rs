//! Loading a heap into a new store, and finding what lies in one that was there.

use super::crew::{Crew, Seat};
use super::error::{Damage, PagesError};
use super::heap::{CatalogueHead, Heap, STORE, catalogue_page};
use super::options::PagesOptions;
use super::run::Run;
use super::stage::place;
use core::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use rackweave_endpoint::page_store::directory::{Channel, Mode};
use rackweave_endpoint::page_store::{Fix, FixError, FormatOptions, PageGuard, PageStore};
use rackweave_workload::ycsb::{InsertCounter, RecordError, Stamp, verify_record, write_record};
use std::sync::Mutex;

/// Tells how far a phase has come, from 0 to 1; false if the user wants an end.
pub(super) type Watch<'a> = &'a mut dyn FnMut(f64) -> bool;

/// Makes a store and loads all records. They lie on storage afterwards.
pub(super) fn load(
    crew: &mut Crew,
    options: &PagesOptions,
    capacity: u64,
    watch: Watch<'_>,
) -> Result<Run, PagesError> {
    let heap = Heap::for_run(options)?;
    let format = FormatOptions {
        store: STORE,
        capacity,
        identity: identity(options.ycsb.seed),
    };
    let first = &mut crew.seats[0].store;
    first.format(format)?;
    // The store is new: its first pages come first.
    for number in 0..heap.catalogue_pages() {
        let page = first.allocate()?;
        if page != catalogue_page(options.page_size, number) {
            return Err(PagesError::NoHeap { page });
        }
        let mut guard = first.fix(page, Mode::Exclusive)?;
        guard.update(0..guard.data().len(), |bytes| {
            heap.emit(number, false, bytes)
        });
    }
    first.settle()?;
    first.flush()?;
    for seat in &mut crew.seats[1..] {
        seat.store.open(STORE)?;
    }
    let pages = heap.layout.pages(heap.loaded);
    let next = AtomicU64::new(0);
    let stop = AtomicBool::new(false);
    let done = AtomicU64::new(0);
    let mut look = || {
        if !watch(done.load(Ordering::Relaxed) as f64 / pages.max(1) as f64) {
            stop.store(true, Ordering::Relaxed);
        }
    };
    let results = crew.all(&mut look, |seat| {
        let result = fill(seat, &heap, &next, &done, &stop, options);
        if result.is_err() {
            stop.store(true, Ordering::Relaxed);
        }
        let settled = seat.store.settle();
        result.and(settled.map_err(PagesError::from))
    })?;
    results.into_iter().collect::<Result<(), _>>()?;
    if stop.load(Ordering::Relaxed) {
        return Err(PagesError::Interrupted);
    }
    flush_all(crew)?;
    finish(crew, &heap)?;
    let loaded = heap.loaded;
    Ok(Run::new(options.clone(), heap, loaded))
}

/// Writes the catalogue: everything has been loaded.
fn finish(crew: &mut Crew, heap: &Heap) -> Result<(), PagesError> {
    let page_size = heap.layout.page_size();
    let store = &mut crew.seats[0].store;
    // The first page says that the others are there, and so comes last.
    for number in (0..heap.catalogue_pages()).rev() {
        let mut guard = store.fix(catalogue_page(page_size, number), Mode::Exclusive)?;
        guard.update(0..guard.data().len(), |bytes| {
            heap.emit(number, true, bytes)
        });
        drop(guard);
        if number <= 1 {
            store.settle()?;
            store.flush()?;
        }
    }
    Ok(())
}

/// Writes home what all nodes have changed.
pub(super) fn flush_all(crew: &mut Crew) -> Result<(), PagesError> {
    for seat in &mut crew.seats {
        seat.store.settle()?;
    }
    for seat in crew.first_of_nodes() {
        seat.store.flush()?;
    }
    Ok(())
}

/// Fills pages until there are none left.
fn fill(
    seat: &mut Seat,
    heap: &Heap,
    next: &AtomicU64,
    done: &AtomicU64,
    stop: &AtomicBool,
    options: &PagesOptions,
) -> Result<(), PagesError> {
    let pages = heap.layout.pages(heap.loaded);
    let mut sequence = 0;
    let writer = seat.number as u16;
    let mut write = |at: u64, mut guard: PageGuard| -> Result<(), RecordError> {
        guard.update(0..guard.data().len(), |data| {
            for key in heap.layout.records_of(at, heap.loaded) {
                let bytes = data.get_mut(place(&heap.layout, key)).unwrap_or_default();
                write_record(bytes, key, 0, Stamp { writer, sequence })?;
                sequence += 1;
            }
            Ok(())
        })
    };
    let begin = |store: &mut PageStore<Channel>| {
        let at = next.fetch_add(1, Ordering::Relaxed);
        if at >= pages {
            return Ok(None);
        }
        let page = store.allocate()?;
        heap.enter(at, page);
        let fix = store.worker_mut().fix_in_turn(page, Mode::Exclusive);
        Ok(Some((at, fix)))
    };
    each_page(seat, options.depth, stop, begin, |at, result| {
        done.fetch_add(1, Ordering::Relaxed);
        write(at, result?).map_err(|reason| PagesError::Damaged {
            count: 1,
            key: heap.layout.records_of(at, heap.loaded).start,
            reason: reason.into(),
        })
    })
}

/// Has a worker fix pages that `begin` names until there are none left, `depth` at a time, and
/// hands each to `had`.
fn each_page(
    seat: &mut Seat,
    depth: u16,
    stop: &AtomicBool,
    mut begin: impl FnMut(&mut PageStore<Channel>) -> Result<Option<(u64, Fix)>, PagesError>,
    mut had: impl FnMut(u64, Result<PageGuard, FixError>) -> Result<(), PagesError>,
) -> Result<(), PagesError> {
    let mut under_way: Vec<(u64, Fix)> = Vec::new();
    let (mut is_over, mut failed) = (false, None);
    seat.until(|store| {
        let mut happened = false;
        while !is_over && under_way.len() < depth.into() {
            is_over = stop.load(Ordering::Relaxed) || failed.is_some();
            match if is_over { Ok(None) } else { begin(store) } {
                Ok(Some(begun)) => under_way.push(begun),
                Ok(None) => is_over = true,
                Err(error) => failed = Some(error),
            }
            happened = true;
        }
        under_way.retain(|&(at, fix)| {
            let Some(result) = store.worker_mut().take(fix) else {
                return true;
            };
            happened = true;
            if let Err(error) = had(at, result) {
                failed = Some(error);
            }
            false
        });
        (is_over && under_way.is_empty(), happened)
    });
    failed.map_or(Ok(()), Err)
}

/// Opens a store that was there, and reads all of it.
///
/// `asked` are the records that the user wants it to have, if he says.
pub(super) fn open(
    crew: &mut Crew,
    options: &PagesOptions,
    asked: Option<u64>,
    watch: Watch<'_>,
) -> Result<Run, PagesError> {
    let mut heap = None;
    for seat in &mut crew.seats {
        let superblock = seat.store.open(STORE)?;
        if heap.is_none() {
            heap = Some(catalogue(seat, options, asked, superblock.capacity)?);
        }
    }
    let heap = heap.ok_or(PagesError::Unfinished)?;
    let mut options = options.clone();
    options.ycsb.records = heap.loaded;
    let mut run = Run::new(options, heap, 0);
    let records = read_all(crew, &run, watch)?;
    run.inserts = InsertCounter::new(records, run.heap.records_max());
    Ok(run)
}

fn catalogue(
    seat: &mut Seat,
    options: &PagesOptions,
    asked: Option<u64>,
    capacity: u64,
) -> Result<Heap, PagesError> {
    let page = catalogue_page(options.page_size, 0);
    let none = || PagesError::NoHeap { page };
    let guard = seat.store.fix(page, Mode::Shared)?;
    let head = CatalogueHead::parse(&guard.data().to_vec()).filter(|head| head.number == 0);
    drop(guard);
    let head = head.ok_or_else(none)?;
    if head.loaded == 0 {
        return Err(PagesError::Unfinished);
    }
    let record_size = u64::from(options.ycsb.record_size);
    if head.record_size != record_size {
        return Err(PagesError::OtherHeap {
            what: "bytes in a record",
            found: head.record_size,
            asked: record_size,
        });
    }
    if let Some(asked) = asked.filter(|asked| *asked != head.loaded) {
        return Err(PagesError::OtherHeap {
            what: "records",
            found: head.loaded,
            asked,
        });
    }
    let layout = Heap::layout(options)?;
    if head.pages_max > capacity || layout.pages(head.loaded) > head.pages_max {
        return Err(none());
    }
    let heap = Heap::new(layout, head.loaded, head.pages_max);
    for number in 0..heap.catalogue_pages() {
        let page = catalogue_page(options.page_size, number);
        let guard = seat.store.fix(page, Mode::Shared)?;
        let other = CatalogueHead::parse(&guard.data().to_vec());
        if other.is_none_or(|other| other.number != number) {
            return Err(PagesError::NoHeap { page });
        }
        heap.take(number, &guard.data().to_vec());
    }
    Ok(heap)
}

/// What is wrong with a store, as it is being read.
#[derive(Default)]
struct Found {
    damaged: u64,
    first: Option<(u64, Damage)>,
    /// The first record that is not there.
    end: u64,
}

/// Reads all pages, verifies all records, and has the run expect their versions. Returns how many
/// records there are.
pub(super) fn read_all(crew: &mut Crew, run: &Run, watch: Watch<'_>) -> Result<u64, PagesError> {
    let pages = (0..run.heap.pages_max())
        .take_while(|at| run.heap.page(*at).is_some())
        .count() as u64;
    let there = pages * u64::from(run.heap.layout.records_per_page());
    let found = Mutex::new(Found {
        end: there,
        ..Found::default()
    });
    let next = AtomicU64::new(0);
    let stop = AtomicBool::new(false);
    let mut look = || {
        let done = next.load(Ordering::Relaxed).min(pages);
        if !watch(done as f64 / pages.max(1) as f64) {
            stop.store(true, Ordering::Relaxed);
        }
    };
    let results = crew.all(&mut look, |seat| {
        let result = read_some(seat, run, &next, pages, &found, &stop);
        let settled = seat.store.settle();
        result.and(settled.map_err(PagesError::from))
    })?;
    results.into_iter().collect::<Result<(), _>>()?;
    if stop.load(Ordering::Relaxed) {
        return Err(PagesError::Interrupted);
    }
    let mut found = found.into_inner().expect("no holder of this lock panics");
    if found.end < run.heap.loaded {
        let key = found.end;
        let missing = Damage::Record(RecordError::Unwritten { key });
        found.damaged += 1;
        found.first.get_or_insert((key, missing));
    }
    match found.first {
        Some((key, reason)) => Err(PagesError::Damaged {
            count: found.damaged,
            key,
            reason,
        }),
        None => {
            // What lies behind a gap will be written anew.
            for key in found.end..there {
                run.expectations.reset(key, 0);
            }
            Ok(found.end)
        }
    }
}

fn read_some(
    seat: &mut Seat,
    run: &Run,
    next: &AtomicU64,
    pages: u64,
    found: &Mutex<Found>,
    stop: &AtomicBool,
) -> Result<(), PagesError> {
    let begin = |store: &mut PageStore<Channel>| {
        let at = next.fetch_add(1, Ordering::Relaxed);
        let page = run.heap.page(at).filter(|_| at < pages);
        let worker = store.worker_mut();
        Ok(page.map(|page| (at, worker.fix_in_turn(page, Mode::Shared))))
    };
    each_page(seat, run.options.depth, stop, begin, |at, result| {
        let mut found = found.lock().expect("no holder of this lock panics");
        Ok(look_at(run, at, result, &mut found)?)
    })
}

/// Looks at the records of a page.
fn look_at(
    run: &Run,
    at: u64,
    result: Result<PageGuard, FixError>,
    found: &mut Found,
) -> Result<(), FixError> {
    let layout = &run.heap.layout;
    let keys = layout.records_of(at, u64::MAX);
    let guard = match result {
        Ok(guard) => guard,
        Err(error @ (FixError::Corrupt { .. } | FixError::WrongPage { .. })) => {
            found.damaged += 1;
            found.first.get_or_insert((keys.start, error.into()));
            return Ok(());
        }
        Err(other) => return Err(other),
    };
    for key in keys {
        match verify_record(&guard.data().slice(place(layout, key)).to_vec(), key) {
            Ok(view) => run.expectations.reset(key, view.version),
            Err(RecordError::Unwritten { .. }) => found.end = found.end.min(key),
            Err(error) => {
                found.damaged += 1;
                found.first.get_or_insert((key, error.into()));
            }
        }
    }
    Ok(())
}

/// A store's identity, never zero.
pub(super) fn identity(seed: u64) -> u64 {
    let mut rng = rackweave_base::Rng::new(seed).fork("store identity");
    rng.next_u64().max(1)
}
