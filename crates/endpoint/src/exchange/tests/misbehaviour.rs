//! Peers that break the protocol.

use super::*;
use rackweave_wire::fabric::exchange::FrameKind;

fn check(end: usize, kind: FrameKind, number: u32, payload: &[u8], expect: &str) {
    let mut pair = Pair::new(small(), 1000);
    let stream = pair.stream();
    pair.ends[1 - end].finish(stream);
    let open = pair.stream();
    assert_eq!((stream.get(), open.get()), (0, 1));
    let opcode = kind.opcode(StreamNumber::new(number).expect("it is small"));
    let budget = pair.budgets[end].clone();
    let begun = pair.ends[end].begin_frame(opcode, payload.len() as u64);
    let handled =
        begun.and_then(|_| pair.ends[end].handle_frame(opcode, payload.to_vec(), &budget));
    let found = handled.expect_err("the protocol excludes it").to_string();
    assert_eq!(found, expect);
}

#[test]
fn what_the_protocol_excludes_is_found() {
    use FrameKind::{Cancel, Credit, Data, End, Error, Hello, Open};
    check(DIALER, Open, 2, &[0; 4], "a frame with opcode 0x20000002");
    check(
        ACCEPTOR,
        Hello,
        0,
        b"again",
        "a frame with opcode 0x10000000",
    );
    check(
        ACCEPTOR,
        Open,
        2,
        &[0; 3],
        "a frame with opcode 0x20000002 of 3 bytes",
    );
    check(
        ACCEPTOR,
        Open,
        2,
        &[0; 37],
        "a frame with opcode 0x20000002 of 37 bytes",
    );
    check(ACCEPTOR, Open, 1, &[0; 4], "stream 1 is opened twice");
    check(
        DIALER,
        Data,
        0,
        b"more",
        "a frame for stream 0, which is not open",
    );
    check(
        DIALER,
        Data,
        7,
        b"more",
        "a frame for stream 7, which is not open",
    );
    check(
        DIALER,
        Data,
        1,
        &[0; 101],
        "a frame with opcode 0x30000001 of 101 bytes",
    );
    check(
        DIALER,
        Credit,
        1,
        &[0; 5],
        "a frame with opcode 0x40000001 of 5 bytes",
    );
    check(
        DIALER,
        End,
        0,
        b"",
        "a frame for stream 0, which is not open",
    );
    check(
        DIALER,
        End,
        1,
        b"x",
        "a frame with opcode 0x50000001 of 1 bytes",
    );
    check(
        DIALER,
        Error,
        1,
        b"",
        "a frame with opcode 0x60000001 of 0 bytes",
    );
    check(DIALER, Error, 1, b"\x09", "an error with code 9");
    check(
        DIALER,
        Cancel,
        1,
        b"x",
        "a frame with opcode 0x70000001 of 1 bytes",
    );
}

#[test]
fn a_message_needs_credit() {
    let mut pair = Pair::new(small(), 1000);
    let stream = pair.stream();
    let opcode = FrameKind::Data.opcode(stream);
    let end = &mut pair.ends[DIALER];
    assert_eq!(end.begin_frame(opcode, 20), Ok(Disposition::Keep));
    let budget = pair.budgets[DIALER].clone();
    end.handle_frame(opcode, vec![0; 20], &budget)
        .expect("there was credit");
    assert_eq!(
        end.begin_frame(opcode, 1),
        Err(Misbehaviour::NoCredit(stream))
    );
    assert_eq!(
        end.begin_frame(0xffff_ffff, 1),
        Err(Misbehaviour::Opcode(0xffff_ffff))
    );
}

#[test]
fn credit_without_end_is_refused() {
    let mut pair = Pair::new(small(), 1000);
    let stream = pair.stream();
    let opcode = FrameKind::Credit.opcode(stream);
    let budget = pair.budgets[DIALER].clone();
    let grant = || u32::MAX.to_le_bytes().to_vec();
    let refused = (0..1000).find_map(|_| {
        let handled = pair.ends[DIALER].handle_frame(opcode, grant(), &budget);
        handled.err()
    });
    assert_eq!(refused, Some(Misbehaviour::TooMuchCredit(stream)));
    // Credit for a stream that is over may be on its way.
    let over = StreamNumber::new(77).expect("it is small");
    let opcode = FrameKind::Credit.opcode(over);
    assert_eq!(
        pair.ends[DIALER].handle_frame(opcode, grant(), &budget),
        Ok(())
    );
}

#[test]
fn too_many_streams_are_not_taken() {
    let mut pair = Pair::new(small(), 1000);
    let budget = pair.budgets[ACCEPTOR].clone();
    let end = &mut pair.ends[ACCEPTOR];
    let opcode = |number| FrameKind::Open.opcode(StreamNumber::new(number).expect("it is small"));
    for number in 0..8 {
        assert_eq!(end.begin_frame(opcode(number), 4), Ok(Disposition::Keep));
        end.handle_frame(opcode(number), vec![0; 4], &budget)
            .expect("there is space");
    }
    assert_eq!(end.begin_frame(opcode(8), 4), Err(Misbehaviour::TooMany(8)));
}
