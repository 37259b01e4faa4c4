//! Messages in a stream, round trips, and garbage.

use super::*;
use proptest::prelude::*;
use rackweave_base::{MacAddr, Psn, Qpn, Rkey};
use std::net::Ipv4Addr;

fn terms() -> Terms {
    Terms {
        fabric: 0x0102_0304_0506_0708,
        message_max: 0x1112_1314_1516_1718,
        receive_bytes: 0x0010_2040,
        ip: Ipv4Addr::new(10, 77, 0, 3),
        mac: MacAddr([2, 0, 0, 0, 0, 3]),
        mtu_bytes: 4096,
        receive_buffers: 2,
        channels_up: 3,
        channels_down: 4,
        word_last: true,
    }
}

fn keys() -> Keys {
    let pair = |qpn, psn| QueuePair {
        qpn: Qpn(qpn),
        psn: Psn::new(psn),
    };
    Keys {
        queue_pairs: vec![pair(0x01_0203, 0x04_0506), pair(0x11_1213, 0x14_1516)],
        buffer_info: WriteTarget {
            address: 0x2122_2324_2526_2740,
            rkey: Rkey(0x3132_3334),
        },
        receive: WriteTarget {
            address: 0x4142_4344_4546_4780,
            rkey: Rkey(0x5152_5354),
        },
    }
}

const TERMS: [u8; 40] = [
    8, 7, 6, 5, 4, 3, 2, 1, // fabric
    0x18, 0x17, 0x16, 0x15, 0x14, 0x13, 0x12, 0x11, // longest message
    0x40, 0x20, 0x10, 0, // bytes of a receive buffer
    10, 77, 0, 3, // IP address
    2, 0, 0, 0, 0, 3, // Ethernet address
    0, 0x10, // MTU
    2, 3, 4, 1, 0, 0, 0, 0,
];

const KEYS: [u8; 48] = [
    0x40, 0x27, 0x26, 0x25, 0x24, 0x23, 0x22, 0x21, // buffer info
    0x80, 0x47, 0x46, 0x45, 0x44, 0x43, 0x42, 0x41, // receive buffers
    0x34, 0x33, 0x32, 0x31, 0x54, 0x53, 0x52, 0x51, // keys
    2, 0, 0, 0, 0, 0, 0, 0, // queue pairs
    3, 2, 1, 0, 6, 5, 4, 0, //
    0x13, 0x12, 0x11, 0, 0x16, 0x15, 0x14, 0,
];

/// One message of each kind, with its bytes according to the tables.
fn golden() -> [(Message, Vec<u8>); 5] {
    let refusal = Refusal::new(RefusalCode::BadKeys, "né");
    let refuse = Message::Refuse {
        oldest: 1,
        newest: 0x0203,
        refusal,
    };
    let hello = Message::Hello {
        oldest: 2,
        newest: 2,
        terms: terms(),
    };
    let bytes = |header: [u8; 12], rest: &[&[u8]]| [&header[..], &rest.concat()].concat();
    let header = |length, kind| [length, 0, 0, 0, b'R', b'W', b'M', b'H', kind, 0, 2, 0];
    [
        (hello, bytes(header(52, 1), &[&[2, 0, 0, 0], &TERMS])),
        (Message::Offer(terms()), bytes(header(48, 2), &[&TERMS])),
        (Message::Open(keys()), bytes(header(56, 3), &[&KEYS])),
        (Message::Accept(keys()), bytes(header(56, 4), &[&KEYS])),
        (
            refuse,
            b"\x0f\0\0\0RWMH\x05\0\x03\x02\x0e\0\x01\0n\xc3\xa9".to_vec(),
        ),
    ]
}

#[test]
fn the_layout_is_that_of_the_tables() {
    for (message, bytes) in golden() {
        assert_eq!(message.emit(), bytes, "{message:?}");
        let len = bytes.len();
        assert_eq!(Message::take(&bytes), Ok(Some((message, len))));
    }
}

#[test]
fn a_message_is_there_with_its_last_byte_and_not_before() {
    for (message, mut bytes) in golden() {
        let len = bytes.len();
        for end in 0..len {
            assert_eq!(Message::take(&bytes[..end]), Ok(None), "{message:?} {end}");
        }
        // Bytes after it belong to the next message.
        bytes.extend_from_slice(b"GET");
        assert_eq!(Message::take(&bytes), Ok(Some((message, len))));
    }
}

#[test]
fn other_protocols_are_known_by_their_first_bytes() {
    let check = |bytes: &[u8], shown: &str| {
        let error = Message::take(bytes).unwrap_err();
        assert_eq!(error.code(), RefusalCode::NotSpoken);
        let expected = format!("it does not speak Rackweave messaging: it sends `{shown}`");
        assert_eq!(error.to_string(), expected);
    };
    check(b"GET / HTTP/1.1\r\nHost: a\r\n", r"GET / HTTP/1.1\r\n");
    check(b"HTTP/1.1 400 Bad", "HTTP/1.1 400 Bad");
    check(b"SSH-2.0-x\r\n", r"SSH-2.0-x\r\n");
    // A hello of TLS, and the alert that answers one to a TLS server.
    check(&[22, 3, 1, 2, 0, 1], r"\x16\x03\x01\x02\x00\x01");
    check(&[21, 3, 1, 0, 2, 2, 70], r"\x15\x03\x01\x00\x02\x02F");
    check(b"\x30\0\0\0RWMh", r"0\x00\x00\x00RWMh");
}

#[test]
fn lengths_that_cannot_be_are_refused_before_anything_is_kept() {
    for (follow, length) in [(0u32, 4u64), (7, 11), (1021, 1025), (u32::MAX, 1 << 32 | 3)] {
        let bytes = [&follow.to_le_bytes()[..], &MAGIC].concat();
        let expected = Err(MessageError::Length { length });
        assert_eq!(Message::take(&bytes), expected);
    }
    // The longest message is waited for.
    let longest = [&1020u32.to_le_bytes()[..], &MAGIC].concat();
    assert_eq!(Message::take(&longest), Ok(None));
}

/// The bytes of a message with `bytes` at offset `at`.
fn with(message: &Message, at: usize, bytes: &[u8]) -> Vec<u8> {
    let mut all = message.emit();
    all[at..at + bytes.len()].copy_from_slice(bytes);
    all
}

/// The bytes of a message with more bytes after them, or without its last ones.
fn resized(message: &Message, len: usize) -> Vec<u8> {
    let mut all = message.emit();
    all.resize(len, 0);
    all[..4].copy_from_slice(&(len as u32 - 4).to_le_bytes());
    all
}

#[test]
#[expect(clippy::too_many_lines, reason = "a list of cases, one for each field")]
fn every_field_is_checked() {
    let hello = Message::hello(terms());
    let check = |at: usize, bytes: &[u8], code: RefusalCode, says: &str| {
        let error = Message::take(&with(&hello, 16 + at, bytes)).unwrap_err();
        assert_eq!(error.code(), code, "{error}");
        assert!(error.to_string().contains(says), "{error}");
    };
    check(
        32,
        &[0],
        RefusalCode::ReceiveBuffers,
        "receive_buffers is 0; 1 to 7",
    );
    check(
        32,
        &[8],
        RefusalCode::ReceiveBuffers,
        "receive_buffers is 8; 1 to 7",
    );
    check(16, &[0; 4], RefusalCode::BufferSize, "receive_bytes is 0");
    check(
        16,
        &[0xc0, 3, 0, 0],
        RefusalCode::BufferSize,
        "960; 1024 to 2^30",
    );
    check(16, &[1], RefusalCode::BufferSize, "in multiples of 64");
    check(
        16,
        &[0x40, 0, 0, 0x40],
        RefusalCode::BufferSize,
        "1073741888",
    );
    check(33, &[0], RefusalCode::Channels, "channels_up is 0");
    check(34, &[8], RefusalCode::Channels, "channels_down is 8");
    check(8, &[0; 8], RefusalCode::MessageMax, "message_max is 0");
    check(30, &[0, 0], RefusalCode::Address, "the MTU is 0");
    check(30, &[0xdc, 5], RefusalCode::Address, "the MTU is 1500");
    check(30, &[0, 0x20], RefusalCode::Address, "the MTU is 8192");
    check(20, &[0; 4], RefusalCode::Address, "0.0.0.0 with 02:00");
    check(20, &[224], RefusalCode::Address, "224.77.0.3 with");
    check(20, &[255; 4], RefusalCode::Address, "255.255.255.255 with");
    check(
        24,
        &[3],
        RefusalCode::Address,
        "03:00:00:00:00:03 cannot be",
    );
    check(
        24,
        &[0; 6],
        RefusalCode::Address,
        "00:00:00:00:00:00 cannot be",
    );
    check(35, &[2], RefusalCode::Malformed, "must be zero");
    for at in 36..40 {
        check(at, &[1], RefusalCode::Malformed, "must be zero");
    }

    let open = Message::Open(keys());
    let check = |at: usize, bytes: &[u8], code: RefusalCode, says: &str| {
        let error = Message::take(&with(&open, 12 + at, bytes)).unwrap_err();
        assert_eq!(error.code(), code, "{error}");
        assert!(error.to_string().contains(says), "{error}");
    };
    check(
        0,
        &[0x41],
        RefusalCode::BadKeys,
        "the buffer info is 2387509390608836417; it is a",
    );
    check(
        8,
        &[0xa0],
        RefusalCode::BadKeys,
        "the receive buffers is 47",
    );
    check(24, &[1], RefusalCode::BadKeys, "queue pairs is 1; 2 to 14");
    check(24, &[15], RefusalCode::BadKeys, "queue pairs is 15");
    check(24, &[3], RefusalCode::Malformed, "an Open of 60 bytes");
    check(
        32,
        &[1, 0, 0],
        RefusalCode::BadKeys,
        "a queue pair is 1; 2 to",
    );
    check(32, &[255; 3], RefusalCode::BadKeys, "is 16777215; 2 to");
    check(32, &[0, 0, 0, 1], RefusalCode::BadKeys, "is 16777216; 2 to");
    check(
        36,
        &[0, 0, 0, 1],
        RefusalCode::BadKeys,
        "PSN of a queue pair is",
    );
    for at in 25..32 {
        check(at, &[1], RefusalCode::Malformed, "must be zero");
    }
}

#[test]
fn a_message_has_the_length_of_its_kind() {
    for (message, bytes) in golden() {
        let refuse = message.kind() == Kind::Refuse;
        let lens = [12, bytes.len() - 1, bytes.len() + 1, bytes.len() + 8, 1024];
        for len in lens
            .into_iter()
            .filter(|len| !refuse || !(16..=300).contains(len))
        {
            let kind = message.kind();
            let expected = Err(MessageError::Size { kind, length: len });
            assert_eq!(Message::take(&resized(&message, len)), expected, "{kind}");
        }
    }
}

#[test]
fn versions_are_told_apart() {
    let hello = |oldest: u16, newest: u16| {
        let mut bytes = Message::hello(terms()).emit();
        bytes[10..12].copy_from_slice(&newest.to_le_bytes());
        bytes[12..14].copy_from_slice(&oldest.to_le_bytes());
        bytes
    };
    for (oldest, newest) in [(1, 1), (3, 7)] {
        let error = MessageError::NoCommonVersion { oldest, newest };
        assert_eq!(error.code(), RefusalCode::Version);
        assert_eq!(Message::take(&hello(oldest, newest)), Err(error));
    }
    for (oldest, newest) in [(0, 1), (0, 0), (2, 1)] {
        let error = Message::take(&hello(oldest, newest)).unwrap_err();
        assert_eq!(error.code(), RefusalCode::Malformed, "{error}");
    }
    // A newer node that also supports this version may send more.
    let mut newer = hello(2, 3);
    newer.extend_from_slice(&[9; 11]);
    newer[0] += 11;
    let (taken, len) = Message::take(&newer).unwrap().unwrap();
    assert_eq!(len, newer.len());
    let terms = terms();
    let expected = Message::Hello {
        oldest: 2,
        newest: 3,
        terms,
    };
    assert_eq!(taken, expected);

    for message in [
        Message::Offer(terms),
        Message::Open(keys()),
        Message::Accept(keys()),
    ] {
        for found in [0, 1, 3, u16::MAX] {
            let error = Message::take(&with(&message, 10, &found.to_le_bytes()));
            let kind = message.kind();
            assert_eq!(error, Err(MessageError::Version { kind, found }));
        }
    }
    for found in [0, 6, u16::MAX] {
        let bytes = with(&Message::Offer(terms), 8, &found.to_le_bytes());
        assert_eq!(Message::take(&bytes), Err(MessageError::Kind { found }));
    }
}

#[test]
fn a_text_is_cut_and_clean() {
    let long = "é".repeat(150);
    assert_eq!(
        Refusal::new(RefusalCode::Busy, &long).text(),
        "é".repeat(100)
    );
    let odd = format!("x{long}");
    let cut = Refusal::new(RefusalCode::Busy, &odd);
    assert_eq!(cut.text(), format!("x{}", "é".repeat(99)));
    let bell = Refusal::new(RefusalCode::Busy, "a\u{7}b\nc\u{9b}d");
    assert_eq!(bell.text(), "a b c d");

    let refuse = Message::refuse(Refusal::new(RefusalCode::Busy, "abcd"));
    for foul in [[b'a', b'\n'], [0xff, b'a'], [0xc2, 0x9b]] {
        let bytes = with(&refuse, 17, &foul);
        assert_eq!(Message::take(&bytes), Err(MessageError::Text), "{foul:?}");
    }
    assert_eq!(
        Refusal::new(RefusalCode::Stopping, "").to_string(),
        "the node takes no more connections"
    );
}

#[test]
fn codes_and_numbers_belong_together() {
    for (code, number) in RefusalCode::NAMED.into_iter().zip(1..) {
        assert_eq!(code.number(), number, "{code:?}");
        assert_eq!(RefusalCode::from_number(number), code);
        assert!(!code.to_string().contains("newer"));
    }
    for number in [0, 18, u16::MAX] {
        let other = RefusalCode::from_number(number);
        assert_eq!(other, RefusalCode::Other(number));
        assert_eq!(other.number(), number);
    }
}

fn any_terms() -> impl Strategy<Value = Terms> {
    let shape = (1u8..=7, 1u8..=7, 1u8..=7, 16u32..=1 << 24, 8u32..=12);
    let host = (1u32..0xe000_0000, 1u64..1 << 40, any::<bool>());
    (any::<u64>(), 1u64.., shape, host).prop_map(|(fabric, message_max, shape, host)| {
        let (ip, mac, word_last) = host;
        let (receive_buffers, channels_up, channels_down, lines, mtu) = shape;
        let [_, _, _, mac @ .., last] = mac.to_be_bytes();
        let [a, b, c, d] = mac;
        Terms {
            fabric,
            message_max,
            receive_bytes: lines * 64,
            ip: ip.into(),
            mac: MacAddr([2, a, b, c, d, last]),
            mtu_bytes: 1 << mtu,
            receive_buffers,
            channels_up,
            channels_down,
            word_last,
        }
    })
}

fn any_keys() -> impl Strategy<Value = Keys> {
    let pair = (2u32..0xff_ffff, any::<u32>()).prop_map(|(qpn, psn)| QueuePair {
        qpn: Qpn(qpn),
        psn: Psn::new(psn),
    });
    let place = || {
        (0u64..1 << 58, any::<u32>()).prop_map(|(line, rkey)| WriteTarget {
            address: line * 64,
            rkey: Rkey(rkey),
        })
    };
    let pairs = proptest::collection::vec(pair, 2..=14);
    (pairs, place(), place()).prop_map(|(queue_pairs, buffer_info, receive)| Keys {
        queue_pairs,
        buffer_info,
        receive,
    })
}

fn any_message() -> impl Strategy<Value = Message> {
    let refuse = (any::<u16>(), ".{0,80}", 1u16.., any::<u16>());
    prop_oneof![
        (any_terms(), 2u16..).prop_map(|(terms, newest)| Message::Hello {
            oldest: 1,
            newest,
            terms
        }),
        any_terms().prop_map(Message::Offer),
        any_keys().prop_map(Message::Open),
        any_keys().prop_map(Message::Accept),
        refuse.prop_map(|(code, text, oldest, more)| Message::Refuse {
            oldest,
            newest: oldest.saturating_add(more),
            refusal: Refusal::new(RefusalCode::from_number(code), &text),
        }),
    ]
}

proptest! {
    #[test]
    fn messages_there_and_back(message in any_message(), at: proptest::sample::Index) {
        let bytes = message.emit();
        prop_assert!(bytes.len() <= MESSAGE_MAX);
        let cut = at.index(bytes.len());
        prop_assert_eq!(Message::take(&bytes[..cut]), Ok(None));
        prop_assert_eq!(Message::take(&bytes), Ok(Some((message, bytes.len()))));
    }

    /// Every accepted message is encoded to the same bytes, except for what a newer node adds
    /// beyond this version.
    #[test]
    fn garbage_is_refused_or_means_what_it_says(
        message in any_message(),
        flips in proptest::collection::vec((any::<proptest::sample::Index>(), any::<u8>()), 0..4),
        tail in proptest::collection::vec(any::<u8>(), 0..40),
    ) {
        let mut bytes = message.emit();
        for (at, byte) in flips {
            let at = at.index(bytes.len());
            bytes[at] = byte;
        }
        bytes.extend(tail);
        if let Ok(Some((message, len))) = Message::take(&bytes) {
            let again = message.emit();
            let newer = matches!(message, Message::Hello { newest, .. } if newest > VERSION);
            if !newer {
                prop_assert_eq!(&again[..], &bytes[..len]);
            } else {
                prop_assert_eq!(&again[4..], &bytes[4..again.len()]);
            }
        }
    }

    #[test]
    fn any_bytes_at_all(bytes in proptest::collection::vec(any::<u8>(), 0..64)) {
        let taken = Message::take(&bytes);
        prop_assert!(bytes.len() <= 4 || taken.is_err() || bytes[4] == b'R');
    }
}
