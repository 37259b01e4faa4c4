//! Bytes from peers that do not speak the protocol, or speak it wrongly.

use super::rig::{PATIENCE, START, Side, dialer, greeted, greeter, hello, keys, offer};
use crate::messaging::handshake::{HandshakeError, RefusalCode};
use rackweave_base::Rng;
use rackweave_wire::fabric::message::handshake::{Message, MessageError, Refusal};

#[test]
fn a_foreign_client_is_told_and_a_foreign_server_is_left() {
    for (bytes, shown) in [
        (
            &b"GET /metrics HTTP/1.1\r\n\r\n"[..],
            "it sends `GET /metrics HTT`",
        ),
        (
            &[22, 3, 1, 2, 0, 1, 0, 1, 252],
            r"it sends `\x16\x03\x01\x02\x00\x01\x00\x01\xfc`",
        ),
    ] {
        let mut storage = greeter();
        storage.hear(START, bytes);
        assert!(storage.error().to_string().ends_with(shown));
        assert_eq!(storage.refusal().code, RefusalCode::NotSpoken);
    }
    let mut compute = dialer();
    compute.hear(START, b"HTTP/1.1 400 Bad Request\r\nServer: x\r\n\r\n");
    assert_eq!(
        compute.error().to_string(),
        "this node refused the storage node: it does not speak Rackweave messaging: it sends \
         `HTTP/1.1 400 Bad`"
    );
    assert!(compute.sent.is_empty());
}

#[test]
fn a_flood_is_not_kept() {
    let mut storage = greeter();
    let header = &hello(|_| {})[..8];
    let mut longest = [&1020u32.to_le_bytes()[..], &header[4..]].concat();
    longest.resize(1 << 20, 0);
    storage.hear(START, &longest);
    assert_eq!(storage.error().code(), RefusalCode::Malformed);
}

#[test]
fn bytes_behind_a_message_are_an_error() {
    let after = |error: &HandshakeError| match error {
        HandshakeError::TooMuch { first, .. } => first.bytes().to_vec(),
        other => panic!("{other}"),
    };
    let mut storage = greeter();
    storage.hear(START, &[&hello(|_| {})[..], b"x"].concat());
    assert_eq!(after(storage.error()), b"x");
    assert_eq!(storage.refusal().code, RefusalCode::OutOfOrder);

    let mut storage = greeted(greeter());
    let open = Message::Open(keys(|_| {})).emit();
    storage.hear(START, &[open.clone(), open.clone()].concat());
    assert_eq!(after(storage.error()), open[..16]);
    assert_eq!(storage.node.memory.bytes_held(), 0);

    let mut compute = dialer();
    compute.hear(START, &[&offer(|_| {})[..], &[0; 2000]].concat());
    assert_eq!(after(compute.error()), [0; 16]);
    assert_eq!(compute.node.memory.bytes_held(), 0);

    let mut compute = dialer();
    compute.hear(START, &offer(|_| {}));
    compute.sent.clear();
    let accept = Message::Accept(keys(|_| {})).emit();
    compute.hear(START, &[&accept[..], b"y"].concat());
    assert_eq!(after(compute.error()), b"y");
    assert!(compute.node.holds_nothing());
}

#[test]
fn a_refusal_of_a_version_to_come_is_understood() {
    let refusal = Refusal::new(RefusalCode::Other(999), "too warm");
    let bytes = Message::Refuse {
        oldest: 5,
        newest: 9,
        refusal,
    };
    let mut compute = dialer();
    compute.hear(START, &bytes.emit());
    assert_eq!(
        compute.error().to_string(),
        "the storage node refused: reason 999 of a newer version: too warm"
    );
    assert!(compute.sent.is_empty());
}

#[test]
fn an_offer_of_a_version_that_was_not_asked_for() {
    let mut bytes = offer(|_| {});
    bytes[10] = 3;
    let mut compute = dialer();
    compute.hear(START, &bytes);
    let expected = "an Offer of version 3; this node speaks 2 to 2";
    assert!(compute.error().to_string().ends_with(expected));
    assert_eq!(compute.refusal().code, RefusalCode::Version);
}

/// Feeds a side according to the seed: valid messages, damaged ones, noise, ends, time.
fn torment(seed: u64, mut side: Side) -> bool {
    let mut rng = Rng::new(seed);
    let mut now = START;
    let sound = [
        hello(|_| {}),
        offer(|_| {}),
        Message::Open(keys(|_| {})).emit(),
        Message::Accept(keys(|_| {})).emit(),
        Message::refuse(Refusal::new(RefusalCode::Busy, "x")).emit(),
    ];
    for _ in 0..40 {
        let mut bytes = rng.pick(&sound).clone();
        match rng.below(8) {
            0..4 => {}
            4 => {
                let at = rng.below(bytes.len() as u64) as usize;
                bytes[at] ^= 1 << rng.below(8);
            }
            5 => bytes.truncate(rng.below(bytes.len() as u64) as usize),
            6 => bytes
                .iter_mut()
                .for_each(|byte| *byte = rng.next_u32() as u8),
            _ => {
                bytes.clear();
                match rng.below(3) {
                    0 => side.machine.handle_end(now),
                    _ => now += rackweave_base::Duration::from_millis(rng.below(400)),
                }
            }
        }
        side.hear(now, &bytes);
        side.sent.clear();
    }
    side.act(START + PATIENCE);
    let connected = match side.end.take() {
        Some(Ok(connection)) => {
            connection.destroy(&mut side.node.verbs);
            true
        }
        Some(Err(_)) => false,
        None => panic!("seed {seed}: it has no end"),
    };
    assert!(side.node.holds_nothing(), "seed {seed}");
    connected
}

#[test]
fn whatever_comes_there_is_an_end_and_nothing_is_left() {
    let (mut connected, mut failed) = ([0; 2], [0; 2]);
    for seed in 0..600 {
        for (at, ended) in [torment(seed, greeter()), torment(seed, dialer())]
            .into_iter()
            .enumerate()
        {
            connected[at] += u32::from(ended);
            failed[at] += u32::from(!ended);
        }
    }
    // Both outcomes occur, otherwise nothing was tested.
    assert!(connected.iter().chain(&failed).all(|&count| count > 0));
}

/// Counters match the peers' messages.
#[test]
fn a_message_error_knows_what_it_is_called() {
    let mut storage = greeter();
    storage.hear(START, b"\x05\0\0\0RWMH");
    let error = storage.error();
    let expected = MessageError::Length { length: 9 };
    assert!(matches!(error, HandshakeError::NoMessage { cause, .. } if *cause == expected));
}
