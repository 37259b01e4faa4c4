//! Responses in order, requests behind READs, buffers that run out, fairness between queue pairs.

use crate::common::*;
use rackweave_base::packet::{Payload, Pool};
use rackweave_base::{Instant, KeyRng, Qpn, Rng};
use rackweave_nic::Nic;
use rackweave_verbs::CompletionStatus::Success;
use rackweave_verbs::*;
use std::sync::atomic::Ordering;

#[test]
fn a_write_behind_a_read_does_not_change_what_is_read() {
    let mut pair = Pair::new();
    let old = pattern(20_000, 1);
    pair.b.block.write(0, &old);
    pair.b.block.word(32_768).store(77, Ordering::Relaxed);
    let region = pair.b.region.clone();
    pair.b.post_receive(9, 0, 100);
    pair.a.post(1, read_from(&region, 0), 100_000, 20_000);
    pair.a.post(2, read_from(&region, 32_768), 200_000, 8);
    // Each of these would change the bytes being read if it were executed on arrival.
    pair.a.post(3, SEND, 0, 100);
    pair.a.post(4, write_to(&region, 10_000), 0, 10_000);
    pair.a.post(5, fetch_add(&region, 32_768, 1), 200_008, 8);
    pair.run();
    assert_eq!(pair.a.bytes(100_000, 20_000), old);
    assert_eq!(pair.a.block.word(200_000).load(Ordering::Relaxed), 77);
    assert_eq!(pair.b.block.word(32_768).load(Ordering::Relaxed), 78);
    assert_eq!(pair.b.bytes(10_000, 10_000), [0; 10_000]);
    assert_eq!(pair.b.counter("held_requests"), 12);
    assert_eq!(
        pair.a.counters(),
        [("rdma_sends", 1)],
        "nothing was sent twice"
    );
    assert_eq!(pair.a.statuses(), [1, 2, 3, 4, 5].map(|id| (id, Success)));
}

#[test]
fn more_requests_behind_a_read_than_can_be_held_are_sent_again() {
    let mut pair = Pair::new();
    let old = pattern(100_000, 1);
    pair.b.block.write(0, &old);
    let region = pair.b.region.clone();
    pair.a.post(1, read_from(&region, 0), 200_000, 100_000);
    pair.a.post(2, write_to(&region, 0), 400_000, 100_000);
    pair.run();
    assert_eq!(pair.a.bytes(200_000, 100_000), old);
    assert_eq!(pair.b.bytes(0, 100_000), [0; 100_000]);
    assert_eq!(pair.b.counter("drop_hold_full"), 98 - 64);
    assert_eq!(pair.a.statuses(), [(1, Success), (2, Success)]);
}

#[test]
fn responses_leave_in_the_order_of_their_psns() {
    let mut pair = Pair::new();
    let region = pair.b.region.clone();
    for id in 0..30 {
        let operation = match id % 3 {
            0 => read_from(&region, 0),
            1 => fetch_add(&region, 4096, 1),
            _ => write_to(&region, 8192),
        };
        pair.a
            .post(id, operation, 0, if id % 3 == 1 { 8 } else { 3000 });
    }
    pair.run();
    let psns: Vec<_> = pair
        .trace
        .iter()
        .filter(|t| t.1 == B)
        .map(|t| t.2.bth.psn.get())
        .collect();
    assert!(psns.is_sorted(), "{psns:x?}");
    assert_eq!(pair.a.counters(), []);
    assert_eq!(pair.a.statuses().len(), 30);
}

#[test]
fn a_stream_of_reads_goes_on_when_buffers_come_back() {
    // Two buffers for a stream of a hundred packets, and WRITEs after it that must wait.
    let mut pair = Pair::with(&Setup {
        pool: 2,
        ..Setup::default()
    });
    let data = pattern(100_000, 1);
    pair.b.block.write(0, &data);
    let region = pair.b.region.clone();
    pair.a.post(1, read_from(&region, 0), 200_000, 100_000);
    pair.a.post(2, write_to(&region, 0), 0, 5000);
    pair.run();
    assert_eq!(pair.a.bytes(200_000, 100_000), data);
    assert_eq!(pair.a.statuses(), [(1, Success), (2, Success)]);
    assert!(pair.b.counter("pool_stalls") > 10);
    assert!(pair.b.counter("drop_hold_abandoned") > 0);
}

#[test]
fn a_stall_asks_to_be_polled_soon() {
    let mut pair = Pair::with(&Setup {
        pool: 1,
        ..Setup::default()
    });
    pair.a.post(1, read_from(&pair.b.region, 0), 0, 3000);
    pair.step();
    let now = pair.now;
    let held = pair.b.nic.poll_transmit(now).unwrap();
    assert!(pair.b.nic.poll_transmit(now).is_none());
    let soon = pair.b.nic.poll_timeout().unwrap();
    assert!(soon > now && soon.since(now).as_nanos() <= 1000);
    drop(held);
    assert!(
        pair.b.nic.poll_transmit(now).is_some(),
        "whoever polls gets it at once"
    );
}

#[test]
fn gathered_requests_wait_for_buffers() {
    let mut pair = Pair::with(&Setup {
        pool: 1,
        ..Setup::default()
    });
    pair.a.block.write(0, &pattern(3000, 1));
    let (region, target) = (pair.a.region.clone(), write_to(&pair.b.region, 0));
    let segments = [region.segment(0, 100), region.segment(100, 2900)];
    pair.a
        .nic
        .post_send(pair.a.qpn, WorkRequest::new(1, target, &segments))
        .unwrap();
    pair.run();
    assert_eq!(pair.b.bytes(0, 3000), pattern(3000, 1));
}

#[test]
fn reads_by_reference_take_no_buffer_and_hold_nothing_back() {
    let mut pair = Pair::with(&Setup {
        pool: 0,
        ..Setup::default()
    });
    pair.b.nic.set_read_by_reference(pair.b.qpn, true);
    pair.filter = Box::new(|from, headers, packet| {
        if from == B && headers.bth.opcode.is_read_response() {
            assert!(matches!(packet.payload, Payload::Region(_)));
        }
        Fate::Deliver
    });
    let region = pair.b.region.clone();
    pair.b.block.write(0, &pattern(10_000, 1));
    pair.a.post(1, read_from(&region, 0), 0, 10_000);
    pair.a.post(2, write_to(&region, 50_000), 0, 100);
    pair.run();
    assert_eq!(pair.a.bytes(0, 10_000), pattern(10_000, 1));
    assert_eq!(pair.b.counter("held_requests"), 0);
    assert_eq!(pair.a.statuses(), [(1, Success), (2, Success)]);
}

/// A NIC with several queue pairs, each connected to a peer that never answers.
fn many(count: u32) -> (Nic, Vec<Qpn>, Region) {
    let pair = Pair::new();
    let setup = Setup::default();
    let mut nic = Nic::new(
        pair.a.config.clone(),
        pair.memory.clone(),
        Pool::new(8),
        KeyRng::seeded(Rng::new(1)),
    );
    let pd = nic.create_pd();
    let cq = nic.create_cq(100).unwrap();
    let block = pair.memory.allocate(1 << 20).unwrap();
    let region = nic.register(pd, block, Access::all()).unwrap();
    let qpns = (0..count).map(|_| nic.create_qp(pd, cq, cq, setup.capabilities).unwrap());
    let qpns: Vec<_> = qpns.collect();
    for &qpn in &qpns {
        nic.modify_qp(qpn, QpModify::Init).unwrap();
        let peer = Peer {
            qpn,
            ..pair.b.peer()
        };
        let receive = Node::receive_side(&setup, peer, 0);
        nic.modify_qp(qpn, QpModify::ReadyToReceive(receive))
            .unwrap();
        nic.modify_qp(qpn, QpModify::ReadyToSend(Node::send_side(&setup, 0)))
            .unwrap();
    }
    (nic, qpns, region)
}

#[test]
fn queue_pairs_take_turns() {
    let (mut nic, qpns, region) = many(3);
    for &qpn in &qpns {
        let segment = region.segment(0, 4096);
        let target = write_to(&region, 0);
        nic.post_send(qpn, WorkRequest::new(0, target, &[segment]))
            .unwrap();
    }
    let mut order = Vec::new();
    while let Some(packet) = nic.poll_transmit(Instant::ZERO) {
        let headers = rackweave_wire::Headers::of(&packet).unwrap();
        order.push(
            qpns.iter()
                .position(|&qpn| qpn == headers.bth.target_qp)
                .unwrap(),
        );
    }
    assert_eq!(order, [0, 1, 2, 0, 1, 2, 0, 1, 2, 0, 1, 2]);
}
