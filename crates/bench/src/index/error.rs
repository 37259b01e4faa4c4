//! Why a run came to no outcome, and why one ended early.

use rackweave_endpoint::btree::TreeError;
use rackweave_endpoint::index::{BeginError, IndexError, MapError};
use rackweave_rack::IndexNetworkError;
use rackweave_rack::IndexSetUpError;
use rackweave_rack::RackError;
use rackweave_rack::services::IndexServiceError;
use rackweave_workload::ycsb::{InsertError, OptionsError, RateError};

/// Why a run came to no outcome.
#[derive(Debug, thiserror::Error)]
pub enum IndexRunError {
    /// The workload makes no sense.
    #[error(transparent)]
    Workload(#[from] OptionsError),
    /// No schedule has this rate.
    #[error(transparent)]
    Rate(#[from] RateError),
    /// A number is out of range.
    #[error("{what} is {number}; {range}")]
    OutOfRange {
        /// Which.
        what: &'static str,
        /// Its value.
        number: u64,
        /// What it may be.
        range: &'static str,
    },
    /// There is no second endpoint.
    #[error("the index has two endpoints, and the rack has no DPU for the second")]
    NoDpu,
    /// There can be no such tree, or it takes no more records.
    #[error(transparent)]
    Tree(#[from] TreeError),
    /// There is no such partition.
    #[error(transparent)]
    Map(#[from] MapError),
    /// The rack could not be built.
    #[error(transparent)]
    Rack(#[from] RackError),
    /// The index could not be set up or loaded.
    #[error(transparent)]
    Index(#[from] IndexServiceError),
    /// A client could not be set up.
    #[error(transparent)]
    SetUp(#[from] IndexSetUpError),
    /// The switches cannot be loaded.
    #[error(transparent)]
    Network(#[from] IndexNetworkError),
    /// A thread could not be started.
    #[error("a thread could not be started: {0}; use fewer threads")]
    Thread(String),
    /// Nothing happens any more, in virtual time.
    #[error("nothing has ended for {0} s of virtual time")]
    Stalled(u64),
    /// The user wanted an end before the records were there.
    #[error("interrupted before the records were loaded")]
    Interrupted,
}

/// Why a run ended early.
#[derive(Clone, Copy, PartialEq, Eq, Debug, thiserror::Error)]
pub enum RunError {
    /// An operation failed.
    #[error(transparent)]
    Operation(#[from] IndexError),
    /// An operation was not taken.
    #[error(transparent)]
    Begin(#[from] BeginError),
    /// A local tree refused.
    #[error(transparent)]
    Tree(#[from] TreeError),
    /// A record could not be inserted.
    #[error(transparent)]
    Insert(#[from] InsertError),
}
