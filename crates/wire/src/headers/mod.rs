//! All headers of a RoCEv2 packet as one value, and a packet's bytes as a [`Packet`].
//!
//! Layout: Ethernet, optionally a VLAN tag, IPv4, UDP, BTH, extension; then payload, pad bytes up
//! to a multiple of four, and the ICRC (InfiniBand specification 1.4, annex A17.3).

#[cfg(test)]
mod tests;

use crate::{Bth, Ethernet, Extension, Ipv4, ParseError, Udp};
use crate::{bth, ethernet, ipv4, udp};
use core::fmt;
use rackweave_base::packet::{HEADER_MAX, PAYLOAD_MAX};
use rackweave_base::{Packet, Payload};
use zerocopy::{FromBytes, Immutable, IntoBytes, KnownLayout, Unaligned};

/// Bytes of the check value, which the length fields include whether it is present or not.
pub const CHECK_LEN: usize = 4;

/// The headers of a RoCEv2 packet.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Headers {
    /// Ethernet, with the VLAN tag.
    pub ethernet: Ethernet,
    /// IPv4.
    pub ipv4: Ipv4,
    /// UDP.
    pub udp: Udp,
    /// Base transport header.
    pub bth: Bth,
    /// The extension that the opcode requires.
    pub extension: Extension,
}

/// The headers that every packet has after the Ethernet header.
#[derive(FromBytes, IntoBytes, KnownLayout, Immutable, Unaligned)]
#[repr(C)]
struct Fixed {
    ipv4: ipv4::Layout,
    udp: udp::Layout,
    bth: bth::Layout,
}
const FIXED_LEN: usize = size_of::<Fixed>();
const _: () = assert!(FIXED_LEN == ipv4::LEN + udp::LEN + bth::LEN);
const _: () = assert!(
    ethernet::LEN + ethernet::VLAN_LEN + FIXED_LEN + crate::extension::LEN_MAX <= HEADER_MAX
);

/// The contents of header bytes, including those that [`Headers`] leaves out.
struct Parsed {
    headers: Headers,
    len: usize,
    /// Bytes from the IPv4 header on, according to that header.
    total_len: usize,
    pad_len: usize,
}

/// Number of pad bytes that follow a payload of `payload_len` bytes.
#[inline]
pub const fn pad_len(payload_len: usize) -> usize {
    payload_len.wrapping_neg() & 3
}

impl Headers {
    /// Parses a packet's header area and checks that all lengths agree with payload and pad: the
    /// IPv4 and UDP lengths, the pad count, and the opcode's rule for payloads.
    ///
    /// # Errors
    /// If it is not a RoCEv2 packet of the reliable connection service, or not a valid one. The
    /// ICRC is not checked; see [`crate::icrc::verify`].
    #[inline]
    pub fn of(packet: &Packet) -> Result<Headers, ParseError> {
        let header = packet.header();
        let Parsed {
            headers,
            len,
            total_len,
            pad_len: pad_count,
        } = parse(header)?;
        let payload_len = packet.fragment_len();
        let pad = packet.pad().len();
        let ip_header_len = len - headers.ethernet.len();
        if len != header.len()
            || payload_len > PAYLOAD_MAX
            || total_len != ip_header_len + payload_len + pad + CHECK_LEN
        {
            return Err(ParseError::BadLength);
        }
        if pad_count != pad || pad != pad_len(payload_len) {
            return Err(ParseError::BadPad);
        }
        let opcode = headers.bth.opcode;
        if payload_len != 0 && !opcode.carries_payload() {
            return Err(ParseError::PayloadForbidden(opcode));
        }
        if payload_len == 0 && !opcode.is_only() {
            return Err(ParseError::PayloadMissing(opcode));
        }
        if headers.udp.checksum != 0 && !udp_checksum_is_right(&headers, packet) {
            return Err(ParseError::BadUdpChecksum);
        }
        Ok(headers)
    }

    /// Parses header bytes alone; returns headers and their length in bytes. Lengths are checked
    /// against each other, not against a payload.
    ///
    /// # Errors
    /// If it is not the header of a RoCEv2 packet of the reliable connection service.
    #[inline]
    pub fn parse(bytes: &[u8]) -> Result<(Headers, usize), ParseError> {
        parse(bytes).map(|parsed| (parsed.headers, parsed.len))
    }

    /// Writes the headers for a payload of `payload_len` bytes: lengths, pad count and IPv4
    /// checksum are computed, the UDP checksum is written as given. Returns the header length.
    ///
    /// # Panics
    /// If the extension is not the one that the opcode needs, or the payload is longer than
    /// [`PAYLOAD_MAX`].
    #[inline]
    pub fn emit(&self, bytes: &mut [u8; HEADER_MAX], payload_len: usize) -> usize {
        assert!(
            payload_len <= PAYLOAD_MAX,
            "a payload of {payload_len} bytes"
        );
        let kind = self.extension.kind();
        assert!(
            kind == self.bth.opcode.extension(),
            "{kind:?} behind {}",
            self.bth.opcode
        );
        let pad_len = pad_len(payload_len);
        let udp_len = udp::LEN + bth::LEN + kind.len() + payload_len + pad_len + CHECK_LEN;
        let fixed = Fixed {
            ipv4: self.ipv4.emit(ipv4::LEN + udp_len),
            udp: self.udp.emit(udp_len),
            bth: self.bth.emit(pad_len),
        };
        let at = self.ethernet.emit(bytes);
        let end = at + FIXED_LEN;
        bytes[at..end].copy_from_slice(fixed.as_bytes());
        end + self.extension.emit(&mut bytes[end..])
    }

    /// Replaces the header of `packet` by these headers. Existing pad bytes are kept if their
    /// number is right, since the ICRC covers them; otherwise they become zeros.
    pub fn write_to(&self, packet: &mut Packet) {
        let payload_len = packet.fragment_len();
        packet.emit_header(|bytes| self.emit(bytes, payload_len));
        let pad_len = pad_len(payload_len);
        if packet.pad().len() != pad_len {
            packet.set_pad(&[0; 3][..pad_len]);
        }
    }

    /// A packet with these headers and the payload; `check` is `None`.
    pub fn packet(&self, payload: Payload) -> Packet {
        let mut packet = Packet::with_payload(payload);
        self.write_to(&mut packet);
        packet
    }

    /// Bytes of these headers, Ethernet included.
    #[inline]
    #[expect(clippy::len_without_is_empty, reason = "headers are never empty")]
    pub fn len(&self) -> usize {
        self.ethernet.len() + FIXED_LEN + self.extension.kind().len()
    }
}

/// Parses a whole RoCEv2 packet as captured: from the Ethernet header to the ICRC. Ethernet padding
/// after it is removed. Pad bytes are kept as they are.
///
/// # Errors
/// If it is not a valid RoCEv2 packet. The ICRC is not checked; see [`crate::icrc::verify`].
pub fn parse_bytes(bytes: &[u8]) -> Result<Packet, ParseError> {
    parse_bytes_with(bytes, Payload::copied)
}

/// As [`parse_bytes`], with the payload stored by `keep`, for example in a buffer of a pool. `keep`
/// gets at most [`PAYLOAD_MAX`] bytes and must store them all.
///
/// # Errors
/// As [`parse_bytes`].
pub fn parse_bytes_with(
    bytes: &[u8],
    keep: impl FnOnce(&[u8]) -> Payload,
) -> Result<Packet, ParseError> {
    let Parsed {
        headers,
        len,
        total_len,
        pad_len,
    } = parse(bytes)?;
    let end = headers.ethernet.len() + total_len;
    let bytes = bytes.get(..end).ok_or(ParseError::Truncated)?;
    let rest = bytes.get(len..).ok_or(ParseError::BadLength)?;
    let (rest, check) = rest
        .split_last_chunk::<CHECK_LEN>()
        .ok_or(ParseError::BadLength)?;
    let payload_len = rest
        .len()
        .checked_sub(pad_len)
        .ok_or(ParseError::BadLength)?;
    let (payload, pad) = rest.split_at(payload_len);
    if payload.len() > PAYLOAD_MAX {
        return Err(ParseError::BadLength);
    }
    let mut packet = Packet::new(&bytes[..len], keep(payload));
    packet.set_pad(pad);
    packet.check = Some(*check);
    Headers::of(&packet)?;
    Ok(packet)
}

// Inlined by force: the result is large, and a call would copy it.
#[inline(always)]
fn parse(bytes: &[u8]) -> Result<Parsed, ParseError> {
    let view = ethernet::parse(bytes).ok_or(ParseError::Truncated)?;
    if view.ethertype != ethernet::ETHERTYPE_IPV4 {
        return Err(ParseError::NotIpv4);
    }
    let Ok((fixed, rest)) = Fixed::ref_from_prefix(&bytes[view.len..]) else {
        return Err(short_error(&bytes[view.len..]));
    };
    let (ipv4, total_len) = Ipv4::parse(&fixed.ipv4)?;
    let (udp, udp_len) = Udp::parse(&fixed.udp)?;
    if total_len != ipv4::LEN + udp_len {
        return Err(ParseError::BadLength);
    }
    let (bth, pad_len) = Bth::parse(&fixed.bth)?;
    let (extension, extension_len) = Extension::parse(bth.opcode, rest)?;
    let ethernet = Ethernet {
        target: view.target,
        source: view.source,
        vlan: view.vlan,
    };
    let headers = Headers {
        ethernet,
        ipv4,
        udp,
        bth,
        extension,
    };
    Ok(Parsed {
        headers,
        len: view.len + FIXED_LEN + extension_len,
        total_len,
        pad_len,
    })
}

/// The error for a packet that ends before its BTH does: it may not be RoCEv2 at all.
#[cold]
fn short_error(bytes: &[u8]) -> ParseError {
    let Ok((ipv4, rest)) = ipv4::Layout::ref_from_prefix(bytes) else {
        return ParseError::Truncated;
    };
    let Ok((udp, _)) = udp::Layout::ref_from_prefix(rest) else {
        return Ipv4::parse(ipv4).err().unwrap_or(ParseError::Truncated);
    };
    let error = Ipv4::parse(ipv4).err().or_else(|| Udp::parse(udp).err());
    error.unwrap_or(ParseError::Truncated)
}

#[cold]
fn udp_checksum_is_right(headers: &Headers, packet: &Packet) -> bool {
    let (Some(payload), Some(check)) = (packet.payload.as_slice(), packet.check) else {
        return false;
    };
    // Payload and pad together form whole words, but the payload alone may have an odd length.
    let mut tail = Vec::with_capacity(payload.len() + 3 + CHECK_LEN);
    tail.extend_from_slice(payload);
    tail.extend_from_slice(packet.pad());
    tail.extend_from_slice(&check);
    let header = &packet.header()[headers.ethernet.len() + ipv4::LEN..];
    udp::checksum_is_right(&headers.ipv4, &[header, &tail])
}

impl fmt::Display for Headers {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} {}", self.bth, self.ipv4)?;
        match self.extension {
            Extension::None | Extension::Cnp => Ok(()),
            extension => write!(f, " {extension}"),
        }
    }
}
