//! YCSB over the B+tree index: every record is a value, and the records' numbers are spread over
//! all keys.
//!
//! [`IndexOptions`] are the options of a run, [`IndexOutcome`] its results specific to an index.
//! [`embedded`] runs on real threads, [`simulated`] in virtual time. [`Access`] is how workers
//! reach the tree: threads of the storage node call it, or threads of compute nodes send requests
//! or READ it.
//!
//! No scan may omit a record. After the run, the trees are checked and all records are read again.
//!
//! Keys keep the order of records in all workloads, so that a scan of keys is a scan of
//! neighbouring records and its expected result is known. New records have the greatest keys.

mod checks;
pub mod embedded;
mod loaded;
mod network;
mod options;
mod outcome;
mod records;
pub mod simulated;
mod table;
#[cfg(test)]
mod tests;

pub use loaded::{Job, Loaded};
pub use network::NetworkCounts;
pub use options::{Access, IndexOptions};
pub use outcome::{EndpointCounts, IndexOutcome};

/// The results of a run.
pub type Outcome = crate::ycsb::Outcome<IndexOutcome>;
