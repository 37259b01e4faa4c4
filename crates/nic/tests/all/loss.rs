//! Lost, repeated and reordered packets.

use crate::common::*;
use rackweave_base::Duration;
use rackweave_nic::{DropReason, NicConfig};
use rackweave_verbs::CompletionStatus::Success;
use rackweave_verbs::Verbs;
use rackweave_wire::{Headers, Opcode};
use std::sync::atomic::Ordering;

fn is(opcode: Opcode) -> impl Fn(&Headers) -> bool {
    move |headers| headers.bth.opcode == opcode
}

#[test]
fn a_lost_request_draws_one_nak_and_is_sent_again() {
    let mut pair = Pair::new();
    pair.drop_nth(A, is(Opcode::WriteMiddle), &[1]);
    let data = pattern(6000, 1);
    pair.a.block.write(0, &data);
    let target = write_to(&pair.b.region, 0);
    pair.a.post(1, target, 0, 6000);
    pair.run();
    assert_eq!(pair.b.bytes(0, 6000), data);
    insta::assert_debug_snapshot!(pair.sent_by(B, 0x10_0000), @r#"
    [
        "ACKNOWLEDGE 2 SequenceError",
        "ACKNOWLEDGE 5",
    ]
    "#);
    assert_eq!(
        pair.b.counters(),
        [
            ("rx_write_requests", 1),
            ("out_of_seq_request", 3),
            ("drop_out_of_sequence", 3),
        ]
    );
    assert_eq!(
        pair.a.counters(),
        [("rcvd_seq_err", 1), ("completer_retry_err", 1)]
    );
    assert_eq!(pair.a.statuses(), [(1, Success)]);
}

#[test]
fn the_last_packet_lost_is_found_by_the_timeout() {
    let mut pair = Pair::new();
    pair.drop_nth(A, is(Opcode::WriteLast), &[0]);
    let target = write_to(&pair.b.region, 0);
    pair.a.post(1, target, 0, 6000);
    pair.run();
    assert_eq!(
        pair.a.counters(),
        [("local_ack_timeout_err", 1), ("completer_retry_err", 1)]
    );
    assert_eq!(pair.a.statuses(), [(1, Success)]);
    // All six were resent, since nothing had been acknowledged.
    assert_eq!(
        pair.b.counters(),
        [
            ("rx_write_requests", 1),
            ("duplicate_request", 5),
            ("ack_deferred", 1),
        ]
    );
}

#[test]
fn a_lost_acknowledgement_costs_duplicates_that_are_not_executed() {
    let mut pair = Pair::new();
    pair.drop_nth(B, is(Opcode::Acknowledge), &[0]);
    pair.b.post_receive(9, 0, 100);
    pair.b.post_receive(10, 0, 100);
    pair.a.post(1, SEND, 0, 50);
    pair.run();
    assert_eq!(pair.a.statuses(), [(1, Success)]);
    assert_eq!(
        pair.b.statuses(),
        [(9, Success)],
        "the second receive is not consumed"
    );
    assert_eq!(
        pair.b.counters(),
        [("rdma_recvs", 1), ("duplicate_request", 1)]
    );
}

#[test]
fn a_duplicate_write_changes_nothing() {
    let mut pair = Pair::new();
    // The duplicate arrives long after; the target has changed meanwhile.
    pair.filter = Box::new(|from, headers, _| match headers.bth.opcode {
        Opcode::WriteOnly if from == A => Fate::Duplicate(Duration::from_micros(50)),
        _ => Fate::Deliver,
    });
    pair.a.block.write(0, b"old");
    let target = write_to(&pair.b.region, 0);
    pair.a.post(1, target, 0, 3);
    pair.run_for(Duration::from_micros(20));
    pair.b.block.write(0, b"new");
    pair.run();
    assert_eq!(pair.b.bytes(0, 3), b"new");
    assert_eq!(pair.b.counter("duplicate_request"), 1);
    assert_eq!(
        pair.a.counter(DropReason::GhostResponse.name()),
        1,
        "the second acknowledgement"
    );
}

#[test]
fn a_lost_read_response_is_asked_for_again_from_there() {
    let mut pair = Pair::new();
    pair.drop_nth(B, is(Opcode::ReadResponseMiddle), &[1]);
    let data = pattern(6000, 2);
    pair.b.block.write(0, &data);
    let source = read_from(&pair.b.region, 0);
    pair.a.post(1, source, 7000, 6000);
    pair.run();
    assert_eq!(pair.a.bytes(7000, 6000), data);
    insta::assert_debug_snapshot!(pair.sent_by(A, 0x10_0000), @r#"
    [
        "RDMA_READ_REQUEST 0 of 6000 !",
        "RDMA_READ_REQUEST 2 of 3952 !",
    ]
    "#);
    insta::assert_debug_snapshot!(pair.sent_by(B, 0x10_0000)[6..], @r#"
    [
        "RDMA_READ_RESPONSE_FIRST 2 [1024]",
        "RDMA_READ_RESPONSE_MIDDLE 3 [1024]",
        "RDMA_READ_RESPONSE_MIDDLE 4 [1024]",
        "RDMA_READ_RESPONSE_LAST 5 [880]",
    ]
    "#);
    assert_eq!(
        pair.a.counters(),
        [
            ("implied_nak_seq_err", 1),
            ("completer_retry_err", 1),
            ("drop_response_gap", 3),
        ]
    );
    assert_eq!(pair.a.statuses(), [(1, Success)]);
}

#[test]
fn the_last_read_response_lost_is_asked_for_alone() {
    let mut pair = Pair::new();
    pair.drop_nth(B, is(Opcode::ReadResponseLast), &[0]);
    pair.b.block.write(0, &pattern(3000, 2));
    let source = read_from(&pair.b.region, 0);
    pair.a.post(1, source, 7000, 3000);
    pair.run();
    assert_eq!(pair.a.bytes(7000, 3000), pattern(3000, 2));
    assert_eq!(
        pair.sent_by(A, 0x10_0000)[1],
        "RDMA_READ_REQUEST 2 of 952 !"
    );
    assert_eq!(
        pair.sent_by(B, 0x10_0000)[3],
        "RDMA_READ_RESPONSE_ONLY 2 [952]"
    );
}

#[test]
fn an_acknowledgement_beyond_a_read_tells_that_its_response_is_lost() {
    let mut pair = Pair::new();
    pair.drop_nth(B, is(Opcode::ReadResponseOnly), &[0]);
    pair.b.block.write(0, b"read me");
    let (source, target) = (read_from(&pair.b.region, 0), write_to(&pair.b.region, 100));
    pair.a.post(1, source, 0, 7);
    pair.a.post(2, target, 0, 1);
    pair.run();
    assert_eq!(pair.a.bytes(0, 7), b"read me");
    assert_eq!(pair.a.statuses(), [(1, Success), (2, Success)]);
    assert_eq!(
        pair.a.counters(),
        [("implied_nak_seq_err", 1), ("completer_retry_err", 1)]
    );
    assert_eq!(pair.b.counter("duplicate_request"), 2);
}

#[test]
fn a_repeated_read_request_replaces_the_stream_that_is_being_sent() {
    let mut pair = Pair::new();
    pair.filter = Box::new(|from, headers, _| match headers.bth.opcode {
        Opcode::ReadRequest if from == A => Fate::Duplicate(Duration::ZERO),
        _ => Fate::Deliver,
    });
    pair.b.block.write(0, &pattern(3000, 2));
    let source = read_from(&pair.b.region, 0);
    pair.a.post(1, source, 7000, 3000);
    pair.run();
    assert_eq!(pair.a.bytes(7000, 3000), pattern(3000, 2));
    // Both arrive before the first response is sent: three responses, not six.
    assert_eq!(pair.sent_by(B, 0x10_0000).len(), 3);
}

#[test]
fn an_atomic_whose_response_is_lost_is_not_executed_again() {
    let mut pair = Pair::new();
    pair.drop_nth(B, is(Opcode::AtomicAcknowledge), &[0, 1]);
    pair.b.block.word(0).store(40, Ordering::Relaxed);
    let region = pair.b.region.clone();
    pair.a.post(1, fetch_add(&region, 0, 2), 0, 8);
    pair.run();
    assert_eq!(pair.b.block.word(0).load(Ordering::Relaxed), 42);
    assert_eq!(pair.a.block.word(0).load(Ordering::Relaxed), 40);
    assert_eq!(
        pair.b.counters(),
        [("rx_atomic_requests", 1), ("duplicate_request", 2)]
    );
}

#[test]
fn acknowledged_requests_are_not_sent_again() {
    let mut pair = Pair::new();
    // Of three messages the last is lost; the acknowledgement of the others has arrived.
    pair.drop_nth(A, is(Opcode::WriteOnly), &[2]);
    for id in 0..3 {
        let target = write_to(&pair.b.region, id * 8);
        pair.a.post(id, target, 0, 8);
    }
    pair.run();
    let psns: Vec<_> = pair
        .trace
        .iter()
        .filter(|t| t.1 == A)
        .map(|t| t.2.bth.psn.get())
        .collect();
    assert_eq!(psns, [0x10_0000, 0x10_0001, 0x10_0002, 0x10_0002]);
}

#[test]
fn reordered_packets_arrive_in_the_end() {
    let mut pair = Pair::new();
    let mut count = 0;
    pair.filter = Box::new(move |_, _, _| {
        count += 1;
        if count % 5 == 0 {
            Fate::Delay(Duration::from_nanos(300))
        } else {
            Fate::Deliver
        }
    });
    let data = pattern(60_000, 5);
    pair.a.block.write(0, &data);
    let target = write_to(&pair.b.region, 0);
    pair.a.post(1, target, 0, 60_000);
    pair.run();
    assert_eq!(pair.b.bytes(0, 60_000), data);
    assert_eq!(pair.a.statuses(), [(1, Success)]);
}

#[test]
fn a_payload_whose_source_is_gone_counts_as_lost() {
    let checked = [("rx_icrc_encapsulated", 1), ("drop_bad_icrc", 1)];
    let unchecked = [("drop_payload_gone", 1)];
    for (check, counters) in [(true, &checked[..]), (false, &unchecked[..])] {
        let config = if check {
            |_: &mut NicConfig| {}
        } else {
            |c: &mut NicConfig| c.check = false
        };
        let mut pair = Pair::with(&Setup {
            config,
            ..Setup::default()
        });
        let target = write_to(&pair.b.region, 0);
        pair.a.post(1, target, 0, 1000);
        let now = pair.now;
        let packet = pair.a.nic.poll_transmit(now).unwrap();
        // The region and its block are removed while the packet is in flight.
        assert!(pair.a.nic.deregister(&pair.a.region.clone()));
        let other = pair.memory.allocate(1).unwrap();
        pair.a.block = other.clone();
        pair.a.region.block = other;
        pair.b.nic.handle_packet(now, packet);
        assert_eq!(pair.b.counters(), counters);
        assert!(pair.b.nic.poll_transmit(now).is_none());
    }
}
