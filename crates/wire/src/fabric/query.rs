//! The header of a query between switches (fat-btree, section 4.4: encapsulation).
//!
//! A query is an RC READ with rkey 0, or a request over plain UDP, that switches route to a tree
//! node. Between two switches it carries its progress in a header between UDP and the rest; the UDP
//! target port shows that the header is present. All numbers are big-endian.
//!
//! | at | bytes | content |
//! |---|---|---|
//! | 0 | 1 | flags, see below |
//! | 1 | 1 | bits 7–4: the next layer; bits 3–0: depth, levels walked |
//! | 2 | 2 | slot in that layer; 0xffff: none, the walk is over |
//! | 4 | 2 | the server that it is addressed to |
//! | 6 | 4 | index of the tree node that it has reached |
//! | 10 | 2 | CRC-16 of bytes 0 to 9 (polynomial 0x1021, initially 0xffff) |
//!
//! Flags: bits 7 and 6 are the version, 1. Bit 5: a request over plain UDP. Bit 4: it has passed
//! the fat root. Bit 3: the bank. Bits 2 to 0: links between switches so far.
//!
//! The check is needed because nothing else protects these bytes: the ICRC is that of the packet
//! without them, and the UDP checksum is omitted. A flipped bit would select the wrong tree node.
//!
//! The first and the last hop make no other change: without the header, the packet is the original
//! one, except for a UDP checksum that it may have had. The lengths and the checksum of IPv4
//! include the header while it is present.

#[cfg(test)]
mod tests;

use super::lookup;
use crate::headers::CHECK_LEN;
use crate::udp::ROCE_PORT;
use crate::{Opcode, bth, ethernet, ipv4, udp};
use core::fmt;
use rackweave_base::packet::HEADER_MAX;
use rackweave_base::{Packet, Payload};

/// The UDP target port of a packet with the header.
pub const PORT: u16 = 4792;

/// Bytes of the header.
pub const LEN: usize = 12;

/// Maximum links between switches that a query may cross.
pub const HOPS_MAX: u8 = 7;

/// Layers and depths are below this.
pub const LEVELS_END: u8 = 16;

const VERSION: u8 = 1;
const IS_LOOKUP: u8 = 1 << 5;
const FAT_ROOT_MET: u8 = 1 << 4;
const BANK: u8 = 1 << 3;

/// Offset of the header, in bytes from the IPv4 header on.
const AT: usize = ipv4::LEN + udp::LEN;
/// Offset of the rkey in a READ request, in bytes from the BTH on.
const RKEY_AT: usize = bth::LEN + 8;

/// The progress of a query.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Progress {
    /// Whether it is a request over plain UDP, not a READ.
    pub is_lookup: bool,
    /// Whether it has passed the switch with the fat root.
    pub fat_root_met: bool,
    /// The bank of tables that every switch must use for it: 0 or 1.
    pub bank: u8,
    /// Links between switches that it has crossed, at most [`HOPS_MAX`].
    pub hops: u8,
    /// The next layer, below [`LEVELS_END`]; 1 is the one below the fat root.
    pub layer: u8,
    /// Levels walked, the fat root included; below [`LEVELS_END`].
    pub depth: u8,
    /// Its slot in the next layer; 0xffff if the walk is over.
    pub slot: u16,
    /// The server that it is addressed to.
    pub server: u16,
    /// The tree node that it has reached.
    pub node: u32,
}

/// The kind of a packet, for a switch that routes queries.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Kind {
    /// A READ request with rkey 0.
    Read,
    /// A packet to the port of requests over plain UDP, [`super::lookup::PORT`].
    Lookup,
    /// A packet with the header, or at least to its port.
    Carried,
}

/// Why a packet has no valid header.
#[derive(Clone, Copy, PartialEq, Eq, Debug, thiserror::Error)]
pub enum HeaderError {
    /// The bytes end within the header, or the packet's lengths leave no space for it.
    #[error("the packet is too short for the header of a query")]
    Truncated,
    /// Another version.
    #[error("header of a query of version {0}; this is version 1")]
    Version(u8),
    /// The check does not match.
    #[error("the check of the header of a query is wrong")]
    Check,
}

/// Why a packet cannot be given the header.
#[derive(Clone, Copy, PartialEq, Eq, Debug, thiserror::Error)]
pub enum AttachError {
    /// The packet is not UDP, or is too long.
    #[error("not a UDP packet that has room for the header of a query")]
    Packet,
}

impl Progress {
    /// The header's bytes.
    ///
    /// # Panics
    /// Debug builds panic if a field is beyond its bound.
    pub fn emit(&self) -> [u8; LEN] {
        debug_assert!(self.bank < 2 && self.hops <= HOPS_MAX);
        debug_assert!(self.layer < LEVELS_END && self.depth < LEVELS_END);
        let flag = |is_set: bool, bit: u8| if is_set { bit } else { 0 };
        let flags = VERSION << 6
            | flag(self.is_lookup, IS_LOOKUP)
            | flag(self.fat_root_met, FAT_ROOT_MET)
            | flag(self.bank != 0, BANK)
            | self.hops & HOPS_MAX;
        let [s0, s1] = self.slot.to_be_bytes();
        let [o0, o1] = self.server.to_be_bytes();
        let [n0, n1, n2, n3] = self.node.to_be_bytes();
        let levels = self.layer << 4 | self.depth & 0x0f;
        let mut bytes = [flags, levels, s0, s1, o0, o1, n0, n1, n2, n3, 0, 0];
        let check = check(&bytes[..LEN - 2]);
        bytes[LEN - 2..].copy_from_slice(&check.to_be_bytes());
        bytes
    }

    /// Decodes a header.
    ///
    /// # Errors
    /// If it has another version, or is corrupted.
    pub fn parse(bytes: &[u8; LEN]) -> Result<Self, HeaderError> {
        let [flags, levels, s0, s1, o0, o1, n0, n1, n2, n3, c0, c1] = *bytes;
        if check(&bytes[..LEN - 2]) != u16::from_be_bytes([c0, c1]) {
            return Err(HeaderError::Check);
        }
        if flags >> 6 != VERSION {
            return Err(HeaderError::Version(flags >> 6));
        }
        Ok(Self {
            is_lookup: flags & IS_LOOKUP != 0,
            fat_root_met: flags & FAT_ROOT_MET != 0,
            bank: u8::from(flags & BANK != 0),
            hops: flags & HOPS_MAX,
            layer: levels >> 4,
            depth: levels & 0x0f,
            slot: u16::from_be_bytes([s0, s1]),
            server: u16::from_be_bytes([o0, o1]),
            node: u32::from_be_bytes([n0, n1, n2, n3]),
        })
    }
}

impl fmt::Display for Progress {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let what = if self.is_lookup { "lookup" } else { "read" };
        write!(
            f,
            "{what} to server {} bank {} hop {} at tree node {} depth {} slot {} of layer {}",
            self.server, self.bank, self.hops, self.node, self.depth, self.slot, self.layer
        )
    }
}

/// The possible kind of a packet with these header bytes. This is called for every forwarded
/// packet; for most it only reads the UDP port.
#[inline]
pub fn sort(header: &[u8]) -> Option<Kind> {
    let ip_at = ethernet::header_len(header);
    let port = header.get(ip_at + ipv4::LEN + 2..)?.first_chunk()?;
    let kind = match u16::from_be_bytes(*port) {
        ROCE_PORT => {
            let bth = header.get(ip_at + AT..)?;
            let rkey = bth.get(RKEY_AT..)?.first_chunk::<4>()?;
            if bth[0] != Opcode::ReadRequest as u8 || *rkey != [0; 4] {
                return None;
            }
            Kind::Read
        }
        PORT => Kind::Carried,
        lookup::PORT => Kind::Lookup,
        _ => return None,
    };
    is_whole_udp(header, ip_at).then_some(kind)
}

/// Whether this is UDP in IPv4 without options, and not a fragment.
fn is_whole_udp(header: &[u8], ip_at: usize) -> bool {
    let ip = &header[ip_at..];
    header[ip_at - 2..ip_at] == ethernet::ETHERTYPE_IPV4.to_be_bytes()
        && ip[0] == 0x45
        && ip[9] == ipv4::PROTOCOL_UDP
        && u16::from_be_bytes([ip[6], ip[7]]) & 0x3fff == 0
}

/// Adds the header to a UDP packet. Its UDP checksum, if it had one, is omitted from now on.
///
/// If the header area is full, its last bytes become the first of the payload, as in a request that
/// arrived over a byte link.
///
/// # Errors
/// If it is not a UDP packet or has no space.
pub fn attach(packet: &mut Packet, progress: &Progress) -> Result<(), AttachError> {
    let header = packet.header();
    let ip_at = ethernet::header_len(header);
    let at = ip_at + AT;
    if header.len() < at || !is_whole_udp(header, ip_at) {
        return Err(AttachError::Packet);
    }
    let port = if progress.is_lookup {
        lookup::PORT
    } else {
        ROCE_PORT
    };
    if target_port(header, ip_at) != port {
        return Err(AttachError::Packet);
    }
    let mut bytes = [0; HEADER_MAX];
    let kept = header.len().min(HEADER_MAX - LEN);
    let spilled = if kept < header.len() {
        let rest = packet.payload.as_slice().ok_or(AttachError::Packet)?;
        Some([&header[kept..], rest].concat())
    } else {
        None
    };
    bytes[..at].copy_from_slice(&header[..at]);
    bytes[at..at + LEN].copy_from_slice(&progress.emit());
    bytes[at + LEN..kept + LEN].copy_from_slice(&header[at..kept]);
    redirect(&mut bytes, ip_at, PORT, LEN as i32).ok_or(AttachError::Packet)?;
    packet.set_header(&bytes[..kept + LEN]);
    if let Some(spilled) = spilled {
        packet.payload = Payload::copied(&spilled);
    }
    Ok(())
}

/// Removes the header from a packet and returns its contents. On an error the packet is unchanged.
///
/// # Errors
/// If there is no valid header. The packet must have been sorted as [`Kind::Carried`].
pub fn detach(packet: &mut Packet) -> Result<Progress, HeaderError> {
    let header = packet.header();
    let ip_at = ethernet::header_len(header);
    let at = ip_at + AT;
    let own = header.get(at..).and_then(|rest| rest.first_chunk());
    let progress = Progress::parse(own.ok_or(HeaderError::Truncated)?)?;
    let mut bytes = [0; HEADER_MAX];
    let mut len = header.len() - LEN;
    bytes[..at].copy_from_slice(&header[..at]);
    bytes[at..len].copy_from_slice(&header[at + LEN..]);
    let port = if progress.is_lookup {
        lookup::PORT
    } else {
        ROCE_PORT
    };
    let total_len = redirect(&mut bytes, ip_at, port, -(LEN as i32));
    let total_len = total_len.ok_or(HeaderError::Truncated)?;
    // A byte link does not know that such a packet has a check value: it is the last of these
    // bytes.
    let tail = packet.payload.as_slice().filter(|t| t.len() <= LEN);
    if let (false, None, Some(tail)) = (progress.is_lookup, packet.check, tail)
        && len + tail.len() == ip_at + total_len
        && ip_at + total_len >= at + CHECK_LEN
    {
        bytes[len..len + tail.len()].copy_from_slice(tail);
        len = len + tail.len() - CHECK_LEN;
        packet.check = bytes[len..].first_chunk().copied();
        packet.payload = Payload::Empty;
    }
    packet.set_header(&bytes[..len]);
    Ok(progress)
}

fn target_port(header: &[u8], ip_at: usize) -> u16 {
    let at = ip_at + ipv4::LEN + 2;
    u16::from_be_bytes([header[at], header[at + 1]])
}

/// Sets the UDP target port and changes the lengths of IPv4 and UDP by `more` bytes; returns the
/// new length from the IPv4 header on. Returns `None` if the lengths do not allow it.
fn redirect(bytes: &mut [u8; HEADER_MAX], ip_at: usize, port: u16, more: i32) -> Option<usize> {
    let udp_at = ip_at + ipv4::LEN;
    let word = |at: usize| u16::from_be_bytes([bytes[at], bytes[at + 1]]);
    let (old, udp_old) = (word(ip_at + 2), word(udp_at + 4));
    let new = u16::try_from(i32::from(old) + more).ok()?;
    let udp_new = u16::try_from(i32::from(udp_old) + more).ok()?;
    if usize::from(new) < AT || usize::from(udp_new) < udp::LEN {
        return None;
    }
    let checksum = word(ip_at + ipv4::CHECKSUM_AT);
    // By the difference (RFC 1624), so that a wrong checksum stays wrong.
    let sum = u64::from(!checksum) + u64::from(!old) + u64::from(new);
    let checksum = !ipv4::fold(sum);
    for (at, value) in [
        (ip_at + 2, new),
        (ip_at + ipv4::CHECKSUM_AT, checksum),
        (udp_at + 2, port),
        (udp_at + 4, udp_new),
        (udp_at + 6, 0),
    ] {
        bytes[at..at + 2].copy_from_slice(&value.to_be_bytes());
    }
    Some(usize::from(new))
}

/// CRC-16 with the polynomial x^16 + x^12 + x^5 + 1, which switches implement in hardware.
fn check(bytes: &[u8]) -> u16 {
    bytes.iter().fold(0xffff, |crc: u16, &byte| {
        crc << 8 ^ CRC[usize::from((crc >> 8) as u8 ^ byte)]
    })
}

static CRC: [u16; 256] = {
    let mut table = [0; 256];
    let mut byte = 0;
    while byte < 256 {
        let mut crc = (byte as u16) << 8;
        let mut bit = 0;
        while bit < 8 {
            crc = crc << 1 ^ if crc & 0x8000 != 0 { 0x1021 } else { 0 };
            bit += 1;
        }
        table[byte] = crc;
        byte += 1;
    }
    table
};
