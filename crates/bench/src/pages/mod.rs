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
mod outcome;
pub mod simulated;
mod table;

pub use heap::Heap;
pub use medium::Medium;
pub use options::{BLOCK, INDEXED_MAX, PagesOptions};
pub use outcome::PagesOutcome;

/// A page-store run and its rack.
pub type Job = crate::ycsb::Job<PagesOptions>;

/// The results of a run.
pub type Outcome = crate::ycsb::Outcome<PagesOutcome>;
