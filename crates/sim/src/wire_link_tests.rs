//! Tests of one direction of a link: arithmetic, overflow, marks.

use super::*;
use rackweave_base::Payload;

/// An Ethernet and IPv4 header with the given ECN bits and a valid checksum, and UDP and BTH up to
/// 54 bytes.
fn header(ecn: u8) -> [u8; 54] {
    let mut header = [0; 54];
    header[12..14].copy_from_slice(&[0x08, 0x00]);
    header[14..34].copy_from_slice(&[
        0x45, ecn, 0x10, 0x2c, 0x12, 0x34, 0x40, 0x00, 0x40, 0x11, 0, 0, 10, 0, 0, 1, 10, 0, 0, 2,
    ]);
    let sum = !sum(&header[14..34]);
    header[24..26].copy_from_slice(&sum.to_be_bytes());
    header
}

/// The one's complement sum over 16-bit words.
fn sum(bytes: &[u8]) -> u16 {
    let words = bytes
        .chunks(2)
        .map(|b| u32::from(u16::from_be_bytes([b[0], b[1]])));
    let mut sum: u32 = words.sum();
    while sum > 0xffff {
        sum = (sum & 0xffff) + (sum >> 16);
    }
    sum as u16
}

fn packet(ecn: u8, payload: usize) -> Packet {
    Packet::new(&header(ecn), Payload::copied(&vec![7; payload]))
}

fn link(model: LinkModel) -> SimLink {
    SimLink::new(model, Rng::new(1))
}

fn at(nanos: u64) -> Instant {
    Instant::from_nanos(nanos)
}

#[test]
fn a_packet_takes_its_bytes_and_ethernets() {
    let model = LinkModel::default();
    // 54 header bytes, 4096 of payload and the ICRC, then check sequence, preamble and gap:
    // 4178 bytes at 80 ps.
    assert_eq!(model.occupancy(4096 + 58), 334_240);
    // The minimum packet is 64 bytes including its check sequence.
    assert_eq!(model.occupancy(20), (64 + 20) * 80);
    let slow = LinkModel {
        bits_per_second: 25_000_000_000,
        ..model
    };
    assert_eq!(slow.occupancy(4096 + 58), 4 * 334_240);
}

#[test]
fn packets_arrive_in_order_when_their_last_bit_does() {
    let mut link = link(LinkModel::default());
    for _ in 0..3 {
        link.send(at(100), packet(2, 4096)).unwrap();
    }
    // 100 ns + 334.24 ns + 10 ns of cable; the next ones one serialisation later each.
    for arrives in [445, 779, 1113] {
        assert_eq!(link.poll_timeout(), Some(at(arrives)));
        assert!(link.receive(at(arrives - 1)).is_none());
        assert!(link.receive(at(arrives)).is_some());
    }
    assert_eq!(link.poll_timeout(), None);
    let counters = *link.counters();
    assert_eq!(counters.busy_picos, 3 * 334_240);
    assert_eq!((counters.packets, counters.payload_bytes), (3, 3 * 4096));
    assert_eq!(counters.bytes, 3 * (4096 + 58));
    // An idle link starts again without delay.
    link.send(at(5_000), packet(2, 0)).unwrap();
    assert_eq!(link.poll_timeout(), Some(at(5_017)));
}

#[test]
fn rounding_to_nanoseconds_costs_no_bandwidth() {
    let mut link = link(LinkModel {
        lossless: true,
        ecn: None,
        ..LinkModel::default()
    });
    for _ in 0..1000 {
        link.send(at(0), packet(2, 1000)).unwrap();
    }
    let last = std::iter::from_fn(|| {
        let at = link.poll_timeout()?;
        link.receive(at).map(|_| at)
    })
    .last();
    // 1082 bytes at 80 ps, a thousand times, and the cable.
    assert_eq!(last, Some(at(86_560 + 10)));
}

#[test]
fn a_full_queue_drops_its_tail() {
    let mut link = link(LinkModel {
        queue_bytes: 10_000,
        ecn: None,
        ..LinkModel::default()
    });
    for _ in 0..5 {
        link.send(at(0), packet(2, 4096)).unwrap();
    }
    // One is leaving, two wait (8308 bytes); no third fits.
    assert_eq!((link.counters().packets, link.counters().drops), (3, 2));
    assert_eq!(link.queued_bytes(at(0)), 2 * 4154);
    assert_eq!(link.queued_bytes(at(334)), 2 * 4154);
    assert_eq!(link.queued_bytes(at(335)), 4154);
    link.send(at(335), packet(2, 4096)).unwrap();
    assert_eq!(link.counters().drops, 2);
    let delivered = std::iter::from_fn(|| link.receive(at(1_000_000))).count();
    assert_eq!(delivered, 4);
    assert_eq!(link.queued_bytes(at(1_000_000)), 0);
}

#[test]
fn a_lossless_queue_has_no_bound() {
    let model = LinkModel {
        queue_bytes: 10_000,
        lossless: true,
        ecn: None,
        ..LinkModel::default()
    };
    let mut link = link(model);
    for _ in 0..100 {
        link.send(at(0), packet(2, 4096)).unwrap();
    }
    assert_eq!((link.counters().packets, link.counters().drops), (100, 0));
    assert_eq!(link.counters().queue_bytes_max, 99 * 4154);
}

#[test]
fn a_long_queue_marks_what_can_bear_it() {
    let ecn = EcnModel {
        bytes_min: 4_000,
        bytes_max: 12_000,
        probability_max: 0.0,
    };
    let mut link = link(LinkModel {
        ecn: Some(ecn),
        ..LinkModel::default()
    });
    // Queue lengths on entry: 0, 0, 4154, 8308, 12462, 16616, ...
    for ecn in [2, 2, 2, 2, 2, 1, 0, 3] {
        link.send(at(0), packet(ecn, 4096)).unwrap();
    }
    let marks: Vec<u8> = std::iter::from_fn(|| link.receive(at(1_000_000)))
        .inspect(|packet| assert_eq!(sum(&packet.header()[14..34]), 0xffff, "checksum"))
        .map(|packet| packet.header()[15] & 3)
        .collect();
    assert_eq!(marks, [2, 2, 2, 2, 3, 3, 0, 3]);
    assert_eq!(link.counters().marks, 2);
}

#[test]
fn marks_become_more_probable_with_the_length_of_the_queue() {
    let ecn = EcnModel {
        bytes_min: 5_000,
        bytes_max: 200_000,
        probability_max: 0.5,
    };
    assert_eq!(ecn.probability(5_000), 0.0);
    assert_eq!(ecn.probability(102_500), 0.25);
    assert_eq!(ecn.probability(199_999), 0.5 * 194_999.0 / 195_000.0);
    assert_eq!(ecn.probability(200_000), 1.0);
    let model = LinkModel {
        ecn: Some(ecn),
        lossless: true,
        ..LinkModel::default()
    };
    let mut link = link(model);
    for _ in 0..48 {
        link.send(at(0), packet(2, 4096)).unwrap();
    }
    let some = link.counters().marks;
    assert!((3..25).contains(&some), "{some}");
    for _ in 0..10 {
        link.send(at(0), packet(2, 4096)).unwrap();
    }
    assert!(link.counters().marks >= some + 8);
}

#[test]
fn the_mark_survives_every_checksum() {
    for identification in 0..=u16::MAX {
        let mut bytes = header(2);
        bytes[18..20].copy_from_slice(&identification.to_be_bytes());
        bytes[24..26].fill(0);
        let check = !sum(&bytes[14..34]);
        bytes[24..26].copy_from_slice(&check.to_be_bytes());
        let mut packet = Packet::new(&bytes, Payload::Empty);
        assert!(mark(&mut packet));
        assert_eq!(sum(&packet.header()[14..34]), 0xffff);
    }
}

#[test]
fn a_tag_is_looked_behind_and_other_protocols_are_left_alone() {
    let plain = header(1);
    let mut tagged = plain[..12].to_vec();
    tagged.extend([0x81, 0, 0x60, 1]);
    tagged.extend(&plain[12..]);
    let mut packet = Packet::new(&tagged, Payload::Empty);
    assert!(mark(&mut packet));
    assert_eq!(packet.header()[19] & 3, 3);
    let mut arp = plain;
    arp[13] = 6;
    assert!(!mark(&mut Packet::new(&arp, Payload::Empty)));
    assert!(
        !mark(&mut Packet::new(&plain[..30], Payload::Empty)),
        "truncated"
    );
}
