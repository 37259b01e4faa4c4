//! What a packet carries after its headers.

use super::PoolBuffer;
use crate::memory::{BlockRef, Memory};

/// Maximum payload bytes that are stored inside the packet itself.
pub const INLINE_MAX: usize = 32;

/// The payload of a packet.
#[derive(Clone, Debug, Default)]
pub enum Payload {
    /// Nothing.
    #[default]
    Empty,
    /// Up to [`INLINE_MAX`] bytes in the packet itself.
    Inline(InlineBytes),
    /// A buffer owned by the packet.
    Pooled(PoolBuffer),
    /// Bytes of a region, read when the receiving NIC stores them.
    Region(BlockRef),
}

/// A few bytes by value, aligned so that a word in them is stored as a word.
#[derive(Clone, Copy, Debug)]
#[repr(align(8))]
pub struct InlineBytes {
    bytes: [u8; INLINE_MAX],
    len: u8,
}

impl InlineBytes {
    /// The bytes.
    #[inline]
    pub fn as_slice(&self) -> &[u8] {
        &self.bytes[..self.len as usize]
    }
}

impl Payload {
    /// A payload of up to [`INLINE_MAX`] bytes.
    ///
    /// # Panics
    /// If there are more bytes than that.
    #[inline]
    pub fn inline(bytes: &[u8]) -> Self {
        if bytes.is_empty() {
            return Self::Empty;
        }
        let mut inline = InlineBytes {
            bytes: [0; INLINE_MAX],
            len: bytes.len() as u8,
        };
        inline.bytes[..bytes.len()].copy_from_slice(bytes);
        Self::Inline(inline)
    }

    /// A payload with its own copy of `bytes`, outside any pool. For paths where speed is no
    /// concern: parsing from a socket, fault injection, tests.
    pub fn copied(bytes: &[u8]) -> Self {
        if bytes.len() <= INLINE_MAX {
            return Self::inline(bytes);
        }
        let len = bytes.len() as u32;
        Self::Pooled(PoolBuffer {
            bytes: bytes.into(),
            len,
            home: None,
        })
    }

    /// Replaces this payload. Only that of a pool has anything to free: the others are not asked.
    #[inline]
    pub(super) fn replace(&mut self, by: Self) {
        let before = core::mem::replace(self, by);
        match before {
            Self::Pooled(buffer) => drop(buffer),
            Self::Empty | Self::Inline(_) | Self::Region(_) => core::mem::forget(before),
        }
    }

    /// The number of bytes.
    #[inline]
    pub fn len(&self) -> usize {
        match self {
            Self::Empty => 0,
            Self::Inline(inline) => inline.len as usize,
            Self::Pooled(buffer) => buffer.len as usize,
            Self::Region(reference) => reference.len() as usize,
        }
    }

    /// Whether there are no bytes.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// Copies the bytes into `target`, which must be as long. Returns false if they are in a block
    /// that no longer exists.
    #[must_use]
    pub fn copy_to(&self, memory: &Memory, target: &mut [u8]) -> bool {
        match self {
            Self::Empty => true,
            Self::Inline(inline) => {
                target.copy_from_slice(inline.as_slice());
                true
            }
            Self::Pooled(buffer) => {
                target.copy_from_slice(buffer.as_slice());
                true
            }
            Self::Region(reference) => memory.read(*reference, target),
        }
    }

    /// The first eight bytes as a little-endian number, or `None` if there are fewer or they are in
    /// a block that no longer exists.
    #[inline]
    pub fn first_word(&self, memory: &Memory) -> Option<u64> {
        let mut bytes = [0; 8];
        match self {
            Self::Region(source) if source.len() >= 8 => {
                if !memory.read(source.part(0, 8), &mut bytes) {
                    return None;
                }
            }
            _ => bytes = *self.as_slice()?.first_chunk()?,
        }
        Some(u64::from_le_bytes(bytes))
    }

    /// Copies the bytes into a block, as a NIC's DMA does. `target` must be as long as the payload.
    /// Returns false if the block of either side no longer exists.
    #[must_use]
    pub fn store(&self, memory: &Memory, target: BlockRef) -> bool {
        match self {
            Self::Empty => true,
            Self::Inline(inline) => memory.write(target, inline.as_slice()),
            Self::Pooled(buffer) => memory.write(target, buffer.as_slice()),
            Self::Region(source) => memory.copy(*source, target),
        }
    }

    /// The bytes, if they are in this packet or a buffer: `None` for references into a region.
    #[inline]
    pub fn as_slice(&self) -> Option<&[u8]> {
        match self {
            Self::Empty => Some(&[]),
            Self::Inline(inline) => Some(inline.as_slice()),
            Self::Pooled(buffer) => Some(buffer.as_slice()),
            Self::Region(_) => None,
        }
    }

    /// All bytes as a vector, or `None` if they are in a block that no longer exists.
    pub fn to_vec(&self, memory: &Memory) -> Option<Vec<u8>> {
        let mut bytes = vec![0; self.len()];
        self.copy_to(memory, &mut bytes).then_some(bytes)
    }
}
