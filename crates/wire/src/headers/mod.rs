//! All headers of a RoCEv2 packet as one value, and a packet's bytes as a [`Packet`].
//!
//! Layout: Ethernet, optionally a VLAN tag, IPv4, UDP, BTH, extension; then payload, pad bytes up
//! to a multiple of four, and the ICRC (InfiniBand specification 1.4, annex A17.3).

mod template;
#[cfg(test)]
mod tests;
mod view;

pub use template::{PacketFields, Template};
pub use view::View;

use crate::ethernet;
use crate::{Bth, Ethernet, Extension, Ipv4, ParseError, Udp};
use core::fmt;
use rackweave_base::packet::{HEADER_MAX, PAYLOAD_MAX};
use rackweave_base::{Packet, Payload};
use view::FIXED_LEN;

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

const _: () = assert!(
    ethernet::LEN + ethernet::VLAN_LEN + FIXED_LEN + crate::extension::LEN_MAX <= HEADER_MAX
);

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
    /// If it is not a RoCEv2 packet of the services supported, or not a valid one. The
    /// ICRC is not checked; see [`crate::icrc::verify`].
    #[inline]
    pub fn of(packet: &Packet) -> Result<Headers, ParseError> {
        View::of(packet).map(|view| view.headers())
    }

    /// Parses header bytes alone; returns headers and their length in bytes. Lengths are checked
    /// against each other, not against a payload.
    ///
    /// # Errors
    /// If it is not the header of a RoCEv2 packet of the services supported.
    #[inline]
    pub fn parse(bytes: &[u8]) -> Result<(Headers, usize), ParseError> {
        let view = View::parse(bytes)?;
        Ok((view.headers(), view.len))
    }

    /// Writes the headers for a payload of `payload_len` bytes: lengths, pad count and IPv4
    /// checksum are computed, the UDP checksum is written as given. Returns the header length.
    ///
    /// # Panics
    /// If the extension is not the one that the opcode needs, or the payload is longer than
    /// [`PAYLOAD_MAX`].
    #[inline]
    pub fn emit(&self, bytes: &mut [u8; HEADER_MAX], payload_len: usize) -> usize {
        self.emit_inlined(bytes, payload_len)
    }

    /// As [`Self::emit`]. Headers that have just been put together need not be in memory.
    #[inline(always)]
    pub(crate) fn emit_inlined(&self, bytes: &mut [u8; HEADER_MAX], payload_len: usize) -> usize {
        let at = self.ethernet.emit(bytes);
        let (pairs, sum) = template::pairs(self);
        template::emit(&pairs, sum, &self.fields(), at, bytes, payload_len)
    }

    /// What a [`Template`] of these headers does not have.
    #[inline]
    pub fn fields(&self) -> PacketFields {
        PacketFields {
            opcode: self.bth.opcode,
            psn: self.bth.psn,
            ack_request: self.bth.ack_request,
            solicited: self.bth.solicited,
            identification: self.ipv4.identification,
            extension: self.extension,
        }
    }

    /// Replaces the header of `packet` by these headers. Existing pad bytes are kept if their
    /// number is right, since the ICRC covers them; otherwise they become zeros.
    #[inline]
    pub fn write_to(&self, packet: &mut Packet) {
        write_with(packet, |bytes, payload_len| self.emit(bytes, payload_len));
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

/// Replaces the header of `packet` by what `emit` writes for its payload's length. Pad bytes are
/// kept if their number is right.
#[inline(always)]
fn write_with(packet: &mut Packet, emit: impl FnOnce(&mut [u8; HEADER_MAX], usize) -> usize) {
    let payload_len = packet.fragment_len();
    packet.emit_header(|bytes| emit(bytes, payload_len));
    let pad_len = pad_len(payload_len);
    if packet.pad().len() != pad_len {
        packet.set_pad(&[0; 3][..pad_len]);
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
    let View {
        ethernet,
        len,
        total_len,
        pad_len,
        ..
    } = View::parse(bytes)?;
    let end = ethernet.len() + total_len;
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

impl fmt::Display for Headers {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} {}", self.bth, self.ipv4)?;
        match self.extension {
            Extension::None | Extension::Cnp => Ok(()),
            extension => write!(f, " {extension}"),
        }
    }
}
