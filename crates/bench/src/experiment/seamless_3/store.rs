//! The page store under lookups: two nodes with pools and workers, a storage node, a memory server.

use super::traffic::{Stream, Traffic};
use super::{Load, Seen};
use crate::experiment::seamless_4::testbed;
use crate::harness::prelude::*;
use crate::harness::shuffle;
use rackweave_controller::PageNode;
use rackweave_endpoint::page_store::directory::Channel;
use rackweave_endpoint::page_store::{Fix, Mode, PoolConfig, Statistics, Worker};
use rackweave_wire::fabric::page::PageId;

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
        let ended = self.take()?;
        // One at a time: posted requests leave when the core has finished its turn.
        if self.fixes.len() < self.depth {
            let page = PageId::new(0, self.stream.next()).ok_or("there is no such page")?;
            self.fixes.push(self.worker.fix_in_turn(page, Mode::Shared));
            self.worker.poll(now, verbs);
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

/// Runs lookups over the page store, of whose pages the switch indexes the `indexed` hottest.
pub fn run_pages(
    run: &mut Run<'_>,
    load: &Load,
    traffic: &Traffic,
    indexed: u64,
) -> Result<Seen, ExperimentError> {
    let slots = load.depth * 2 + BACKGROUND_SLOTS;
    let mut rack = Testbed::new(&config(load, slots, run.seed))?;
    let members = (0..load.compute_nodes).map(|node| PageNode {
        node: NodeId(node),
        frames: load.frames_per_node,
        workers: load.workers,
        slots,
    });
    let pages = testbed::add_pages(&rack, members.collect(), load.pages, indexed, run.seed)?;
    let from = rack.now() + load.warm_up;
    let window = (from, from + load.window);
    let tally = Rc::new(RefCell::new(Tally::default()));
    let mut number = 0;
    for node in (0..load.compute_nodes).map(NodeId) {
        // As for the baseline, the cost of processing a page's bytes is not modelled.
        let pool = |pool: &mut PoolConfig| (pool.checksums, pool.seed) = (false, 1);
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
