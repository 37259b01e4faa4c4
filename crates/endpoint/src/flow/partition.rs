//! Partitioning rows over the rings of a shuffle, with write-combining buffers.
//!
//! Rows are collected per destination in a small buffer, so that a ring is written once per
//! [`COMBINED_BYTES`] and not once per row (zero-sided RDMA, section 7.2: software write-combining
//! buffers). Full buffers are copied into the ring's next slot, and the slot is committed when the
//! item is full.
//!
//! An item begins with a header of [`ITEM_HEADER`] bytes: [`ITEM_MAGIC`], the number of its rows
//! (32 bits, little-endian), zeros. The rows follow, all of the same size. The header is as long as
//! a cache line, so that rows of 32 or 64 bytes never straddle two cache lines or two packets.

use super::producer::done;
use super::{Producer, PushError, wait_until};
use rackweave_verbs::Progress;

/// Bytes in front of the rows of an item.
pub const ITEM_HEADER: usize = 64;

/// The first bytes of an item of rows.
pub const ITEM_MAGIC: [u8; 4] = *b"RWit";

/// Spreads keys over partitions: a 64-bit finaliser (Stafford's variant 13 of MurmurHash3's).
#[inline]
pub const fn hash_key(key: u64) -> u64 {
    let mut hash = key;
    hash = (hash ^ (hash >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    hash = (hash ^ (hash >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
    hash ^ (hash >> 31)
}

/// How rows are copied from the write-combining buffers into the rings.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Stores {
    /// Through the caches: a reader that takes the items next finds them there.
    Cached,
    /// Past the caches, with non-temporal stores where the processor has them. Lines of the ring
    /// are not fetched only to be overwritten, and do not evict others.
    Streaming,
}

/// Bytes of rows that are combined before they are copied into the ring. Much smaller copies cost
/// more per byte, and buffers as large as an item of 64 KiB do not stay in the caches closest to
/// the core.
pub const COMBINED_BYTES: usize = 4096;

/// Rings that together are larger than this are written past the caches. Both ways were measured
/// (`benches/partition.rs`): with 4 MiB the caches were faster, with 16 MiB streaming was, whatever
/// the number of destinations.
const CACHED_BYTES_MAX: u64 = 8 << 20;

/// Sends rows of equal size to destinations by key.
#[derive(Debug)]
pub struct Partitioner {
    shape: Shape,
    outputs: Vec<Output>,
}

/// Parameters that all outputs share.
#[derive(Clone, Copy, Debug)]
struct Shape {
    row_size: usize,
    /// Bytes of rows that an item holds; a multiple of the row size.
    rows_bytes: usize,
    /// Bytes that are copied into the ring at once.
    combined: usize,
    stores: Stores,
}

/// A destination. Of the current item, `sent` bytes of rows are in the ring's next slot and `fill`
/// bytes of rows are in the buffer.
#[derive(Debug)]
struct Output {
    producer: Producer,
    buffer: Box<[u8]>,
    fill: usize,
    /// At this fill level the buffer must be emptied before another row is added.
    fill_max: usize,
    sent: usize,
}

impl Output {
    fn new(producer: Producer, shape: Shape) -> Self {
        Self {
            producer,
            // The last row of a full buffer may extend beyond the bytes that are copied at once.
            buffer: vec![0; shape.combined + shape.row_size].into(),
            fill: 0,
            fill_max: shape.combined,
            sent: 0,
        }
    }

    /// Empties a full buffer into the ring.
    #[cold]
    #[inline(never)]
    fn make_room(&mut self, shape: Shape) -> Result<(), PushError> {
        if self.sent + self.fill == shape.rows_bytes {
            return self.flush(shape);
        }
        if self.sent == 0 {
            self.producer.reserve(1)?;
        }
        self.send(shape, shape.combined);
        self.buffer.copy_within(shape.combined..self.fill, 0);
        self.fill -= shape.combined;
        self.fill_max = shape.combined.min(shape.rows_bytes - self.sent);
        Ok(())
    }

    /// Copies the first `bytes` of the buffer into the reserved slot.
    fn send(&mut self, shape: Shape, bytes: usize) {
        let (at, rows) = (ITEM_HEADER + self.sent, &self.buffer[..bytes]);
        match shape.stores {
            Stores::Cached => self.producer.slot().write(at, rows),
            Stores::Streaming => self.producer.stream(at, rows),
        }
        self.sent += bytes;
    }

    /// Completes and commits the current item, if it has rows.
    fn flush(&mut self, shape: Shape) -> Result<(), PushError> {
        if self.is_empty() {
            return Ok(());
        }
        if self.sent == 0 {
            self.producer.reserve(1)?;
        }
        self.send(shape, self.fill);
        let rows = (self.sent / shape.row_size) as u32;
        let mut slot = self.producer.slot();
        slot.write(0, &ITEM_MAGIC);
        slot.write(4, &rows.to_le_bytes());
        slot.slice(8..ITEM_HEADER).fill(0);
        slot.slice(ITEM_HEADER + self.sent..).fill(0);
        self.producer.commit(1);
        (self.sent, self.fill, self.fill_max) = (0, 0, shape.combined);
        Ok(())
    }

    fn is_empty(&self) -> bool {
        self.sent + self.fill == 0
    }
}

impl Partitioner {
    /// A partitioner over one producer ring per destination, all with the same item size.
    ///
    /// # Panics
    /// If an item cannot hold a row, or there is no producer.
    pub fn new(producers: Vec<Producer>, row_size: usize) -> Self {
        let bytes: u64 = producers.iter().map(Producer::ring_bytes).sum();
        let stores = if bytes > CACHED_BYTES_MAX {
            Stores::Streaming
        } else {
            Stores::Cached
        };
        Self::with_stores(producers, row_size, stores)
    }

    /// As [`Self::new`], with an explicit choice that is otherwise derived from the size of the
    /// rings.
    ///
    /// # Panics
    /// If an item cannot hold a row, or there is no producer.
    pub fn with_stores(producers: Vec<Producer>, row_size: usize, stores: Stores) -> Self {
        let item_size = producers[0].item_size() as usize;
        let rows_max = item_size.saturating_sub(ITEM_HEADER) / row_size;
        assert!(
            rows_max > 0,
            "an item of {item_size} bytes has no room for a row of {row_size}"
        );
        let rows_bytes = rows_max * row_size;
        let shape = Shape {
            row_size,
            rows_bytes,
            combined: rows_bytes.min(COMBINED_BYTES),
            stores,
        };
        let outputs = producers
            .into_iter()
            .map(|producer| Output::new(producer, shape))
            .collect();
        Self { shape, outputs }
    }

    /// The destination of `key`.
    #[inline]
    pub fn destination(&self, key: u64) -> usize {
        ((u128::from(hash_key(key)) * self.outputs.len() as u128) >> 64) as usize
    }

    /// Adds a row. `write` fills its bytes, which initially hold those of an earlier row.
    ///
    /// # Errors
    /// If the destination's ring is full. Then the row was not added, and the same call may be
    /// repeated.
    #[inline]
    pub fn push(&mut self, key: u64, write: impl FnOnce(&mut [u8])) -> Result<(), PushError> {
        let destination = self.destination(key);
        let shape = self.shape;
        let output = &mut self.outputs[destination];
        if output.fill >= output.fill_max {
            output.make_room(shape)?;
        }
        let end = output.fill + shape.row_size;
        write(&mut output.buffer[output.fill..end]);
        output.fill = end;
        Ok(())
    }

    /// [`Self::push`] that waits for free slots and drives the rack meanwhile.
    ///
    /// # Errors
    /// If the flow was aborted, or `finish` was called.
    pub fn push_wait(
        &mut self,
        progress: &dyn Progress,
        key: u64,
        mut write: impl FnMut(&mut [u8]),
    ) -> Result<(), PushError> {
        wait_until(progress, || done(self.push(key, &mut write)))
    }

    /// Sends the remaining rows and finishes all producers.
    ///
    /// # Errors
    /// If a ring is full. Then the same call may be repeated.
    pub fn finish(&mut self) -> Result<(), PushError> {
        for output in &mut self.outputs {
            match output.flush(self.shape) {
                Ok(()) => output.producer.finish(),
                Err(PushError::Finished) => {}
                Err(error) => return Err(error),
            }
        }
        Ok(())
    }

    /// [`Self::finish`] that waits for free slots and drives the rack meanwhile.
    ///
    /// # Errors
    /// If the flow was aborted.
    pub fn finish_wait(&mut self, progress: &dyn Progress) -> Result<(), PushError> {
        wait_until(progress, || done(self.finish()))
    }

    /// Whether all items have been delivered.
    pub fn is_delivered(&mut self) -> bool {
        self.outputs
            .iter_mut()
            .all(|output| output.is_empty() && output.producer.is_delivered())
    }

    /// Whether a destination's flow was aborted.
    pub fn is_aborted(&mut self) -> bool {
        self.outputs
            .iter_mut()
            .any(|output| output.producer.is_aborted())
    }

    /// The rows of an item, one slice each; `None` if the item is not well-formed.
    pub fn rows(item: &[u8], row_size: usize) -> Option<impl Iterator<Item = &[u8]>> {
        Self::row_bytes(item, row_size).map(|bytes| bytes.chunks_exact(row_size))
    }

    /// The rows of an item, one behind the other; `None` if the item is not well-formed.
    pub fn row_bytes(item: &[u8], row_size: usize) -> Option<&[u8]> {
        let (magic, rest) = item.split_first_chunk::<4>()?;
        let count = u32::from_le_bytes(*rest.first_chunk()?) as usize;
        if *magic != ITEM_MAGIC {
            return None;
        }
        item.get(ITEM_HEADER..count.checked_mul(row_size)?.checked_add(ITEM_HEADER)?)
    }
}
