//! YCSB over the page store: records of one size in a heap of pages.
//!
//! [`PagesOptions`] is what is asked for, [`PagesOutcome`] what there is to say of pages.
//! [`embedded`] runs on real threads, [`simulated`] in virtual time. The store lies in a
//! [`Medium`]; [`Heap`] says which page is whose.

pub mod embedded;
mod heap;
mod load;
mod medium;
mod options;
mod outcome;
pub mod simulated;
mod table;

pub use heap::Heap;
pub use medium::Medium;
pub use options::{BLOCK, INDEXED_MAX, PagesOptions};
pub use outcome::{PageCounts, PagesOutcome};

/// What to run, and on what.
pub type Job = crate::ycsb::Job<PagesOptions>;

/// What a run found.
pub type Outcome = crate::ycsb::Outcome<PagesOutcome>;
