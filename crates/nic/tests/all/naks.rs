//! Requests that a responder refuses, and the effect at both ends.

use crate::common::*;
use rackweave_base::{Payload, Psn, Rkey};
use rackweave_verbs::*;
use rackweave_wire::{AtomicEth, Bth, Ethernet, Extension, Headers, Ipv4, Opcode, Reth, Udp, icrc};

/// A request as node A would send it, whatever A's own state.
fn request(
    pair: &Pair,
    opcode: Opcode,
    psn: u32,
    extension: Extension,
    len: usize,
) -> rackweave_base::Packet {
    let (a, b) = (&pair.a.config, &pair.b.config);
    let headers = Headers {
        ethernet: Ethernet::new(a.mac, b.mac),
        ipv4: Ipv4::new(a.ip, b.ip),
        udp: Udp::new(0xc000),
        bth: Bth::new(opcode, pair.b.qpn, Psn::new(0x10_0000 + psn)),
        extension,
    };
    let mut packet = headers.packet(Payload::copied(&pattern(len, 1)));
    assert!(icrc::seal(&mut packet, &pair.memory));
    packet
}

fn reth(pair: &Pair, offset: u64, length: u32) -> Extension {
    let region = &pair.b.region;
    Extension::Reth(Reth {
        address: region.address + offset,
        rkey: region.rkey,
        length,
    })
}

/// A request: opcode, the extension after the BTH, payload length.
type Request = (Opcode, fn(&Pair) -> Extension, usize);

/// Feeds requests to B and checks its answers.
fn check(setup: &Setup, requests: &[Request], answers: &[&str]) {
    let mut pair = Pair::with(setup);
    for (psn, (opcode, extension, len)) in requests.iter().enumerate() {
        let packet = request(&pair, *opcode, psn as u32, extension(&pair), *len);
        let now = pair.now;
        pair.b.nic.handle_packet(now, packet);
    }
    pair.filter = Box::new(|_, _, _| Fate::Drop);
    pair.run();
    assert_eq!(pair.sent_by(B, 0x10_0000), answers, "{requests:?}");
    let refused = answers
        .last()
        .is_some_and(|answer| answer.contains("Invalid"));
    let state = if refused {
        QpState::Error
    } else {
        QpState::ReadyToSend
    };
    assert_eq!(pair.b.nic.qp_state(pair.b.qpn), Some(state));
    let event = refused.then_some(QpEvent::Fatal(pair.b.qpn));
    assert_eq!(pair.b.nic.poll_event(), event);
}

const NONE: fn(&Pair) -> Extension = |_| Extension::None;

#[test]
fn messages_out_of_form_are_invalid() {
    use Opcode::*;
    let setup = Setup::default();
    let first = ["ACKNOWLEDGE 0 InvalidRequest"];
    let second = ["ACKNOWLEDGE 1 InvalidRequest"];
    // Middles and lasts without a first.
    check(&setup, &[(WriteMiddle, NONE, 1024)], &first);
    check(&setup, &[(WriteLast, NONE, 10)], &first);
    check(&setup, &[(SendMiddle, NONE, 1024)], &first);
    check(&setup, &[(SendLast, NONE, 10)], &first);
    // Lengths that are not the MTU, too long, too short for the RETH, too long for it.
    check(&setup, &[(WriteFirst, |p| reth(p, 0, 5000), 1000)], &first);
    check(&setup, &[(WriteOnly, |p| reth(p, 0, 1025), 1025)], &first);
    check(&setup, &[(WriteOnly, |p| reth(p, 0, 11), 10)], &first);
    check(&setup, &[(WriteOnly, |p| reth(p, 0, 9), 10)], &first);
    check(&setup, &[(WriteFirst, |p| reth(p, 0, 1024), 1024)], &first);
    let write_first = (
        WriteFirst,
        (|p| reth(p, 0, 1500)) as fn(&Pair) -> Extension,
        1024,
    );
    check(&setup, &[write_first, (WriteLast, NONE, 475)], &second);
    check(&setup, &[write_first, (WriteLast, NONE, 477)], &second);
    check(&setup, &[write_first, (WriteMiddle, NONE, 1024)], &second);
    // One message within another.
    check(&setup, &[write_first, (SendOnly, NONE, 4)], &second);
    check(&setup, &[write_first, (SendLast, NONE, 476)], &second);
    check(&setup, &[write_first, write_first], &second);
    check(
        &setup,
        &[write_first, (ReadRequest, |p| reth(p, 0, 4), 0)],
        &second,
    );
    // Forms that this NIC does not support.
    check(
        &setup,
        &[(SendOnlyInvalidate, |_| Extension::Invalidate(Rkey(1)), 4)],
        &first,
    );
    // A message longer than 2^31 bytes.
    check(
        &setup,
        &[(ReadRequest, |p| reth(p, 0, u32::MAX), 0)],
        &first,
    );
    check(
        &setup,
        &[(WriteFirst, |p| reth(p, 0, u32::MAX), 1024)],
        &first,
    );
}

#[test]
fn well_formed_messages_are_not() {
    use Opcode::*;
    let setup = Setup::default();
    let write_first = (
        WriteFirst,
        (|p| reth(p, 0, 1500)) as fn(&Pair) -> Extension,
        1024,
    );
    check(&setup, &[write_first, (WriteLast, NONE, 476)], &[]);
    check(&setup, &[(WriteOnly, |p| reth(p, 0, 0), 0)], &[]);
}

#[test]
fn an_unaligned_atomic_is_invalid() {
    let unaligned = |p: &Pair| {
        let region = &p.b.region;
        let (address, rkey) = (region.address + 4, region.rkey);
        Extension::AtomicEth(AtomicEth {
            address,
            rkey,
            swap_or_add: 1,
            compare: 0,
        })
    };
    let answers = ["ACKNOWLEDGE 0 InvalidRequest"];
    check(
        &Setup::default(),
        &[(Opcode::FetchAdd, unaligned, 0)],
        &answers,
    );
}

#[test]
fn more_reads_than_negotiated_are_invalid_but_repeated_ones_are_not() {
    let read = (
        Opcode::ReadRequest,
        (|p| reth(p, 0, 8)) as fn(&Pair) -> Extension,
        0,
    );
    let setup = Setup {
        reads_in_flight: 2,
        ..Setup::default()
    };
    let answers = [
        "RDMA_READ_RESPONSE_ONLY 0 [8]",
        "RDMA_READ_RESPONSE_ONLY 1 [8]",
        "ACKNOWLEDGE 2 InvalidRequest",
    ];
    check(&setup, &[read, read, read], &answers);

    let mut pair = Pair::with(&setup);
    let now = pair.now;
    for psn in [0, 1, 0, 1, 0] {
        let packet = request(&pair, Opcode::ReadRequest, psn, reth(&pair, 0, 8), 0);
        pair.b.nic.handle_packet(now, packet);
    }
    pair.filter = Box::new(|_, _, _| Fate::Drop);
    pair.run();
    // All were requested again before the first response was sent; then the oldest continues to be
    // repeated while a new one arrives.
    assert_eq!(pair.sent_by(B, 0x10_0000), answers[..2]);
    for psn in [0, 2] {
        let packet = request(&pair, Opcode::ReadRequest, psn, reth(&pair, 0, 8), 0);
        pair.b.nic.handle_packet(now, packet);
    }
    pair.run();
    assert_eq!(
        pair.sent_by(B, 0x10_0000)[2..],
        ["RDMA_READ_RESPONSE_ONLY 2 [8]"]
    );
}

#[test]
fn a_repeated_read_must_lie_within_the_one_before() {
    let mut pair = Pair::new();
    let now = pair.now;
    pair.filter = Box::new(|_, _, _| Fate::Drop);
    let read = |pair: &mut Pair, psn, offset, len| {
        let packet = request(pair, Opcode::ReadRequest, psn, reth(pair, offset, len), 0);
        pair.b.nic.handle_packet(now, packet);
        pair.run();
    };
    read(&mut pair, 0, 0, 3000);
    let unmatched = |pair: &Pair| pair.b.counter("drop_unmatched_duplicate");
    for (psn, offset, len) in [
        (1, 0, 100),
        (1, 1024, 1977),
        (2, 1024, 100),
        (0xff_ffff, 0, 8),
    ] {
        let before = (pair.trace.len(), unmatched(&pair));
        read(&mut pair, psn, offset, len);
        assert_eq!(
            (pair.trace.len(), unmatched(&pair)),
            (before.0, before.1 + 1)
        );
    }
    read(&mut pair, 2, 2048, 952);
    assert_eq!(
        pair.sent_by(B, 0x10_0000).last().unwrap(),
        "RDMA_READ_RESPONSE_ONLY 2 [952]"
    );
}

#[test]
fn a_send_longer_than_its_receive_fails_at_both_ends() {
    let mut pair = Pair::new();
    pair.b.post_receive(8, 0, 1500);
    pair.b.post_receive(9, 0, 1500);
    pair.a.post(1, SEND, 0, 1501);
    pair.a.post(2, SEND, 0, 1);
    pair.run();
    use CompletionStatus::*;
    assert_eq!(pair.a.statuses(), [(1, RemoteInvalidRequest), (2, Flushed)]);
    assert_eq!(pair.b.statuses(), [(8, LocalLength), (9, Flushed)]);
    assert_eq!(pair.b.nic.poll_event(), Some(QpEvent::Fatal(pair.b.qpn)));
    assert_eq!(pair.a.nic.qp_state(pair.a.qpn), Some(QpState::Error));
}

#[test]
fn a_receive_outside_its_region_is_an_error_of_the_responder() {
    let mut pair = Pair::new();
    let mut segment = pair.b.region.segment(0, 100);
    segment.address += REGION_LEN as u64 - 50;
    pair.b
        .nic
        .post_receive(pair.b.qpn, ReceiveRequest::new(8, &[segment]))
        .unwrap();
    pair.a.post(1, SEND, 0, 100);
    pair.run();
    assert_eq!(pair.a.statuses(), [(1, CompletionStatus::RemoteOperation)]);
    assert_eq!(pair.b.statuses(), [(8, CompletionStatus::LocalProtection)]);
}

#[test]
fn reads_before_the_refused_request_are_still_answered() {
    let mut pair = Pair::new();
    pair.b.block.write(0, &pattern(5000, 3));
    let source = read_from(&pair.b.region, 0);
    let mut wrong = write_to(&pair.b.region, 0);
    if let Operation::Write { rkey, .. } = &mut wrong {
        rkey.0 ^= 1;
    }
    pair.a.post(1, source, 6000, 5000);
    pair.a.post(2, wrong, 0, 10);
    pair.a.post(3, source, 0, 10);
    pair.run();
    use CompletionStatus::*;
    assert_eq!(
        pair.a.statuses(),
        [(1, Success), (2, RemoteAccess), (3, Flushed)]
    );
    assert_eq!(pair.a.bytes(6000, 5000), pattern(5000, 3));
}

#[test]
fn a_region_deregistered_while_it_is_read_ends_the_read() {
    let mut pair = Pair::new();
    let source = read_from(&pair.b.region, 0);
    pair.a.post(1, source, 0, 100_000);
    // The request is delivered, and a few responses are sent.
    pair.step();
    let now = pair.now;
    let sent = (0..3).filter_map(|_| pair.b.nic.poll_transmit(now)).count();
    assert_eq!(sent, 3);
    assert!(pair.b.nic.deregister(&pair.b.region.clone()));
    let packet = pair.b.nic.poll_transmit(now).unwrap();
    let headers = Headers::of(&packet).unwrap();
    assert_eq!(
        describe(&headers, 0, 0x10_0000),
        "ACKNOWLEDGE 3 RemoteAccess"
    );
    pair.inject(A, packet);
    pair.run();
    assert_eq!(pair.a.statuses(), [(1, CompletionStatus::RemoteAccess)]);
}
