//! The packets that [`Headers::of`] refuses, by error.

use super::*;
use crate::{Aeth, Opcode, Reth, Syndrome, ipv4};
use rackweave_base::{MacAddr, Psn, Qpn, Rkey};
use std::net::Ipv4Addr;

fn headers(opcode: Opcode, extension: Extension) -> Headers {
    Headers {
        ethernet: Ethernet::new(MacAddr([2, 0, 0, 0, 0, 1]), MacAddr([2, 0, 0, 0, 0, 2])),
        ipv4: Ipv4::new(Ipv4Addr::new(10, 0, 0, 1), Ipv4Addr::new(10, 0, 0, 2)),
        udp: Udp::new(0xc000),
        bth: Bth::new(opcode, Qpn(0x12), Psn::new(77)),
        extension,
    }
}

fn reth() -> Extension {
    Extension::Reth(Reth {
        address: 0x1000,
        rkey: Rkey(1),
        length: 5,
    })
}

/// A WRITE of five bytes, hence with three pad bytes.
fn write() -> Packet {
    headers(Opcode::WriteOnly, reth()).packet(Payload::inline(b"hello"))
}

/// Changes a WRITE's header bytes, corrects the IPv4 checksum, and parses.
fn changed(change: impl FnOnce(&mut [u8])) -> Result<Headers, ParseError> {
    let mut packet = write();
    change(packet.header_mut());
    ipv4::renew_checksum(&mut packet.header_mut()[ethernet::LEN..]);
    Headers::of(&packet)
}

#[test]
fn a_sound_packet_is_taken() {
    assert_eq!(write().pad(), [0; 3]);
    assert_eq!(
        Headers::of(&write()),
        Ok(headers(Opcode::WriteOnly, reth()))
    );
    assert_eq!(changed(|_| ()), Ok(headers(Opcode::WriteOnly, reth())));
}

#[test]
fn lengths_must_agree() {
    // IPv4 total length, UDP length, both.
    assert_eq!(changed(|bytes| bytes[17] += 4), Err(ParseError::BadLength));
    assert_eq!(changed(|bytes| bytes[39] += 4), Err(ParseError::BadLength));
    let both = |bytes: &mut [u8]| {
        bytes[17] += 4;
        bytes[39] += 4;
    };
    assert_eq!(changed(both), Err(ParseError::BadLength));
    // One more byte in the header area than the headers of the opcode have.
    let mut packet = write();
    let mut longer = packet.header().to_vec();
    longer.push(0);
    packet.set_header(&longer);
    assert_eq!(Headers::of(&packet), Err(ParseError::BadLength));
    // A payload other than the one that the header was written for.
    let mut packet = write();
    packet.payload = Payload::inline(b"hell");
    assert_eq!(Headers::of(&packet), Err(ParseError::BadLength));
}

#[test]
fn pad_must_fill_up() {
    for count in [0x00, 0x10, 0x20] {
        assert_eq!(changed(|bytes| bytes[43] = count), Err(ParseError::BadPad));
    }
    // All lengths agree on no pad, but five bytes need three.
    let mut packet = write();
    packet.set_pad(&[]);
    let bytes = packet.header_mut();
    bytes[17] -= 3;
    bytes[39] -= 3;
    bytes[43] = 0;
    ipv4::renew_checksum(&mut bytes[ethernet::LEN..]);
    assert_eq!(Headers::of(&packet), Err(ParseError::BadPad));
    // Lengths agree, but eight bytes need no pad.
    let mut packet = headers(Opcode::WriteOnly, reth()).packet(Payload::inline(b"eight by"));
    packet.payload = Payload::inline(b"hello");
    packet.set_pad(&[0; 3]);
    assert_eq!(Headers::of(&packet), Err(ParseError::BadPad));
}

#[test]
fn other_protocols_are_named() {
    let check = |at: usize, value: u8, error| {
        assert_eq!(changed(|bytes| bytes[at] = value), Err(error));
    };
    check(13, 0x06, ParseError::NotIpv4);
    check(14, 0x65, ParseError::NotIpv4);
    check(14, 0x46, ParseError::Ipv4Options);
    check(20, 0x20, ParseError::Fragment);
    check(23, 6, ParseError::NotUdp);
    check(37, 0xb8, ParseError::NotRoce(4792));
    check(42, 0x24, ParseError::UnknownOpcode(0x24));
    check(43, 0x31, ParseError::BadVersion(1));
    let mut packet = write();
    packet.header_mut()[22] -= 1;
    assert_eq!(Headers::of(&packet), Err(ParseError::BadIpv4Checksum));
}

#[test]
fn short_packets_are_named_by_what_they_hold() {
    let packet = write();
    let bytes = packet.header();
    for len in 0..bytes.len() {
        assert_eq!(
            Headers::parse(&bytes[..len]),
            Err(ParseError::Truncated),
            "{len} bytes"
        );
    }
    // 28 bytes of ICMP, 40 of TCP, and a short UDP packet to another port.
    let mut icmp = bytes[..42].to_vec();
    icmp[23] = 1;
    ipv4::renew_checksum(&mut icmp[14..]);
    assert_eq!(Headers::parse(&icmp), Err(ParseError::NotUdp));
    assert_eq!(Headers::parse(&icmp[..34]), Err(ParseError::NotUdp));
    let mut dns = bytes[..42].to_vec();
    dns[37] = 0x35;
    assert_eq!(Headers::parse(&dns), Err(ParseError::NotRoce(0x1235)));
}

#[test]
fn the_opcode_rules_the_payload() {
    let aeth = Extension::Aeth(Aeth {
        syndrome: Syndrome::Ack { credits: 31 },
        msn: 1,
    });
    let acknowledgement = headers(Opcode::Acknowledge, aeth).packet(Payload::inline(b"four"));
    let error = Headers::of(&acknowledgement).unwrap_err();
    assert_eq!(error, ParseError::PayloadForbidden(Opcode::Acknowledge));
    assert_eq!(error.to_string(), "ACKNOWLEDGE carries no payload");
    assert_eq!(error.reason(), "payload_forbidden");

    for opcode in [Opcode::SendFirst, Opcode::WriteMiddle, Opcode::SendLast] {
        let empty = headers(opcode, Extension::None).packet(Payload::Empty);
        assert_eq!(Headers::of(&empty), Err(ParseError::PayloadMissing(opcode)));
    }
    let empty_write = headers(Opcode::WriteOnly, reth()).packet(Payload::Empty);
    assert!(Headers::of(&empty_write).is_ok());
}

#[test]
fn pad_bytes_of_the_peer_survive_a_rewrite() {
    let mut packet = write();
    packet.set_pad(&[1, 2, 3]);
    headers(Opcode::SendOnly, Extension::None).write_to(&mut packet);
    assert_eq!(packet.pad(), [1, 2, 3]);
    packet.payload = Payload::inline(b"sixteen");
    headers(Opcode::SendOnly, Extension::None).write_to(&mut packet);
    assert_eq!(packet.pad(), [0]);
}

#[test]
#[should_panic(expected = "Reth behind SEND_ONLY")]
fn an_extension_must_fit_its_opcode() {
    headers(Opcode::SendOnly, reth()).packet(Payload::Empty);
}

#[test]
fn a_template_writes_what_the_headers_do() {
    let vlan = crate::Vlan {
        priority: 3,
        drop_eligible: false,
        id: 100,
    };
    let nothing = headers(Opcode::Acknowledge, Extension::None);
    for vlan in [None, Some(vlan)] {
        let with_vlan = |mut headers: Headers| {
            headers.ethernet.vlan = vlan;
            headers
        };
        let template = Template::new(&with_vlan(nothing));
        let payloads = [Payload::Empty, Payload::inline(b"hello")];
        for (payload, opcode) in payloads
            .into_iter()
            .zip([Opcode::ReadRequest, Opcode::WriteOnly])
        {
            let mut expect = with_vlan(headers(opcode, reth()));
            expect.bth.psn = Psn::new(0xab_cdef);
            (expect.bth.ack_request, expect.bth.solicited) = (true, true);
            expect.ipv4.identification = 0xfedc;
            let mut packet = Packet::with_payload(payload);
            template.write_to(&expect.fields(), &mut packet);
            assert_eq!(Headers::of(&packet), Ok(expect));
        }
    }
}
