//! The atomic extended transport headers of request and response (InfiniBand specification 1.4,
//! 9.3.4 and 9.5.3).

use core::fmt;
use rackweave_base::Rkey;
use zerocopy::byteorder::network_endian::{U32, U64};
use zerocopy::{FromBytes, Immutable, IntoBytes, KnownLayout, Unaligned};

/// Bytes of the request's header.
pub const LEN: usize = 28;
/// Bytes of the response's header, which follows the AETH.
pub const ACK_LEN: usize = 8;

/// The parameters of an atomic operation.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct AtomicEth {
    /// Virtual address of the 64-bit word, a multiple of eight.
    pub address: u64,
    /// The key to the region.
    pub rkey: Rkey,
    /// The value to store (compare and swap) or to add (fetch and add).
    pub swap_or_add: u64,
    /// The value that the word must have for the swap to happen; unused by fetch and add.
    pub compare: u64,
}

#[derive(FromBytes, IntoBytes, KnownLayout, Immutable, Unaligned)]
#[repr(C)]
pub(crate) struct Layout {
    address: U64,
    rkey: U32,
    swap_or_add: U64,
    compare: U64,
}
const _: () = assert!(size_of::<Layout>() == LEN);

/// The word's value before the operation.
#[derive(FromBytes, IntoBytes, KnownLayout, Immutable, Unaligned)]
#[repr(C)]
pub(crate) struct AckLayout {
    pub before: U64,
}
const _: () = assert!(size_of::<AckLayout>() == ACK_LEN);

impl AtomicEth {
    #[inline]
    pub(crate) fn parse(layout: &Layout) -> Self {
        Self {
            address: layout.address.get(),
            rkey: Rkey(layout.rkey.get()),
            swap_or_add: layout.swap_or_add.get(),
            compare: layout.compare.get(),
        }
    }

    #[inline]
    pub(crate) fn emit(&self) -> Layout {
        Layout {
            address: U64::new(self.address),
            rkey: U32::new(self.rkey.0),
            swap_or_add: U64::new(self.swap_or_add),
            compare: U64::new(self.compare),
        }
    }
}

impl fmt::Display for AtomicEth {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(
            f,
            "at {:#x} rkey {:#010x} swap-or-add {:#x} compare {:#x}",
            self.address, self.rkey.0, self.swap_or_add, self.compare
        )
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_field_has_its_place() {
        let mut bytes: [u8; LEN] = core::array::from_fn(|at| at as u8);
        bytes[8..12].copy_from_slice(&[0xaa, 0xbb, 0xcc, 0xdd]);
        let header = AtomicEth::parse(&zerocopy::transmute!(bytes));
        let expect = AtomicEth {
            address: 0x0001_0203_0405_0607,
            rkey: Rkey(0xaabb_ccdd),
            swap_or_add: 0x0c0d_0e0f_1011_1213,
            compare: 0x1415_1617_1819_1a1b,
        };
        assert_eq!(header, expect);
        assert_eq!(header.emit().as_bytes(), bytes);
        assert_eq!(
            header.to_string(),
            "at 0x1020304050607 rkey 0xaabbccdd swap-or-add 0xc0d0e0f10111213 \
             compare 0x1415161718191a1b"
        );
    }
}
