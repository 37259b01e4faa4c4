//! ARP frames: bytes by the layout of RFC 826, cut and padded as links do, and hostile ones.

use super::*;
use crate::Vlan;
use rackweave_base::{Memory, Rng};

const ASKER: MacAddr = MacAddr([0x52, 0x54, 0, 0, 0, 1]);
const OWNER: MacAddr = MacAddr([0x52, 0x54, 0, 0, 0, 2]);
const ASKER_IP: Ipv4Addr = Ipv4Addr::new(10, 77, 0, 1);
const OWNER_IP: Ipv4Addr = Ipv4Addr::new(10, 77, 0, 2);

/// "Who has 10.77.0.2? Tell 10.77.0.1", field by field.
const REQUEST: [u8; 42] = [
    0xff, 0xff, 0xff, 0xff, 0xff, 0xff, // Ethernet target: broadcast
    0x52, 0x54, 0x00, 0x00, 0x00, 0x01, // Ethernet source
    0x08, 0x06, // Ethernet type: ARP
    0x00, 0x01, 0x08, 0x00, // hardware type Ethernet, protocol type IPv4
    0x06, 0x04, 0x00, 0x01, // lengths, operation request
    0x52, 0x54, 0x00, 0x00, 0x00, 0x01, 0x0a, 0x4d, 0x00, 0x01, // sender
    0x00, 0x00, 0x00, 0x00, 0x00, 0x00, 0x0a, 0x4d, 0x00, 0x02, // target
];

/// "10.77.0.2 is at 52:54:00:00:00:02", to the asker.
const REPLY: [u8; 42] = [
    0x52, 0x54, 0x00, 0x00, 0x00, 0x01, 0x52, 0x54, 0x00, 0x00, 0x00, 0x02, 0x08, 0x06, //
    0x00, 0x01, 0x08, 0x00, 0x06, 0x04, 0x00, 0x02, //
    0x52, 0x54, 0x00, 0x00, 0x00, 0x02, 0x0a, 0x4d, 0x00, 0x02, //
    0x52, 0x54, 0x00, 0x00, 0x00, 0x01, 0x0a, 0x4d, 0x00, 0x01, //
];

fn bytes_of(packet: &Packet) -> Vec<u8> {
    let mut bytes = Vec::new();
    assert!(packet.serialise(&Memory::new(0), &mut bytes));
    bytes
}

#[test]
fn question_and_answer_are_the_bytes_of_the_standard() {
    let request = ArpFrame::request(ASKER, ASKER_IP, OWNER_IP);
    assert_eq!(bytes_of(&request.packet()), REQUEST);
    assert_eq!(ArpFrame::parse(&REQUEST), Ok(request));
    let reply = request.reply(OWNER);
    assert_eq!(bytes_of(&reply.packet()), REPLY);
    assert_eq!(ArpFrame::parse(&REPLY), Ok(reply));
    assert_eq!(request.arp.to_string(), "who has 10.77.0.2? tell 10.77.0.1");
    assert_eq!(reply.arp.to_string(), "10.77.0.2 is at 52:54:00:00:00:02");
    assert!(is_arp(&REQUEST) && !is_arp(&REQUEST[..13]));
}

#[test]
fn a_frame_may_be_cut_anywhere_and_padded() {
    let frame = ArpFrame::request(ASKER, ASKER_IP, OWNER_IP);
    for len in [42, 60, 68] {
        let mut bytes = REQUEST.to_vec();
        bytes.resize(len, 0xee);
        for cut in 14..=len {
            let packet = Packet::new(&bytes[..cut], Payload::copied(&bytes[cut..]));
            assert_eq!(
                ArpFrame::of(&packet),
                Ok(frame),
                "{len} bytes, cut at {cut}"
            );
        }
    }
}

#[test]
fn the_answer_stays_in_the_vlan_of_the_question() {
    let mut bytes = REQUEST.to_vec();
    bytes.splice(12..12, [0x81, 0x00, 0x60, 0x07]);
    let request = ArpFrame::parse(&bytes).unwrap();
    let vlan = Some(Vlan {
        priority: 3,
        drop_eligible: false,
        id: 7,
    });
    assert_eq!(request.ethernet.vlan, vlan);
    assert_eq!(bytes_of(&request.packet()), bytes);
    let mut reply = REPLY.to_vec();
    reply.splice(12..12, [0x81, 0x00, 0x60, 0x07]);
    assert_eq!(bytes_of(&request.reply(OWNER).packet()), reply);
}

/// The result for a request whose bytes from `at` on are replaced.
fn check(at: usize, new: &[u8]) -> String {
    let mut bytes = REQUEST;
    bytes[at..at + new.len()].copy_from_slice(new);
    ArpFrame::parse(&bytes).unwrap_err().to_string()
}

#[test]
fn other_hardware_protocols_and_operations_are_refused() {
    assert_eq!(
        check(12, &[8, 0]),
        "Ethernet type 0x0800 is not that of ARP, 0x0806"
    );
    assert_eq!(
        check(14, &[0, 6]),
        "ARP hardware type 6 is not that of Ethernet, 1"
    );
    assert_eq!(
        check(16, &[0x86, 0xdd]),
        "ARP protocol type 0x86dd is not that of IPv4, 0x0800"
    );
    let lengths = "ARP addresses of 6 and 16 bytes; Ethernet and IPv4 have 6 and 4";
    assert_eq!(check(18, &[6, 16]), lengths);
    assert!(check(18, &[255, 4]).starts_with("ARP addresses of 255"));
    assert_eq!(
        check(20, &[0, 3]),
        "ARP operation 3 is neither request, 1, nor reply, 2"
    );
    assert_eq!(
        check(22, &[0xff; 6]),
        "the ARP sender claims the group address ff:ff:ff:ff:ff:ff"
    );
}

#[test]
fn bad_lengths_are_refused() {
    for len in 0..42 {
        assert_eq!(
            ArpFrame::parse(&REQUEST[..len]),
            Err(ArpError::Truncated),
            "{len}"
        );
    }
    let mut long = REQUEST.to_vec();
    long.resize(69, 0);
    let refusal = "the ARP frame has 69 bytes; with padding it has at most 68";
    assert_eq!(ArpFrame::parse(&long).unwrap_err().to_string(), refusal);
    let packet = Packet::new(&long[..42], Payload::copied(&[0; 4096]));
    assert_eq!(ArpFrame::of(&packet), Err(ArpError::Oversized(42 + 4096)));
    let memory = Memory::new(1 << 16);
    let block = memory.allocate(28).unwrap();
    let packet = Packet::new(
        &REQUEST[..14],
        Payload::Region(block.reference(0, 28).unwrap()),
    );
    assert_eq!(ArpFrame::of(&packet), Err(ArpError::Truncated));
}

#[test]
fn whatever_the_bytes_a_frame_taken_is_the_frame_written() {
    let seed = 826;
    let mut rng = Rng::new(seed);
    let mut taken = 0;
    for _ in 0..50_000 {
        let mut bytes = REQUEST.to_vec();
        for _ in 0..rng.below(3) {
            let at = rng.below(42) as usize;
            bytes[at] ^= 1 << rng.below(8);
        }
        bytes.truncate(rng.below(60) as usize);
        if let Ok(frame) = ArpFrame::parse(&bytes) {
            taken += 1;
            assert_eq!(bytes_of(&frame.packet()), bytes, "seed {seed}");
        }
    }
    assert!(taken > 1000, "seed {seed}: {taken} taken");
}
