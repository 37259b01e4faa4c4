//! Timeouts and retry counts.

use crate::common::*;
use rackweave_base::Duration;
use rackweave_verbs::CompletionStatus::*;
use rackweave_verbs::*;
use rackweave_wire::Opcode;

#[test]
fn a_peer_that_does_not_answer_costs_all_retries() {
    let mut pair = Pair::with(&Setup {
        retries: 3,
        ..Setup::default()
    });
    pair.filter = Box::new(|_, _, _| Fate::Drop);
    let start = pair.now;
    pair.a.post(1, write_to(&pair.b.region, 0), 0, 10);
    pair.a.post(2, write_to(&pair.b.region, 0), 0, 10);
    pair.run();
    assert_eq!(pair.a.statuses(), [(1, RetriesExceeded), (2, Flushed)]);
    assert_eq!(
        pair.a.counters(),
        [
            ("local_ack_timeout_err", 4),
            ("completer_retry_err", 3),
            ("retry_exceeded_err", 1),
            ("req_cqe_error", 1),
            ("req_cqe_flush_error", 1),
        ]
    );
    // 100 µs, then twice as long each time.
    assert_eq!(
        pair.now.since(start),
        Duration::from_micros(100 + 200 + 400 + 800)
    );
    let state = pair.a.nic.qp_state(pair.a.qpn);
    assert_eq!(state, Some(QpState::Error));
    assert_eq!(pair.a.nic.poll_event(), None, "the completion says it");
}

#[test]
fn a_timeout_of_zero_waits_for_ever() {
    let mut pair = Pair::with(&Setup {
        timeout: Duration::ZERO,
        ..Setup::default()
    });
    pair.filter = Box::new(|_, _, _| Fate::Drop);
    pair.a.post(1, write_to(&pair.b.region, 0), 0, 10);
    pair.run();
    assert_eq!(pair.a.statuses(), []);
    assert_eq!(pair.a.counters(), []);
}

#[test]
fn progress_renews_retries_and_timeout() {
    // Every other packet of A is lost: each message costs a timeout, but none needs more than one
    // retry.
    let mut pair = Pair::with(&Setup {
        retries: 1,
        ..Setup::default()
    });
    let mut count = 0;
    pair.filter = Box::new(move |from, _, _| {
        count += u32::from(from == A);
        if from == A && count % 2 == 1 {
            Fate::Drop
        } else {
            Fate::Deliver
        }
    });
    for id in 0..20 {
        pair.a.post(id, write_to(&pair.b.region, 0), 0, 10);
        pair.run();
    }
    assert!(
        pair.a
            .statuses()
            .iter()
            .all(|&(_, status)| status == Success)
    );
    assert_eq!(pair.a.counter("local_ack_timeout_err"), 20);
}

#[test]
fn a_long_read_does_not_time_out_while_it_progresses() {
    let mut pair = Pair::with(&Setup {
        retries: 0,
        ..Setup::default()
    });
    let mut at = 0;
    pair.filter = Box::new(move |from, headers, _| {
        if from == B && headers.bth.opcode.is_read_response() {
            at += 1;
            return Fate::Delay(Duration::from_micros(at * 60));
        }
        Fate::Deliver
    });
    pair.a.post(1, read_from(&pair.b.region, 0), 0, 20_000);
    pair.run();
    assert_eq!(pair.a.statuses(), [(1, Success)]);
    assert_eq!(pair.a.counters(), []);
}

#[test]
fn stale_answers_do_not_spend_retries() {
    // One READ response of a long stream is lost; all later ones reveal this.
    let mut pair = Pair::with(&Setup {
        retries: 1,
        ..Setup::default()
    });
    pair.drop_nth(B, |h| h.bth.opcode == Opcode::ReadResponseMiddle, &[1]);
    for id in 0..4 {
        pair.a
            .post(id, read_from(&pair.b.region, 0), id * 50_000, 50_000);
    }
    pair.run();
    assert_eq!(pair.a.statuses().len(), 4);
    assert_eq!(pair.a.counter("completer_retry_err"), 1);
    assert_eq!(pair.a.counter("drop_response_gap"), 4 * 49 - 3);
}

#[test]
fn sequence_errors_count_as_retries() {
    let mut pair = Pair::with(&Setup {
        retries: 0,
        ..Setup::default()
    });
    pair.drop_nth(A, |_| true, &[0]);
    pair.a.post(1, write_to(&pair.b.region, 0), 0, 10);
    pair.a.post(2, write_to(&pair.b.region, 0), 0, 10);
    pair.run();
    assert_eq!(pair.a.statuses(), [(1, RetriesExceeded), (2, Flushed)]);
}
