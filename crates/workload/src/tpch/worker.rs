//! What workers of both kinds say.

use super::rows::RowError;

/// What a worker's step came to.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum WorkerStep {
    /// Rows were pushed or consumed.
    Worked {
        /// How many.
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
    /// The flow was broken off, or one of its ring words makes no sense.
    #[error("the flow of {table} was broken off")]
    Aborted {
        /// The table.
        table: &'static str,
    },
    /// The partitioner was made for rows of another size.
    #[error("the partitioner of {table} was not made for rows of {row_bytes} bytes")]
    RowSize {
        /// The table.
        table: &'static str,
        /// Bytes of the table's rows.
        row_bytes: usize,
    },
    /// An item has no header, or counts no rows or more than there is room for.
    #[error("item {item} of {table} does not begin with a header that counts 1 to {rows_max} rows")]
    Item {
        /// The table.
        table: &'static str,
        /// The item, counted from zero in its ring.
        item: u64,
        /// Rows for which there is room.
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
    /// A result was asked for before the end.
    #[error("the worker has not come to the end of {table}")]
    NotDone {
        /// The table that it is at.
        table: &'static str,
    },
}

/// `orders` as errors name it.
pub(super) const ORDERS: &str = super::TABLES[0].name;
/// `lineitem` as errors name it.
pub(super) const LINEITEM: &str = super::TABLES[1].name;
