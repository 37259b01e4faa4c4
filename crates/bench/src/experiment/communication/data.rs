//! The data that is sent: bytes that differ at all positions, generated from a short row of them,
//! so that data of any size takes little memory.

use rackweave_base::Rng;
use std::sync::Arc;

/// Bytes of the row. Not a multiple of any buffer's size, so that packages differ.
const ROW: usize = (1 << 20) + 8 * 1031;

/// Data whose byte `i` is byte `i + shift` of the row, which repeats.
#[derive(Clone, Debug)]
pub struct Data {
    row: Arc<[u8]>,
    shift: usize,
    pub bytes: u64,
}

impl Data {
    /// Empty data, with the row for later data.
    pub fn none(seed: u64) -> Self {
        let mut rng = Rng::new(seed).fork("data");
        let words = (0..ROW / 8).flat_map(|_| rng.next_u64().to_le_bytes());
        Self {
            row: words.collect(),
            shift: 0,
            bytes: 0,
        }
    }

    /// The `number`-th data of a series, of `bytes` bytes. Another number changes the byte at every
    /// position.
    pub fn series(&self, number: usize, bytes: u64) -> Self {
        Self {
            row: self.row.clone(),
            shift: number * 8 * 127 % ROW,
            bytes,
        }
    }

    /// Exactly these bytes.
    pub fn whole(bytes: &[u8]) -> Self {
        Self {
            row: bytes.into(),
            shift: 0,
            bytes: bytes.len() as u64,
        }
    }

    /// Part of the data, as consecutive pieces.
    ///
    /// # Panics
    /// If it extends beyond the data.
    pub fn pieces(&self, offset: u64, len: usize) -> impl Iterator<Item = &[u8]> {
        assert!(offset + len as u64 <= self.bytes, "beyond the data");
        let row = self.row.len().max(1);
        let mut at = ((offset + self.shift as u64) % row as u64) as usize;
        let mut left = len;
        core::iter::from_fn(move || {
            let piece = &self.row[at..row.min(at + left)];
            left -= piece.len();
            at = 0;
            (!piece.is_empty()).then_some(piece)
        })
    }

    /// Whether `bytes` equals the data from `offset` on.
    pub fn is(&self, offset: u64, bytes: &[u8]) -> bool {
        if offset + bytes.len() as u64 > self.bytes {
            return false;
        }
        let mut at = 0;
        self.pieces(offset, bytes.len()).all(|piece| {
            let begin = at;
            at += piece.len();
            bytes[begin..at] == *piece
        })
    }
}

#[cfg(test)]
mod tests;
