//! Headers that are valid but not yet decoded. What needs few of their fields, as a switch does for
//! most packets, does not pay for the others.

use super::{CHECK_LEN, Headers, pad_len};
use crate::{Bth, Ecn, Extension, Ipv4, Opcode, ParseError, Udp};
use crate::{bth, ethernet, ipv4, udp};
use rackweave_base::packet::PAYLOAD_MAX;
use rackweave_base::{Packet, Psn, Qpn};
use std::net::Ipv4Addr;
use zerocopy::{FromBytes, Immutable, KnownLayout, Unaligned};

/// The headers that every packet has after the Ethernet header.
#[derive(FromBytes, KnownLayout, Immutable, Unaligned)]
#[repr(C)]
struct Fixed {
    ipv4: ipv4::Layout,
    udp: udp::Layout,
    bth: bth::Layout,
}
pub(super) const FIXED_LEN: usize = size_of::<Fixed>();
const _: () = assert!(FIXED_LEN == ipv4::LEN + udp::LEN + bth::LEN);

/// The valid headers of a packet.
pub struct View<'a> {
    pub(super) ethernet: ethernet::Raw<'a>,
    fixed: &'a Fixed,
    opcode: Opcode,
    /// The bytes after the BTH.
    rest: &'a [u8],
    /// Bytes of all headers.
    pub(super) len: usize,
    /// Bytes from the IPv4 header on, according to that header.
    pub(super) total_len: usize,
    pub(super) pad_len: usize,
}

impl<'a> View<'a> {
    /// Checks what [`Headers::of`] checks.
    ///
    /// # Errors
    /// As [`Headers::of`].
    // Inlined by force, as is `parse`: the result is large, and a call would copy it.
    #[inline(always)]
    pub fn of(packet: &'a Packet) -> Result<Self, ParseError> {
        let header = packet.header();
        let view = Self::parse(header)?;
        let payload_len = packet.fragment_len();
        let pad = packet.pad().len();
        let ip_header_len = view.len - view.ethernet.len();
        if view.len != header.len()
            || payload_len > PAYLOAD_MAX
            || view.total_len != ip_header_len + payload_len + pad + CHECK_LEN
        {
            return Err(ParseError::BadLength);
        }
        if view.pad_len != pad || pad != pad_len(payload_len) {
            return Err(ParseError::BadPad);
        }
        let opcode = view.opcode;
        if payload_len != 0 && !opcode.carries_payload() {
            return Err(ParseError::PayloadForbidden(opcode));
        }
        if payload_len == 0 && !opcode.is_only() {
            return Err(ParseError::PayloadMissing(opcode));
        }
        if view.fixed.udp.checksum() != 0 && !udp_checksum_is_right(&view, packet) {
            return Err(ParseError::BadUdpChecksum);
        }
        Ok(view)
    }

    /// Checks what [`Headers::parse`] checks.
    #[inline(always)]
    pub(super) fn parse(bytes: &'a [u8]) -> Result<Self, ParseError> {
        let ethernet = ethernet::Raw::of(bytes).ok_or(ParseError::Truncated)?;
        if ethernet.ethertype() != ethernet::ETHERTYPE_IPV4 {
            return Err(ParseError::NotIpv4);
        }
        let bytes = &bytes[ethernet.len()..];
        let Ok((fixed, rest)) = Fixed::ref_from_prefix(bytes) else {
            return Err(short_error(bytes));
        };
        let total_len = Ipv4::check(&fixed.ipv4)?;
        let udp_len = Udp::check(&fixed.udp)?;
        if total_len != ipv4::LEN + udp_len {
            return Err(ParseError::BadLength);
        }
        let (opcode, pad_len) = Bth::check(&fixed.bth)?;
        Ok(Self {
            ethernet,
            fixed,
            opcode,
            rest,
            len: ethernet.len() + FIXED_LEN + Extension::check(opcode, rest)?,
            total_len,
            pad_len,
        })
    }

    /// All of the headers.
    #[inline(always)]
    pub fn headers(&self) -> Headers {
        Headers {
            ethernet: self.ethernet.header(),
            ipv4: Ipv4::of(&self.fixed.ipv4),
            udp: Udp::of(&self.fixed.udp),
            bth: self.bth(),
            extension: self.extension(),
        }
    }

    /// The base transport header.
    #[inline]
    pub fn bth(&self) -> Bth {
        Bth::of(&self.fixed.bth, self.opcode)
    }

    /// The extension that the opcode requires.
    #[inline(always)]
    pub fn extension(&self) -> Extension {
        Extension::of(self.opcode, self.rest)
    }

    /// The operation of the packet.
    #[inline]
    pub fn opcode(&self) -> Opcode {
        self.opcode
    }

    /// The queue pair that the packet is for.
    #[inline]
    pub fn target_qp(&self) -> Qpn {
        self.bth().target_qp
    }

    /// Packet sequence number.
    #[inline]
    pub fn psn(&self) -> Psn {
        self.bth().psn
    }

    /// The sender.
    #[inline]
    pub fn source(&self) -> Ipv4Addr {
        Ipv4::of(&self.fixed.ipv4).source
    }

    /// The receiver.
    #[inline]
    pub fn target(&self) -> Ipv4Addr {
        Ipv4::of(&self.fixed.ipv4).target
    }

    /// Explicit congestion notification.
    #[inline]
    pub fn ecn(&self) -> Ecn {
        Ipv4::of(&self.fixed.ipv4).ecn
    }

    /// The IPv4 identification.
    #[inline]
    pub fn identification(&self) -> u16 {
        Ipv4::of(&self.fixed.ipv4).identification
    }
}

/// The error for a packet that ends before its BTH does: it may not be RoCEv2 at all.
#[cold]
fn short_error(bytes: &[u8]) -> ParseError {
    let Ok((ipv4, rest)) = ipv4::Layout::ref_from_prefix(bytes) else {
        return ParseError::Truncated;
    };
    let Ok((udp, _)) = udp::Layout::ref_from_prefix(rest) else {
        return Ipv4::check(ipv4).err().unwrap_or(ParseError::Truncated);
    };
    let error = Ipv4::check(ipv4).err().or_else(|| Udp::check(udp).err());
    error.unwrap_or(ParseError::Truncated)
}

#[cold]
fn udp_checksum_is_right(view: &View<'_>, packet: &Packet) -> bool {
    let (Some(payload), Some(check)) = (packet.payload.as_slice(), packet.check) else {
        return false;
    };
    // Payload and pad together form whole words, but the payload alone may have an odd length.
    let mut tail = Vec::with_capacity(payload.len() + 3 + CHECK_LEN);
    tail.extend_from_slice(payload);
    tail.extend_from_slice(packet.pad());
    tail.extend_from_slice(&check);
    let header = &packet.header()[view.ethernet.len() + ipv4::LEN..];
    udp::checksum_is_right(&Ipv4::of(&view.fixed.ipv4), &[header, &tail])
}
