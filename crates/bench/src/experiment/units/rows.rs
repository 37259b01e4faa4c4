//! The rows that storage nodes send.

use rackweave_workload::tpch::{LineitemRow, Part, ScaleFactor, lineitem_rows};
use std::ops::Range;
use std::sync::Arc;

/// Bytes of an encoded row of `lineitem`.
pub const ROW: usize = LineitemRow::BYTES;

/// All rows of `lineitem`, in the order of their keys.
#[derive(Clone)]
pub struct Rows(Arc<[u8]>);

impl Rows {
    /// The rows of a scale factor.
    pub fn generate(scale: ScaleFactor) -> Self {
        let mut rows = Vec::new();
        for row in lineitem_rows(scale, Part::WHOLE) {
            rows.extend_from_slice(&row);
        }
        Self(rows.into())
    }

    /// How many there are.
    pub fn count(&self) -> usize {
        self.0.len() / ROW
    }

    /// The bytes of some neighbouring rows.
    ///
    /// # Panics
    /// If there are not that many rows.
    pub fn bytes(&self, rows: Range<usize>) -> &[u8] {
        &self.0[rows.start * ROW..rows.end * ROW]
    }
}
