//! The page store under lookups: two nodes with pools and workers, a storage node, a memory server;
//! and the lookups of both systems: the pages that are read, and the first contents of the pools.

use super::{Load, Seen};
use crate::baseline::scalestore::cache::frames_kept_free;
use crate::experiment::seamless_4::testbed::{self, PAGE_BYTES};
use crate::harness::prelude::*;
use rackweave_endpoint::page_store::directory::Channel;
use rackweave_endpoint::page_store::{Fix, Mode, PoolConfig, Statistics, Worker};
use rackweave_rack::services::PageOptions;
use rackweave_wire::fabric::page::{HEADER_LEN, PageId};
use rackweave_workload::ycsb::{
    Distribution, Generator, HeapLayout, Operation, Workload, YcsbOptions,
};
use std::sync::Arc;

/// Requests of a worker beyond its lookups: pages that leave the pool.
const BACKGROUND_SLOTS: u16 = 8;

#[derive(Default)]
struct Tally {
    ended: u64,
    pages: Statistics,
}

struct Lookups {
    worker: Worker<Channel>,
    stream: Stream,
    /// Maximum number of pending lookups, and the pending ones.
    depth: usize,
    fixes: Vec<Fix>,
}

impl Lookups {
    /// Takes the pages that have arrived. Returns their number.
    fn take(&mut self) -> Result<u64, String> {
        let (mut at, mut ended) = (0, 0);
        while at < self.fixes.len() {
            match self.worker.take(self.fixes[at]) {
                Some(Ok(_guard)) => {
                    let _taken = self.fixes.swap_remove(at);
                    ended += 1;
                }
                Some(Err(error)) => return Err(error.to_string()),
                None => at += 1,
            }
        }
        Ok(ended)
    }

    fn request(&mut self, now: Instant, verbs: &mut Metered<'_>) -> Result<u64, String> {
        let before = moved(self.worker.statistics());
        self.worker.poll(now, verbs);
        let mut ended = self.take()?;
        // One at a time: posted requests leave when the core has finished its turn.
        if self.fixes.len() < self.depth {
            let page = PageId::new(0, self.stream.next()).ok_or("there is no such page")?;
            match self.worker.fix_leased(page, || now) {
                Some(_guard) => ended += 1,
                None => {
                    self.fixes.push(self.worker.fix_in_turn(page, Mode::Shared));
                    self.worker.poll(now, verbs);
                }
            }
        }
        // Charges completions of data, which no completion queue shows.
        for _ in before..moved(self.worker.statistics()) {
            verbs.word_taken();
        }
        Ok(ended)
    }
}

/// Number of pages that came from other nodes.
fn moved(pages: &Statistics) -> u64 {
    pages.memory_indexed + pages.memory_fallback + pages.storage_indexed + pages.storage_fallback
}

/// A worker that looks pages up, and adds to `tally` what it counts in `window`.
fn reader(
    mut worker: Lookups,
    window: (Instant, Instant),
    work: Duration,
    tally: Rc<RefCell<Tally>>,
) -> impl Program {
    let (from, until) = window;
    // The worker's statistics at the start of the window.
    let mut before = None;
    move |context: &mut Context<'_>| -> Turn {
        let (now, cpu) = (context.now(), *context.cpu());
        let mut verbs = Metered::new(context.nic(), cpu);
        let ended = worker.request(now, &mut verbs)?;
        let spent = verbs.spent();
        context.charge(Category::Communication, spent);
        context.charge(Category::Compute, work * ended);
        let statistics = *worker.worker.statistics();
        if now >= from {
            before.get_or_insert(statistics);
        }
        if now >= until {
            tally.borrow_mut().pages += statistics - before.unwrap_or_default();
            return Ok(Step::Done);
        }
        if now >= from {
            tally.borrow_mut().ended += ended;
        }
        if ended > 0 || spent > Duration::ZERO {
            return Ok(Step::Compute(Duration::ZERO));
        }
        let timeout = worker.worker.poll_timeout().unwrap_or(until);
        Ok(Step::WaitUntil(timeout.min(until)))
    }
}

/// Runs lookups over the page store, of whose pages the switch indexes the `indexed` hottest, with
/// leases after so many verifications.
pub fn run_pages(
    run: &mut Run<'_>,
    load: &Load,
    traffic: &Traffic,
    (indexed, lease_after): (u64, Option<u8>),
) -> Result<Seen> {
    let slots = load.depth * 2 + BACKGROUND_SLOTS;
    let mut rack = Testbed::new(&config(load, slots, run.seed))?;
    let members = (0..load.compute_nodes).map(|node| PageNode {
        node: NodeId(node),
        frames: load.frames_per_node,
        workers: load.workers,
        slots,
    });
    let options = PageOptions {
        nodes: members.collect(),
        indexed: Some(indexed),
        lease_after,
        ..testbed::options()
    };
    let ssds = load.ssds as usize;
    let pages = testbed::add_pages(&rack, &options, (load.pages, ssds), run.seed)?;
    let from = rack.now() + load.warm_up;
    let window = (from, from + load.window);
    let tally = Rc::new(RefCell::new(Tally::default()));
    let mut number = 0;
    for node in (0..load.compute_nodes).map(NodeId) {
        // As for the baseline, the cost of processing a page's bytes is not modelled, and as many
        // buffer frames are kept free.
        let pool = |pool: &mut PoolConfig| {
            (pool.checksums, pool.seed) = (false, 1);
            pool.low_water = frames_kept_free(pool.frames);
            pool.evict_batch = pool.low_water / 2;
        };
        let workers = pages.polled_workers(node, pool);
        for worker in workers.or_failed("workers")? {
            let lookups = Lookups {
                worker,
                stream: traffic.stream(number).or_failed("a stream")?,
                depth: usize::from(load.depth),
                fixes: Vec::new(),
            };
            rack.spawn(node, reader(lookups, window, load.work, tally.clone()));
            number += 1;
        }
    }
    shuffle::finish(run, &mut rack)?;
    let tally = tally.borrow();
    let pages = tally.pages;
    let fixes = pages.fixes.max(1) as f64;
    Ok(Seen {
        per_second: tally.ended as f64 / load.window.as_secs_f64(),
        local: (pages.local_hits + pages.joined) as f64 / fixes,
        remote: (pages.memory_indexed + pages.memory_fallback) as f64 / fixes,
        storage: (pages.storage_indexed + pages.storage_fallback) as f64 / fixes,
        drops: shuffle::traffic(&rack).drops,
    })
}

/// The testbed; each worker may have `slots` pending requests.
fn config(load: &Load, slots: u16, seed: u64) -> RackConfig {
    let workers = load.compute_nodes * load.workers;
    let slots = workers * slots;
    let mut config = testbed::config(seed, load.pages as u32, (workers, slots));
    config.nic.queue_pairs = u32::from(slots) * 4 + 1024;
    config.nic.completion_queues = 4096;
    config.nic.congestion_control = load.congestion_control;
    config
}

/// Bytes of a record. Assumed: eight bytes of key and 120 of value; the paper does not say.
pub const RECORD_BYTES: u32 = 128;

/// Sampled lookups per page from which the order of pages by heat is derived.
const DRAWS_PER_PAGE: u64 = 64;

#[derive(Clone, Debug)]
pub struct Traffic {
    options: YcsbOptions,
    layout: HeapLayout,
    /// The rank of each page of the heap by heat; the hottest is page 0.
    rank: Arc<[u32]>,
    pages: u64,
    /// Pages that a worker reads initially, and workers of a node.
    warm: u64,
    workers: u32,
}

impl Traffic {
    /// Lookups with skew `theta` in a heap that fills `pages` pages, by `workers` workers of each
    /// node, which together first read `frames` pages of their node's choice.
    pub fn new(
        (pages, frames): (u64, u64),
        theta: f64,
        workers: u32,
        seed: u64,
    ) -> Result<Self, String> {
        let layout = HeapLayout::new(PAGE_BYTES, HEADER_LEN as u32, RECORD_BYTES);
        let layout = layout.map_err(|error| error.to_string())?;
        let options = YcsbOptions {
            workload: Workload::C,
            records: pages * u64::from(layout.records_per_page()),
            // Hot records of the workload are scattered over all pages.
            distribution: Some(Distribution::Scrambled),
            theta,
            seed,
            record_size: RECORD_BYTES,
            ..YcsbOptions::default()
        };
        let mut traffic = Self {
            rank: (0..pages as u32).collect(),
            options,
            layout,
            pages,
            warm: frames / u64::from(workers.max(1)),
            workers,
        };
        traffic.rank = traffic.by_heat()?;
        Ok(traffic)
    }

    fn by_heat(&self) -> Result<Arc<[u32]>, String> {
        let mut generator = self.generator(u32::MAX)?;
        let mut drawn = vec![0u64; self.pages as usize];
        for _ in 0..self.pages * DRAWS_PER_PAGE {
            drawn[self.heap_page(&mut generator) as usize] += 1;
        }
        let mut pages: Vec<u32> = (0..self.pages as u32).collect();
        pages.sort_by_key(|&page| core::cmp::Reverse(drawn[page as usize]));
        let mut rank = vec![0; pages.len()];
        for (at, &page) in pages.iter().enumerate() {
            rank[page as usize] = at as u32;
        }
        Ok(rank.into())
    }

    fn generator(&self, worker: u32) -> Result<Generator, String> {
        Generator::new(&self.options, worker).map_err(|error| error.to_string())
    }

    fn heap_page(&self, generator: &mut Generator) -> u64 {
        match generator.next(self.options.records) {
            Operation::Read { key } => self.layout.place(key).page,
            other => unreachable!("workload C has no {other:?}"),
        }
    }

    /// The reads of worker `number` of all workers, in order.
    pub fn stream(&self, number: u32) -> Result<Stream, String> {
        let (node, worker) = (number / self.workers, number % self.workers);
        let mut rng = Rng::new(self.options.seed).fork("warm pages");
        let seed = rng.next_u64() ^ u64::from(node);
        Ok(Stream {
            generator: self.generator(number)?,
            traffic: self.clone(),
            warm: Scatter::new(self.pages, seed),
            next: u64::from(worker) * self.warm,
            warm_end: (u64::from(worker) + 1) * self.warm,
        })
    }
}

#[derive(Debug)]
pub struct Stream {
    traffic: Traffic,
    generator: Generator,
    warm: Scatter,
    next: u64,
    warm_end: u64,
}

impl Stream {
    /// The next page. First come the worker's part of a random half of all pages, the contents of a
    /// node's pool under uniform lookups; then the pages of its lookups.
    pub fn next(&mut self) -> u64 {
        if self.next < self.warm_end {
            self.next += 1;
            return self.warm.apply(self.next - 1);
        }
        let page = self.traffic.heap_page(&mut self.generator);
        u64::from(self.traffic.rank[page as usize])
    }
}
