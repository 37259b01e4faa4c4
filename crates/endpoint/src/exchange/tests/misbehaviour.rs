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
fn frames_that_open_are_checked() {
    use FrameKind::{Hello, Open};
    check(DIALER, Open, 2, &[0; 4], "a frame with opcode 0x20000002");
    check(ACCEPTOR, Hello, 0, b"x", "a frame with opcode 0x10000000");
    let bytes = |count: usize| format!("a frame with opcode 0x20000002 of {count} bytes");
    for count in [3, 37] {
        check(ACCEPTOR, Open, 2, &vec![0; count], &bytes(count));
    }
    check(ACCEPTOR, Open, 1, &[0; 4], "stream 1 is opened twice");
}

#[test]
fn frames_of_streams_are_checked() {
    use FrameKind::{Cancel, Credit, Data, End, Error};
    let not_open = |number: u32| format!("a frame for stream {number}, which is not open");
    check(DIALER, Data, 0, b"more", &not_open(0));
    check(DIALER, Data, 7, b"more", &not_open(7));
    check(DIALER, End, 0, b"", &not_open(0));
    for (kind, count) in [(Data, 101), (Credit, 5), (End, 1), (Error, 0), (Cancel, 1)] {
        let opcode = format!("0x{:x}0000001", kind as u8);
        let expect = format!("a frame with opcode {opcode} of {count} bytes");
        check(DIALER, kind, 1, &vec![0; count], &expect);
    }
    check(DIALER, Error, 1, b"\x09", "an error with code 9");
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
