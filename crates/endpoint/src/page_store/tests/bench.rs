//! Nodes with pools and workers on a fake rack, in one thread and in virtual time.

use super::fake::{FakeDirectory, Rack};
use crate::page_store::{Fix, FixError, Mode, PageGuard, Pool, PoolConfig, Statistics, Worker};
use rackweave_base::{Duration, Instant, Memory, Qpn, Rng};
use rackweave_verbs::scripted::{ScriptedNic, Tables};
use rackweave_verbs::{PostError, WorkRequest};
use rackweave_wire::fabric::page::PageId;
use rackweave_wire::fabric::page::control::PoolLayout;
use std::sync::Arc;

pub const PAGE: usize = 4096;

/// Nodes with pools and workers.
pub struct Bench {
    pub rack: Rack,
    pub pools: Vec<Arc<Pool>>,
    pub workers: Vec<Worker<FakeDirectory>>,
    pub now: Instant,
    pub rng: Rng,
}

impl Bench {
    /// `nodes` nodes with `workers` workers each; a pool has `frames` buffer frames.
    pub fn new(seed: u64, nodes: usize, workers: usize, frames: u32, pages: u64) -> Self {
        let mut bench = Self {
            rack: Rack::new(seed, PAGE, pages),
            pools: Vec::new(),
            workers: Vec::new(),
            now: Instant::ZERO,
            rng: Rng::new(!seed),
        };
        bench.start(nodes, workers, |node| {
            PoolConfig::new(node, PAGE as u32, frames)
        });
        bench
    }

    /// Nodes with fresh pools.
    pub fn start(&mut self, nodes: usize, workers: usize, config: impl Fn(u16) -> PoolConfig) {
        self.workers.clear();
        self.pools.clear();
        self.rack.restart();
        for node in 0..nodes {
            let pool = pool(&self.rack, config(node as u16));
            for _ in 0..workers {
                let directory = self.rack.directory(node as u16);
                self.workers.push(Worker::new(Arc::clone(&pool), directory));
            }
            self.pools.push(pool);
        }
    }

    /// Advances time and polls all workers, in random order.
    pub fn step(&mut self) {
        self.now += Duration::from_nanos(self.rng.between(1, 400));
        let first = self.rng.below(self.workers.len() as u64) as usize;
        for at in 0..self.workers.len() {
            let at = (first + at) % self.workers.len();
            if self.rng.chance(0.8) {
                self.workers[at].poll(self.now, &mut NoVerbs);
            }
        }
    }

    /// Polls until `ready` returns a value.
    pub fn wait<T>(&mut self, mut ready: impl FnMut(&mut Self) -> Option<T>) -> T {
        for _ in 0..1_000_000 {
            if let Some(value) = ready(self) {
                return value;
            }
            self.step();
        }
        panic!("somebody waits for what never comes");
    }

    pub fn take(&mut self, worker: usize, fix: Fix) -> Result<PageGuard, FixError> {
        self.wait(|bench| bench.workers[worker].take(fix))
    }

    pub fn fix(&mut self, worker: usize, number: u64, mode: Mode) -> Result<PageGuard, FixError> {
        let fix = self.workers[worker].fix(page(number), mode);
        self.take(worker, fix)
    }

    /// Increments a page's counter, and waits until its latch is released.
    pub fn change(&mut self, worker: usize, number: u64) -> Result<u64, FixError> {
        let mut guard = self.fix(worker, number, Mode::Exclusive)?;
        let value = increment(&mut guard);
        drop(guard);
        self.settle();
        Ok(value)
    }

    /// Polls until all workers are idle.
    pub fn settle(&mut self) {
        let idle = |bench: &mut Self| bench.workers.iter().all(Worker::is_idle).then_some(());
        self.wait(idle);
    }

    pub fn flush(&mut self, worker: usize) -> Result<u64, crate::page_store::FlushError> {
        let flush = self.workers[worker].flush();
        let result = self.wait(|bench| bench.workers[worker].take_flush(flush));
        result.map(|flushed| flushed.written)
    }

    pub fn statistics(&self) -> Statistics {
        let mut sum = Statistics::default();
        for worker in &self.workers {
            sum += *worker.statistics();
        }
        sum
    }
}

pub fn pool(rack: &Rack, config: PoolConfig) -> Arc<Pool> {
    let len = PoolLayout::new(config.frame_size, config.frames).bytes() as usize;
    let len = len.next_multiple_of(4096);
    let block = Memory::new(len).allocate(len).unwrap();
    assert_eq!(rack.add_node(block.clone()), config.node);
    Pool::new(block, config).unwrap()
}

pub fn page(number: u64) -> PageId {
    PageId::new(1, number).unwrap()
}

/// The counter of a page, after checking that the page is not torn: every word has the same value.
pub fn counter(guard: &PageGuard) -> u64 {
    let bytes = guard.data();
    let first = bytes.u64_le(0);
    let mut chunks = bytes.chunks_exact(8);
    assert!(chunks.all(|chunk| chunk.u64_le(0) == first), "a torn page");
    first
}

pub fn increment(guard: &mut PageGuard) -> u64 {
    let next = counter(guard) + 1;
    for mut chunk in guard.data_mut().chunks_exact(8) {
        chunk.copy_from(&next.to_le_bytes());
    }
    next
}

/// No work requests are posted on a fake rack.
pub struct NoVerbs;

impl ScriptedNic for NoVerbs {
    fn tables(&mut self) -> &mut Tables {
        unreachable!()
    }

    fn on_send(&mut self, _: Qpn, _: WorkRequest) -> Result<(), PostError> {
        unreachable!()
    }
}
