//! Both directions, arbitrary bytes, and the changes made by a switch.

use super::*;
use crate::{Ethernet, Ipv4};
use proptest::prelude::*;
use rackweave_base::{MacAddr, Memory, Payload};
use std::net::Ipv4Addr;

fn once() -> impl Strategy<Value = Once> {
    (any::<u64>(), any::<u16>()).prop_map(|(session, slot)| Once { session, slot })
}

/// The contents of a request, with its value stored elsewhere.
fn ask() -> impl Strategy<Value = Ask<'static>> {
    const VALUES: [&[u8]; 4] = [b"", b"seven   ", b"a longer value", &[7; 1000]];
    let value = (0..VALUES.len()).prop_map(|at| VALUES[at]);
    let (key, far) = (any::<u64>(), any::<u64>());
    prop_oneof![
        key.prop_map(|key| Ask::Get { key }),
        (any::<u64>(), once(), value, 0..3).prop_map(|(key, once, value, kind)| match kind {
            0 => Ask::Insert { key, once, value },
            1 => Ask::Update { key, once, value },
            _ => Ask::Put { key, once, value },
        }),
        (any::<u64>(), once()).prop_map(|(key, once)| Ask::Delete { key, once }),
        (any::<u64>(), far, any::<u32>(), any::<bool>()).prop_map(
            |(near, far, limit, backward)| Ask::Scan {
                near,
                far,
                limit,
                backward,
            }
        ),
        any::<u32>().prop_map(|from| Ask::Map { from }),
        Just(Ask::Open),
    ]
}

fn packet(bytes: &[u8], target_port: u16) -> Packet {
    let mac = MacAddr([2, 0, 0, 0, 0, 1]);
    let datagram = Datagram {
        ethernet: Ethernet::new(mac, mac),
        ipv4: Ipv4::new(Ipv4Addr::new(10, 0, 0, 1), Ipv4Addr::new(10, 0, 0, 2)),
        source_port: 50_000,
        target_port,
        checksum: 0,
        carried: bytes.len(),
    };
    let keep = |bytes: &[u8]| Some(Payload::copied(bytes));
    datagram.packet(bytes, keep).unwrap()
}

#[test]
fn a_request_has_its_bytes_in_order() {
    let once = Once {
        session: 0x3132_3334_3536_3738,
        slot: 0x4142,
    };
    let ask = Ask::Put {
        key: 0x0102_0304_0506_0708,
        once,
        value: b"value",
    };
    let mut bytes = b"before".to_vec();
    ask.emit(0x2122_2324_2526_2728, 0x1112_1314_1516_1718, &mut bytes);
    let expect: [&[u8]; 4] = [
        b"RW\x01\x04\0\0\0\0\x01\x02\x03\x04\x05\x06\x07\x08",
        b"\x11\x12\x13\x14\x15\x16\x17\x18\x21\x22\x23\x24\x25\x26\x27\x28",
        b"\x31\x32\x33\x34\x35\x36\x37\x38\x41\x42",
        b"value",
    ];
    let request = &bytes[6..];
    assert_eq!(&request[..32], expect[..2].concat());
    assert_eq!(&request[36..], expect[2..].concat());
    // The CRC of the bytes documented as covered, by the crate's own function.
    let covered = [&request[..4], &request[8..32], &request[36..]].concat();
    assert_eq!(request[32..36], crc32fast::hash(&covered).to_be_bytes());
}

#[test]
fn the_body_must_be_that_of_the_operation() {
    let bodies: [(u8, &[u8]); 9] = [
        (1, b"x"),
        (2, b"123456789"),
        (5, b"1234567890x"),
        (6, &[0; 12]),
        (6, &[2; 13]),
        (7, &[0; 3]),
        (8, b"x"),
        (0, b""),
        (9, b""),
    ];
    for (op, body) in bodies {
        let request = Request {
            op,
            node: 0,
            key: 0,
            id: 1,
            client: 2,
            body,
        };
        assert_eq!(request.ask(), None, "{op}");
    }
}

#[test]
fn a_switch_fills_in_where_to_begin() {
    let memory = Memory::new(0);
    let once = Once {
        session: 1,
        slot: 2,
    };
    let value = &[9; 200];
    for ask in [
        Ask::Get { key: 77 },
        Ask::Put {
            key: 77,
            once,
            value,
        },
    ] {
        let mut bytes = Vec::new();
        ask.emit(5, 6, &mut bytes);
        let mut sent = packet(&bytes, PORT);
        let op = ask.op();
        let start = Start {
            op,
            node: 0,
            key: 77,
        };
        assert_eq!(Start::of(&sent), Some(start));
        assert!(Start::fill_in(&mut sent, 1234));
        assert_eq!(
            Start::of(&sent),
            Some(Start {
                node: 1234,
                ..start
            })
        );
        let datagram = Datagram::of(&sent).unwrap();
        let mut there = Vec::new();
        assert!(datagram.read(&sent, &memory, &mut there));
        let request = Request::parse(&there).expect("the check does not cover it");
        assert_eq!((request.node, request.ask()), (1234, Some(ask)));
    }
    for (ask, port) in [(Ask::Open, PORT), (Ask::Get { key: 1 }, PORT + 1)] {
        let mut bytes = Vec::new();
        ask.emit(5, 6, &mut bytes);
        let mut sent = packet(&bytes, port);
        let before = sent.header().to_vec();
        assert_eq!(Start::of(&sent), None);
        assert!(!Start::fill_in(&mut sent, 1) && sent.header() == before);
    }
}

proptest! {
    #[test]
    fn requests_go_both_ways(ask in ask(), client: u64, id: u64) {
        let mut bytes = Vec::new();
        ask.emit(client, id, &mut bytes);
        let request = Request::parse(&bytes).unwrap();
        prop_assert_eq!(request.ask(), Some(ask));
        prop_assert_eq!((request.client, request.id, request.node), (client, id, 0));
        prop_assert_eq!(Reply::parse(&bytes), Err(LookupError::Direction(ask.op() as u8)));
    }

    #[test]
    fn replies_go_both_ways(
        op in 1u8..9, status: u16, level: u8, key: u64, id: u64, client: u64,
        body in prop::collection::vec(any::<u8>(), 0..100),
    ) {
        let (status, body) = (Status(status), &body[..]);
        let reply = Reply { op, status, level, key, id, client, body };
        let mut bytes = Vec::new();
        reply.emit(&mut bytes);
        prop_assert_eq!(Reply::parse(&bytes), Ok(reply));
        prop_assert!(Request::parse(&bytes).is_err());
    }

    #[test]
    fn every_flipped_bit_is_seen_but_in_the_tree_node(ask in ask(), at: prop::sample::Index) {
        let mut bytes = Vec::new();
        ask.emit(3, 4, &mut bytes);
        let bit = at.index(bytes.len() * 8);
        bytes[bit / 8] ^= 1 << (bit % 8);
        let parsed = Request::parse(&bytes);
        if NODE.contains(&(bit / 8)) {
            let request = parsed.unwrap();
            prop_assert!(request.node != 0);
            prop_assert_eq!(request.ask(), Some(ask));
        } else {
            prop_assert!(parsed.is_err());
        }
        let mut reply = Vec::new();
        let of = Reply { op: 1, status: Status::OK, level: 0, key: 1, id: 2, client: 3, body: b"x" };
        of.emit(&mut reply);
        let bit = at.index(reply.len() * 8);
        reply[bit / 8] ^= 1 << (bit % 8);
        prop_assert!(Reply::parse(&reply).is_err(), "bit {}", bit);
    }

    #[test]
    fn any_bytes_are_judged(mut bytes in prop::collection::vec(any::<u8>(), 0..120)) {
        let _ = (Request::parse(&bytes), Reply::parse(&bytes), Opened::parse(&bytes));
        let _ = MapPiece::parse(&bytes);
        let _ = Start::of(&Packet::new(&bytes[..bytes.len().min(88)], Payload::Empty));
        // And with the head and the check corrected.
        if bytes.len() >= HEADER_LEN {
            bytes[..3].copy_from_slice(b"RW\x01");
            bytes[3] &= 0x0f;
            seal(&mut bytes, 0, true);
            let request = Request::parse(&bytes).unwrap();
            if let Some(ask) = request.ask() {
                let mut again = Vec::new();
                ask.emit(request.client, request.id, &mut again);
                prop_assert_eq!(&again[8..], &bytes[8..]);
            }
        }
    }

    #[test]
    fn bodies_go_both_ways(session: u64, keep_ns: u64, slots in 1u16.., total: u32) {
        let opened = Opened { session, keep_ns, slots };
        prop_assert_eq!(Opened::parse(&opened.emit()), Some(opened));
        let piece = MapPiece { version: session, total, bytes: b"map" };
        let bytes = [&piece.header()[..], b"map"].concat();
        prop_assert_eq!(MapPiece::parse(&bytes), Some(piece));
    }
}
