//! The VXLAN header, which carries Ethernet packets in UDP datagrams (RFC 7348 section 5).
//!
//! Layout: flags, of which the one for a valid VNI must be set; 24 reserved bits; the VXLAN network
//! identifier (VNI), 24 bits; 8 reserved bits. Reserved bits are sent as zero and ignored on
//! receipt.

use core::fmt;
use zerocopy::byteorder::network_endian::U32;
use zerocopy::{FromBytes, Immutable, IntoBytes, KnownLayout, Unaligned};

/// Bytes of the header.
pub const LEN: usize = 8;
/// The UDP port of VXLAN. Linux uses 8472 by default.
pub const PORT: u16 = 4789;
/// The number of VXLAN network identifiers.
pub const VNI_SPACE: u32 = 1 << 24;

/// The flag I: the VNI is valid.
const VNI_VALID: u32 = 0x0800_0000;

/// A VXLAN header.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Vxlan {
    vni: u32,
}

/// Why bytes do not start with a VXLAN header.
#[derive(Clone, Copy, PartialEq, Eq, Debug, thiserror::Error)]
pub enum VxlanError {
    /// The bytes end before the header does.
    #[error("the datagram ends within its VXLAN header")]
    Truncated,
    /// The flag for a valid VNI is not set.
    #[error("the VXLAN header does not say that its VNI is valid")]
    NoVni,
}

#[derive(FromBytes, IntoBytes, KnownLayout, Immutable, Unaligned)]
#[repr(C)]
struct Layout {
    flags_and_reserved: U32,
    vni_and_reserved: U32,
}
const _: () = assert!(size_of::<Layout>() == LEN);

impl Vxlan {
    /// A header with this VNI; `None` if it has more than 24 bits.
    pub const fn new(vni: u32) -> Option<Self> {
        if vni < VNI_SPACE {
            Some(Self { vni })
        } else {
            None
        }
    }

    /// The VXLAN network identifier.
    pub const fn vni(self) -> u32 {
        self.vni
    }

    /// Parses the header of a datagram; also returns the bytes after it.
    ///
    /// # Errors
    /// If the header is incomplete or has no VNI.
    pub fn parse(bytes: &[u8]) -> Result<(Self, &[u8]), VxlanError> {
        let (layout, rest) = Layout::ref_from_prefix(bytes).map_err(|_| VxlanError::Truncated)?;
        if layout.flags_and_reserved.get() & VNI_VALID == 0 {
            return Err(VxlanError::NoVni);
        }
        let vni = layout.vni_and_reserved.get() >> 8;
        Ok((Self { vni }, rest))
    }

    /// The header's bytes.
    pub fn emit(self) -> [u8; LEN] {
        zerocopy::transmute!(Layout {
            flags_and_reserved: U32::new(VNI_VALID),
            vni_and_reserved: U32::new(self.vni << 8),
        })
    }
}

impl fmt::Display for Vxlan {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "VNI {}", self.vni)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The header that a Linux vxlan device with id 77 puts before an ARP packet.
    const CAPTURED: [u8; 8] = [0x08, 0x00, 0x00, 0x00, 0x00, 0x00, 0x4d, 0x00];

    #[test]
    fn a_captured_header_goes_both_ways() {
        let (header, rest) = Vxlan::parse(&CAPTURED).unwrap();
        assert_eq!((header.vni(), rest.len()), (77, 0));
        assert_eq!(header.emit(), CAPTURED);
        assert_eq!(header.to_string(), "VNI 77");
    }

    #[test]
    fn every_bit_of_the_vni_has_its_place() {
        for bit in 0..24 {
            let bytes = Vxlan::new(1 << bit).unwrap().emit();
            let expect = 1_u64 << (bit + 8) | 0x0800_0000_0000_0000;
            assert_eq!(u64::from_be_bytes(bytes), expect);
            assert_eq!(Vxlan::parse(&bytes).unwrap().0.vni(), 1 << bit);
        }
        assert_eq!(Vxlan::new(VNI_SPACE), None);
        assert!(Vxlan::new(VNI_SPACE - 1).is_some());
    }

    #[test]
    fn reserved_bits_are_not_looked_at() {
        let bytes = [0xff, 0xff, 0xff, 0xff, 0x00, 0x00, 0x4d, 0xff, 1, 2];
        let (header, rest) = Vxlan::parse(&bytes).unwrap();
        assert_eq!((header.vni(), rest), (77, &[1, 2][..]));
        assert_eq!(header.emit(), CAPTURED);
    }

    #[test]
    fn what_is_no_header_is_refused() {
        for len in 0..8 {
            assert_eq!(Vxlan::parse(&CAPTURED[..len]), Err(VxlanError::Truncated));
        }
        let mut bytes = CAPTURED;
        bytes[0] = 0xf7;
        assert_eq!(Vxlan::parse(&bytes), Err(VxlanError::NoVni));
    }
}
