//! The pages that are read: point lookups of records, and the initial contents of the pools.

use crate::experiment::seamless_4::testbed::PAGE_BYTES;
use rackweave_base::Rng;
use rackweave_wire::fabric::page::HEADER_LEN;
use rackweave_workload::ycsb::{
    Distribution, Generator, HeapLayout, Operation, Scatter, Workload, YcsbOptions,
};
use std::sync::Arc;

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
