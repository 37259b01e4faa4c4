//! YCSB over the page store: records of one size in a heap of pages.
//!
//! [`PagesOptions`] are the options of a run, [`PagesOutcome`] its results specific to pages.
//! [`embedded`] runs on real threads, [`simulated`] in virtual time. The store is in a [`Medium`];
//! [`Heap`] maps the heap's pages to the store's.

pub mod embedded;
mod heap;
mod load;
mod medium;
mod open;
mod options;
pub mod simulated;
mod table;

pub use heap::Heap;
pub use medium::Medium;
pub use options::{BLOCK, INDEXED_MAX, PagesOptions};

use crate::ycsb::prelude::*;
use serde::{Serialize, Serializer};
use std::time::Instant as RealInstant;

/// A page-store run and its rack.
pub type Job = crate::ycsb::Job<PagesOptions>;

/// The results of a run.
pub type Outcome = crate::ycsb::Outcome<PagesOutcome>;

/// Results of a run specific to pages.
#[derive(Clone, Debug, Default, Serialize)]
pub struct PagesOutcome {
    /// Pages of the store.
    pub store_pages: u64,
    /// Pages of the heap, at the end.
    pub heap_pages: u64,
    /// Pages that the switch indexed at the start.
    #[serde(rename = "indexed_pages")]
    pub indexed: u64,
    /// Counters of the pools during the run.
    #[serde(serialize_with = "shown")]
    pub pages: Statistics,
    /// Pages that were written to storage after the run.
    #[serde(rename = "flushed_pages")]
    pub flushed: u64,
}

impl PagesOptions {
    /// The outcome of a run on `pages` pages before its first operation; loading began at
    /// `started`.
    pub(super) fn outcome(&self, pages: u64, run: &Run, started: RealInstant) -> Outcome {
        Outcome {
            records: run.inserts.inserted(),
            load_seconds: started.elapsed().as_secs_f64(),
            table: PagesOutcome {
                store_pages: pages,
                indexed: self.indexed(pages),
                ..PagesOutcome::default()
            },
            ..Outcome::default()
        }
    }
}

/// The counters that are shown: where pages came from, and what happened to them.
const SHOWN: [&str; 14] = [
    "fixes",
    "local_hits",
    "leased_hits",
    "joined",
    "memory_indexed",
    "memory_fallback",
    "storage_indexed",
    "storage_fallback",
    "stale_copies",
    "conflicts",
    "gone",
    "evicted_clean",
    "evicted_dirty",
    "written",
];

fn shown<S: Serializer>(counters: &Statistics, serializer: S) -> Result<S::Ok, S::Error> {
    let counters = counters.list();
    serializer.collect_map(counters.filter(|(name, _)| SHOWN.contains(name)))
}
