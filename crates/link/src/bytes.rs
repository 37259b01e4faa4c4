//! Packets as bytes, for the links that leave the process.
//!
//! Converts a [`Packet`] to the bytes of an Ethernet packet and back, for any carrier. A RoCEv2
//! packet is parsed into its parts: headers, payload, pad, check value. Any other packet (ARP,
//! IPv6, a management datagram) is kept *raw*: its first bytes fill the header area and the rest is
//! the payload, so that it serialises to the same bytes.

use crate::seal_if_missing;
use rackweave_base::packet::{HEADER_MAX, INLINE_MAX, PAYLOAD_MAX, Pool};
use rackweave_base::{Memory, Packet, Payload};
use rackweave_wire::{Headers, ethernet, parse_bytes_with, train};

/// The Ethernet type of IPv6.
const ETHERTYPE_IPV6: u16 = 0x86dd;

/// Maximum bytes before the Ethernet payload: the header with a VLAN tag.
pub(crate) const ETHERNET_MAX: usize = ethernet::LEN + ethernet::VLAN_LEN;

/// Why bytes are not a packet that a link can deliver.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Unreadable {
    /// Not even a whole Ethernet header.
    Runt,
    /// Longer than a packet can hold, or than the link carries.
    TooLong,
    /// RoCEv2 headers whose lengths, pad or check value disagree with the bytes after them.
    Malformed,
}

/// Counts of packets received at one end of a link, and of packets dropped, by reason.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct ReceiveCounters {
    /// Packets delivered.
    pub received: u64,
    /// Packets dropped because they exceed the link's MTU or the capacity of a packet.
    pub too_long: u64,
    /// Packets dropped because they are shorter than an Ethernet header.
    pub runts: u64,
    /// Packets dropped because their RoCEv2 headers disagree with the bytes after them.
    pub malformed: u64,
}

impl ReceiveCounters {
    /// Parses bytes that a link with this MTU received; returns `None`, and counts the reason, if
    /// they are not a packet. The payload is stored as by [`packet_of`].
    pub(crate) fn take(&mut self, bytes: &[u8], mtu: usize, pool: &Pool) -> Option<Packet> {
        let packet = if fits(bytes, mtu) {
            packet_of(bytes, pool)
        } else {
            Err(Unreadable::TooLong)
        };
        let counter = match &packet {
            Ok(_) => &mut self.received,
            Err(Unreadable::Runt) => &mut self.runts,
            Err(Unreadable::TooLong) => &mut self.too_long,
            Err(Unreadable::Malformed) => &mut self.malformed,
        };
        *counter += 1;
        packet.ok()
    }
}

/// Passes every Ethernet packet that `packet` represents to `take`, in order, each with its check
/// value. `take` returns whether it could build the packet's bytes. Returns how many it could not
/// build, because their payload is in a block that no longer exists.
pub(crate) fn for_each_packet(
    mut packet: Packet,
    memory: &Memory,
    mut take: impl FnMut(&Packet) -> bool,
) -> u64 {
    let mut one = |packet: &mut Packet| {
        seal_if_missing(packet, memory);
        u64::from(!take(packet))
    };
    if packet.fragments() == 1 {
        return one(&mut packet);
    }
    match train::split(&packet) {
        Ok(fragments) => fragments.map(|mut fragment| one(&mut fragment)).sum(),
        Err(_) => u64::from(packet.fragments()),
    }
}

/// Whether the Ethernet payload of a packet of these bytes is at most `mtu` bytes long.
pub(crate) fn fits(bytes: &[u8], mtu: usize) -> bool {
    let header_len = ethernet::parse(bytes).map_or(ethernet::LEN, |view| view.len);
    bytes.len() <= header_len + mtu
}

/// Parses a packet from the Ethernet header on. Padding after an IP packet is removed. The payload
/// is in a buffer of `pool`, or in a separate allocation while the pool is empty: a received packet
/// is not lost for lack of a buffer, and receivers hold few packets at a time.
fn packet_of(bytes: &[u8], pool: &Pool) -> Result<Packet, Unreadable> {
    let keep = |payload: &[u8]| pooled(payload, pool);
    if let Ok(packet) = parse_bytes_with(bytes, keep) {
        return Ok(packet);
    }
    // Delivered raw, such a packet could be taken for one whose check value is omitted by
    // agreement.
    if Headers::parse(bytes).is_ok() {
        return Err(Unreadable::Malformed);
    }
    let bytes = without_padding(bytes).ok_or(Unreadable::Runt)?;
    let (header, rest) = bytes.split_at(bytes.len().min(HEADER_MAX));
    if rest.len() > PAYLOAD_MAX {
        return Err(Unreadable::TooLong);
    }
    Ok(Packet::new(header, keep(rest)))
}

fn pooled(bytes: &[u8], pool: &Pool) -> Payload {
    if bytes.len() <= INLINE_MAX {
        return Payload::inline(bytes);
    }
    let copy = |target: &mut [u8]| {
        target.copy_from_slice(bytes);
        true
    };
    pool.take(bytes.len(), copy)
        .map_or_else(|| Payload::copied(bytes), Payload::Pooled)
}

/// The bytes of a packet up to the end given by its IP header; `None` if the bytes end within the
/// Ethernet header.
fn without_padding(bytes: &[u8]) -> Option<&[u8]> {
    let view = ethernet::parse(bytes)?;
    let word = |at: usize| {
        let word = bytes.get(view.len + at..)?.first_chunk::<2>()?;
        Some(usize::from(u16::from_be_bytes(*word)))
    };
    // IPv4 counts its header in the length (RFC 791 3.1), IPv6 does not (RFC 8200 3).
    let len = match view.ethertype {
        ethernet::ETHERTYPE_IPV4 => word(2).filter(|&len| len >= rackweave_wire::ipv4::LEN),
        ETHERTYPE_IPV6 => word(4).map(|len| len + 40),
        _ => None,
    };
    let end = len.map_or(bytes.len(), |len| bytes.len().min(view.len + len));
    Some(&bytes[..end])
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::conformance;
    use rackweave_base::Block;
    use rackweave_wire::{Verdict, icrc};

    fn frames(packet: Packet, memory: &Memory) -> (Vec<Vec<u8>>, u64) {
        let mut frames = Vec::new();
        let gone = for_each_packet(packet, memory, |packet| {
            let mut bytes = Vec::new();
            let whole = packet.serialise(memory, &mut bytes);
            if whole {
                frames.push(bytes);
            }
            whole
        });
        (frames, gone)
    }

    fn block(memory: &Memory, len: usize) -> Block {
        let block = memory.allocate(len).unwrap();
        let bytes: Vec<u8> = (0..len).map(|at| (at / 5) as u8).collect();
        block.write(0, &bytes);
        block
    }

    /// The bytes of a valid RoCEv2 packet with a payload of `len` bytes.
    fn roce(memory: &Memory, len: usize) -> Vec<u8> {
        let payload = Payload::copied(&vec![9; len]);
        frames(conformance::packet(memory, 7, payload), memory).0[0].clone()
    }

    #[test]
    fn roce_comes_back_in_parts_whatever_padding_follows() {
        let memory = Memory::new(1 << 20);
        let pool = Pool::new(1);
        for len in [0, 1, 6, 32, 33, 1024, 4096] {
            let mut bytes = roce(&memory, len);
            let whole = bytes.clone();
            bytes.resize(bytes.len().max(60) + 3, 0xaa);
            let packet = packet_of(&bytes, &pool).unwrap();
            assert_eq!(packet.payload.len(), len);
            assert_eq!(icrc::verify(&packet, &memory), Verdict::Right);
            assert_eq!(frames(packet, &memory), (vec![whole], 0));
        }
    }

    #[test]
    fn a_missing_check_value_is_made() {
        let memory = Memory::new(1 << 20);
        let mut packet = conformance::packet(&memory, 7, Payload::inline(b"x"));
        let sealed = frames(packet.clone(), &memory);
        packet.check = None;
        assert_eq!(frames(packet, &memory), sealed);
    }

    #[test]
    fn an_empty_pool_loses_nothing() {
        let memory = Memory::new(1 << 20);
        let packet = packet_of(&roce(&memory, 1000), &Pool::new(0)).unwrap();
        assert_eq!(packet.payload.to_vec(&memory), Some(vec![9; 1000]));
    }

    #[test]
    fn other_packets_pass_as_they_are() {
        let memory = Memory::new(1 << 20);
        let pool = Pool::new(2);
        for (ethertype, len) in [(0x0806, 28), (0x0806, 46), (0x1234, 1500), (0x1234, 4170)] {
            let mut bytes = vec![7; 14 + len];
            bytes[12..14].copy_from_slice(&u16::to_be_bytes(ethertype));
            let packet = packet_of(&bytes, &pool).unwrap();
            assert_eq!(packet.check, None);
            assert_eq!(frames(packet, &memory), (vec![bytes], 0));
        }
    }

    #[test]
    fn padding_behind_other_ip_packets_is_cut_off() {
        let memory = Memory::new(1 << 20);
        let pool = Pool::new(2);
        let mut ipv4 = vec![0; 60];
        ipv4[12..18].copy_from_slice(&[0x08, 0x00, 0x45, 0, 0, 28]);
        let mut ipv6 = vec![0; 60];
        ipv6[12..14].copy_from_slice(&[0x86, 0xdd]);
        ipv6[19] = 2;
        for (bytes, len) in [(ipv4, 14 + 28), (ipv6, 14 + 40 + 2)] {
            let packet = packet_of(&bytes, &pool).unwrap();
            assert_eq!(frames(packet, &memory).0[0], bytes[..len]);
        }
    }

    #[test]
    fn what_no_packet_can_be_is_refused() {
        let memory = Memory::new(1 << 20);
        let pool = Pool::new(2);
        let check = |bytes: &[u8]| packet_of(bytes, &pool).unwrap_err();
        assert_eq!(check(&[]), Unreadable::Runt);
        assert_eq!(check(&[0; 13]), Unreadable::Runt);
        let too_long = vec![0xff; HEADER_MAX + PAYLOAD_MAX + 1];
        assert_eq!(check(&too_long), Unreadable::TooLong);
        // Valid headers and nothing after them: without its check value, the packet must be
        // rejected.
        let bytes = roce(&memory, 0);
        assert_eq!(check(&bytes[..bytes.len() - 4]), Unreadable::Malformed);
        assert_eq!(check(&roce(&memory, 64)[..100]), Unreadable::Malformed);
    }

    #[test]
    fn every_prefix_is_raw_or_refused() {
        let memory = Memory::new(1 << 20);
        let pool = Pool::new(2);
        let bytes = roce(&memory, 40);
        for len in 0..bytes.len() {
            if let Ok(packet) = packet_of(&bytes[..len], &pool) {
                assert!(Headers::of(&packet).is_err(), "{len} bytes pass for all");
            }
        }
    }

    #[test]
    fn trains_are_taken_apart() {
        let memory = Memory::new(1 << 20);
        let block = block(&memory, 4096);
        let reference = block.reference(0, 4096).unwrap();
        let mut packet = Packet::with_payload(Payload::Region(reference));
        let sample = conformance::packet(&memory, 3, Payload::Empty);
        let mut headers = Headers::of(&sample).unwrap();
        headers.bth.opcode = rackweave_wire::Opcode::WriteMiddle;
        packet.make_train(1024);
        headers.write_to(&mut packet);
        let (bytes, gone) = frames(packet.clone(), &memory);
        assert_eq!((bytes.len(), gone), (4, 0));
        for (at, bytes) in bytes.iter().enumerate() {
            let fragment = packet_of(bytes, &Pool::new(1)).unwrap();
            assert_eq!(conformance::sequence(&fragment), 3 + at as u32);
            assert_eq!(icrc::verify(&fragment, &memory), Verdict::Right);
        }
        drop(block);
        assert_eq!(frames(packet, &memory), (vec![], 4));
    }

    #[test]
    fn a_vlan_tag_takes_nothing_from_the_mtu() {
        let mut bytes = vec![0; 14 + 1500];
        assert!(fits(&bytes, 1500) && !fits(&bytes, 1499));
        bytes[12..14].copy_from_slice(&ethernet::ETHERTYPE_VLAN.to_be_bytes());
        bytes.extend_from_slice(&[0; 4]);
        assert!(fits(&bytes, 1500) && !fits(&bytes, 1499));
    }
}
