//! WRITEs whose Middles are sent together, where links carry trains.

use crate::common::*;
use rackweave_verbs::CompletionStatus::Success;
use rackweave_verbs::{Verbs, WorkRequest};
use rackweave_wire::Opcode;

fn pair() -> Pair {
    Pair::with(&Setup {
        config: |config| (config.train_max, config.check) = (4, false),
        ..Setup::default()
    })
}

#[test]
fn the_middles_of_a_write_travel_together() {
    let mut pair = pair();
    let data = pattern(10_000, 1);
    pair.a.block.write(0, &data);
    let target = write_to(&pair.b.region, 300);
    pair.a.post(1, target, 0, 10_000);
    pair.run();
    insta::assert_debug_snapshot!(pair.sent_by(A, 0x10_0000), @r#"
    [
        "RDMA_WRITE_FIRST 0 of 10000 [1024]",
        "RDMA_WRITE_MIDDLE 1 [4096]",
        "RDMA_WRITE_MIDDLE 5 [4096]",
        "RDMA_WRITE_LAST 9 [784] !",
    ]
    "#);
    assert_eq!(pair.b.bytes(300, 10_000), data);
    assert_eq!(pair.a.statuses(), [(1, Success)]);
    assert_eq!(pair.b.counters(), [("rx_write_requests", 1)]);
}

#[test]
fn a_train_ends_where_a_segment_does() {
    let mut pair = pair();
    let data = pattern(10_000, 2);
    pair.a.block.write(0, &data[..2500]);
    pair.a.block.write(20_000, &data[2500..]);
    let segments = [
        pair.a.region.segment(0, 2500),
        pair.a.region.segment(20_000, 7500),
    ];
    let request = WorkRequest::new(1, write_to(&pair.b.region, 0), &segments);
    let qpn = pair.a.qpn;
    pair.a.nic.post_send(qpn, request).unwrap();
    pair.run();
    insta::assert_debug_snapshot!(pair.sent_by(A, 0x10_0000), @r#"
    [
        "RDMA_WRITE_FIRST 0 of 10000 [1024]",
        "RDMA_WRITE_MIDDLE 1 [1024]",
        "RDMA_WRITE_MIDDLE 2 [1024]",
        "RDMA_WRITE_MIDDLE 3 [4096]",
        "RDMA_WRITE_MIDDLE 7 [2048]",
        "RDMA_WRITE_LAST 9 [784] !",
    ]
    "#);
    assert_eq!(pair.b.bytes(0, 10_000), data);
    assert_eq!(pair.a.statuses(), [(1, Success)]);
}

#[test]
fn a_lost_train_is_sent_again() {
    for lost in [[0].as_slice(), &[1], &[0, 1, 2]] {
        let mut pair = pair();
        let middle = |headers: &rackweave_wire::Headers| headers.bth.opcode == Opcode::WriteMiddle;
        pair.drop_nth(A, middle, lost);
        let data = pattern(10_000, 3);
        pair.a.block.write(0, &data);
        let target = write_to(&pair.b.region, 0);
        pair.a.post(1, target, 0, 10_000);
        pair.run();
        assert_eq!(pair.b.bytes(0, 10_000), data, "{lost:?} lost");
        assert_eq!(pair.a.statuses(), [(1, Success)], "{lost:?} lost");
    }
}
