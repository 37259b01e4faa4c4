//! Requests executed at the peer's NIC without packets.

use crate::common::*;
use rackweave_nic::Reach;
use rackweave_verbs::*;

/// A pair in which everything can cut through.
fn pair() -> Pair {
    let mut pair = Pair::new();
    pair.set_cut_through(|_| Reach::Reached);
    pair
}

/// Every kind of request, with several segments and packets.
fn post_all(pair: &mut Pair) {
    let bytes = pattern(5000, 7);
    pair.a.block.write(0, &bytes);
    pair.b.block.write(50_000, &pattern(5000, 8));
    for id in 0..3 {
        pair.b.post_receive(100 + id, 20_000 + 8000 * id, 8000);
    }
    let region = pair.b.region.clone();
    let write = |at, immediate| Operation::Write {
        address: region.address + at,
        rkey: region.rkey,
        immediate,
    };
    let send = |immediate| Operation::Send { immediate };
    let requests = [
        (send(None), 5000),
        (send(Some(9)), 0),
        (write(4000, None), 1),
        (write(100, Some(5)), 3001),
        (write(8, None), 0),
        (read_from(&region, 50_000), 5000),
        (fetch_add(&region, 64, 3), 8),
        (compare_swap(&region, 64, 3, 4), 8),
        (compare_swap(&region, 64, 3, 5), 8),
    ];
    for (id, (operation, len)) in requests.into_iter().enumerate() {
        let id = id as u64;
        let reads = !matches!(operation, Operation::Send { .. } | Operation::Write { .. });
        let at = if reads { 100_000 + 10_000 * id } else { 0 };
        let cut = len / 3;
        let segments = [
            pair.a.region.segment(at, cut),
            pair.a.region.segment(at + u64::from(cut), len - cut),
        ];
        let request = WorkRequest::new(id, operation, &segments);
        pair.a.nic.post_send(pair.a.qpn, request).unwrap();
    }
}

#[test]
fn every_request_has_the_same_effect_as_in_packets() {
    let run = |mut pair: Pair| {
        post_all(&mut pair);
        pair.run();
        let counters = |node: &Node| {
            let mut counters = node.counters();
            let of_packets = ["ack_deferred", "held_requests"];
            counters.retain(|(name, _)| !name.starts_with("cut_") && !of_packets.contains(name));
            counters
        };
        (
            [pair.a.completions(), pair.b.completions()],
            [counters(&pair.a), counters(&pair.b)],
            [&pair.a, &pair.b].map(|node| node.bytes(0, REGION_LEN)),
            pair.trace.len(),
        )
    };
    let (by_packets, cut_through) = (run(Pair::new()), run(pair()));
    assert!(by_packets.0[0].len() == 9 && by_packets.0[1].len() == 3);
    assert_eq!(cut_through.0, by_packets.0);
    assert_eq!(cut_through.1, by_packets.1);
    assert!(cut_through.2 == by_packets.2, "the bytes differ");
    assert!(by_packets.3 > 20);
    assert_eq!(cut_through.3, 0, "packets were sent");
}

#[test]
fn what_was_executed_is_counted() {
    let mut pair = pair();
    post_all(&mut pair);
    pair.run();
    assert_eq!(pair.a.counter("cut_through_requests"), 9);
    let (written, read) = (5000 + 3002, 5000 + 24);
    for (name, of_a, of_b) in [
        ("cut_through_tx_bytes", written, read),
        ("cut_through_rx_bytes", read, written),
    ] {
        assert_eq!(
            [&pair.a, &pair.b].map(|node| node.counter(name)),
            [of_a, of_b]
        );
    }
    assert_eq!(pair.a.counter("sent_pkts"), 0);
}

#[test]
fn a_request_that_fails_goes_in_packets_and_fails_there() {
    let mut pair = pair();
    let region = pair.b.region.clone();
    pair.a.post(1, read_from(&region, 0), 0, 8);
    pair.a.post(2, read_from(&region, REGION_LEN as u64), 0, 8);
    pair.a.post(3, read_from(&region, 0), 0, 8);
    pair.run();
    use CompletionStatus::*;
    let expected = [(1, Success), (2, RemoteAccess), (3, Flushed)];
    assert_eq!(pair.a.statuses(), expected);
    assert_eq!(pair.a.counter("cut_through_requests"), 1);
    assert_eq!(pair.b.counter("resp_remote_access_errors"), 1);
}

#[test]
fn a_request_that_its_own_nic_refuses_changes_nothing() {
    let mut pair = pair();
    let (near, far) = (pair.a.region.clone(), pair.b.region.clone());
    pair.a.block.write(0, &[1; 16]);
    let beyond = Segment {
        address: near.address + REGION_LEN as u64,
        length: 8,
        lkey: near.lkey,
    };
    let write = Operation::Write {
        address: far.address,
        rkey: far.rkey,
        immediate: None,
    };
    let request = WorkRequest::new(1, write, &[near.segment(0, 8), beyond]);
    pair.a.nic.post_send(pair.a.qpn, request).unwrap();
    pair.run();
    assert_eq!(pair.a.statuses(), [(1, CompletionStatus::LocalProtection)]);
    assert_eq!(pair.b.bytes(0, 16), [0; 16]);
}

#[test]
fn words_in_two_segments_are_not_stored_apart_even_without_a_buffer() {
    let mut pair = Pair::with(&Setup {
        pool: 0,
        ..Setup::default()
    });
    pair.set_cut_through(|_| Reach::Reached);
    let (near, far) = (pair.a.region.clone(), pair.b.region.clone());
    let write = Operation::Write {
        address: far.address,
        rkey: far.rkey,
        immediate: None,
    };
    let request = WorkRequest::new(1, write, &[near.segment(0, 4), near.segment(4, 4)]);
    pair.a.block.write(0, &[1; 8]);
    pair.a.nic.post_send(pair.a.qpn, request).unwrap();
    pair.run_for(rackweave_base::Duration::from_micros(50));
    assert_eq!(pair.a.statuses(), [], "it waits for a buffer");
    assert_eq!(pair.b.bytes(0, 8), [0; 8]);
    assert!(pair.a.counter("pool_stalls") > 0);
}

#[test]
fn a_send_without_a_receive_waits_in_packets_and_later_ones_cut_through() {
    let mut pair = pair();
    pair.a.block.write(0, b"first");
    pair.a.block.write(10, b"later");
    pair.a.post(1, SEND, 0, 5);
    pair.a.post(2, SEND, 10, 5);
    pair.run_for(rackweave_base::Duration::from_micros(30));
    assert_eq!(pair.a.statuses(), []);
    pair.b.post_receive(1, 100, 5);
    pair.b.post_receive(2, 200, 5);
    pair.run();
    assert_eq!(pair.a.statuses().len(), 2);
    assert_eq!(pair.b.bytes(100, 5), b"first");
    assert_eq!(pair.b.bytes(200, 5), b"later");
    assert_eq!(pair.a.counter("cut_through_requests"), 1);
    assert!(pair.a.counter("rcvd_rnr_err") > 0);
}

#[test]
fn a_busy_peer_is_waited_for_without_packets() {
    let mut pair = Pair::new();
    let mut tries = 0;
    pair.set_cut_through(move |_| {
        tries += 1;
        if tries < 4 {
            Reach::Busy
        } else {
            Reach::Reached
        }
    });
    let region = pair.b.region.clone();
    pair.a.post(1, read_from(&region, 0), 0, 8);
    for _ in 0..2 {
        assert!(!pair.step(), "there is nothing to send, and no timer");
    }
    assert!(pair.cut_through(A, 1));
    assert_eq!(pair.a.statuses(), []);
    pair.run();
    assert_eq!(pair.a.statuses(), [(1, CompletionStatus::Success)]);
    assert!(pair.trace.is_empty());
}

#[test]
fn the_limit_ends_a_call_and_the_rest_waits() {
    let mut pair = pair();
    let region = pair.b.region.clone();
    for id in 0..4 {
        pair.a.post(id, read_from(&region, 0), 0, 1024);
    }
    assert!(pair.cut_through(A, 3), "two of work two each are executed");
    assert_eq!(pair.a.statuses().len(), 2);
    assert!(!pair.cut_through(A, 4));
    assert_eq!(pair.a.statuses().len(), 2);
}

#[test]
fn queue_pairs_that_keep_to_the_switch_send_packets() {
    let mut pair = pair();
    pair.a.nic.keep_to_switch(pair.a.qpn);
    let region = pair.b.region.clone();
    pair.a.post(1, read_from(&region, 0), 0, 8);
    pair.run();
    assert_eq!(pair.a.statuses(), [(1, CompletionStatus::Success)]);
    assert_eq!(pair.trace.len(), 2);
}

#[test]
fn a_completion_queue_that_overflows_fails_its_queue_pairs() {
    let mut pair = pair();
    let region = pair.b.region.clone();
    let limit = 4096;
    for id in 0..limit + 10 {
        pair.a.post(id % 50, read_from(&region, 0), 0, 8);
        pair.cut_through(A, u32::MAX);
        if pair.a.nic.qp_state(pair.a.qpn) == Some(QpState::Error) {
            assert_eq!(id, limit, "the queue was full before");
            return;
        }
    }
    panic!("nothing overflowed");
}
