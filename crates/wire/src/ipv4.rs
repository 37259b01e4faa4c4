//! The IPv4 header without options (RFC 791 3.1), with ECN (RFC 3168 5).

use crate::{ParseError, words};
use core::fmt;
use std::net::Ipv4Addr;
use zerocopy::byteorder::network_endian::U16;
use zerocopy::{FromBytes, Immutable, IntoBytes, KnownLayout, Unaligned};

/// Bytes of the header; options are refused.
pub const LEN: usize = 20;
/// The protocol number of UDP.
pub const PROTOCOL_UDP: u8 = 17;

/// Offset of the identification in the header, in bytes.
pub(crate) const IDENTIFICATION_AT: usize = 4;
/// Offset of the checksum in the header, in bytes.
pub(crate) const CHECKSUM_AT: usize = 10;

const VERSION_AND_IHL: u8 = 0x45;
const DONT_FRAGMENT: u16 = 0x4000;
const MORE_FRAGMENTS_OR_OFFSET: u16 = 0x3fff;

/// The IPv4 header of a RoCEv2 packet. Total length and checksum are computed when it is written.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Ipv4 {
    /// Differentiated services code point, 6 bits.
    pub dscp: u8,
    /// Explicit congestion notification.
    pub ecn: Ecn,
    /// Identification; it has no meaning here, because RoCEv2 packets are never fragmented.
    pub identification: u16,
    /// Whether routers must not fragment.
    pub dont_fragment: bool,
    /// Time to live, in hops.
    pub ttl: u8,
    /// The sender.
    pub source: Ipv4Addr,
    /// The receiver.
    pub target: Ipv4Addr,
}

/// Explicit congestion notification.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
#[repr(u8)]
pub enum Ecn {
    /// The transport does not react to marks.
    NotCapable = 0,
    /// ECT(1).
    Capable1 = 1,
    /// ECT(0), set by RoCE senders.
    Capable0 = 2,
    /// A queue on the path was long.
    CongestionExperienced = 3,
}

#[derive(FromBytes, IntoBytes, KnownLayout, Immutable, Unaligned)]
#[repr(C)]
pub(crate) struct Layout {
    version_and_ihl: u8,
    tos: u8,
    total_len: U16,
    identification: U16,
    flags_and_offset: U16,
    ttl: u8,
    protocol: u8,
    checksum: U16,
    source: [u8; 4],
    target: [u8; 4],
}
const _: () = assert!(size_of::<Layout>() == LEN);

impl Ipv4 {
    /// The values that Linux sends for RoCE: DSCP 0, ECT(0), do not fragment, 64 hops.
    pub const fn new(source: Ipv4Addr, target: Ipv4Addr) -> Self {
        Self {
            dscp: 0,
            ecn: Ecn::Capable0,
            identification: 0,
            dont_fragment: true,
            ttl: 64,
            source,
            target,
        }
    }

    /// Checks a header; returns the total length in bytes.
    #[inline]
    pub(crate) fn check(layout: &Layout) -> Result<usize, ParseError> {
        if layout.version_and_ihl != VERSION_AND_IHL {
            let other_version = layout.version_and_ihl >> 4 != 4;
            return Err(if other_version {
                ParseError::NotIpv4
            } else {
                ParseError::Ipv4Options
            });
        }
        if !checksum_is_right(layout) {
            return Err(ParseError::BadIpv4Checksum);
        }
        let flags_and_offset = layout.flags_and_offset.get();
        if flags_and_offset & MORE_FRAGMENTS_OR_OFFSET != 0 {
            return Err(ParseError::Fragment);
        }
        if layout.protocol != PROTOCOL_UDP {
            return Err(ParseError::NotUdp);
        }
        Ok(layout.total_len.get().into())
    }

    /// The contents of a header that [`Self::check`] has accepted.
    #[inline]
    pub(crate) fn of(layout: &Layout) -> Self {
        Self {
            dscp: layout.tos >> 2,
            ecn: Ecn::from_bits(layout.tos),
            identification: layout.identification.get(),
            dont_fragment: layout.flags_and_offset.get() & DONT_FRAGMENT != 0,
            ttl: layout.ttl,
            source: Ipv4Addr::from(layout.source),
            target: Ipv4Addr::from(layout.target),
        }
    }

    /// The header of a packet of `total_len` bytes from this header on, as [`words`].
    #[inline]
    pub(crate) fn emit(&self, total_len: usize) -> [u32; LEN / 4] {
        let mut words = self.words();
        words[0] |= words::pair(0, total_len as u16);
        words[1] |= words::pair(self.identification, 0);
        words[2] |= checksum(sum_of(words));
        words
    }

    /// The header without length, identification and checksum.
    #[inline]
    pub(crate) fn words(&self) -> [u32; LEN / 4] {
        let tos = self.dscp << 2 | self.ecn as u8;
        let flags_and_offset = if self.dont_fragment { DONT_FRAGMENT } else { 0 };
        [
            words::pair(u16::from_be_bytes([VERSION_AND_IHL, tos]), 0),
            words::pair(0, flags_and_offset),
            words::pair(u16::from_be_bytes([self.ttl, PROTOCOL_UDP]), 0),
            u32::from_le_bytes(self.source.octets()),
            u32::from_le_bytes(self.target.octets()),
        ]
    }
}

/// The sum of words. The order of their bytes makes no difference to a one's complement sum (RFC
/// 1071 2).
#[inline]
pub(crate) fn sum_of(words: [u32; LEN / 4]) -> u64 {
    let mut sum = 0;
    for word in words {
        sum += u64::from(word);
    }
    sum
}

/// The part of the third word that is the checksum of words with this sum.
#[inline]
pub(crate) fn checksum(sum: u64) -> u32 {
    u32::from(!fold(sum)) << 16
}

impl Ecn {
    /// The two low bits of a type-of-service byte.
    #[inline]
    pub const fn from_bits(bits: u8) -> Self {
        match bits & 3 {
            0 => Self::NotCapable,
            1 => Self::Capable1,
            2 => Self::Capable0,
            _ => Self::CongestionExperienced,
        }
    }
}

/// Adds `change` without carries to the identification of the IPv4 header in `bytes`, and corrects
/// the checksum by the difference (RFC 1624).
#[inline]
pub(crate) fn change_identification(bytes: &mut [u8], change: u16) {
    let Ok((layout, _)) = Layout::mut_from_prefix(bytes) else {
        return;
    };
    let old = layout.identification.get();
    let new = old ^ change;
    let sum = u64::from(!layout.checksum.get()) + u64::from(!old) + u64::from(new);
    layout.identification = U16::new(new);
    layout.checksum = U16::new(!fold(sum));
}

/// Recomputes the checksum of the IPv4 header in `bytes`, after a test changed it.
#[cfg(test)]
pub(crate) fn renew_checksum(bytes: &mut [u8]) {
    let (layout, _) = Layout::mut_from_prefix(bytes).expect("a whole header");
    layout.checksum = U16::ZERO;
    layout.checksum = U16::new(!sum(layout));
}

#[inline]
fn checksum_is_right(layout: &Layout) -> bool {
    sum(layout) == 0xffff
}

/// The one's complement sum of a header, big-endian (RFC 1071). It may be computed over 32-bit
/// words in native order, as carries wrap around whichever byte comes first.
#[inline]
fn sum(layout: &Layout) -> u16 {
    let words: &[[u8; 4]; 5] = zerocopy::transmute_ref!(layout);
    let sum: u64 = words
        .iter()
        .map(|word| u64::from(u32::from_ne_bytes(*word)))
        .sum();
    u16::from_be(fold(sum))
}

/// Folds a sum of 16-bit or 32-bit words to 16 bits, carries wrapped around.
#[inline]
pub(crate) fn fold(sum: u64) -> u16 {
    let sum = (sum >> 32) + (sum & 0xffff_ffff);
    let sum = (sum >> 16) + (sum & 0xffff);
    let sum = (sum >> 16) + (sum & 0xffff);
    ((sum >> 16) + (sum & 0xffff)) as u16
}

impl fmt::Display for Ipv4 {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} > {}", self.source, self.target)?;
        if self.ecn == Ecn::CongestionExperienced {
            f.write_str(" CE")
        } else {
            Ok(())
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The IPv4 header of a captured acknowledgement (Linux rdma_rxe).
    const CAPTURED: [u8; 20] = [
        0x45, 0x00, 0x00, 0x30, 0x95, 0x13, 0x40, 0x00, 0x40, 0x11, 0x91, 0x0d, 0x0a, 0x4d, 0x00,
        0x01, 0x0a, 0x4d, 0x00, 0x02,
    ];

    fn parse(bytes: [u8; 20]) -> Result<(Ipv4, usize), ParseError> {
        let layout = zerocopy::transmute!(bytes);
        Ipv4::check(&layout).map(|total_len| (Ipv4::of(&layout), total_len))
    }

    /// Changes a byte and corrects the checksum.
    fn changed(at: usize, value: u8) -> Result<(Ipv4, usize), ParseError> {
        let mut bytes = CAPTURED;
        bytes[at] = value;
        renew_checksum(&mut bytes);
        parse(bytes)
    }

    #[test]
    fn a_captured_header_goes_both_ways() {
        let (header, total_len) = parse(CAPTURED).unwrap();
        assert_eq!(total_len, 48);
        let (source, target) = (Ipv4Addr::new(10, 77, 0, 1), Ipv4Addr::new(10, 77, 0, 2));
        let expect = Ipv4 {
            ecn: Ecn::NotCapable,
            identification: 0x9513,
            ..Ipv4::new(source, target)
        };
        assert_eq!(header, expect);
        assert_eq!(words::bytes(header.emit(48)).as_flattened(), CAPTURED);
        assert_eq!(header.to_string(), "10.77.0.1 > 10.77.0.2");
    }

    #[test]
    fn every_flipped_bit_breaks_the_checksum() {
        for bit in 8..160 {
            let mut bytes = CAPTURED;
            bytes[bit / 8] ^= 1 << (bit % 8);
            assert_eq!(parse(bytes), Err(ParseError::BadIpv4Checksum), "bit {bit}");
        }
    }

    #[test]
    fn what_is_not_plain_udp_is_refused() {
        assert_eq!(changed(0, 0x65), Err(ParseError::NotIpv4));
        assert_eq!(changed(0, 0x46), Err(ParseError::Ipv4Options));
        assert_eq!(changed(6, 0x20), Err(ParseError::Fragment));
        assert_eq!(changed(7, 0x01), Err(ParseError::Fragment));
        assert_eq!(changed(9, 6), Err(ParseError::NotUdp));
        assert!(!changed(6, 0).unwrap().0.dont_fragment);
    }

    #[test]
    fn the_checksum_follows_the_identification() {
        for change in 0..=u16::MAX {
            let mut bytes = CAPTURED;
            change_identification(&mut bytes, change);
            let (header, _) = parse(bytes).unwrap();
            assert_eq!(header.identification, 0x9513 ^ change);
            assert_eq!(words::bytes(header.emit(48)).as_flattened(), bytes);
        }
    }

    #[test]
    fn ecn_is_the_low_two_bits() {
        for ecn in [
            Ecn::NotCapable,
            Ecn::Capable1,
            Ecn::Capable0,
            Ecn::CongestionExperienced,
        ] {
            let (header, _) = changed(1, 46 << 2 | ecn as u8).unwrap();
            assert_eq!((header.dscp, header.ecn), (46, ecn));
        }
    }
}
