//! YCSB over the B+tree index: every record is a value, its key the record's number spread over
//! all keys.
//!
//! [`IndexOptions`] is what is asked for, [`IndexOutcome`] what there is to say of an index.
//! [`embedded`] runs on real threads, [`simulated`] in virtual time. [`Access`] says how workers
//! come to the tree: threads of the storage node call it, or threads of compute nodes send requests
//! or READ it.
//!
//! No scan may leave a record out. Behind the run, the trees are checked and all records are read
//! again.
//!
//! Keys keep the order of records, in all workloads, so that a scan of keys is one of neighbouring
//! records and it is known what it has to find. New records have the greatest keys.

pub mod embedded;
mod keys;
mod loaded;
mod network;
mod options;
mod outcome;
mod price;
mod scan;
pub mod simulated;
mod sweep;
mod table;
#[cfg(test)]
mod tests;
mod turns;
mod way;

pub use keys::Keys;
pub use loaded::{Job, Loaded};
pub use network::NetworkCounts;
pub use options::{Access, IndexOptions};
pub use outcome::{EndpointCounts, IndexOutcome};
pub use turns::Turns;

/// What a run found.
pub type Outcome = crate::ycsb::Outcome<IndexOutcome>;
