//! Steps and errors of both kinds of workers.

use super::rows::RowError;

/// The result of a worker's step.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum WorkerStep {
    /// Rows were pushed or consumed.
    Worked {
        /// Number of rows.
        rows: u64,
        /// Their bytes.
        bytes: u64,
    },
    /// Nothing can be done now: a ring is full, or there is nothing to consume yet.
    Blocked,
    /// Nothing is left to do.
    Done,
    /// The worker has given up, and its `error()` says why. The query has failed: workers that
    /// wait for this one may stay blocked.
    Aborted,
}

/// Why a worker has given up.
#[derive(Clone, Copy, PartialEq, Eq, Debug, thiserror::Error)]
pub enum WorkerError {
    /// The flow was aborted, or one of its ring words is invalid.
    #[error("the flow of {table} was broken off")]
    Aborted {
        /// The table.
        table: &'static str,
    },
    /// The partitioner is for rows of another size.
    #[error("the partitioner of {table} was not made for rows of {row_bytes} bytes")]
    RowSize {
        /// The table.
        table: &'static str,
        /// Bytes of the table's rows.
        row_bytes: usize,
    },
    /// An item has no header, or its count is zero or exceeds its size.
    #[error("item {item} of {table} does not begin with a header that counts 1 to {rows_max} rows")]
    Item {
        /// The table.
        table: &'static str,
        /// The item, counted from zero in its ring.
        item: u64,
        /// Maximum rows of the item.
        rows_max: usize,
    },
    /// A row is malformed.
    #[error("row {row} of item {item} of {table}: {error}")]
    Row {
        /// The table.
        table: &'static str,
        /// The item, counted from zero in its ring.
        item: u64,
        /// The row, counted from zero in its item.
        row: u64,
        /// What is wrong with it.
        error: RowError,
    },
    /// A result was requested before the end.
    #[error("the worker has not come to the end of {table}")]
    NotDone {
        /// The table being processed.
        table: &'static str,
    },
}

/// The name of `orders` in errors.
pub(super) const ORDERS: &str = super::TABLES[0].name;
/// The name of `lineitem` in errors.
pub(super) const LINEITEM: &str = super::TABLES[1].name;
