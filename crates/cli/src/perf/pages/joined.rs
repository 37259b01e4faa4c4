//! The same on a running rack, which has one directory, one page size and its own stores: hits,
//! pages from another node's memory and pages from the first store. The server's directory and
//! double writes are what a rack of one's own can choose.
//!
//! One guest, the keeper, allocates more pages than it has buffer frames, so that its pool writes a
//! part of them home. Another guest fetches each page once to see where it comes from, and then
//! measures those of each source. At the end the keeper frees all pages.

use super::measure::Bench;
use super::rig::Reader;
use super::{of_hits, of_memory, ratio};
use crate::outcome::CliError;
use crate::perf::test_run::TestRun;
use rackweave_base::Rng;
use rackweave_rack::RackConfig;
use rackweave_rack::config::Medium;
use rackweave_rack::services::{BLOCK, PageOptions, PageService, PageWorker, StoreInfo};
use rackweave_target::{Backend, IoKind, MemoryBackend};
use rackweave_wire::fabric::page::{PageId, PageSource};
use serde_json::{Value, json};

/// Pages for hits.
const HITS: usize = 8;

/// Allocated pages, which are freed when this is dropped.
struct Allocated<'a> {
    worker: &'a PageWorker,
    pages: Vec<PageId>,
}

impl<'a> Allocated<'a> {
    fn new(worker: &'a PageWorker, count: u64) -> Result<Self, CliError> {
        let mut all = Self {
            worker,
            pages: Vec::new(),
        };
        for _ in 0..count {
            let page = worker.allocate()?;
            all.pages.push(page);
            // The newest version is in the keeper's memory until its pool evicts it.
            worker.change(page, |bytes| bytes[0] ^= 1)?;
        }
        Ok(all)
    }
}

impl Drop for Allocated<'_> {
    fn drop(&mut self) {
        for &page in &self.pages {
            // A page that cannot be freed now is leaked, as after the death of this process.
            let _leaked = self.worker.free(page);
        }
    }
}

/// Measurements, for the progress bar.
const STEPS: u32 = 5;

/// Runs the test on the rack that `test` has joined.
///
/// # Errors
/// If the rack has no page directory, or the first store has too few free pages.
pub fn measure(test: &mut TestRun<'_>, bench: &Bench<'_>) -> Result<Value, CliError> {
    test.steps = STEPS;
    let rack = test.real_rack()?;
    let service = PageService::new(&rack, &PageOptions::default())?;
    let page_bytes = service.stores().first().map_or(0, |it| it.page_size);
    let (keeper, reader) = (test.nodes[0], test.nodes[1]);
    let worker = service.worker(keeper)?;
    let mut reader = Reader::new(&rack, reader, page_bytes)?;
    bench.globals.live.phase("pages are allocated");
    let frames = u64::from(worker.pool().frames_of(0));
    let all = Allocated::new(&worker, frames + frames / 2)?;
    test.step(true);
    let recent = &all.pages[all.pages.len().saturating_sub(HITS)..];
    bench.globals.live.phase("pages that are here already");
    let hits = bench.hits(&worker, recent)?;
    test.step(true);

    let (mut memory, mut storage) = (Vec::new(), Vec::new());
    for &page in &all.pages {
        match reader.source_of(page)? {
            PageSource::Memory => memory.push(page),
            PageSource::Storage => storage.push(page),
        }
    }
    let mut rate = |pages: &[PageId], from, what: &str| {
        bench.globals.live.phase(what);
        let next = |rng: &mut Rng| pages[rng.below(pages.len() as u64) as usize];
        let rate = match pages.is_empty() {
            true => return Err(CliError::run(format!("there are no {what}"))),
            false => bench.fetch(&mut reader, next, from)?,
        };
        test.step(rate.all_from_there);
        Ok(rate.pages_per_s)
    };
    let from_memory = rate(&memory, PageSource::Memory, "pages from memory")?;
    let from_storage = rate(&storage, PageSource::Storage, "pages from storage")?;
    drop(all);

    let store = &service.stores()[0];
    let alone = like(&test.config, store, page_bytes);
    let alone = alone.map(|backend| bench.by_queue(page_bytes, backend, IoKind::Read));
    let alone = alone.transpose()?;
    test.step(true);
    Ok(json!({
        "depth": reader.requests_max(bench.depth),
        "hit": of_hits(&hits[0]),
        "leased_hit": of_hits(&hits[1]),
        "memory": [of_memory(page_bytes, from_memory, None)],
        "storage": {
            "page_bytes": page_bytes,
            "pages_per_s": from_storage,
            "file_pages_per_s": alone,
            "to_file": alone.map(|alone| ratio(from_storage, alone)),
            "double_write": false,
            "file_pages_written_per_s": null,
        },
    }))
}

/// A medium of the kind that a store in memory has; `None` for a file, which the storage node's
/// process keeps locked.
fn like(config: &RackConfig, store: &StoreInfo, page_bytes: u32) -> Option<Box<dyn Backend>> {
    let mut configured = config.store.iter();
    let configured = configured.find(|configured| configured.name == store.name);
    let is_memory = configured.is_none_or(|it| it.medium == Medium::Memory);
    let blocks = store.pages * u64::from(page_bytes / BLOCK);
    is_memory.then(|| Box::new(MemoryBackend::new(BLOCK, blocks)) as Box<dyn Backend>)
}
