//! Loads a heap into a new store.

use super::heap::{Heap, STORE, catalogue_page};
use super::options::PagesOptions;
use super::table::place;
use crate::ycsb::embedded::{self, all};
use crate::ycsb::prelude::*;
use rackweave_endpoint::page_store::directory::Mode;
use rackweave_endpoint::page_store::{Fix, FormatOptions, Loss, OpenError, PageStore, PoolConfig};
use rackweave_verbs::Progress as _;

pub(super) type Worker<T> = embedded::Worker<T>;

pub(super) type Store = PageStore<Channel>;

impl<T> Worker<T> {
    /// The same worker with another table.
    pub(super) fn map<U>(self, table: impl FnOnce(T, u32) -> U) -> Worker<U> {
        let (number, node) = (self.number, self.node);
        let table = table(self.table, number);
        Worker {
            number,
            node,
            table,
        }
    }
}

pub(super) fn workers(
    rack: &Rack,
    nodes: &Nodes,
    options: &PagesOptions,
    pages: &PageService,
) -> Result<Vec<Worker<Store>>> {
    let mut workers = Vec::new();
    for &node in &nodes.compute {
        let node = rack.node_at(node);
        let seed = |pool: &mut PoolConfig| pool.seed = options.load.ycsb.seed;
        for worker in pages.polled_workers(node.id(), seed)? {
            workers.push(Worker {
                number: workers.len() as u32,
                node: node.clone(),
                table: PageStore::new(worker, Arc::new(node.clone())),
            });
        }
    }
    Ok(workers)
}

/// The first worker of each node.
pub(super) fn first_of_nodes(workers: &mut [Worker<Store>]) -> impl Iterator<Item = &mut Store> {
    let mut last = None;
    let first = move |worker: &&mut Worker<Store>| {
        let node = Some(worker.node.id());
        core::mem::replace(&mut last, node) != node
    };
    workers
        .iter_mut()
        .filter(first)
        .map(|worker| &mut worker.table)
}

/// Records a change that the directory did not accept.
pub(super) fn lost(run: &Run, loss: Loss) {
    let reason = format!("its change to version {} was not taken", loss.version);
    run.note(0, Some(loss.page.index()), reason);
}

/// Runs `work` on every worker, and reports their progress out of `pages`.
pub(super) fn each(
    workers: &mut [Worker<Store>],
    done: &AtomicU64,
    pages: u64,
    progress: &mut dyn FnMut(f64) -> bool,
    work: impl Fn(&mut Worker<Store>, &AtomicBool) -> Result<()> + Sync,
) -> Result<()> {
    let stop = AtomicBool::new(false);
    let end = || stop.store(true, Ordering::Relaxed);
    let mut look = || {
        let done = done.load(Ordering::Relaxed).min(pages);
        progress(done as f64 / pages.max(1) as f64)
    };
    let (_, stopped) = all(workers, &mut look, &end, |worker| {
        let result = work(worker, &stop);
        if result.is_err() {
            stop.store(true, Ordering::Relaxed);
        }
        let settled = worker.table.settle();
        result.and(settled.map_err(YcsbError::from))
    })?;
    match stopped {
        true => Err(YcsbError::Interrupted),
        false => Ok(()),
    }
}

/// Creates a store and loads all records, which are on storage afterwards.
pub(super) fn load(
    workers: &mut [Worker<Store>],
    options: &PagesOptions,
    capacity: u64,
    progress: Progress<'_>,
) -> Result<(Run, Heap)> {
    let heap = Heap::for_run(options)?;
    let format = FormatOptions {
        store: STORE,
        capacity,
        identity: identity(options.load.ycsb.seed),
    };
    let first = &mut workers[0].table;
    let opened = match options.shared {
        true => first.open(STORE).map(|_| ()),
        false => Err(OpenError::Blank(STORE)),
    };
    match opened {
        Err(OpenError::Blank(_)) => first.format(format)?,
        opened => opened?,
    }
    // The store is new, so its first pages are allocated first.
    for number in 0..u64::from(heap.has_catalogue) * heap.catalogue_pages() {
        let page = first.allocate()?;
        if page != catalogue_page(options.page_size, number) {
            return Err(YcsbError::NoHeap { page });
        }
        emit(first, &heap, number, false)?;
    }
    first.settle()?;
    first.flush()?;
    for worker in &mut workers[1..] {
        worker.table.open(STORE)?;
    }
    let pages = heap.layout.pages(heap.loaded);
    let (next, done) = (AtomicU64::new(0), AtomicU64::new(0));
    let watch = &mut |fraction| progress(Phase::Load, fraction);
    each(workers, &done, pages, watch, |worker, stop| {
        fill(worker, &heap, &next, &done, stop, options.load.depth)
    })?;
    for worker in &mut *workers {
        worker.table.settle()?;
    }
    for store in first_of_nodes(workers) {
        store.flush()?;
    }
    if heap.has_catalogue {
        finish(&mut workers[0].table, &heap)?;
    }
    let run = Run::new(options.load.clone(), heap.loaded, heap.records_max());
    Ok((run, heap))
}

fn emit(store: &mut Store, heap: &Heap, number: u64, finished: bool) -> Result<()> {
    let page = catalogue_page(heap.layout.page_size(), number);
    let mut guard = store.fix(page, Mode::Exclusive)?;
    guard.update(0..guard.data().len(), |bytes| {
        heap.emit(number, finished, bytes);
    });
    Ok(())
}

/// Completes the catalogue: everything has been loaded.
fn finish(store: &mut Store, heap: &Heap) -> Result<()> {
    // The first page says that the others are complete, so it is written last.
    for number in (0..heap.catalogue_pages()).rev() {
        emit(store, heap, number, true)?;
        if number <= 1 {
            store.settle()?;
            store.flush()?;
        }
    }
    Ok(())
}

fn fill(
    worker: &mut Worker<Store>,
    heap: &Heap,
    next: &AtomicU64,
    done: &AtomicU64,
    stop: &AtomicBool,
    depth: u16,
) -> Result<()> {
    let pages = heap.layout.pages(heap.loaded);
    let mut sequence = 0;
    let writer = worker.number as u16;
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
    let begin = |store: &mut Store| {
        let at = next.fetch_add(1, Ordering::Relaxed);
        if at >= pages {
            return Ok(None);
        }
        let page = store.allocate()?;
        heap.enter(at, page);
        let fix = store.worker_mut().fix_in_turn(page, Mode::Exclusive);
        Ok(Some((at, fix)))
    };
    each_page(worker, depth, stop, begin, |at, result| {
        done.fetch_add(1, Ordering::Relaxed);
        write(at, result?).map_err(|reason| YcsbError::Damaged {
            count: 1,
            key: heap.layout.records_of(at, heap.loaded).start,
            reason: reason.into(),
        })
    })
}

/// Fixes the pages that `begin` names until there are none left, `depth` at a time, and passes each
/// to `had`.
pub(super) fn each_page(
    worker: &mut Worker<Store>,
    depth: u16,
    stop: &AtomicBool,
    mut begin: impl FnMut(&mut Store) -> Result<Option<(u64, Fix)>>,
    mut had: impl FnMut(u64, Result<PageGuard, FixError>) -> Result<()>,
) -> Result<()> {
    let (node, store) = (&worker.node, &mut worker.table);
    let mut under_way: Vec<(u64, Fix)> = Vec::new();
    let (mut is_over, mut failed, mut idle_rounds) = (false, None, 0);
    loop {
        let mut happened = store.poll();
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
        if is_over && under_way.is_empty() {
            return failed.map_or(Ok(()), Err);
        }
        if node.drive() | happened {
            idle_rounds = 0;
        } else {
            node.relax(idle_rounds);
            idle_rounds = idle_rounds.saturating_add(1);
        }
    }
}

/// A store's identity, never zero.
pub(super) fn identity(seed: u64) -> u64 {
    let mut rng = rackweave_base::Rng::new(seed).fork("store identity");
    rng.next_u64().max(1)
}
