//! Every operation, on a channel without faults.

use crate::common::*;
use rackweave_base::Duration;
use rackweave_nic::NicConfig;
use rackweave_verbs::*;
use std::sync::atomic::Ordering;

fn ok(id: u64, opcode: CompletionOpcode, length: u32, pair: &Pair) -> Completion {
    let status = CompletionStatus::Success;
    Completion {
        id,
        qpn: pair.a.qpn,
        status,
        opcode,
        length,
        immediate: None,
    }
}

#[test]
fn write_of_every_length() {
    for mtu in Mtu::ALL {
        let mut pair = Pair::with(&Setup {
            mtu,
            ..Setup::default()
        });
        let m = mtu.bytes();
        for (id, len) in [0, 1, 31, 32, 33, m - 1, m, m + 1, 2 * m, 5 * m + 7]
            .into_iter()
            .enumerate()
        {
            let data = pattern(len as usize, id as u64);
            pair.a.block.write(100, &data);
            let target = write_to(&pair.b.region, 5000);
            pair.a.post(id as u64, target, 100, len);
            pair.run();
            let expected = ok(id as u64, CompletionOpcode::Write, 0, &pair);
            assert_eq!(pair.a.completions(), [expected]);
            assert_eq!(pair.b.bytes(5000, len as usize), data);
        }
        assert_eq!(pair.b.completions(), []);
        assert_eq!(pair.b.counters(), [("rx_write_requests", 10)]);
        assert_eq!(pair.a.counters(), []);
    }
}

#[test]
fn packets_of_a_write() {
    let mut pair = Pair::new();
    let target = write_to(&pair.b.region, 0);
    pair.a.post(1, target, 0, 3000);
    pair.run();
    insta::assert_debug_snapshot!(pair.sent_by(A, 0x10_0000), @r#"
    [
        "RDMA_WRITE_FIRST 0 of 3000 [1024]",
        "RDMA_WRITE_MIDDLE 1 [1024]",
        "RDMA_WRITE_LAST 2 [952] !",
    ]
    "#);
    insta::assert_debug_snapshot!(pair.sent_by(B, 0x10_0000), @r#"
    [
        "ACKNOWLEDGE 2",
    ]
    "#);
}

#[test]
fn read_of_every_length() {
    for by_reference in [false, true] {
        let mut pair = Pair::new();
        assert!(pair.b.nic.set_read_by_reference(pair.b.qpn, by_reference));
        for (id, len) in [0, 1, 32, 33, 1023, 1024, 1025, 5000]
            .into_iter()
            .enumerate()
        {
            let data = pattern(len as usize, id as u64);
            pair.b.block.write(300, &data);
            let source = read_from(&pair.b.region, 300);
            pair.a.post(id as u64, source, 9000, len);
            pair.run();
            assert_eq!(
                pair.a.completions(),
                [ok(id as u64, CompletionOpcode::Read, len, &pair)]
            );
            assert_eq!(pair.a.bytes(9000, len as usize), data);
        }
        assert_eq!(pair.b.counters(), [("rx_read_requests", 8)]);
    }
}

#[test]
fn packets_of_a_read() {
    let mut pair = Pair::new();
    let source = read_from(&pair.b.region, 0);
    pair.a.post(1, source, 0, 3000);
    pair.run();
    insta::assert_debug_snapshot!(pair.sent_by(A, 0x10_0000), @r#"
    [
        "RDMA_READ_REQUEST 0 of 3000 !",
    ]
    "#);
    insta::assert_debug_snapshot!(pair.sent_by(B, 0x10_0000), @r#"
    [
        "RDMA_READ_RESPONSE_FIRST 0 [1024]",
        "RDMA_READ_RESPONSE_MIDDLE 1 [1024]",
        "RDMA_READ_RESPONSE_LAST 2 [952]",
    ]
    "#);
}

#[test]
fn sends_fill_receives_in_order_across_segments() {
    let mut pair = Pair::new();
    let data = pattern(5000, 9);
    pair.a.block.write(0, &data);
    let (a, b) = (pair.a.region.clone(), pair.b.region.clone());
    // Segments on both sides that do not coincide with packet boundaries, including an empty one.
    let segments = [
        a.segment(0, 1000),
        a.segment(1000, 0),
        a.segment(1000, 37),
        a.segment(1037, 3963),
    ];
    let receive = [
        b.segment(0, 10),
        b.segment(100, 2500),
        b.segment(4000, 2490),
        b.segment(0, 0),
    ];
    pair.b
        .nic
        .post_receive(pair.b.qpn, ReceiveRequest::new(70, &receive))
        .unwrap();
    pair.b.post_receive(71, 9000, 100);
    let operation = Operation::Send {
        immediate: Some(0xfeed_beef),
    };
    pair.a
        .nic
        .post_send(pair.a.qpn, WorkRequest::new(1, operation, &segments))
        .unwrap();
    pair.a.post(2, SEND, 0, 33);
    pair.run();
    let mut got = pair.b.bytes(0, 10);
    got.extend(pair.b.bytes(100, 2500));
    got.extend(pair.b.bytes(4000, 2490));
    assert_eq!(got, data);
    assert_eq!(pair.b.bytes(9000, 33), data[..33]);
    let received = pair.b.completions();
    let lengths: Vec<_> = received
        .iter()
        .map(|c| (c.id, c.opcode, c.length, c.immediate))
        .collect();
    let receive = CompletionOpcode::Receive;
    assert_eq!(
        lengths,
        [
            (70, receive, 5000, Some(0xfeed_beef)),
            (71, receive, 33, None)
        ]
    );
    assert_eq!(pair.a.statuses().len(), 2);
    assert_eq!(pair.b.counters(), [("rdma_recvs", 2), ("ack_deferred", 1)]);
    assert_eq!(pair.a.counters(), [("rdma_sends", 2)]);
}

#[test]
fn write_with_immediate_consumes_a_receive() {
    let mut pair = Pair::new();
    let data = pattern(2500, 3);
    pair.a.block.write(0, &data);
    pair.b.post_receive(5, 0, 0);
    pair.b.post_receive(6, 0, 0);
    let (address, rkey) = (pair.b.region.address + 64, pair.b.region.rkey);
    let operation = |value| Operation::Write {
        address,
        rkey,
        immediate: Some(value),
    };
    pair.a.post(1, operation(11), 0, 2500);
    pair.a.post(2, operation(12), 0, 7);
    pair.run();
    assert_eq!(pair.b.bytes(64, 2500), data);
    let got: Vec<_> = pair
        .b
        .completions()
        .iter()
        .map(|c| (c.id, c.length, c.immediate))
        .collect();
    assert_eq!(got, [(5, 2500, Some(11)), (6, 7, Some(12))]);
}

#[test]
fn atomics_change_the_word_once_and_return_what_it_held() {
    let mut pair = Pair::new();
    pair.b.block.word(64).store(100, Ordering::Relaxed);
    let region = pair.b.region.clone();
    pair.a.post(1, fetch_add(&region, 64, 5), 0, 8);
    pair.a.post(2, compare_swap(&region, 64, 105, 7), 8, 8);
    pair.a.post(3, compare_swap(&region, 64, 105, 8), 16, 8);
    pair.a.post(4, fetch_add(&region, 64, u64::MAX), 24, 8);
    pair.run();
    let word = |node: &Node, at| node.block.word(at).load(Ordering::Relaxed);
    assert_eq!([0, 8, 16, 24].map(|at| word(&pair.a, at)), [100, 105, 7, 7]);
    assert_eq!(word(&pair.b, 64), 6);
    let completions = pair.a.completions();
    assert!(
        completions
            .iter()
            .all(|c| c.length == 8 && c.status == CompletionStatus::Success)
    );
    assert_eq!(pair.b.counters(), [("rx_atomic_requests", 4)]);
}

#[test]
fn unsignaled_requests_complete_silently_and_in_order() {
    let mut pair = Pair::new();
    for id in 0..10 {
        let segment = pair.a.region.segment(0, 100);
        let mut request = WorkRequest::new(id, write_to(&pair.b.region, 0), &[segment]);
        request.signaled = id % 4 == 3;
        pair.a.nic.post_send(pair.a.qpn, request).unwrap();
    }
    pair.run();
    let ids: Vec<_> = pair.a.statuses().into_iter().map(|(id, _)| id).collect();
    assert_eq!(ids, [3, 7]);
}

#[test]
fn more_reads_than_may_be_in_flight_wait_their_turn() {
    let mut pair = Pair::with(&Setup {
        reads_in_flight: 2,
        ..Setup::default()
    });
    pair.b.block.write(0, &pattern(20_000, 4));
    for id in 0..10 {
        let source = read_from(&pair.b.region, id * 2000);
        pair.a.post(id, source, id * 2000, 2000);
    }
    pair.run();
    assert_eq!(pair.a.statuses().len(), 10);
    assert_eq!(pair.a.bytes(0, 20_000), pattern(20_000, 4));
    assert_eq!(pair.b.counters(), [("rx_read_requests", 10)]);
}

#[test]
fn a_fence_waits_for_reads() {
    let mut pair = Pair::new();
    let (source, target) = (
        read_from(&pair.b.region, 0),
        write_to(&pair.b.region, 50_000),
    );
    pair.a.post(1, source, 0, 10_000);
    let segment = pair.a.region.segment(0, 10_000);
    let mut fenced = WorkRequest::new(2, target, &[segment]);
    fenced.fence = true;
    // The bytes read are sent on: without the fence it would be the zeros from before.
    pair.b.block.write(0, &pattern(10_000, 6));
    pair.a.nic.post_send(pair.a.qpn, fenced).unwrap();
    pair.run();
    assert_eq!(pair.b.bytes(50_000, 10_000), pattern(10_000, 6));
}

#[test]
fn a_long_message_needs_no_acknowledgements_but_those_it_asks_for() {
    // The peer acknowledges only when asked, and the window is small.
    fn config(config: &mut NicConfig) {
        config.ack_every = u32::MAX;
        config.window_packets = 5;
    }
    let mut pair = Pair::with(&Setup {
        config,
        ..Setup::default()
    });
    let target = write_to(&pair.b.region, 0);
    pair.a.block.write(0, &pattern(300_000, 1));
    pair.a.post(1, target, 0, 300_000);
    pair.run();
    assert_eq!(pair.b.bytes(0, 300_000), pattern(300_000, 1));
    assert_eq!(pair.a.counters(), []);
}

#[test]
fn a_message_of_two_gigabytes_costs_only_its_packets() {
    // The region is small; the READ is refused, but only by its range, and at once.
    let mut pair = Pair::new();
    let source = read_from(&pair.b.region, 0);
    let segment = pair.a.region.segment(0, 1 << 31);
    pair.a
        .nic
        .post_send(pair.a.qpn, WorkRequest::new(1, source, &[segment]))
        .unwrap();
    pair.run();
    assert_eq!(pair.a.statuses(), [(1, CompletionStatus::LocalProtection)]);
    let too_long = [
        pair.a.region.segment(0, 1 << 31),
        pair.a.region.segment(0, 1),
    ];
    let error = pair
        .a
        .nic
        .post_send(pair.a.qpn, WorkRequest::new(1, SEND, &too_long));
    assert!(matches!(
        error,
        Err(PostError::TooLong {
            len: 0x8000_0001,
            ..
        })
    ));
}

#[test]
fn without_check_packets_bear_none() {
    let mut pair = Pair::with(&Setup {
        config: |c| c.check = false,
        ..Setup::default()
    });
    pair.filter = Box::new(|_, _, packet| {
        assert_eq!(packet.check, None);
        Fate::Deliver
    });
    let target = write_to(&pair.b.region, 0);
    pair.a.post(1, target, 0, 5000);
    pair.run();
    assert_eq!(pair.a.statuses(), [(1, CompletionStatus::Success)]);
}

#[test]
fn nothing_is_left_running_when_all_is_done() {
    let mut pair = Pair::new();
    let target = write_to(&pair.b.region, 0);
    pair.a.post(1, target, 0, 5000);
    pair.run_for(Duration::from_millis(1));
    assert_eq!(pair.a.nic.poll_timeout(), None);
    assert_eq!(pair.b.nic.poll_timeout(), None);
}
