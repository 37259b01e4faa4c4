//! Correct histories, and one for each violation.

use super::*;

const SEED: u64 = 7;
const BROKEN: u16 = 9;
const UP: ChannelName = ChannelName {
    connection: 1,
    sender: Peer::Compute,
    number: 0,
};
const DOWN: ChannelName = ChannelName {
    connection: 1,
    sender: Peer::Storage,
    number: 0,
};

fn bytes(message: u32, offset: u64, len: usize) -> Vec<u8> {
    let mut bytes = vec![0; len];
    fill_message(&mut bytes, SEED, UP, message, offset);
    bytes
}

/// A connection with a channel each way, and a message of 100 bytes up.
fn opened(may_break: bool) -> MessageHistory {
    let mut history = MessageHistory::new(SEED, BROKEN);
    history.open(1, Peer::Compute, (1, 1), may_break);
    history.open(1, Peer::Storage, (1, 1), may_break);
    history.begin(UP, 5, 100);
    history.wrote(UP, 100);
    history
}

fn look(history: &mut MessageHistory, message: u32, offset: u64, bytes: &[u8]) {
    history.look(
        UP,
        SeenPiece {
            opcode: 5,
            message,
            total: 100,
            offset,
            bytes,
        },
    );
}

/// The message is read and both channels end well.
fn well(history: &mut MessageHistory) {
    look(history, 0, 0, &bytes(0, 0, 60));
    history.release(UP);
    look(history, 0, 60, &bytes(0, 60, 40));
    history.release(UP);
    history.consumed(UP);
    for name in [UP, DOWN] {
        history.finish_channel(name);
        history.saw_finished(name);
        history.ended(name, ChannelEnd::Receiving, Ended::Well);
        history.ended(name, ChannelEnd::Sending, Ended::Well);
    }
}

fn end_all(history: &mut MessageHistory, compute: Ended, storage: Ended) {
    for name in [UP, DOWN] {
        for end in [ChannelEnd::Sending, ChannelEnd::Receiving] {
            let how = match name.peer(end) {
                Peer::Compute => compute,
                Peer::Storage => storage,
            };
            history.ended(name, end, how);
        }
    }
}

#[track_caller]
fn check(history: MessageHistory, is: impl Fn(&ChannelFault) -> bool) {
    check_any(
        history,
        |violation| matches!(violation, MessageViolation::Channel(_, fault) if is(fault)),
    );
}

#[track_caller]
fn check_any(history: MessageHistory, is: impl Fn(&MessageViolation) -> bool) {
    let violations = history.finish().expect_err("it is wrong");
    assert!(violations.iter().any(is), "{violations:#?}");
}

#[test]
fn what_is_read_as_it_was_sent_is_right() {
    let mut history = opened(false);
    well(&mut history);
    let summary = history.finish().expect("it is right");
    assert_eq!((summary.messages, summary.bytes), (1, 100));
    assert_eq!((summary.connections, summary.broken), (1, 0));
}

#[test]
fn what_is_copied_out_is_judged_alike() {
    let mut history = opened(true);
    history.copied(UP, &bytes(0, 0, 30));
    history.copied(UP, &bytes(0, 30, 70));
    history.copied_whole(UP, 5, 0, 100);
    end_all(&mut history, Ended::Broken, Ended::ClosedThere(BROKEN));
    let summary = history.finish().expect("it is right");
    assert_eq!((summary.messages, summary.broken), (1, 1));

    let mut history = opened(true);
    history.copied(UP, &bytes(0, 1, 30));
    check(history, |v| matches!(v, ChannelFault::Content { .. }));
    let mut history = opened(true);
    history.copied(UP, &bytes(0, 0, 100));
    history.copied_whole(UP, 5, 1, 100);
    check(history, |v| matches!(v, ChannelFault::OtherPiece { .. }));
}

#[test]
fn pieces_come_once_in_order_and_as_they_were_written() {
    type Case = (fn(&mut MessageHistory), fn(&ChannelFault) -> bool);
    let cases: [Case; 7] = [
        (
            |h| look(h, 0, 0, &bytes(0, 1, 60)),
            |v| {
                matches!(
                    v,
                    ChannelFault::Content {
                        wrong: Wrong { at: 0, .. },
                        ..
                    }
                )
            },
        ),
        (
            |h| look(h, 1, 0, &bytes(1, 0, 60)),
            |v| matches!(v, ChannelFault::OtherPiece { .. }),
        ),
        (
            |h| {
                look(h, 0, 0, &bytes(0, 0, 60));
                h.release(UP);
                look(h, 0, 0, &bytes(0, 0, 60));
            },
            |v| matches!(v, ChannelFault::OtherPiece { .. }),
        ),
        (
            |h| look(h, 0, 0, &[]),
            |v| matches!(v, ChannelFault::Length { .. }),
        ),
        (
            |h| {
                look(h, 0, 0, &bytes(0, 0, 100));
                h.release(UP);
                look(h, 1, 0, &bytes(1, 0, 10));
            },
            |v| matches!(v, ChannelFault::Invented { .. }),
        ),
        (
            |h| h.consumed(UP),
            |v| matches!(v, ChannelFault::NotConsumed { .. }),
        ),
        (
            |h| {
                h.arrived(UP);
                h.nothing_left(UP);
            },
            |v| matches!(v, ChannelFault::LostArrived { .. }),
        ),
    ];
    for (act, is) in cases {
        let mut history = opened(true);
        act(&mut history);
        check(history, is);
    }
}

#[test]
fn the_end_comes_last() {
    let mut history = opened(true);
    history.finish_channel(UP);
    history.saw_finished(UP);
    check(history, |v| {
        matches!(v, ChannelFault::EarlyFinish { said: true, .. })
    });
    let mut history = opened(true);
    history.saw_finished(DOWN);
    check(history, |v| {
        matches!(v, ChannelFault::EarlyFinish { said: false, .. })
    });
    let mut history = opened(true);
    history.ended(UP, ChannelEnd::Sending, Ended::Well);
    check(history, |v| matches!(v, ChannelFault::NotWell { .. }));
}

#[test]
fn who_waits_for_ever_is_found() {
    let mut history = opened(true);
    history.ended(UP, ChannelEnd::Sending, Ended::Broken);
    let end = ChannelEnd::Receiving;
    let never = MessageViolation::Channel(UP, ChannelFault::NeverEnded { end });
    check_any(history, |v| *v == never);
}

#[test]
fn an_error_needs_a_reason() {
    let ends = [
        (Ended::Broken, Ended::Broken),
        (Ended::ClosedHere(4), Ended::ClosedThere(4)),
        (Ended::ClosedThere(2), Ended::ClosedHere(2)),
    ];
    for (compute, storage) in ends {
        let mut history = opened(false);
        end_all(&mut history, compute, storage);
        check(history, |v| matches!(v, ChannelFault::EndedIll { .. }));
    }
    // Closed for a reason that neither node has, although much may happen.
    let mut history = opened(true);
    end_all(&mut history, Ended::ClosedHere(4), Ended::ClosedThere(4));
    check_any(history, |v| matches!(v, MessageViolation::NoReason { .. }));
    let mut history = opened(true);
    history.wants_close(1, Peer::Compute, 2);
    end_all(&mut history, Ended::ClosedHere(2), Ended::ClosedThere(3));
    check_any(history, |v| matches!(v, MessageViolation::NoReason { .. }));
    // One reason, and then another.
    let mut history = opened(true);
    history.ended(UP, ChannelEnd::Sending, Ended::Broken);
    history.ended(DOWN, ChannelEnd::Receiving, Ended::ClosedThere(9));
    check(history, |v| matches!(v, ChannelFault::TwoReasons { .. }));
}

#[test]
fn reasons_count() {
    let mut history = opened(false);
    history.wants_close(1, Peer::Compute, 2);
    end_all(&mut history, Ended::ClosedHere(2), Ended::ClosedThere(2));
    assert_eq!(history.finish().map(|summary| summary.closed), Ok(1));

    let mut history = opened(false);
    history.lies(1, Peer::Compute, 4);
    end_all(&mut history, Ended::ClosedThere(4), Ended::ClosedHere(4));
    assert_eq!(history.finish().map(|summary| summary.accused), Ok(1));

    let mut history = opened(true);
    history.died(1, Peer::Storage);
    history.ended(UP, ChannelEnd::Sending, Ended::Broken);
    history.ended(DOWN, ChannelEnd::Receiving, Ended::Broken);
    assert_eq!(history.finish().map(|summary| summary.broken), Ok(1));

    // The peer never opened its end.
    let mut history = MessageHistory::new(SEED, BROKEN);
    history.open(1, Peer::Storage, (1, 1), false);
    history.ended(DOWN, ChannelEnd::Sending, Ended::Broken);
    history.ended(UP, ChannelEnd::Receiving, Ended::Broken);
    assert_eq!(history.finish().map(|summary| summary.connections), Ok(0));
}

#[test]
fn bytes_do_not_depend_on_how_they_are_cut() {
    let whole = bytes(3, 0, 50);
    for cut in 0..50 {
        assert_eq!(bytes(3, cut as u64, 50 - cut), whole[cut..]);
    }
    let mut wrong = whole.clone();
    wrong[49] ^= 1;
    let found = check_message(&wrong, SEED, UP, 3, 0).expect_err("it is wrong");
    assert_eq!((found.at, found.expect), (49, whole[49]));
}
