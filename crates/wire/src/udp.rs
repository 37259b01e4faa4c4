//! The UDP header of RoCEv2 (RFC 768; InfiniBand specification 1.4, annex A17.3.1.2).
//!
//! RoCEv2 senders omit the checksum (zero), because the ICRC protects more. A checksum that is not
//! zero is written as given, so that a captured packet is reproduced exactly. When a packet is
//! parsed, such a checksum is accepted only if it is correct. This requires access to payload, pad
//! and check value, so a packet with a payload by reference, or whose check value is omitted by
//! agreement, must not have one. Code that rewrites a header sets the checksum to zero.

use crate::ipv4::{Ipv4, PROTOCOL_UDP, fold};
use crate::{ParseError, words};
use core::fmt;
use zerocopy::byteorder::network_endian::U16;
use zerocopy::{FromBytes, Immutable, IntoBytes, KnownLayout, Unaligned};

/// Bytes of the header.
pub const LEN: usize = 8;
/// The UDP port of RoCEv2.
pub const ROCE_PORT: u16 = 4791;

/// The UDP header of a RoCEv2 packet; its target port is 4791.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Udp {
    /// Chosen per QP, so that multi-path networks keep a QP on one path.
    pub source_port: u16,
    /// The checksum, written as given; zero means none.
    pub checksum: u16,
}

#[derive(FromBytes, IntoBytes, KnownLayout, Immutable, Unaligned)]
#[repr(C)]
pub(crate) struct Layout {
    source_port: U16,
    target_port: U16,
    len: U16,
    checksum: U16,
}
const _: () = assert!(size_of::<Layout>() == LEN);

impl Udp {
    /// A header without checksum.
    pub const fn new(source_port: u16) -> Self {
        Self {
            source_port,
            checksum: 0,
        }
    }

    /// Checks a header; returns the length in bytes from the UDP header on.
    #[inline]
    pub(crate) fn check(layout: &Layout) -> Result<usize, ParseError> {
        let target_port = layout.target_port.get();
        if target_port != ROCE_PORT {
            return Err(ParseError::NotRoce(target_port));
        }
        Ok(layout.len.get().into())
    }

    /// The contents of a header that [`Self::check`] has accepted.
    #[inline]
    pub(crate) fn of(layout: &Layout) -> Self {
        Self {
            source_port: layout.source_port.get(),
            checksum: layout.checksum.get(),
        }
    }

    /// The header of `len` bytes from the UDP header on, as [`words`].
    #[inline]
    pub(crate) fn emit(&self, len: usize) -> [u32; LEN / 4] {
        emit([self.source_port, ROCE_PORT], len, self.checksum)
    }
}

/// A header with any ports, source first, of `len` bytes from the UDP header on, as [`words`].
#[inline]
pub(crate) fn emit([source, target]: [u16; 2], len: usize, checksum: u16) -> [u32; LEN / 4] {
    [
        words::pair(source, target),
        words::pair(len as u16, checksum),
    ]
}

impl Layout {
    pub(crate) fn source_port(&self) -> u16 {
        self.source_port.get()
    }

    pub(crate) fn target_port(&self) -> u16 {
        self.target_port.get()
    }

    /// Bytes from the UDP header on, according to that header.
    pub(crate) fn len(&self) -> usize {
        self.len.get().into()
    }

    pub(crate) fn checksum(&self) -> u16 {
        self.checksum.get()
    }
}

/// Adds `change` without carries to the source port of the UDP header in `bytes`, and omits the
/// checksum.
#[inline]
pub(crate) fn change_source_port(bytes: &mut [u8], change: u16) {
    let Ok((layout, _)) = Layout::mut_from_prefix(bytes) else {
        return;
    };
    layout.source_port = U16::new(layout.source_port.get() ^ change);
    layout.checksum = U16::ZERO;
}

/// Whether the checksum of a UDP packet is correct. `parts` are its bytes from the UDP header to
/// the check value, in pieces of which all but the last have an even length.
pub(crate) fn checksum_is_right(ipv4: &Ipv4, parts: &[&[u8]]) -> bool {
    let len: usize = parts.iter().map(|part| part.len()).sum();
    let pseudo_header = u64::from(u32::from(ipv4.source))
        + u64::from(u32::from(ipv4.target))
        + u64::from(PROTOCOL_UDP)
        + len as u64;
    let sum: u64 = parts.iter().map(|part| sum(part)).sum();
    fold(pseudo_header + sum) == 0xffff
}

/// The sum of big-endian 16-bit words, the last one padded with zero.
fn sum(bytes: &[u8]) -> u64 {
    let (words, rest) = bytes.as_chunks::<2>();
    let last = rest.first().map_or(0, |&byte| u64::from(byte) << 8);
    words
        .iter()
        .map(|&word| u64::from(u16::from_be_bytes(word)))
        .sum::<u64>()
        + last
}

impl fmt::Display for Udp {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "port {}", self.source_port)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::net::Ipv4Addr;

    /// The UDP header of a captured acknowledgement (Linux rdma_rxe).
    const CAPTURED: [u8; 8] = [0xef, 0x2d, 0x12, 0xb7, 0x00, 0x1c, 0x00, 0x00];

    #[test]
    fn a_captured_header_goes_both_ways() {
        let layout = zerocopy::transmute!(CAPTURED);
        let header = Udp::of(&layout);
        assert_eq!((header, Udp::check(&layout)), (Udp::new(0xef2d), Ok(28)));
        assert_eq!(words::bytes(header.emit(28)).as_flattened(), CAPTURED);
        assert_eq!(header.to_string(), "port 61229");
    }

    #[test]
    fn other_ports_are_refused() {
        let mut bytes = CAPTURED;
        bytes[3] = 53;
        let error = Udp::check(&zerocopy::transmute!(bytes)).unwrap_err();
        assert_eq!(error, ParseError::NotRoce(0x1235));
    }

    #[test]
    fn the_checksum_covers_the_pseudo_header() {
        // A DNS query of four bytes, computed by hand according to RFC 768.
        let ipv4 = Ipv4::new(Ipv4Addr::new(10, 0, 0, 1), Ipv4Addr::new(10, 0, 0, 2));
        let header = [0x04, 0x00, 0x00, 0x35, 0x00, 0x0c, 0x00, 0x00];
        let expect = !(0x0a00
            + 0x0001
            + 0x0a00
            + 0x0002
            + 17
            + 12
            + 0x0400
            + 0x35
            + 0x0c
            + 0x3344
            + 0x1122_u16);
        let mut bytes = header;
        bytes[6..].copy_from_slice(&expect.to_be_bytes());
        let parts: [&[u8]; 2] = [&bytes, &[0x11, 0x22, 0x33, 0x44]];
        assert!(checksum_is_right(&ipv4, &parts));
        let parts: [&[u8]; 2] = [&bytes, &[0x11, 0x22, 0x33, 0x45]];
        assert!(!checksum_is_right(&ipv4, &parts));
    }
}
