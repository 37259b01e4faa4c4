//! ARP for IPv4 over Ethernet (RFC 826): finds the Ethernet address of an IP address.
//!
//! [`Arp`] is the 28 bytes after the Ethernet header, [`ArpFrame`] the whole frame of 42 bytes (46
//! with a VLAN tag). In a [`Packet`] built here, the whole frame is header and there is no payload.
//! A frame from a link may be split between header and payload anywhere after the Ethernet header,
//! and Ethernet padding may follow it.
//!
//! It has no table and no state: NIC and switch decide which requests to answer and which addresses
//! to accept.

use crate::{Ethernet, ethernet};
use core::fmt;
use rackweave_base::{MacAddr, Packet, Payload};
use std::net::Ipv4Addr;
use zerocopy::byteorder::network_endian::U16;
use zerocopy::{FromBytes, Immutable, IntoBytes, KnownLayout, Unaligned};

/// The Ethernet type of ARP.
pub const ETHERTYPE: u16 = 0x0806;
/// Bytes after the Ethernet header.
pub const LEN: usize = 28;
/// The broadcast address.
pub const BROADCAST: MacAddr = MacAddr([0xff; 6]);

/// The hardware type of Ethernet.
const HARDWARE_ETHERNET: u16 = 1;
/// The longest frame that is accepted: Ethernet pads to 60 bytes, or 64 with a VLAN tag; a captured
/// frame may end with its frame check sequence.
const FRAME_MAX: usize = 68;

/// The purpose of an ARP packet.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
#[repr(u16)]
pub enum Operation {
    /// Requests the Ethernet address of the target's IP address.
    Request = 1,
    /// States that the sender has the sender's IP address.
    Reply = 2,
}

/// The ARP packet after the Ethernet header.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Arp {
    /// Request or reply.
    pub operation: Operation,
    /// The Ethernet address of the sender, or of the host that the sender answers for; never a
    /// group address.
    pub sender_mac: MacAddr,
    /// The IP address of that host; all zeros in a probe (RFC 5227 2.1.1).
    pub sender_ip: Ipv4Addr,
    /// The receiver of a reply; it has no meaning in a request.
    pub target_mac: MacAddr,
    /// The requested IP address, or that of the receiver of a reply.
    pub target_ip: Ipv4Addr,
}

/// A whole ARP frame.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct ArpFrame {
    /// The Ethernet header, with the VLAN tag if there is one.
    pub ethernet: Ethernet,
    /// The ARP packet.
    pub arp: Arp,
}

/// Why bytes are not an acceptable ARP packet.
#[derive(Clone, Copy, PartialEq, Eq, Debug, thiserror::Error)]
pub enum ArpError {
    /// The bytes end within the headers, or are not available.
    #[error("the ARP frame ends within its headers")]
    Truncated,
    /// More bytes than padding can account for.
    #[error("the ARP frame has {0} bytes; with padding it has at most {FRAME_MAX}")]
    Oversized(usize),
    /// Another Ethernet type.
    #[error("Ethernet type {0:#06x} is not that of ARP, 0x0806")]
    NotArp(u16),
    /// Not for Ethernet.
    #[error("ARP hardware type {0} is not that of Ethernet, 1")]
    HardwareType(u16),
    /// Not for IPv4.
    #[error("ARP protocol type {0:#06x} is not that of IPv4, 0x0800")]
    ProtocolType(u16),
    /// Address lengths other than those of Ethernet and IPv4.
    #[error("ARP addresses of {hardware} and {protocol} bytes; Ethernet and IPv4 have 6 and 4")]
    AddressLength {
        /// Bytes of a hardware address.
        hardware: u8,
        /// Bytes of a protocol address.
        protocol: u8,
    },
    /// Neither request nor reply.
    #[error("ARP operation {0} is neither request, 1, nor reply, 2")]
    Operation(u16),
    /// The sender claims a group address, which no receiver may accept (RFC 1812 3.3.2).
    #[error("the ARP sender claims the group address {0}")]
    GroupSender(MacAddr),
}

#[derive(FromBytes, IntoBytes, KnownLayout, Immutable, Unaligned)]
#[repr(C)]
struct Layout {
    hardware_type: U16,
    protocol_type: U16,
    hardware_len: u8,
    protocol_len: u8,
    operation: U16,
    sender_mac: [u8; 6],
    sender_ip: [u8; 4],
    target_mac: [u8; 6],
    target_ip: [u8; 4],
}
const _: () = assert!(size_of::<Layout>() == LEN);

/// Whether these bytes begin an ARP frame, according to the Ethernet type alone. Defined for any
/// bytes.
#[inline]
pub fn is_arp(bytes: &[u8]) -> bool {
    ethernet::Raw::of(bytes).is_some_and(|raw| raw.ethertype() == ETHERTYPE)
}

impl Arp {
    /// A request for the Ethernet address of `target_ip`.
    pub const fn request(sender_mac: MacAddr, sender_ip: Ipv4Addr, target_ip: Ipv4Addr) -> Self {
        Self {
            operation: Operation::Request,
            sender_mac,
            sender_ip,
            target_mac: MacAddr([0; 6]),
            target_ip,
        }
    }

    /// The reply to this request: the requested address is at `mac`.
    pub const fn reply(&self, mac: MacAddr) -> Self {
        Self {
            operation: Operation::Reply,
            sender_mac: mac,
            sender_ip: self.target_ip,
            target_mac: self.sender_mac,
            target_ip: self.sender_ip,
        }
    }

    /// Parses the bytes after the Ethernet header; what follows the first 28 is ignored.
    ///
    /// # Errors
    /// If there are too few, or not ARP for IPv4 over Ethernet.
    pub fn parse(bytes: &[u8]) -> Result<Self, ArpError> {
        let (layout, _) = Layout::ref_from_prefix(bytes).map_err(|_| ArpError::Truncated)?;
        let hardware_type = layout.hardware_type.get();
        if hardware_type != HARDWARE_ETHERNET {
            return Err(ArpError::HardwareType(hardware_type));
        }
        let protocol_type = layout.protocol_type.get();
        if protocol_type != ethernet::ETHERTYPE_IPV4 {
            return Err(ArpError::ProtocolType(protocol_type));
        }
        let (hardware, protocol) = (layout.hardware_len, layout.protocol_len);
        if (hardware, protocol) != (6, 4) {
            return Err(ArpError::AddressLength { hardware, protocol });
        }
        let operation = match layout.operation.get() {
            1 => Operation::Request,
            2 => Operation::Reply,
            other => return Err(ArpError::Operation(other)),
        };
        let sender_mac = MacAddr(layout.sender_mac);
        if sender_mac.0[0] & 1 != 0 {
            return Err(ArpError::GroupSender(sender_mac));
        }
        Ok(Self {
            operation,
            sender_mac,
            sender_ip: layout.sender_ip.into(),
            target_mac: MacAddr(layout.target_mac),
            target_ip: layout.target_ip.into(),
        })
    }

    /// The 28 bytes.
    pub fn emit(&self) -> [u8; LEN] {
        let layout = Layout {
            hardware_type: U16::new(HARDWARE_ETHERNET),
            protocol_type: U16::new(ethernet::ETHERTYPE_IPV4),
            hardware_len: 6,
            protocol_len: 4,
            operation: U16::new(self.operation as u16),
            sender_mac: self.sender_mac.0,
            sender_ip: self.sender_ip.octets(),
            target_mac: self.target_mac.0,
            target_ip: self.target_ip.octets(),
        };
        let mut bytes = [0; LEN];
        bytes.copy_from_slice(layout.as_bytes());
        bytes
    }
}

impl ArpFrame {
    /// A broadcast request.
    pub const fn request(sender_mac: MacAddr, sender_ip: Ipv4Addr, target_ip: Ipv4Addr) -> Self {
        Self {
            ethernet: Ethernet::new(sender_mac, BROADCAST),
            arp: Arp::request(sender_mac, sender_ip, target_ip),
        }
    }

    /// The reply to this request, sent by `mac` to the requester, in the VLAN of the request.
    pub const fn reply(&self, mac: MacAddr) -> Self {
        Self {
            ethernet: Ethernet {
                target: self.arp.sender_mac,
                source: mac,
                vlan: self.ethernet.vlan,
            },
            arp: self.arp.reply(mac),
        }
    }

    /// Parses a whole frame, optionally followed by Ethernet padding.
    ///
    /// # Errors
    /// If it is not a valid ARP frame.
    pub fn parse(bytes: &[u8]) -> Result<Self, ArpError> {
        let ethernet = ethernet::Raw::of(bytes).ok_or(ArpError::Truncated)?;
        if ethernet.ethertype() != ETHERTYPE {
            return Err(ArpError::NotArp(ethernet.ethertype()));
        }
        if bytes.len() > FRAME_MAX {
            return Err(ArpError::Oversized(bytes.len()));
        }
        let arp = Arp::parse(&bytes[ethernet.len()..])?;
        Ok(Self {
            ethernet: ethernet.header(),
            arp,
        })
    }

    /// Parses a packet, wherever its header area ends.
    ///
    /// # Errors
    /// If it is not a valid ARP frame, or its bytes are in a region.
    pub fn of(packet: &Packet) -> Result<Self, ArpError> {
        let payload = packet.payload.as_slice().ok_or(ArpError::Truncated)?;
        let (header, len) = (packet.header(), packet.header().len() + payload.len());
        let mut bytes = [0; FRAME_MAX];
        let Some(frame) = bytes.get_mut(..len) else {
            return Err(ArpError::Oversized(len));
        };
        let (front, back) = frame.split_at_mut(header.len());
        front.copy_from_slice(header);
        back.copy_from_slice(payload);
        Self::parse(frame)
    }

    /// The frame as a packet: all header, no payload, no check value.
    pub fn packet(&self) -> Packet {
        let mut packet = Packet::with_payload(Payload::Empty);
        packet.emit_header(|bytes| {
            let at = self.ethernet.emit(bytes);
            bytes[at - 2..at].copy_from_slice(&ETHERTYPE.to_be_bytes());
            bytes[at..at + LEN].copy_from_slice(&self.arp.emit());
            at + LEN
        });
        packet
    }
}

impl fmt::Display for Arp {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.operation {
            Operation::Request => write!(f, "who has {}? tell {}", self.target_ip, self.sender_ip),
            Operation::Reply => write!(f, "{} is at {}", self.sender_ip, self.sender_mac),
        }
    }
}

#[cfg(test)]
#[path = "arp_tests.rs"]
mod tests;
