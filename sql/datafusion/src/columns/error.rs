//! What goes wrong with tables on storage nodes.

use datafusion::arrow::datatypes::DataType;
use datafusion::arrow::error::ArrowError;
use datafusion::common::DataFusionError;
use rackweave::columns::{CatalogueError, DataType as ColumnType};
use rackweave::messaging::ConnectError;
use rackweave_workload::columns::{DecodeError, EncodeError};

use crate::codec::CodecError;

/// Why a table of storage nodes can't be read.
#[derive(Debug, thiserror::Error)]
pub enum StorageError {
    /// There is no connection to the node's column service.
    #[error("the storage node {node} can't be reached: {reason}")]
    Unreachable {
        /// The node.
        node: String,
        /// The cause.
        reason: String,
    },
    /// The connection ended, again after it was made anew.
    #[error("the storage node {node} is gone: {reason}")]
    Gone {
        /// The node.
        node: String,
        /// The cause.
        reason: String,
    },
    /// The node has no such column, or this node has no memory for it.
    #[error("the storage node {node} gives no column '{column}': {reason}")]
    Refused {
        /// The node.
        node: String,
        /// Its name in the catalogue.
        column: String,
        /// The cause.
        reason: String,
    },
    /// A column has another type or another number of rows than the table has.
    #[error(
        "the storage node {node} has {found_rows} rows of {found} as '{column}', not \
         {expected_rows} of {expected}"
    )]
    Mismatch {
        /// The node.
        node: String,
        /// Its name in the catalogue.
        column: String,
        /// The type in the table, as columns carry it.
        expected: ColumnType,
        /// The rows of the chunk.
        expected_rows: u64,
        /// The type of the column.
        found: ColumnType,
        /// The rows of the column.
        found_rows: u64,
    },
    /// The bytes of a column are no array.
    #[error("the storage node {node} sent a wrong '{column}': {source}")]
    Array {
        /// The node.
        node: String,
        /// Its name in the catalogue.
        column: String,
        /// What is wrong.
        source: DecodeError,
    },
    /// The node doesn't describe its tables in a way that is understood here.
    #[error("the storage node {node} sent a wrong description: {source}")]
    Description {
        /// The node.
        node: String,
        /// What is wrong.
        source: CodecError,
    },
    /// Storage nodes describe a table in different ways.
    #[error("the storage nodes {one} and {other} have different tables '{table}': {what} differ")]
    Different {
        /// The table.
        table: String,
        /// A node.
        one: String,
        /// Another node.
        other: String,
        /// What differs.
        what: &'static str,
    },
    /// No storage node has a chunk of a table.
    #[error("no storage node has chunk {chunk} of the {chunks} chunks of the table '{table}'")]
    Missing {
        /// The table.
        table: String,
        /// The first missing chunk, from zero.
        chunk: u32,
        /// The chunks of the table.
        chunks: u32,
    },
    /// The client has been stopped.
    #[error("nothing is fetched any more: the process ends")]
    Stopped,
}

impl From<StorageError> for DataFusionError {
    fn from(error: StorageError) -> Self {
        Self::External(Box::new(error))
    }
}

/// Why a storage node can't serve a table.
#[derive(Debug, thiserror::Error)]
pub enum StoreError {
    /// Columns have no corresponding type.
    #[error("the column '{column}' of the table '{table}' is {data_type}, which no column can be")]
    Type {
        /// The table.
        table: String,
        /// The column.
        column: String,
        /// Its type.
        data_type: DataType,
    },
    /// A chunk doesn't belong to its table, or the table was added twice.
    #[error("chunk {chunk} of the table '{table}': {reason}")]
    Chunk {
        /// The table.
        table: String,
        /// The chunk.
        chunk: u32,
        /// What is wrong.
        reason: &'static str,
    },
    /// A column can't be encoded.
    #[error(transparent)]
    Encode(#[from] EncodeError),
    /// A column can't be converted.
    #[error(transparent)]
    Arrow(#[from] ArrowError),
    /// There is no memory for a column, or it can't be served.
    #[error(transparent)]
    Catalogue(#[from] CatalogueError),
    /// The node can't listen.
    #[error(transparent)]
    Listen(#[from] ConnectError),
    /// The system has no thread.
    #[error("no thread for the column service: {0}")]
    Thread(std::io::Error),
}
