//! The RDMA extended transport header (InfiniBand specification 1.4, 9.3.3).

use core::fmt;
use rackweave_base::Rkey;
use zerocopy::byteorder::network_endian::{U32, U64};
use zerocopy::{FromBytes, Immutable, IntoBytes, KnownLayout, Unaligned};

/// Bytes of the header.
pub const LEN: usize = 16;

/// The remote bytes of a WRITE or READ.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Reth {
    /// Virtual address of the first byte.
    pub address: u64,
    /// The key to the region.
    pub rkey: Rkey,
    /// Bytes of the whole message.
    pub length: u32,
}

#[derive(FromBytes, IntoBytes, KnownLayout, Immutable, Unaligned)]
#[repr(C)]
pub(crate) struct Layout {
    address: U64,
    rkey: U32,
    length: U32,
}
const _: () = assert!(size_of::<Layout>() == LEN);

impl Reth {
    #[inline]
    pub(crate) fn parse(layout: &Layout) -> Self {
        Self {
            address: layout.address.get(),
            rkey: Rkey(layout.rkey.get()),
            length: layout.length.get(),
        }
    }

    #[inline]
    pub(crate) fn emit(&self) -> Layout {
        Layout {
            address: U64::new(self.address),
            rkey: U32::new(self.rkey.0),
            length: U32::new(self.length),
        }
    }
}

impl fmt::Display for Reth {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(
            f,
            "at {:#x} rkey {:#010x} length {}",
            self.address, self.rkey.0, self.length
        )
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_captured_header_goes_both_ways() {
        // The first packet of `ib_write_bw` (Linux rdma_rxe).
        let bytes: [u8; LEN] = [
            0, 0, 0x56, 0x4c, 0x22, 0x9c, 0xc0, 0, 0, 0, 0x05, 0x04, 0, 0, 0x0b, 0xb8,
        ];
        let header = Reth::parse(&zerocopy::transmute!(bytes));
        assert_eq!(
            header,
            Reth {
                address: 0x564c_229c_c000,
                rkey: Rkey(0x504),
                length: 3000
            }
        );
        assert_eq!(header.emit().as_bytes(), bytes);
        assert_eq!(
            header.to_string(),
            "at 0x564c229cc000 rkey 0x00000504 length 3000"
        );
    }
}
