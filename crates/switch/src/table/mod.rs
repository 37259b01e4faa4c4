//! Match-action tables: filled by the control plane, looked up by packets.
//!
//! There are three kinds of match, each on a key of bounded width: exactly ([`Exact`], hashed into
//! SRAM, [`Direct`] where keys are small and dense, or [`Row`] for several such tables), by value
//! and mask with priorities ([`Ternary`], TCAM), by range ([`Range`], TCAM after expansion or
//! range-capable SRAM). Each has a fixed capacity, allocated at start; a full table refuses new
//! entries.

mod direct;
mod exact;
mod range;
mod row;
mod ternary;

pub use direct::Direct;
pub use exact::Exact;
use rackweave_base::text::Text;
pub use range::Range;
pub use row::Row;
use serde::{Deserialize, Serialize};
pub use ternary::Ternary;

/// Why the control plane could not add an entry.
#[derive(Clone, Copy, PartialEq, Eq, Debug, thiserror::Error, Serialize, Deserialize)]
pub enum TableError {
    /// No free entry is left.
    #[error("table {table} is full: it holds {capacity} entries")]
    Full {
        /// The table's name.
        #[serde(with = "rackweave_base::text")]
        table: Text,
        /// Its capacity.
        capacity: usize,
    },
    /// The key does not fit the table's width.
    #[error("table {table} matches {width} bits; key {key:#x} is wider")]
    TooWide {
        /// The table's name.
        #[serde(with = "rackweave_base::text")]
        table: Text,
        /// Its key width in bits.
        width: u8,
        /// The key.
        key: u64,
    },
    /// The key belongs to another owner, in a table where owners must not replace each other's
    /// entries.
    #[error("table {table}: key {key:#x} is taken; remove its entry first")]
    Taken {
        /// The table's name.
        #[serde(with = "rackweave_base::text")]
        table: Text,
        /// The key.
        key: u64,
    },
    /// The range ends before its start, or overlaps another.
    #[error("table {table}: range {first:#x}..={last:#x} is empty or overlaps another")]
    BadRange {
        /// The table's name.
        #[serde(with = "rackweave_base::text")]
        table: Text,
        /// The first key.
        first: u64,
        /// The last key.
        last: u64,
    },
}

fn check_width(table: &'static str, width: u8, key: u64) -> Result<(), TableError> {
    if width < 64 && key >> width != 0 {
        return Err(TableError::TooWide { table, width, key });
    }
    Ok(())
}
