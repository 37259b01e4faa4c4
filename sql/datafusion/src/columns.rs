//! Tables whose columns storage nodes hold in memory.
//!
//! A table is divided into chunks of rows. A storage node has some of the chunks, as one column of
//! its [`Catalogue`](rackweave::columns::Catalogue) for each column of the table, and serves them
//! with Rackweave's column service. A scan fetches only the columns that the query needs.
//!
//! - [`StorageTables`] and [`StorageServer`]: the storage node's side.
//! - [`StorageClient`]: the way from a coordinator or a worker to the storage nodes. All partitions
//!   that execute there share its connections.
//! - [`tables`]: what the storage nodes serve, as `TableProvider`s; they find the tables
//!   themselves.
//! - [`with_column_scans`]: what sessions need to divide scans among workers.
//!
//! The storage nodes are found by name: each has an exchange, and a stream to it is answered with
//! the address of its column service, or with its tables.

mod client;
mod description;
mod error;
mod plan_codec;
mod scan;
mod serve;
mod store;
mod table;
mod tasks;
mod values;

pub use client::StorageClient;
pub use description::{ChunkDescription, TablePart};
pub use error::{StorageError, StoreError};
pub use plan_codec::ColumnScanCodec;
pub use scan::{ColumnScanExec, ScanChunk};
pub use serve::StorageServer;
pub use store::StorageTables;
pub use table::{StorageTable, combine, tables};
pub use tasks::{column_scan_task_count, divide_column_scan};

use datafusion_distributed::DistributedExt;

/// Has a session know column scans: how they are sent to workers, and how they are divided among
/// them. Coordinators and workers both need it.
#[must_use]
pub fn with_column_scans<T: DistributedExt>(session: T, client: &StorageClient) -> T {
    session
        .with_distributed_user_codec(ColumnScanCodec::new(client.clone()))
        .with_distributed_desired_task_count_handler(column_scan_task_count)
        .with_distributed_scale_up_leaf_node_handler(divide_column_scan)
}

/// The name in a catalogue of a column of a chunk.
fn column_name(table: &str, chunk: u32, column: &str) -> String {
    format!("{table}/{chunk}/{column}")
}

#[cfg(test)]
mod tests;
