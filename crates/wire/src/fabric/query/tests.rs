//! The header of a query: vectors, corruption, and packets with and without it.

use super::*;
use crate::icrc::{self, Verdict};
use crate::{Bth, Ethernet, Extension, Headers, Ipv4, Reth, Udp, Vlan};
use proptest::prelude::*;
use rackweave_base::{MacAddr, Memory, Psn, Qpn, Rkey};
use std::net::Ipv4Addr;

const SAMPLE: Progress = Progress {
    is_lookup: false,
    fat_root_met: true,
    bank: 1,
    hops: 2,
    layer: 3,
    depth: 3,
    slot: 0x0123,
    server: 0x4567,
    node: 0x89ab_cdef,
};

fn progress() -> impl Strategy<Value = Progress> {
    let flags = (any::<bool>(), any::<bool>(), 0..2_u8, 0..=HOPS_MAX);
    let levels = (0..LEVELS_END, 0..LEVELS_END);
    (flags, levels, any::<(u16, u16, u32)>()).prop_map(|(flags, levels, rest)| Progress {
        is_lookup: flags.0,
        fat_root_met: flags.1,
        bank: flags.2,
        hops: flags.3,
        layer: levels.0,
        depth: levels.1,
        slot: rest.0,
        server: rest.1,
        node: rest.2,
    })
}

fn headers(key: u64, rkey: Rkey, vlan: Option<Vlan>) -> Headers {
    let mut ethernet = Ethernet::new(MacAddr([2; 6]), MacAddr([4; 6]));
    ethernet.vlan = vlan;
    let mut bth = Bth::new(Opcode::ReadRequest, Qpn(0x1234), Psn::new(77));
    bth.ack_request = true;
    Headers {
        ethernet,
        ipv4: Ipv4::new(Ipv4Addr::new(10, 0, 0, 1), Ipv4Addr::new(10, 0, 0, 2)),
        udp: Udp::new(0xc123),
        bth,
        extension: Extension::Reth(Reth {
            address: key,
            rkey,
            length: 1024,
        }),
    }
}

fn vlan() -> Option<Vlan> {
    Some(Vlan {
        priority: 3,
        drop_eligible: false,
        id: 7,
    })
}

/// A request over plain UDP whose bytes from the UDP header on are split at `kept`.
fn request(body: &[u8], kept: usize) -> Packet {
    let mut bytes = headers(0, Rkey(0), None).packet(Payload::Empty);
    let header = bytes.header_mut();
    let len = (28 + body.len()) as u16;
    header[16..18].copy_from_slice(&len.to_be_bytes());
    header[36..38].copy_from_slice(&lookup::PORT.to_be_bytes());
    header[38..40].copy_from_slice(&(len - 20).to_be_bytes());
    ipv4::renew_checksum(&mut header[14..]);
    let whole = [&header[..42], body].concat();
    let at = (42 + kept).min(HEADER_MAX);
    Packet::new(&whole[..at], Payload::copied(&whole[at..]))
}

fn bytes(packet: &Packet) -> Vec<u8> {
    let mut bytes = Vec::new();
    assert!(packet.serialise(&Memory::new(1 << 12), &mut bytes));
    bytes
}

/// The checks of any receiver of IPv4 and UDP.
fn assert_is_udp(bytes: &[u8], ip_at: usize, port: u16, check_len: usize) {
    let word = |at| usize::from(u16::from_be_bytes([bytes[at], bytes[at + 1]]));
    let sum: usize = (ip_at..ip_at + 20).step_by(2).map(word).sum();
    assert_eq!((sum >> 16) + (sum & 0xffff), 0xffff, "IPv4 checksum");
    assert_eq!(word(ip_at + 2), bytes.len() + check_len - ip_at);
    assert_eq!(word(ip_at + 24), bytes.len() + check_len - ip_at - 20);
    assert_eq!(word(ip_at + 22), usize::from(port));
    assert_eq!(word(ip_at + 26), 0, "no UDP checksum");
}

#[test]
fn the_bytes_lie_where_the_table_says() {
    let bytes = SAMPLE.emit();
    let expect = [0x5a, 0x33, 0x01, 0x23, 0x45, 0x67, 0x89, 0xab, 0xcd, 0xef];
    assert_eq!(bytes[..10], expect);
    // CRC-16/CCITT-FALSE; its check value for "123456789" is published as 0x29b1.
    assert_eq!(check(b"123456789"), 0x29b1);
    assert_eq!(bytes[10..], check(&expect).to_be_bytes());
    assert_eq!(
        SAMPLE.to_string(),
        "read to server 17767 bank 1 hop 2 at tree node 2309737967 depth 3 slot 291 of layer 3"
    );
}

#[test]
fn one_or_two_flipped_bits_are_found() {
    let whole = SAMPLE.emit();
    let flip = |bytes: &mut [u8; LEN], bit: usize| bytes[bit / 8] ^= 1 << (bit % 8);
    for one in 0..8 * LEN {
        let mut bytes = whole;
        flip(&mut bytes, one);
        assert_eq!(Progress::parse(&bytes), Err(HeaderError::Check));
        for two in 0..one {
            let mut bytes = bytes;
            flip(&mut bytes, two);
            assert_eq!(Progress::parse(&bytes), Err(HeaderError::Check));
        }
    }
    let mut other = whole;
    other[0] = 0x9a;
    let check = check(&other[..10]);
    other[10..].copy_from_slice(&check.to_be_bytes());
    assert_eq!(Progress::parse(&other), Err(HeaderError::Version(2)));
}

#[test]
fn packets_are_sorted_by_a_look_at_their_headers() {
    let sorted = |headers: Headers| sort(headers.packet(Payload::Empty).header());
    for vlan in [None, vlan()] {
        assert_eq!(sorted(headers(5, Rkey(0), vlan)), Some(Kind::Read));
        assert_eq!(sorted(headers(5, Rkey(1), vlan)), None);
        let mut write = headers(5, Rkey(0), vlan);
        write.bth.opcode = Opcode::WriteFirst;
        let packet = write.packet(Payload::inline(&[0; 4]));
        assert_eq!(sort(packet.header()), None, "a WRITE with rkey 0");
        let mut packet = headers(5, Rkey(0), vlan).packet(Payload::Empty);
        attach(&mut packet, &SAMPLE).unwrap();
        assert_eq!(sort(packet.header()), Some(Kind::Carried));
    }
    let whole = request(&[0; 16], 16);
    assert_eq!(sort(whole.header()), Some(Kind::Lookup));
    for (at, value) in [
        (12, 9),
        (14, 0x46),
        (14, 0x65),
        (20, 0x20),
        (21, 1),
        (23, 6),
    ] {
        let mut packet = whole.clone();
        packet.header_mut()[at] = value;
        assert_eq!(sort(packet.header()), None, "byte {at}");
        let read = Progress {
            is_lookup: true,
            ..SAMPLE
        };
        assert_eq!(attach(&mut packet, &read), Err(AttachError::Packet));
    }
    for len in 0..42 {
        sort(&whole.header()[..len]);
    }
}

#[test]
fn a_read_from_a_link_of_bytes_gets_its_check_value_back() {
    let memory = Memory::new(1 << 12);
    for vlan in [None, vlan()] {
        let mut packet = headers(5, Rkey(0), vlan).packet(Payload::Empty);
        assert!(icrc::seal(&mut packet, &memory));
        let before = bytes(&packet);
        attach(&mut packet, &SAMPLE).unwrap();
        // Such a link treats unknown data as header, then as payload.
        let whole = bytes(&packet);
        let (header, rest) = whole.split_at(whole.len().min(HEADER_MAX));
        let mut raw = Packet::new(header, Payload::copied(rest));
        assert_eq!(detach(&mut raw), Ok(SAMPLE));
        assert_eq!(bytes(&raw), before);
        assert_eq!(icrc::verify(&raw, &memory), Verdict::Right);
        assert!(raw.payload.is_empty());
    }
}

#[test]
fn a_checksum_is_left_out() {
    let mut headers = headers(5, Rkey(0), None);
    headers.udp.checksum = 0x1234;
    let mut packet = headers.packet(Payload::Empty);
    attach(&mut packet, &SAMPLE).unwrap();
    assert_is_udp(&bytes(&packet), 14, PORT, CHECK_LEN);
    detach(&mut packet).unwrap();
    assert_eq!(Headers::of(&packet).unwrap().udp.checksum, 0);
}

#[test]
fn what_is_for_another_port_gets_no_header() {
    let mut packet = request(&[0; 16], 16);
    assert_eq!(attach(&mut packet, &SAMPLE), Err(AttachError::Packet));
    let mut runt = Packet::new(&[0; 20], Payload::Empty);
    assert_eq!(attach(&mut runt, &SAMPLE), Err(AttachError::Packet));
    let mut twice = headers(5, Rkey(0), None).packet(Payload::Empty);
    attach(&mut twice, &SAMPLE).unwrap();
    assert_eq!(attach(&mut twice, &SAMPLE), Err(AttachError::Packet));
}

proptest! {
    #[test]
    fn what_is_written_is_read(progress in progress()) {
        prop_assert_eq!(Progress::parse(&progress.emit()), Ok(progress));
    }

    #[test]
    fn a_read_comes_back_as_it_was(
        key in any::<u64>(),
        tagged in any::<bool>(),
        sealed in any::<bool>(),
        progress in progress(),
    ) {
        let progress = Progress { is_lookup: false, ..progress };
        let memory = Memory::new(1 << 12);
        let headers = headers(key, Rkey(0), vlan().filter(|_| tagged));
        let mut packet = headers.packet(Payload::Empty);
        if sealed {
            prop_assert!(icrc::seal(&mut packet, &memory));
        }
        let before = bytes(&packet);
        prop_assert_eq!(attach(&mut packet, &progress), Ok(()));
        let missing = if sealed { 0 } else { CHECK_LEN };
        assert_is_udp(&bytes(&packet), headers.ethernet.len(), PORT, missing);
        prop_assert_eq!(detach(&mut packet), Ok(progress));
        prop_assert_eq!(bytes(&packet), before);
        prop_assert_eq!(Headers::of(&packet), Ok(headers));
    }

    #[test]
    fn a_request_comes_back_as_it_was(
        body in prop::collection::vec(any::<u8>(), 0..200),
        kept in 0_usize..60,
        progress in progress(),
    ) {
        let progress = Progress { is_lookup: true, ..progress };
        let mut packet = request(&body, kept.min(body.len()));
        let before = bytes(&packet);
        prop_assert_eq!(attach(&mut packet, &progress), Ok(()));
        assert_is_udp(&bytes(&packet), 14, PORT, 0);
        prop_assert_eq!(detach(&mut packet), Ok(progress));
        prop_assert_eq!(bytes(&packet), before);
    }

    #[test]
    fn garbage_is_refused_and_left_alone(
        header in prop::collection::vec(any::<u8>(), 0..=HEADER_MAX),
        start in any::<bool>(),
        progress in progress(),
    ) {
        let mut header = header;
        if start && header.len() >= 38 {
            header[12..15].copy_from_slice(&[0x08, 0x00, 0x45]);
            header[20..22].copy_from_slice(&[0; 2]);
            header[23] = ipv4::PROTOCOL_UDP;
            header[36..38].copy_from_slice(&PORT.to_be_bytes());
        }
        if start && header.len() >= 54 {
            header[42..54].copy_from_slice(&progress.emit());
        }
        sort(&header);
        let mut packet = Packet::new(&header, Payload::Empty);
        if detach(&mut packet).is_err() {
            prop_assert_eq!(packet.header(), &header[..]);
        }
        let mut packet = Packet::new(&header, Payload::Empty);
        if attach(&mut packet, &progress).is_err() {
            prop_assert_eq!(packet.header(), &header[..]);
        }
    }
}
