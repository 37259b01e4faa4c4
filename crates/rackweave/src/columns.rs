//! Columns that a storage unit serves over [messages](crate::messaging), and a cache for them.
//!
//! A [`Catalogue`] has named columns in the memory of a storage unit; a [`ColumnServer`] for each
//! connection streams them out of there without a copy. A [`ColumnClient`] asks for them, and a
//! [`ColumnCache`] keeps what has come for all workers of a compute unit (*Communication Tier*,
//! sections 3 and 6). Server and client are machines, polled with the verbs of their node.
//! `docs/columns.md` in the repository says what is promised, and
//! [`MessageConnection::into_machines`](crate::messaging::MessageConnection::into_machines) gives
//! them their sender and receiver.

pub use rackweave_endpoint::messaging::columns::{
    Answer, AskError, BUFFER_ALIGN, BadAnswer, Buffer, COLUMN_HEADER_LEN, CacheCounters,
    CacheError, Catalogue, CatalogueError, Checksum, ClientCounters, ColumnCache, ColumnClient,
    ColumnClientConfig, ColumnData, ColumnError, ColumnHeader, ColumnPiece, ColumnServer,
    ColumnServerConfig, ColumnShape, DataError, DataType, Fetch, ListedColumn, Look, NAME_MAX,
    PieceReader, Pinned, RefusalCode, Removal, Reply, RequestError, ServedColumn, ServerCounters,
    Ticket, Waiter,
};
