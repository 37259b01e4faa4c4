//! YCSB over the B+tree index: every record is a value, its key the record's number spread over
//! all keys.
//!
//! [`IndexOptions`] is what is asked for, [`Outcome`] what was found. [`embedded`] runs on real
//! threads, [`simulated`] in virtual time. [`Access`] says how workers come to the tree: threads of
//! the storage node call it, or threads of compute nodes send requests or READ it.
//!
//! [`Session`] has the operations of one worker and does no IO of its own: it asks a [`Way`]. `Run`
//! is what all sessions share. Every record that is read is verified: that it is whole, that it is
//! the one that was asked for, that its version may be seen, and that no scan leaves one out.
//! Behind the run, the trees are checked and all records are read again.
//!
//! Keys keep the order of records, in all workloads, so that a scan of keys is one of neighbouring
//! records and it is known what it has to find. New records have the greatest keys.

mod answer;
pub mod embedded;
mod error;
mod keys;
mod loaded;
mod network;
mod options;
mod outcome;
mod price;
mod run;
mod scan;
mod session;
pub mod simulated;
mod spent;
mod sweep;
#[cfg(test)]
mod tests;
mod turns;
mod way;

pub use error::{IndexRunError, RunError};
pub use keys::Keys;
pub use loaded::{Job, Loaded};
pub use network::NetworkCounts;
pub use options::{Access, IndexOptions, Nodes};
pub use outcome::{EndpointCounts, Outcome, TimeShare};
pub use run::Run;
pub use session::{Session, Stepped};
pub use turns::Turns;
pub use way::{Local, LocalWork, Way};
