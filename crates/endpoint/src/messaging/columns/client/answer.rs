//! Results of requests.

use super::super::{ColumnData, ColumnHeader, ColumnShape, RequestError};

/// A request of a client.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub struct Ticket(pub(super) u32);

/// The end of a request.
#[derive(PartialEq, Eq, Debug)]
pub struct Answer {
    /// The request.
    pub ticket: Ticket,
    /// Its result.
    pub result: Result<Reply, RequestError>,
}

/// The reply to a request.
#[derive(PartialEq, Eq, Debug)]
pub enum Reply {
    /// The column, in memory.
    Column(ColumnData),
    /// All of the column has been shown in place.
    Shown(ColumnHeader),
    /// The column still has the version that was known.
    Unchanged {
        /// That version.
        version: u64,
    },
    /// The columns that the storage node serves, by name.
    List(Vec<ListedColumn>),
}

/// A column that a storage node serves.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct ListedColumn {
    /// Its name.
    pub name: String,
    /// Its version.
    pub version: u64,
    /// Its type, rows, nulls and lengths.
    pub shape: ColumnShape,
}
