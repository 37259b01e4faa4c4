//! Plain UDP datagrams over IPv4 and Ethernet (RFC 768), for everything except RoCEv2.
//!
//! The first bytes of a datagram's data are in the packet's header area, as many as fit, and the
//! rest is the packet's payload. Links deliver all packets other than RoCEv2 in this form. A
//! switch, which sees headers only, thus sees the same bytes for any kind of link.
//!
//! Datagrams built here omit the UDP checksum (zero), as RFC 768 allows over IPv4. A checksum that
//! is not zero must be correct.

use crate::{Ethernet, Ipv4, ParseError, ethernet, ipv4, udp, words};
use rackweave_base::packet::{HEADER_MAX, PAYLOAD_MAX};
use rackweave_base::{Memory, Packet, Payload};
use zerocopy::FromBytes;

/// Maximum data bytes of a datagram.
pub const CARRIED_MAX: usize = PAYLOAD_MAX;

/// Bytes of a datagram's headers without a VLAN tag.
pub const HEADERS_LEN: usize = ethernet::LEN + ipv4::LEN + udp::LEN;

/// The headers of a datagram.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Datagram {
    /// Ethernet, with the VLAN tag.
    pub ethernet: Ethernet,
    /// IPv4.
    pub ipv4: Ipv4,
    /// The sender's port.
    pub source_port: u16,
    /// The receiver's port.
    pub target_port: u16,
    /// The UDP checksum; zero means none.
    pub checksum: u16,
    /// Data bytes of the datagram.
    pub carried: usize,
}

impl Datagram {
    /// Parses the headers of a packet. The UDP checksum is checked by [`Self::checksum_is_right`].
    ///
    /// # Errors
    /// If it is not UDP over IPv4, or its lengths disagree with the bytes present. One for the port
    /// of RoCEv2 is [`ParseError::NotUdp`]: it is not a plain datagram.
    pub fn of(packet: &Packet) -> Result<Self, ParseError> {
        let header = packet.header();
        let ethernet = ethernet::Raw::of(header).ok_or(ParseError::Truncated)?;
        if ethernet.ethertype() != ethernet::ETHERTYPE_IPV4 {
            return Err(ParseError::NotIpv4);
        }
        let rest = header.get(ethernet.len()..).ok_or(ParseError::Truncated)?;
        let (ip, rest) = ipv4::Layout::ref_from_prefix(rest).map_err(|_| ParseError::Truncated)?;
        let total_len = Ipv4::check(ip)?;
        let (udp, rest) = udp::Layout::ref_from_prefix(rest).map_err(|_| ParseError::Truncated)?;
        if udp.target_port() == udp::ROCE_PORT {
            return Err(ParseError::NotUdp);
        }
        let carried = udp.len().checked_sub(udp::LEN);
        // Padding that a link added to a short packet may still be present.
        let there = rest.len() + packet.payload.len();
        let carried = carried
            .filter(|&carried| carried <= there.min(CARRIED_MAX))
            .filter(|_| total_len == ipv4::LEN + udp.len() && packet.fragments() == 1)
            .ok_or(ParseError::BadLength)?;
        Ok(Self {
            ethernet: ethernet.header(),
            ipv4: Ipv4::of(ip),
            source_port: udp.source_port(),
            target_port: udp.target_port(),
            checksum: udp.checksum(),
            carried,
        })
    }

    /// Copies the data of `packet`, which has these headers, into `bytes`. Returns false if a part
    /// of it is in a block that no longer exists; `bytes` is then empty.
    #[must_use]
    pub fn read(&self, packet: &Packet, memory: &Memory, bytes: &mut Vec<u8>) -> bool {
        bytes.clear();
        let front = &packet.header()[self.headers_len()..];
        bytes.extend_from_slice(&front[..front.len().min(self.carried)]);
        let left = self.carried - bytes.len();
        if left == 0 {
            return true;
        }
        if let Some(slice) = packet.payload.as_slice() {
            bytes.extend_from_slice(&slice[..left]);
            return true;
        }
        let whole = packet.payload.to_vec(memory);
        match &whole {
            Some(whole) => bytes.extend_from_slice(&whole[..left]),
            None => bytes.clear(),
        }
        whole.is_some()
    }

    /// Whether the checksum of a packet with these headers, which carries `bytes`, is correct or
    /// omitted.
    pub fn checksum_is_right(&self, packet: &Packet, bytes: &[u8]) -> bool {
        let at = self.headers_len();
        let header = &packet.header()[at - udp::LEN..at];
        self.checksum == 0 || udp::checksum_is_right(&self.ipv4, &[header, bytes])
    }

    /// A packet with these headers that carries `bytes`; lengths and the IPv4 checksum are
    /// computed, and the UDP checksum is omitted. `keep` stores the bytes that do not fit the
    /// header area, at most [`CARRIED_MAX`] bytes. Returns `None` if it cannot.
    ///
    /// # Panics
    /// If there are more than [`CARRIED_MAX`] bytes, or `keep` does not store all of them.
    pub fn packet(
        &self,
        bytes: &[u8],
        keep: impl FnOnce(&[u8]) -> Option<Payload>,
    ) -> Option<Packet> {
        assert!(bytes.len() <= CARRIED_MAX, "{} bytes", bytes.len());
        let room = HEADER_MAX - self.headers_len();
        let (front, back) = bytes.split_at(bytes.len().min(room));
        let payload = keep(back)?;
        assert_eq!(payload.len(), back.len(), "all is kept");
        let mut packet = Packet::with_payload(payload);
        packet.emit_header(|header| {
            let udp_len = udp::LEN + bytes.len();
            let mut at = self.ethernet.emit(header);
            let ip = self.ipv4.emit(ipv4::LEN + udp_len);
            let ports = [self.source_port, self.target_port];
            let (ip, udp) = (words::bytes(ip), words::bytes(udp::emit(ports, udp_len, 0)));
            for piece in [ip.as_flattened(), udp.as_flattened(), front] {
                header[at..at + piece.len()].copy_from_slice(piece);
                at += piece.len();
            }
            at
        });
        Some(packet)
    }

    fn headers_len(&self) -> usize {
        self.ethernet.len() + ipv4::LEN + udp::LEN
    }
}

#[cfg(test)]
#[path = "datagram_tests.rs"]
mod tests;
