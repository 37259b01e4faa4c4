//! Messages: round trips, and garbage.

use super::*;
use proptest::prelude::*;

fn message(header: MessageHeader, calls: &[(CallId, u16, Vec<u8>)]) -> Vec<u8> {
    let mut bytes = header.emit().to_vec();
    for (id, code, payload) in calls {
        let header = CallHeader {
            id: *id,
            code: *code,
            length: payload.len() as u16,
        };
        bytes.extend_from_slice(&header.emit());
        bytes.extend_from_slice(payload);
    }
    bytes
}

fn header(count: u16) -> MessageHeader {
    MessageHeader {
        kind: MessageKind::Request,
        count,
        grant: 0,
        incarnation: 0,
    }
}

fn id(slot: u16, generation: u16) -> CallId {
    CallId { slot, generation }
}

#[test]
fn the_layout_is_that_of_the_tables() {
    let header = MessageHeader {
        kind: MessageKind::Reply,
        count: 0x0102,
        grant: 0x0304,
        incarnation: 0x1112_1314_1516_1718,
    };
    assert_eq!(
        header.emit(),
        [
            b'R', b'P', 1, 2, 0x02, 0x01, 0x04, 0x03, 0x18, 0x17, 0x16, 0x15, 0x14, 0x13, 0x12,
            0x11
        ]
    );
    let call = CallHeader {
        id: id(0x0102, 0x0304),
        code: 0x0506,
        length: 0x0708,
    };
    let bytes = [2, 1, 4, 3, 6, 5, 8, 7];
    assert_eq!(call.emit(), bytes);
    assert_eq!(CallHeader::parse(&bytes), call);
}

#[test]
fn bad_headers_are_told_apart() {
    let good = message(header(0), &[]);
    let with = |at: usize, byte: u8| {
        let mut bytes = good.clone();
        bytes[at] = byte;
        parse(&bytes).map(|(header, _)| header)
    };
    assert_eq!(with(3, 1), Ok(header(0)));
    assert_eq!(with(0, 7), Err(MessageError::NoRpc { found: 0x5007 }));
    assert_eq!(with(2, 2), Err(MessageError::Version { found: 2 }));
    for kind in [0, 4, 255] {
        assert_eq!(with(3, kind), Err(MessageError::Kind { found: kind }));
    }
    for len in 0..MESSAGE_HEADER_LEN {
        let result = parse(&good[..len]).map(|(header, _)| header);
        assert_eq!(result, Err(MessageError::Truncated { len }));
    }
}

#[test]
fn calls_end_at_the_first_that_is_not_all_there() {
    let calls = [
        (id(1, 2), 3, b"abc".to_vec()),
        (id(4, 5), 6, b"defgh".to_vec()),
    ];
    let check = |count: u16, cut: usize, extra: usize, expect: &[Result<&[u8], CallError>]| {
        let mut bytes = message(header(count), &calls);
        bytes.truncate(bytes.len() - cut);
        bytes.extend(core::iter::repeat_n(0, extra));
        let (_, calls) = parse(&bytes).unwrap();
        let found: Vec<_> = calls.map(|call| call.map(|call| call.payload)).collect();
        assert_eq!(found, expect);
    };
    check(2, 0, 0, &[Ok(b"abc"), Ok(b"defgh")]);
    check(
        2,
        1,
        0,
        &[
            Ok(b"abc"),
            Err(CallError::Truncated {
                id: id(4, 5),
                length: 5,
                left: 4,
            }),
        ],
    );
    let missing = |missing, left| Err(CallError::Missing { missing, left });
    check(2, 6, 0, &[Ok(b"abc"), missing(1, 7)]);
    check(5, 0, 0, &[Ok(b"abc"), Ok(b"defgh"), missing(3, 0)]);
    let trailing = |left| Err(CallError::Trailing { left });
    check(2, 0, 9, &[Ok(b"abc"), Ok(b"defgh"), trailing(9)]);
    check(1, 0, 0, &[Ok(b"abc"), trailing(13)]);
    check(0, 24, 0, &[]);
}

#[test]
fn statuses_of_the_protocol_have_names_and_are_reserved() {
    for status in [
        Status::UNKNOWN_METHOD,
        Status::MALFORMED,
        Status::REPLY_TOO_LARGE,
        Status::OTHER_INCARNATION,
        Status::OTHER_VERSION,
    ] {
        assert!(status.0 >= Status::RESERVED && !status.is_ok());
        assert!(!status.to_string().contains("of the service"), "{status}");
    }
    assert_eq!(Status(7).to_string(), "status 7 of the service");
    assert!(Status::OK.is_ok());
}

fn any_call() -> impl Strategy<Value = (CallId, u16, Vec<u8>)> {
    let payload = proptest::collection::vec(any::<u8>(), 0..40);
    (any::<u16>(), any::<u16>(), any::<u16>(), payload)
        .prop_map(|(slot, generation, code, payload)| (id(slot, generation), code, payload))
}

proptest! {
    #[test]
    fn messages_there_and_back(
        kind in 1u8..=3,
        grant: u16,
        incarnation: u64,
        calls in proptest::collection::vec(any_call(), 0..20),
    ) {
        let kind = [MessageKind::Request, MessageKind::Reply, MessageKind::Refusal]
            [usize::from(kind) - 1];
        let header = MessageHeader { kind, count: calls.len() as u16, grant, incarnation };
        let bytes = message(header, &calls);
        let (parsed, found) = parse(&bytes).unwrap();
        prop_assert_eq!(parsed, header);
        let found: Vec<_> = found
            .map(|call| call.map(|call| (call.id, call.code, call.payload.to_vec())))
            .collect::<Result<_, _>>()
            .unwrap();
        prop_assert_eq!(found, calls);
    }

    /// For any bytes: an end is reached, the calls are one after the other in the bytes, and there
    /// is at most one error, at the end.
    #[test]
    fn any_bytes_are_read_without_harm(
        mut bytes in proptest::collection::vec(any::<u8>(), 0..200),
        sound_header: bool,
        count in 0u16..8,
    ) {
        if sound_header && bytes.len() >= MESSAGE_HEADER_LEN {
            bytes[..MESSAGE_HEADER_LEN].copy_from_slice(&header(count).emit());
        }
        let Ok((header, calls)) = parse(&bytes) else { return Ok(()) };
        let found: Vec<_> = calls.collect();
        let sound = found.iter().filter(|call| call.is_ok()).count();
        prop_assert!(sound <= usize::from(header.count));
        prop_assert!(found.len() - sound <= 1);
        prop_assert!(found[..sound].iter().all(Result::is_ok));
        let used: usize = found
            .iter()
            .flatten()
            .map(|call| CALL_HEADER_LEN + call.payload.len())
            .sum();
        let complete = found.len() == sound;
        prop_assert_eq!(complete, sound == usize::from(header.count)
            && MESSAGE_HEADER_LEN + used == bytes.len());
    }

    /// A cut of a message at any point is detected, and the calls before it are still read.
    #[test]
    fn every_cut_is_noticed(
        calls in proptest::collection::vec(any_call(), 1..10),
        at: proptest::sample::Index,
    ) {
        let bytes = message(header(calls.len() as u16), &calls);
        let cut = at.index(bytes.len());
        let Ok((_, found)) = parse(&bytes[..cut]) else {
            prop_assert!(cut < MESSAGE_HEADER_LEN);
            return Ok(());
        };
        let found: Vec<_> = found.collect();
        prop_assert!(found.last().is_some_and(Result::is_err));
        for (found, (id, code, payload)) in found.iter().flatten().zip(&calls) {
            prop_assert_eq!((&found.id, &found.code, found.payload), (id, code, &payload[..]));
        }
    }
}
