//! Partitioning rows over the rings of a shuffle, with write-combining buffers.
//!
//! Rows are collected per destination until they fill an item, so that each ring is touched once
//! per item and not once per row (zero-sided RDMA, section 7.2: software write-combining buffers).
//!
//! An item begins with a header of [`ITEM_HEADER`] bytes: [`ITEM_MAGIC`], the number of its rows
//! (32 bits, little-endian), zeros. Then the rows follow, each of the same size. The header is as
//! long as a cache line, so that rows of 32 or 64 bytes never straddle one, nor two packets.

use super::{Producer, PushError};

/// Bytes in front of the rows of an item.
pub const ITEM_HEADER: usize = 64;

/// What an item of rows begins with.
pub const ITEM_MAGIC: [u8; 4] = *b"RWit";

/// Spreads keys over partitions: a 64-bit finaliser (Stafford's variant 13 of MurmurHash3's).
#[inline]
pub const fn hash_key(key: u64) -> u64 {
    let mut hash = key;
    hash = (hash ^ (hash >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    hash = (hash ^ (hash >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
    hash ^ (hash >> 31)
}

/// Sends rows of equal size to destinations by key.
#[derive(Debug)]
pub struct Partitioner {
    row_size: usize,
    /// Rows that an item holds.
    rows_max: usize,
    outputs: Vec<Output>,
}

#[derive(Debug)]
struct Output {
    producer: Producer,
    buffer: Box<[u8]>,
    rows: usize,
}

impl Output {
    fn flush(&mut self, row_size: usize) -> Result<(), PushError> {
        if self.rows > 0 {
            self.buffer[..4].copy_from_slice(&ITEM_MAGIC);
            self.buffer[4..8].copy_from_slice(&(self.rows as u32).to_le_bytes());
            self.producer
                .push(&self.buffer[..ITEM_HEADER + self.rows * row_size])?;
            self.rows = 0;
        }
        Ok(())
    }
}

impl Partitioner {
    /// A partitioner over one producer ring per destination, all with the same item size.
    ///
    /// # Panics
    /// If an item has no room for a row, or there is no producer.
    pub fn new(producers: Vec<Producer>, row_size: usize) -> Self {
        let item_size = producers[0].item_size() as usize;
        let rows_max = item_size.saturating_sub(ITEM_HEADER) / row_size;
        assert!(
            rows_max > 0,
            "an item of {item_size} bytes has no room for a row of {row_size}"
        );
        let outputs = producers
            .into_iter()
            .map(|producer| Output {
                producer,
                buffer: vec![0; item_size].into(),
                rows: 0,
            })
            .collect();
        Self {
            row_size,
            rows_max,
            outputs,
        }
    }

    /// The destination of `key`.
    pub fn destination(&self, key: u64) -> usize {
        ((u128::from(hash_key(key)) * self.outputs.len() as u128) >> 64) as usize
    }

    /// Adds a row; `write` fills its bytes, which hold an earlier row's at first.
    ///
    /// # Errors
    /// If the destination's ring is full; then the row was not added, and the same call may be
    /// made again.
    pub fn push(&mut self, key: u64, write: impl FnOnce(&mut [u8])) -> Result<(), PushError> {
        let destination = self.destination(key);
        let (row_size, rows_max) = (self.row_size, self.rows_max);
        let output = &mut self.outputs[destination];
        if output.rows == rows_max {
            output.flush(row_size)?;
        }
        let at = ITEM_HEADER + output.rows * row_size;
        write(&mut output.buffer[at..at + row_size]);
        output.rows += 1;
        Ok(())
    }

    /// Sends what is left and says that no more will come.
    ///
    /// # Errors
    /// If a ring is full; then the same call may be made again.
    pub fn finish(&mut self) -> Result<(), PushError> {
        for output in &mut self.outputs {
            match output.flush(self.row_size) {
                Ok(()) => output.producer.finish(),
                Err(PushError::Finished) => {}
                Err(error) => return Err(error),
            }
        }
        Ok(())
    }

    /// Whether everything was delivered.
    pub fn is_delivered(&mut self) -> bool {
        self.outputs
            .iter_mut()
            .all(|output| output.rows == 0 && output.producer.is_delivered())
    }

    /// Whether a destination's flow was broken off.
    pub fn is_aborted(&mut self) -> bool {
        self.outputs
            .iter_mut()
            .any(|output| output.producer.is_aborted())
    }

    /// The rows of an item, one slice each; nothing if the item is not well-formed.
    pub fn rows(item: &[u8], row_size: usize) -> Option<impl Iterator<Item = &[u8]>> {
        let (magic, rest) = item.split_first_chunk::<4>()?;
        let count = u32::from_le_bytes(*rest.first_chunk()?) as usize;
        if *magic != ITEM_MAGIC {
            return None;
        }
        let bytes =
            item.get(ITEM_HEADER..count.checked_mul(row_size)?.checked_add(ITEM_HEADER)?)?;
        Some(bytes.chunks_exact(row_size))
    }
}
