//! Requests for column data, and the compute node's cache (communication tier, sections 1, 3 and
//! 6).
//!
//! A storage node has a [`Catalogue`] of named columns in region memory and, for each connection, a
//! [`ColumnServer`] that receives requests from a [`Receiver`](super::Receiver) and streams answers
//! through a [`Sender`](super::Sender), directly from the columns' memory. A compute node has a
//! [`ColumnClient`] for each connection; it assembles answers in memory, or shows their pieces in
//! place in the receive buffers. A [`ColumnCache`] keeps received columns for all workers of the
//! node, as planned in the paper: a column that several workers request concurrently is transferred
//! once.
//!
//! Server and client are machines: they read no clock and never block. The cache is shared by
//! threads, and blocks only callers that ask for it. `wire::fabric::message::column` defines the
//! layouts, `docs/columns.md` in the repository states the guarantees.

mod cache;
mod catalogue;
mod client;
mod data;
mod error;
mod server;

pub use cache::{CacheCounters, CacheError, ColumnCache, Fetch, Look, Pinned, Waiter};
pub use catalogue::{Catalogue, CatalogueError, Removal, ServedColumn};
pub use client::{
    Answer, ClientCounters, ColumnClient, ColumnClientConfig, ColumnPiece, ListedColumn,
    PieceReader, Reply, Ticket,
};
pub use data::{ColumnData, DataError};
pub use error::{AskError, BadAnswer, RequestError};
pub use rackweave_wire::fabric::message::column::{
    BUFFER_ALIGN, Buffer, COLUMN_HEADER_LEN, Checksum, ColumnError, ColumnHeader, ColumnShape,
    DataType, NAME_MAX, RefusalCode,
};
pub use server::{ColumnServer, ColumnServerConfig, ServerCounters};

#[cfg(test)]
mod tests;
