//! The packets of the conformance suite.

use super::CHECK_LEN;
use core::net::Ipv4Addr;
use rackweave_base::packet::{HEADER_MAX, INLINE_MAX, PAYLOAD_MAX, Pool};
use rackweave_base::{Block, MacAddr, Memory, Packet, Payload, Psn, Qpn};
use rackweave_wire::ethernet::LEN as ETHERNET_LEN;
use rackweave_wire::{Bth, Ethernet, Extension, Headers, Ipv4, Opcode, Udp, icrc, ipv4, udp};

/// A valid RoCEv2 packet with its ICRC. `sequence` is its PSN, by which tests identify it.
pub fn packet(memory: &Memory, sequence: u32, payload: Payload) -> Packet {
    let headers = Headers {
        ethernet: Ethernet::new(MacAddr([2, 0, 0, 0, 0, 1]), MacAddr([2, 0, 0, 0, 0, 2])),
        ipv4: Ipv4::new(Ipv4Addr::new(10, 0, 0, 1), Ipv4Addr::new(10, 0, 0, 2)),
        udp: Udp::new(0xc000),
        bth: Bth::new(Opcode::SendOnly, Qpn(17), Psn::new(sequence)),
        extension: Extension::None,
    };
    let mut packet = headers.packet(payload);
    assert!(icrc::seal(&mut packet, memory), "the payload is at hand");
    packet
}

/// The sequence number that [`packet`] was given.
///
/// # Panics
/// If the packet's headers do not parse.
pub fn sequence(packet: &Packet) -> u32 {
    Headers::of(packet)
        .expect("a sound packet was sent")
        .bth
        .psn
        .get()
}

/// Packets with every kind of payload, with and without pad, up to the largest for `mtu`. The block
/// holds the bytes of the packets that refer to a region.
pub(super) fn every_kind_of_packet(memory: &Memory, mtu: usize) -> (Block, Vec<Packet>) {
    let headers_max = HEADER_MAX - ETHERNET_LEN + CHECK_LEN;
    let len_max = PAYLOAD_MAX.min(mtu.saturating_sub(headers_max));
    let bytes: Vec<u8> = (0..len_max).map(|at| (at * 7 + at / 256) as u8).collect();
    let block = memory.allocate(len_max).expect("the arena is large enough");
    block.write(0, &bytes);
    let pool = Pool::new(8);
    let mut packets = vec![packet(memory, 0, Payload::Empty)];
    for len in [1, 2, 3, 4, INLINE_MAX] {
        packets.push(packet(memory, len as u32, Payload::inline(&bytes[..len])));
    }
    for len in [33, 256, len_max - 1, len_max] {
        let copy = |target: &mut [u8]| {
            target.copy_from_slice(&bytes[..len]);
            true
        };
        let pooled = pool.take(len, copy).expect("the pool is large enough");
        packets.push(packet(memory, len as u32, Payload::Pooled(pooled)));
        let region = block.reference(0, len as u32).expect("within the block");
        packets.push(packet(memory, len as u32, Payload::Region(region)));
    }
    (block, packets)
}

/// The bytes of a packet except byte 4 of the BTH: switches may change that byte, so nothing
/// protects it.
pub(super) fn fixed_bytes_of(packet: &Packet, memory: &Memory) -> Vec<u8> {
    let mut bytes = bytes_of(packet, memory);
    bytes[ETHERNET_LEN + ipv4::LEN + udp::LEN + 4] = 0;
    bytes
}

pub(super) fn bytes_of(packet: &Packet, memory: &Memory) -> Vec<u8> {
    let mut bytes = Vec::new();
    assert!(
        packet.serialise(memory, &mut bytes),
        "the payload is still there"
    );
    bytes
}
