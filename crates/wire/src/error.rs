//! Why bytes are not an acceptable RoCEv2 packet.

use crate::Opcode;

/// Why a packet could not be parsed.
#[derive(Clone, Copy, PartialEq, Eq, Debug, thiserror::Error)]
pub enum ParseError {
    /// The bytes end within a header.
    #[error("the packet ends within its headers")]
    Truncated,
    /// The Ethernet type, or the version in the IP header, is not that of IPv4.
    #[error("not an IPv4 packet")]
    NotIpv4,
    /// The IPv4 header is longer than 20 bytes.
    #[error("the IPv4 header carries options; RoCEv2 senders use none")]
    Ipv4Options,
    /// The IPv4 header checksum is wrong.
    #[error("the IPv4 header checksum is wrong")]
    BadIpv4Checksum,
    /// The packet is a fragment.
    #[error("an IPv4 fragment; lower the RDMA MTU below that of the path")]
    Fragment,
    /// The IPv4 protocol is not UDP.
    #[error("not a UDP packet")]
    NotUdp,
    /// The UDP target port is not 4791.
    #[error("UDP port {0} is not RoCEv2's 4791")]
    NotRoce(u16),
    /// The UDP checksum is not zero and not correct, or cannot be checked (see [`crate::udp`]).
    #[error("the UDP checksum is wrong")]
    BadUdpChecksum,
    /// The transport header version is not zero.
    #[error("transport header version {0}, expected 0")]
    BadVersion(u8),
    /// Not an opcode of the reliable connection service, nor a CNP.
    #[error("opcode {0:#04x} is none of the reliable connection service")]
    UnknownOpcode(u8),
    /// A reserved syndrome of an acknowledgement.
    #[error("acknowledgement syndrome {0:#04x} is reserved")]
    BadSyndrome(u8),
    /// The lengths in IPv4 and UDP headers disagree with each other or with the bytes present.
    #[error("the lengths in the headers disagree with the bytes present")]
    BadLength,
    /// The pad count does not fill the payload up to a multiple of four.
    #[error("the pad count does not fill the payload up to a multiple of four")]
    BadPad,
    /// A payload after an opcode that carries none.
    #[error("{0} carries no payload")]
    PayloadForbidden(Opcode),
    /// No payload in a packet of a message of several packets.
    #[error("{0} carries at least one byte")]
    PayloadMissing(Opcode),
}

impl ParseError {
    /// The name of the counter for packets dropped for this reason.
    pub const fn reason(&self) -> &'static str {
        match self {
            Self::Truncated => "truncated",
            Self::NotIpv4 => "not_ipv4",
            Self::Ipv4Options => "ipv4_options",
            Self::BadIpv4Checksum => "bad_ipv4_checksum",
            Self::Fragment => "fragment",
            Self::NotUdp => "not_udp",
            Self::NotRoce(_) => "not_roce",
            Self::BadUdpChecksum => "bad_udp_checksum",
            Self::BadVersion(_) => "bad_version",
            Self::UnknownOpcode(_) => "unknown_opcode",
            Self::BadSyndrome(_) => "bad_syndrome",
            Self::BadLength => "bad_length",
            Self::BadPad => "bad_pad",
            Self::PayloadForbidden(_) => "payload_forbidden",
            Self::PayloadMissing(_) => "payload_missing",
        }
    }
}
