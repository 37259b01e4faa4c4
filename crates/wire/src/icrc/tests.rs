//! Edge cases of the ICRC; captured and random packets are in the crate's `tests` folder.

use super::*;
use crate::{Bth, Ethernet, Extension, Headers, Ipv4, Opcode, Udp, ipv4};
use rackweave_base::packet::HEADER_MAX;
use rackweave_base::{MacAddr, Psn, Qpn};
use std::net::Ipv4Addr;

fn headers() -> Headers {
    Headers {
        ethernet: Ethernet::new(MacAddr([2, 0, 0, 0, 0, 1]), MacAddr([2, 0, 0, 0, 0, 2])),
        ipv4: Ipv4::new(Ipv4Addr::new(10, 0, 0, 1), Ipv4Addr::new(10, 0, 0, 2)),
        udp: Udp::new(0xc000),
        bth: Bth::new(Opcode::SendOnly, Qpn(0x12), Psn::new(77)),
        extension: Extension::None,
    }
}

/// The definition: eight bytes of ones, then the packet with ones in the fields that may change.
fn by_definition(packet: &Packet, memory: &Memory) -> [u8; 4] {
    let mut bytes = vec![0xff; 8];
    bytes.extend_from_slice(&packet.header()[14..]);
    for at in [1, 8, 10, 11, 26, 27, 32] {
        bytes[8 + at] = 0xff;
    }
    bytes.extend(packet.payload.to_vec(memory).unwrap());
    bytes.extend_from_slice(packet.pad());
    let mut state = !0;
    for bit in bytes
        .iter()
        .flat_map(|byte| (0..8).map(move |bit| u32::from(byte >> bit & 1)))
    {
        state = polynomial::times_x(state ^ bit);
    }
    (!state).to_le_bytes()
}

#[test]
fn all_kinds_of_payload_hash_alike() {
    let memory = Memory::new(1 << 20);
    let block = memory.allocate(8192).unwrap();
    block.write(100, &core::array::from_fn::<u8, 5000, _>(|at| at as u8));
    for len in [0, 1, 31, 32, 33, 255, 1024, 1025, 4095, 4096] {
        let region = Payload::Region(block.reference(100, len).unwrap());
        let copied = Payload::copied(&region.to_vec(&memory).unwrap());
        let expect = by_definition(&headers().packet(copied.clone()), &memory);
        for payload in [region, copied] {
            let packet = headers().packet(payload);
            assert_eq!(compute(&packet, &memory), Some(expect), "{len} bytes");
        }
    }
    // More bytes than a packet may carry: no peer can send it, but hashing must not fail on it.
    let mut packet = headers().packet(Payload::Empty);
    packet.payload = Payload::Region(block.reference(100, 5000).unwrap());
    assert_eq!(
        compute(&packet, &memory),
        Some(by_definition(&packet, &memory))
    );
}

#[test]
fn a_payload_that_is_gone_cannot_be_sealed() {
    let memory = Memory::new(1 << 20);
    let block = memory.allocate(64).unwrap();
    let mut packet = headers().packet(Payload::Region(block.reference(0, 64).unwrap()));
    assert_eq!(verify(&packet, &memory), Verdict::Absent);
    assert!(seal(&mut packet, &memory));
    assert_eq!(verify(&packet, &memory), Verdict::Right);
    block.write(9, &[1]);
    assert_eq!(verify(&packet, &memory), Verdict::Wrong);
    drop(block);
    assert_eq!(verify(&packet, &memory), Verdict::Wrong);
    let sealed = packet.check;
    assert!(!seal(&mut packet, &memory));
    assert_eq!(packet.check, sealed);
}

#[test]
fn nothing_is_done_without_a_check_value() {
    for method in [Rewrite::Update, Rewrite::Balance] {
        let mut packet = headers().packet(Payload::inline(b"payload"));
        let before = packet.header().to_vec();
        method.apply(&mut packet, &[0; HEADER_MAX]);
        assert_eq!((packet.check, packet.header()), (None, before.as_slice()));
    }
}

#[test]
fn a_balanced_header_has_no_udp_checksum_and_a_right_ipv4_checksum() {
    let memory = Memory::new(0);
    let mut packet = headers().packet(Payload::inline(b"payload"));
    assert!(seal(&mut packet, &memory));
    let old_header = packet.header().to_vec();
    let mut changed = headers();
    changed.udp.checksum = 0x1234;
    changed.bth.psn = Psn::new(78);
    changed.write_to(&mut packet);
    Rewrite::Balance.apply(&mut packet, &old_header);
    assert_eq!(Headers::of(&packet).unwrap().udp.checksum, 0);
    assert_eq!(verify(&packet, &memory), Verdict::Right);
    // A header that was balanced once and is unchanged since needs no other choice.
    let header = packet.header().to_vec();
    Rewrite::Balance.apply(&mut packet, &header.clone());
    assert_eq!(packet.header(), header);
}

#[test]
fn headers_of_odd_lengths_are_updated_instead() {
    let memory = Memory::new(0);
    let mut packet = headers().packet(Payload::Empty);
    let whole = packet.header().to_vec();
    for len in 0..=HEADER_MAX {
        let mut odd = whole.clone();
        odd.resize(len, 0x5a);
        packet.set_header(&whole);
        assert!(seal(&mut packet, &memory));
        packet.set_header(&odd);
        Rewrite::Balance.apply(&mut packet, &whole);
        assert_eq!(verify(&packet, &memory), Verdict::Right, "{len} bytes");
    }
}

#[test]
fn what_routers_change_is_not_covered() {
    let memory = Memory::new(0);
    let mut packet = headers().packet(Payload::inline(b"payload"));
    assert!(seal(&mut packet, &memory));
    let header = packet.header_mut();
    header[15] |= 3;
    header[22] -= 1;
    header[46] |= 0xc0;
    ipv4::renew_checksum(&mut header[14..]);
    assert_eq!(verify(&packet, &memory), Verdict::Right);
    assert!(Headers::of(&packet).unwrap().bth.becn);
}
