//! Receivers that are not ready.

use crate::common::*;
use rackweave_base::Duration;
use rackweave_verbs::*;

#[test]
fn a_send_waits_until_a_receive_is_posted() {
    let mut pair = Pair::new();
    pair.a.block.write(0, b"hello");
    pair.a.post(1, SEND, 0, 5);
    pair.a.post(2, SEND, 0, 5);
    pair.run_for(Duration::from_micros(50));
    assert_eq!(pair.a.statuses(), []);
    pair.b.post_receive(1, 100, 10);
    pair.b.post_receive(2, 200, 10);
    pair.run();
    assert_eq!(pair.a.statuses().len(), 2);
    assert_eq!(pair.b.bytes(100, 5), b"hello");
    assert_eq!(pair.b.bytes(200, 5), b"hello");
    // The wait of 20 µs is respected: attempts at 0, 22 and 44 µs, then the receive is posted. The
    // second SEND, ahead of the expected one, gets no answer.
    assert_eq!(pair.b.counter("send_rnr_err"), 3);
    assert_eq!(pair.b.counter("out_of_buffer"), 3);
    assert_eq!(pair.a.counter("rcvd_rnr_err"), 3);
    assert_eq!(pair.a.counter("rcvd_seq_err"), 0);
    assert_eq!(pair.a.counter("local_ack_timeout_err"), 0);
}

#[test]
fn the_retries_are_counted() {
    let mut pair = Pair::with(&Setup {
        rnr_retries: 2,
        ..Setup::default()
    });
    pair.a.post(1, SEND, 0, 5);
    pair.a.post(2, SEND, 0, 5);
    pair.run();
    use CompletionStatus::*;
    assert_eq!(pair.a.statuses(), [(1, RnrRetriesExceeded), (2, Flushed)]);
    assert_eq!(pair.a.counter("rcvd_rnr_err"), 3);
    assert_eq!(pair.a.counter("retry_rnr_exceeded_err"), 1);
    assert_eq!(pair.b.nic.qp_state(pair.b.qpn), Some(QpState::ReadyToSend));
}

#[test]
fn seven_is_for_ever() {
    let mut pair = Pair::with(&Setup {
        rnr_retries: 7,
        ..Setup::default()
    });
    pair.a.post(1, SEND, 0, 5);
    pair.run_for(Duration::from_millis(2));
    assert!(pair.a.counter("rcvd_rnr_err") > 50);
    pair.b.post_receive(1, 100, 10);
    pair.run();
    assert_eq!(pair.a.statuses(), [(1, CompletionStatus::Success)]);
}

#[test]
fn a_write_with_immediate_waits_at_its_last_packet() {
    let mut pair = Pair::new();
    let data = pattern(3000, 8);
    pair.a.block.write(0, &data);
    let (address, rkey) = (pair.b.region.address, pair.b.region.rkey);
    pair.a.post(
        1,
        Operation::Write {
            address,
            rkey,
            immediate: Some(5),
        },
        0,
        3000,
    );
    pair.run_for(Duration::from_micros(10));
    assert_eq!(pair.b.bytes(0, 2048), data[..2048]);
    assert_eq!(pair.b.bytes(2048, 952), [0; 952]);
    pair.b.post_receive(1, 0, 0);
    pair.run();
    assert_eq!(pair.b.bytes(0, 3000), data);
    // Only the last packet was resent.
    let writes = pair.sent_by(A, 0x10_0000);
    assert_eq!(writes[3..], ["RDMA_WRITE_LAST_WITH_IMMEDIATE 2 [952] !"]);
}

#[test]
fn progress_renews_the_retries() {
    let mut pair = Pair::with(&Setup {
        rnr_retries: 1,
        ..Setup::default()
    });
    for id in 0..5 {
        pair.a.post(id, SEND, 0, 5);
        pair.run_for(Duration::from_micros(10));
        pair.b.post_receive(id, 100, 10);
        pair.run();
    }
    assert_eq!(pair.a.counter("rcvd_rnr_err"), 5);
    assert!(
        pair.a
            .statuses()
            .iter()
            .all(|&(_, s)| s == CompletionStatus::Success)
    );
}
