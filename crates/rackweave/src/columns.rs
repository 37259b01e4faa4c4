//! Columns that a storage node serves over [messages](crate::messaging), and a cache for them.
//!
//! A [`Catalogue`] has named columns in the memory of a storage node; a [`ColumnService`] for each
//! connection streams them from there without a copy. A [`ColumnReader`] requests them, and a
//! [`ColumnCache`] keeps fetched columns for all workers of a compute node (*Communication Tier*,
//! sections 3 and 6). They are built on the state machines [`ColumnServer`] and [`ColumnClient`],
//! which are polled with the verbs of their node. `docs/columns.md` in the repository documents the
//! guarantees.
//!
//! ```
//! use rackweave::columns::{Catalogue, ColumnData, ColumnReader, ColumnService};
//! use rackweave::columns::{ColumnShape, DataType};
//! use rackweave::messaging::{Listener, dial};
//! use rackweave::{Rack, TIME_LIMIT};
//! use std::sync::Arc;
//!
//! # fn main() -> Result<(), Box<dyn std::error::Error>> {
//! let rack = Rack::builder().build()?;
//! let (storage, compute) = (rack.node("storage0")?, rack.node("compute0")?);
//! let shape = ColumnShape::new(DataType::Int32, 3, 0, 0)?;
//! let column = ColumnData::new(shape, &[], &[], &[1, 0, 0, 0, 2, 0, 0, 0, 3, 0, 0, 0])?;
//! let catalogue = Arc::new(Catalogue::new(1));
//! catalogue.add(rack.memory(), "numbers", &column)?;
//!
//! let mut listener = Listener::bind(&rack, &storage, "127.0.0.1:0".parse()?, Default::default())?;
//! let address = listener.local_addr();
//! std::thread::scope(|scope| {
//!     scope.spawn(|| {
//!         let connection = listener.accept(TIME_LIMIT).expect("somebody dials");
//!         let mut service = ColumnService::new(connection, catalogue, Default::default());
//!         assert_eq!(service.serve(TIME_LIMIT), Ok(true));
//!     });
//!     let connection = dial(&rack, &compute, address, Default::default(), TIME_LIMIT)?;
//!     let mut reader = ColumnReader::new(connection, Default::default());
//!     assert_eq!(reader.fetch("numbers", TIME_LIMIT)?, column);
//!     reader.close(TIME_LIMIT)?;
//!     Ok(())
//! })
//! # }
//! ```

pub use rackweave_endpoint::messaging::columns::{
    Answer, AskError, BUFFER_ALIGN, BadAnswer, Buffer, COLUMN_HEADER_LEN, CacheCounters,
    CacheError, Catalogue, CatalogueError, Checksum, ClientCounters, ColumnCache, ColumnClient,
    ColumnClientConfig, ColumnData, ColumnError, ColumnHeader, ColumnPiece, ColumnServer,
    ColumnServerConfig, ColumnShape, DataError, DataType, Fetch, ListedColumn, Look, NAME_MAX,
    PieceReader, Pinned, RefusalCode, Removal, Reply, RequestError, ServedColumn, ServerCounters,
    Ticket, Waiter,
};
pub use rackweave_rack::messaging::{ColumnReader, ColumnService, FetchError};
