//! A run in real time, with real threads: on an embedded rack, or on one of processes.

use super::heap::Heap;
use super::load::{self, Worker, first_of_nodes};
use super::medium::Medium;
use super::open::open;
use super::table::{PageTable, Pages};
use super::{Job, Outcome, PagesOptions};
use crate::ycsb::embedded::{Driven, operate};
use crate::ycsb::prelude::*;
use rackweave_endpoint::page_store::{Fix, Mode, PageStore};

/// An empty rack large enough for a job.
///
/// # Errors
/// If the run is invalid, or the rack cannot be built.
pub fn rack(job: &Job, medium: &Medium) -> Result<EmbeddedRack> {
    let options = &job.options;
    options.check()?;
    let pages = medium.pages(options.page_size);
    let config = options.rack(&job.config, &job.nodes, pages)?;
    Ok(EmbeddedRack::new(&config)?)
}

/// Runs on an existing rack, which must be large enough for the job ([`PagesOptions::rack`]) and
/// have no page directory yet: a rack has at most one. Its configuration counts, not the job's. The
/// store is closed at the end, or the outcome says why not.
///
/// [`PagesOptions::rack`]: super::PagesOptions::rack
///
/// # Errors
/// If the run is invalid, or the store cannot be created or opened.
pub fn run_on(rack: &Rack, job: &Job, medium: Medium, progress: Progress<'_>) -> Result<Outcome> {
    job.options.check()?;
    let pages = medium.pages(job.options.page_size);
    let service = job.options.pages(rack, &job.nodes, medium.into_backend())?;
    run_with(&service, pages, job, progress)
}

/// Runs on the pages that a rack has ([`PagesOptions::of_rack`]), of which the first store has this
/// many.
///
/// # Errors
/// If the run is invalid, or the store cannot be created or opened.
pub fn run_with(
    service: &PageService,
    pages: u64,
    job: &Job,
    progress: Progress<'_>,
) -> Result<Outcome> {
    let (rack, options) = (service.rack(), &job.options);
    options.check()?;
    let started = std::time::Instant::now();
    let mut workers = load::workers(rack, &job.nodes, options, service)?;
    let (run, heap) = match options.reuse {
        true => open(&mut workers, options, progress)?,
        false => load::load(&mut workers, options, pages, progress)?,
    };
    let (run, heap) = (Arc::new(run), Arc::new(heap));
    let mut outcome = options.outcome(pages, &run, started);
    let table = |store, number| PageTable::new(store, &heap, number);
    let mut workers: Vec<_> = workers
        .into_iter()
        .map(|worker| worker.map(table))
        .collect();
    let before = statistics(&workers);
    let tend = &mut || Ok(());
    operate(&mut workers, &run, "clients", &mut outcome, progress, tend)?;
    outcome.table.pages = statistics(&workers) - before;
    let mut workers: Vec<_> = workers
        .into_iter()
        .map(|worker| worker.map(|table, _| table.pages))
        .collect();
    if options.shared {
        free(&mut workers, &heap, &mut outcome);
    }
    close(&mut workers, (&run, options), &mut outcome);
    outcome.table.heap_pages = heap.pages();
    outcome.take(&run);
    Ok(outcome)
}

impl Pages for PageStore<Channel> {
    fn worker(&mut self) -> &mut rackweave_endpoint::page_store::Worker<Channel> {
        self.worker_mut()
    }

    fn fix(&mut self, page: PageId, mode: Mode) -> Fix {
        let access = Arc::clone(self.access());
        self.worker_mut().fix_at_once(page, mode, || access.now())
    }

    fn allocate(&mut self) -> Result<PageId, AllocateError> {
        PageStore::allocate(self)
    }
}

impl Driven for PageTable<PageStore<Channel>> {
    fn drive(&mut self, node: &Node) -> bool {
        node.drive() | self.pages.poll()
    }

    fn finish(&mut self) -> Result<()> {
        Ok(self.pages.settle()?)
    }
}

/// The sum of the statistics of the workers' pools.
fn statistics(workers: &[Worker<PageTable<PageStore<Channel>>>]) -> Statistics {
    let mut sum = Statistics::default();
    for worker in workers {
        sum += *worker.table.pages.worker().statistics();
    }
    sum
}

/// Writes everything to storage, and reports what could not be written.
fn close(
    workers: &mut [Worker<PageStore<Channel>>],
    (run, options): (&Run, &PagesOptions),
    outcome: &mut Outcome,
) {
    let mut not_flushed = None;
    let mut note = |what: String| {
        not_flushed.get_or_insert(what);
    };
    for worker in &mut *workers {
        if let Err(error) = worker.table.retire() {
            note(error.to_string());
        }
    }
    for store in first_of_nodes(workers) {
        match store.flush() {
            Ok(flushed) => outcome.table.flushed += flushed.written,
            Err(error) => note(error.to_string()),
        }
    }
    // Others have a shared store open.
    if let Some(worker) = workers.first_mut()
        && !options.shared
        && let Err(error) = worker.table.close()
    {
        note(error.to_string());
    }
    for store in first_of_nodes(workers) {
        for loss in store.pool().losses() {
            load::lost(run, loss);
        }
    }
    outcome.not_flushed = outcome.not_flushed.take().or(not_flushed);
}

/// Gives the heap's pages back to a store that other programs use.
fn free(workers: &mut [Worker<PageStore<Channel>>], heap: &Heap, outcome: &mut Outcome) {
    let Some(first) = workers.first_mut() else {
        return;
    };
    outcome.table.heap_pages = heap.pages();
    for page in (0..heap.pages_max()).filter_map(|at| heap.page(at)) {
        if let Err(error) = first.table.free(page) {
            outcome.not_flushed = Some(format!("a page is not free again: {error}"));
            return;
        }
    }
}
