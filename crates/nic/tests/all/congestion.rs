//! DCQCN end to end: marks, notifications, rates, pacing.

use crate::common::*;
use rackweave_base::{Duration, Payload};
use rackweave_nic::{Dcqcn, NicConfig};
use rackweave_verbs::CompletionStatus::Success;
use rackweave_wire::{Ecn, Headers, Opcode, icrc};

const LINE_RATE: u64 = 10_000_000_000;

fn setup() -> Setup {
    fn config(config: &mut NicConfig) {
        config.congestion = Some(Dcqcn::new(LINE_RATE));
        // Marks are set on the path; the ICRC does not cover them, but the test rewrites packets.
        config.check = false;
        config.window_packets = 1000;
        config.ack_every = 1;
    }
    Setup {
        config,
        timeout: Duration::from_millis(100),
        ..Setup::default()
    }
}

fn marked(headers: &Headers, payload: &Payload) -> Fate {
    let mut headers = *headers;
    headers.ipv4.ecn = Ecn::CongestionExperienced;
    Fate::Replace(Box::new(headers.packet(payload.clone())))
}

#[test]
fn marks_bring_notifications_but_not_too_often() {
    let mut pair = Pair::with(&setup());
    pair.filter = Box::new(|from, headers, packet| match from {
        A => marked(headers, &packet.payload),
        B => Fate::Deliver,
    });
    for id in 0..10 {
        pair.a.post(id, write_to(&pair.b.region, 0), 0, 10_000);
        pair.run_for(Duration::from_micros(20));
    }
    let marks = pair.b.counter("np_ecn_marked_roce_packets");
    let sent = pair.b.counter("np_cnp_sent");
    assert_eq!(marks, pair.trace.iter().filter(|t| t.1 == A).count() as u64);
    // 200 µs, with at most one per 50.
    assert!((3..=5).contains(&sent), "{sent}");
    assert_eq!(pair.a.counter("rp_cnp_handled"), sent);
    assert!(pair.a.nic.rate_limit(pair.a.qpn).unwrap() < LINE_RATE / 2);
    let cnps = pair
        .trace
        .iter()
        .filter(|t| t.2.bth.opcode == Opcode::CongestionNotification);
    for (_, side, headers, _) in cnps {
        assert_eq!(*side, B);
        assert_eq!(headers.bth.target_qp, pair.a.qpn);
        assert!(headers.bth.becn);
    }
}

#[test]
fn a_cut_rate_is_kept_and_won_back() {
    let mut pair = Pair::with(&setup());
    let mut first = true;
    pair.filter = Box::new(move |from, headers, packet| {
        if from == A && core::mem::take(&mut first) {
            return marked(headers, &packet.payload);
        }
        Fate::Deliver
    });
    for id in 0..20 {
        pair.a.post(id, write_to(&pair.b.region, 0), 0, 50_000);
    }
    let start = pair.now;
    pair.run_for(Duration::from_micros(50));
    assert_eq!(pair.a.nic.rate_limit(pair.a.qpn), Some(LINE_RATE / 2));
    let sent: usize = pair.trace.iter().filter(|t| t.1 == A).map(|t| t.3).sum();
    // Until the notification arrived, the whole window was sent at once: the NIC itself has no line
    // rate, its link has. After it, half of the line rate is 625 bytes per microsecond.
    let at_once: usize = {
        let early = pair.trace.iter().filter(|t| t.1 == A && t.0 == start);
        early.map(|t| t.3).sum()
    };
    let paced = sent - at_once;
    assert!(paced < 16 * 1024 + 50 * 625 + 4096, "{paced}");
    pair.run();
    assert_eq!(pair.a.nic.rate_limit(pair.a.qpn), None);
    assert_eq!(pair.a.statuses().len(), 20);
    assert_eq!(
        pair.a.nic.poll_timeout(),
        None,
        "no timer runs at line rate"
    );
}

#[test]
fn read_responses_are_paced_too() {
    let mut pair = Pair::with(&setup());
    let mut first = true;
    pair.filter = Box::new(move |from, headers, packet| {
        if from == B && core::mem::take(&mut first) {
            return marked(headers, &packet.payload);
        }
        Fate::Deliver
    });
    pair.a.post(0, read_from(&pair.b.region, 0), 0, 1000);
    pair.run_for(Duration::from_micros(5));
    assert_eq!(pair.b.counter("rp_cnp_handled"), 1);
    let start = pair.now;
    pair.a.post(1, read_from(&pair.b.region, 0), 0, 50_000);
    while pair.a.statuses() != [(1, Success)] {
        assert!(pair.step());
    }
    // 34 KB beyond the burst at 625 bytes per microsecond.
    assert!(
        pair.now.since(start) > Duration::from_micros(50),
        "{:?}",
        pair.now.since(start)
    );
}

#[test]
fn without_rate_control_marks_and_notifications_are_only_counted() {
    let mut pair = Pair::new();
    let now = pair.now;
    pair.a.post(1, write_to(&pair.b.region, 0), 0, 10);
    let packet = pair.a.nic.poll_transmit(now).unwrap();
    let headers = Headers::of(&packet).unwrap();
    let Fate::Replace(mut packet) = marked(&headers, &packet.payload) else {
        unreachable!()
    };
    assert!(icrc::seal(&mut packet, &pair.memory));
    let cnp = rackweave_wire::cnp::answer(&Headers::of(&packet).unwrap(), pair.a.qpn);
    let mut cnp = cnp.packet(Payload::Empty);
    assert!(icrc::seal(&mut cnp, &pair.memory));
    pair.b.nic.handle_packet(now, *packet);
    pair.a.nic.handle_packet(now, cnp);
    assert_eq!(pair.b.counter("np_ecn_marked_roce_packets"), 1);
    assert_eq!(pair.b.counter("np_cnp_sent"), 0);
    assert_eq!(
        pair.a.counters(),
        [("rp_cnp_ignored", 1), ("drop_cnp_ignored", 1)]
    );
}
