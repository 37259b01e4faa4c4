//! Peers that send invalid messages.

use super::super::*;
use super::setup::{Setup, numbers, texts};
use crate::messaging::tests::rig::{COMPUTE, STORAGE};
use crate::messaging::{CloseReason, ClosedBy};
use rackweave_wire::fabric::message::column::{
    ASK, ASK_LIST, Ask, COLUMN, LIST, ListHeader, REFUSED, UNCHANGED, Unchanged,
};

/// A setup with a client that verifies and that has requested a column in memory, one whose version
/// 7 it knows, one in place, and the list, in this order; the requests are not answered.
fn asking() -> Setup {
    let client = ColumnClientConfig {
        verify: true,
        ..ColumnClientConfig::default()
    };
    let config = super::setup::wide();
    let mut setup = Setup::of(&config, 1, client, ColumnServerConfig::default());
    setup.awake[STORAGE] = false;
    setup.client.ask("a", None).unwrap();
    setup.client.ask("b", Some(7)).unwrap();
    setup.client.ask_in_place("c").unwrap();
    setup.client.ask_list().unwrap();
    setup
}

/// Sends a message from a node as it is.
fn send(setup: &mut Setup, node: usize, opcode: u32, message: &[u8]) {
    let sender = &mut setup.rig.nodes[node].senders[0];
    sender.begin(opcode, message.len() as u64).unwrap();
    let mut sent = 0;
    for _ in 0..1000 {
        let connection = &mut setup.rig.nodes[node];
        sent += connection.senders[0].write(&message[sent..]);
        connection.senders[0].flush();
        let _ = connection.poll(setup.rig.network.now, &mut setup.rig.network.nics[node]);
        if sent == message.len() {
            return;
        }
        setup.step(&mut ());
    }
    panic!("the message was not taken");
}

/// The client receives a message; the connection is closed at both ends, and all requests but those
/// answered before have ended.
fn check_client(opcode: u32, message: &[u8], expect: BadAnswer) {
    let mut setup = asking();
    send(&mut setup, STORAGE, opcode, message);
    expect_bad(setup, expect, 4);
}

fn expect_bad(mut setup: Setup, expect: BadAnswer, ended: usize) {
    setup.until(|setup| setup.closed[COMPUTE].is_some());
    setup.awake[STORAGE] = true;
    setup.until(|setup| setup.closed[STORAGE].is_some());
    assert_eq!(
        setup.client.broken(),
        Some(&RequestError::BadAnswer(expect))
    );
    let [compute, storage] = setup.closed.map(|closed| closed.unwrap());
    assert_eq!(
        (compute.by, compute.reason),
        (ClosedBy::Local, CloseReason::BadMessage)
    );
    assert_eq!(
        (storage.by, storage.reason),
        (ClosedBy::Peer, CloseReason::BadMessage)
    );
    let failed = setup.answers.iter().filter(|answer| answer.result.is_err());
    assert_eq!(failed.count(), ended);
    let counters = setup.client.counters();
    assert_eq!((counters.bad_answers, counters.broken), (1, ended as u64));
    setup.destroy();
}

fn column(request: u32, data: &ColumnData) -> Vec<u8> {
    let header = ColumnHeader {
        request,
        version: data.version(),
        shape: *data.shape(),
    };
    [&header.emit(), data.bytes()].concat()
}

#[test]
fn answers_that_make_no_sense_close_the_connection() {
    let data = texts(3, 900);
    let good = column(0, &data);
    check_client(99, b"?", BadAnswer::Opcode { opcode: 99 });
    let unknown = |request| BadAnswer::UnknownRequest { request };
    check_client(COLUMN, &column(4, &data), unknown(4));
    let wrong = |request| BadAnswer::WrongKind { request };
    check_client(COLUMN, &column(3, &data), wrong(3));
    let unchanged = |request, version| Unchanged { request, version }.emit();
    check_client(UNCHANGED, &unchanged(0, 7), wrong(0));
    check_client(UNCHANGED, &unchanged(1, 8), wrong(1));
    check_client(UNCHANGED, &unchanged(9, 7), unknown(9));
    let list = |request, count| ListHeader { request, count }.emit();
    check_client(LIST, &list(2, 0), wrong(2));
    let length = |expected, found| BadAnswer::Malformed(ColumnError::Length { expected, found });
    check_client(LIST, &list(3, 1), length(40, 0));
    let total = good.len() as u64;
    check_client(
        COLUMN,
        &good[..total as usize - 64],
        length(total, total - 64),
    );
    check_client(
        COLUMN,
        &[&good[..], &[0; 64]].concat(),
        length(total, total + 64),
    );
    check_client(COLUMN, &good[..40], length(64, 40));
    check_client(COLUMN, &[], length(64, 0));
    check_client(REFUSED, b"1234567", length(8, 7));
    let (bytes, max) = (1033, 1032);
    let too_long = BadAnswer::TooLong {
        opcode: REFUSED,
        bytes,
        max,
    };
    check_client(REFUSED, &[0; 1033], too_long);
}

#[test]
fn bytes_that_do_not_belong_to_their_version_are_found() {
    for request in [0, 2] {
        let data = numbers(5, 1500);
        let mut message = column(request, &data);
        let last = message.len() - 1;
        message[last] ^= 0x10;
        let mut setup = asking();
        send(&mut setup, STORAGE, COLUMN, &message);
        setup.until(|setup| setup.client.broken().is_some());
        let Some(RequestError::BadAnswer(bad)) = setup.client.broken().cloned() else {
            panic!("not bad");
        };
        let expected = data.version();
        assert!(
            matches!(bad, BadAnswer::Version { request: r, expected: e, found }
                if r == request && e == expected && found != expected),
            "{bad}"
        );
        expect_bad(setup, bad, 4);
    }
}

#[test]
fn a_version_said_to_be_known_must_not_come_again() {
    let mut data = column(1, &numbers(5, 10));
    data[32..40].copy_from_slice(&7u64.to_le_bytes());
    check_client(COLUMN, &data, BadAnswer::WrongKind { request: 1 });
}

#[test]
fn an_answer_comes_once() {
    let data = numbers(0, 10);
    let mut setup = asking();
    send(&mut setup, STORAGE, COLUMN, &column(0, &data));
    setup.until(|setup| setup.answers.len() == 1);
    send(&mut setup, STORAGE, COLUMN, &column(0, &data));
    expect_bad(setup, BadAnswer::UnknownRequest { request: 0 }, 3);
}

#[test]
fn a_server_must_not_end_before_it_has_answered() {
    let mut setup = asking();
    setup.rig.nodes[STORAGE].senders[0].finish().unwrap();
    let now = setup.rig.network.now;
    let _ = setup.rig.nodes[STORAGE].poll(now, &mut setup.rig.network.nics[STORAGE]);
    expect_bad(setup, BadAnswer::Ended { missing: 4 }, 4);
}

#[test]
fn requests_that_make_no_sense_close_the_connection() {
    let mut good = Vec::new();
    let ask = Ask {
        request: 1,
        known: None,
        name: "a",
    };
    ask.emit(&mut good).unwrap();
    let check = |opcode: u32, message: &[u8], expect: ColumnError| {
        let mut setup = Setup::new();
        setup.awake[COMPUTE] = false;
        send(&mut setup, COMPUTE, opcode, message);
        setup.until(|setup| setup.closed[STORAGE].is_some());
        setup.awake[COMPUTE] = true;
        setup.until(|setup| setup.closed[COMPUTE].is_some());
        assert_eq!(setup.server.malformed(), Some(expect));
        assert_eq!(setup.server_counters(), [("malformed", 1)]);
        let [compute, storage] = setup.closed.map(|closed| closed.unwrap());
        assert_eq!(
            (compute.by, compute.reason),
            (ClosedBy::Peer, CloseReason::BadMessage)
        );
        assert_eq!(
            (storage.by, storage.reason),
            (ClosedBy::Local, CloseReason::BadMessage)
        );
        setup.destroy();
    };
    let length = |expected, found| ColumnError::Length { expected, found };
    check(COLUMN, &good, ColumnError::Opcode { opcode: COLUMN });
    check(ASK, &good[..16], length(17, 16));
    check(ASK, &[], length(16, 0));
    check(ASK, &[0; 272], length(271, 272));
    check(ASK, &[0; 5000], length(271, 5000));
    check(ASK_LIST, &good, length(8, 17));
    let mut named = good.clone();
    named[16] = 0xff;
    check(ASK, &named, ColumnError::NotText);
}
