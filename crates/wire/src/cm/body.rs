//! The bytes of a message after the MAD header, by offset and bits.

use super::{HEADER_LEN, MAD_LEN};

/// Bytes of a message.
pub(super) const LEN: usize = MAD_LEN - HEADER_LEN;

/// The bytes of a message. Offsets are those of the specification's tables in 12.6.
pub(super) struct Body(pub(super) [u8; LEN]);

impl Body {
    pub(super) fn new() -> Self {
        Self([0; LEN])
    }

    /// With the numbers of a connection, its sender's first, which most messages begin with.
    pub(super) fn with_ids(local: u32, remote: u32) -> Self {
        let mut body = Self::new();
        body.set(0, local.to_be_bytes());
        body.set(4, remote.to_be_bytes());
        body
    }

    /// `N` bytes.
    pub(super) fn array<const N: usize>(&self, at: usize) -> [u8; N] {
        *self.0[at..].first_chunk().expect("offsets are constants")
    }

    pub(super) fn u16(&self, at: usize) -> u16 {
        u16::from_be_bytes(self.array(at))
    }

    pub(super) fn u24(&self, at: usize) -> u32 {
        let [a, b, c] = self.array(at);
        u32::from_be_bytes([0, a, b, c])
    }

    pub(super) fn u32(&self, at: usize) -> u32 {
        u32::from_be_bytes(self.array(at))
    }

    pub(super) fn u64(&self, at: usize) -> u64 {
        u64::from_be_bytes(self.array(at))
    }

    /// `count` bits of a byte, from bit `low` on, which counts from the least significant.
    pub(super) fn bits(&self, at: usize, low: u32, count: u32) -> u8 {
        self.0[at] >> low & ((1 << count) - 1)
    }

    pub(super) fn set(&mut self, at: usize, bytes: impl AsRef<[u8]>) {
        let bytes = bytes.as_ref();
        self.0[at..at + bytes.len()].copy_from_slice(bytes);
    }

    pub(super) fn set_u24(&mut self, at: usize, value: u32) {
        self.set(at, &value.to_be_bytes()[1..]);
    }

    /// Sets bits that are zero so far. Values that are too large lose their upper bits.
    pub(super) fn set_bits(&mut self, at: usize, low: u32, count: u32, value: u8) {
        self.0[at] |= (value & ((1 << count) - 1)) << low;
    }
}
