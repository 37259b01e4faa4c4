//! Datagrams compared with one that Linux sent.

use super::*;
use crate::Ecn;
use rackweave_base::MacAddr;
use std::net::Ipv4Addr;

/// Linux, a socket with SO_NO_CHECK, on the loopback interface.
const CAPTURED: [u8; 51] = *b"\0\0\0\0\0\0\0\0\0\0\0\0\x08\0\
    \x45\0\0\x25\xc8\x23\x40\0\x40\x11\x74\xa2\x7f\0\0\x01\x7f\0\0\x01\
    \x9c\x41\x12\xb9\0\x11\0\0rackweave";

/// The checksum, computed according to RFC 768.
const CHECKSUM: u16 = 0x3f26;

fn captured() -> Datagram {
    let mac = MacAddr([0; 6]);
    Datagram {
        ethernet: Ethernet::new(mac, mac),
        ipv4: Ipv4 {
            ecn: Ecn::NotCapable,
            identification: 0xc823,
            ..Ipv4::new(Ipv4Addr::LOCALHOST, Ipv4Addr::LOCALHOST)
        },
        source_port: 40001,
        target_port: 4793,
        checksum: 0,
        carried: 9,
    }
}

fn inline(bytes: &[u8]) -> Option<Payload> {
    Some(Payload::copied(bytes))
}

#[test]
fn a_captured_datagram_goes_both_ways() {
    let memory = Memory::new(0);
    let packet = captured().packet(b"rackweave", inline).unwrap();
    assert_eq!((packet.header(), packet.payload.len()), (&CAPTURED[..], 0));
    for cut in [HEADERS_LEN, HEADERS_LEN + 4, CAPTURED.len()] {
        let (front, back) = CAPTURED.split_at(cut);
        let packet = Packet::new(front, Payload::copied(back));
        let datagram = Datagram::of(&packet).unwrap();
        assert_eq!(datagram, captured());
        let mut bytes = Vec::new();
        assert!(datagram.read(&packet, &memory, &mut bytes));
        assert_eq!(bytes, b"rackweave");
        assert!(datagram.checksum_is_right(&packet, &bytes));
    }
}

#[test]
fn a_checksum_is_judged_if_there_is_one() {
    let memory = Memory::new(0);
    let mut with = CAPTURED;
    with[40..42].copy_from_slice(&CHECKSUM.to_be_bytes());
    let check = |sent: &[u8]| {
        let packet = Packet::new(sent, Payload::Empty);
        let datagram = Datagram::of(&packet).unwrap();
        let mut bytes = Vec::new();
        assert!(datagram.read(&packet, &memory, &mut bytes));
        datagram.checksum_is_right(&packet, &bytes)
    };
    assert!(check(&with));
    for at in [34, 35, 36, 40, 42, 50] {
        let mut damaged = with;
        damaged[at] ^= 4;
        // Neither the length nor the port of RoCEv2.
        assert!(!check(&damaged), "byte {at}");
    }
}

#[test]
fn what_is_no_datagram_is_refused() {
    let check = |bytes: &[u8]| Datagram::of(&Packet::new(bytes, Payload::Empty)).unwrap_err();
    for len in 0..HEADERS_LEN {
        assert_eq!(check(&CAPTURED[..len]), ParseError::Truncated, "{len}");
    }
    assert_eq!(check(&CAPTURED[..50]), ParseError::BadLength);
    let changed = |at: usize, value: u8| {
        let mut bytes = CAPTURED;
        bytes[at] = value;
        crate::ipv4::renew_checksum(&mut bytes[14..]);
        check(&bytes)
    };
    assert_eq!(changed(12, 0x86), ParseError::NotIpv4);
    assert_eq!(changed(23, 6), ParseError::NotUdp);
    assert_eq!(changed(37, 0xb7), ParseError::NotUdp);
    assert_eq!(changed(17, 0x26), ParseError::BadLength);
    assert_eq!(changed(39, 7), ParseError::BadLength);
    assert_eq!(changed(39, 0x10), ParseError::BadLength);
}

#[test]
fn long_ones_have_their_end_in_the_payload() {
    let memory = Memory::new(0);
    let sent: Vec<u8> = (0..CARRIED_MAX).map(|at| (at / 7) as u8).collect();
    for len in [0, 1, 45, 46, 47, 78, 79, 1000, CARRIED_MAX] {
        let packet = captured().packet(&sent[..len], inline).unwrap();
        assert_eq!(packet.payload.len(), len.saturating_sub(46));
        let datagram = Datagram::of(&packet).unwrap();
        let mut bytes = Vec::new();
        assert!(datagram.read(&packet, &memory, &mut bytes));
        assert_eq!(bytes, sent[..len]);
    }
    assert!(captured().packet(&sent, |_| None).is_none());
}
