//! Connections by the connection manager: how they begin and end, with losses, repeats and peers
//! that have forgotten.

mod pair;

use pair::{Node, PORT, Pair, established, ip};
use proptest::prelude::*;
use rackweave_base::{Duration, Instant, Qpn};
use rackweave_nic::{CableId, DropReason};
use rackweave_verbs::{
    Completion, CompletionStatus, ConnectAttributes, ConnectError, ConnectionEvent,
    ConnectionManager, Datagrams, Mtu, Operation, QpModify, QpState, ReceiveRequest, Verbs,
    WorkRequest,
};
use rackweave_wire::{Extension, Headers};
use std::net::SocketAddrV4;

#[test]
fn a_connection_from_request_to_end() {
    let mut pair = Pair::connected(1);
    let [
        ConnectionEvent::Requested {
            port,
            from,
            reads,
            private,
            ..
        },
        _,
    ] = &pair.b.events[..]
    else {
        panic!("{:?}", pair.b.events);
    };
    assert_eq!((*port, *from.ip(), *reads), (PORT, ip(1), [16, 16]));
    assert_eq!((&private[..5], private.len()), (&b"hello"[..], 56));
    let (a, private) = established(&pair.a.events).unwrap();
    assert_eq!((&private[..7], private.len()), (&b"welcome"[..], 196));
    for node in [&pair.a, &pair.b] {
        assert_eq!(node.state(), QpState::ReadyToSend);
    }

    let segment = pair.b.region.segment(0, 5);
    let (a_qpn, b_qpn) = (pair.a.qpn, pair.b.qpn);
    pair.b
        .nic
        .post_receive(b_qpn, ReceiveRequest::new(1, &[segment]))
        .unwrap();
    let send = Operation::Send { immediate: None };
    let request = WorkRequest::new(2, send, &[pair.a.region.segment(8, 5)]);
    pair.a.nic.post_send(a_qpn, request).unwrap();
    let mut done: Vec<Completion> = Vec::new();
    while done.len() < 2 {
        assert!(pair.step());
        for node in [&mut pair.a, &mut pair.b] {
            node.nic.poll_cq(node.cq, 4, &mut done);
        }
    }
    assert!(
        done.iter()
            .all(|done| done.status == CompletionStatus::Success)
    );

    pair.a.nic.disconnect(a).unwrap();
    assert_eq!(pair.a.state(), QpState::Error);
    pair.until("the end", |pair| {
        let closed = |node: &Node| matches!(node.last(), ConnectionEvent::Closed { .. });
        closed(&pair.a) && closed(&pair.b)
    });
    assert_eq!(pair.b.state(), QpState::Error);
    for node in [&pair.a, &pair.b] {
        let before_last = &node.events[node.events.len() - 2];
        assert!(
            matches!(before_last, ConnectionEvent::Disconnected { .. }),
            "{before_last:?}"
        );
        assert_eq!(node.nic.counters().drops_total(), 0);
    }
    assert_eq!(pair.a.nic.disconnect(a), Err(ConnectError::Unknown(a)));
    // The queue pairs connect again.
    for node in [&mut pair.a, &mut pair.b] {
        node.nic.modify_qp(node.qpn, QpModify::Reset).unwrap();
        node.events.clear();
    }
    pair.a.connect(2);
    pair.until("a request", |pair| pair.b.requested().is_some());
    pair.b.accept();
    pair.until("established again", |pair| pair.is_established());
}

#[test]
fn refusals_have_a_reason() {
    let mut pair = Pair::new(2);
    // The node answers ARP, but nobody has used its connection manager.
    pair.b.nic.bind(4793).unwrap();
    pair.a.connect(2);
    pair.until("no answer", |pair| !pair.a.events.is_empty());
    assert!(matches!(pair.a.last(), ConnectionEvent::Unreachable { .. }));
    assert_eq!(pair.b.nic.counters().drops(DropReason::UnknownQp), 16);

    pair.b.nic.listen(PORT + 1, 1).unwrap();
    assert_eq!(
        pair.b.nic.listen(PORT + 1, 1),
        Err(ConnectError::Taken(PORT + 1))
    );
    let reason = |pair: &mut Pair, reply: fn(&mut Pair)| {
        pair.a.events.clear();
        pair.b.events.clear();
        pair.a.connect(2);
        for _ in 0..10 {
            pair.step();
        }
        reply(pair);
        pair.until("an answer", |pair| !pair.a.events.is_empty());
        match pair.a.last() {
            ConnectionEvent::Rejected { text, private, .. } => (text.clone(), private[0]),
            other => panic!("{other:?}"),
        }
    };
    let nobody = reason(&mut pair, |_| {});
    assert_eq!(nobody, ("nobody listens there (reason 8)".to_owned(), 0));

    pair.b.nic.listen(PORT, 1).unwrap();
    let refused = reason(&mut pair, |pair| {
        let id = pair.b.requested().unwrap();
        pair.b.nic.reject(id, &[7]).unwrap();
        assert_eq!(pair.b.nic.reject(id, &[]), Err(ConnectError::Unknown(id)));
    });
    assert_eq!(
        refused,
        ("the peer's program refuses it (reason 28)".to_owned(), 7)
    );
    assert_eq!(
        pair.a.state(),
        QpState::Init,
        "it may connect to another node"
    );

    assert!(pair.b.nic.unlisten(PORT) && !pair.b.nic.unlisten(PORT));
    pair.b.nic.listen(PORT, 0).unwrap();
    let full = reason(&mut pair, |_| {});
    assert_eq!(full.0, "no resources are free (reason 3)");
}

#[test]
fn what_a_program_gets_wrong_is_refused() {
    let mut pair = Pair::connected(3);
    let to = SocketAddrV4::new(ip(2), PORT);
    let attributes = ConnectAttributes::default();
    let qpn = pair.a.qpn;
    let connect = |node: &mut Node, qpn, private: &[u8]| {
        node.nic.connect(qpn, to, &attributes, private).unwrap_err()
    };
    assert_eq!(connect(&mut pair.a, qpn, &[]), ConnectError::InUse(qpn));
    let unknown = Qpn(0x77_7777);
    assert_eq!(
        connect(&mut pair.a, unknown, &[]),
        ConnectError::UnknownQp(unknown)
    );
    let too_large = ConnectError::TooLarge { len: 57, limit: 56 };
    assert_eq!(connect(&mut pair.a, qpn, &[0; 57]), too_large);

    let mut pair = Pair::new(4);
    pair.b.nic.listen(PORT, 1).unwrap();
    let large = ConnectAttributes {
        mtu: Mtu::B4096,
        ..attributes
    };
    pair.a.nic.connect(qpn, to, &large, &[]).unwrap();
    pair.until("a request", |pair| pair.b.requested().is_some());
    let (id, b_qpn) = (pair.b.requested().unwrap(), pair.b.qpn);
    let refused = pair.b.nic.accept(id, b_qpn, &attributes, &[]);
    let (asked, limit) = (4096, 1024);
    assert_eq!(refused, Err(ConnectError::Mtu { asked, limit }));
    pair.b.nic.accept(id, b_qpn, &large, &[]).unwrap();
    pair.until("established", |pair| pair.is_established());
}

#[test]
fn a_request_that_waits_long_is_not_given_up() {
    let mut pair = Pair::new(5);
    pair.b.nic.listen(PORT, 1).unwrap();
    pair.a.connect(2);
    let end = Instant::ZERO + Duration::from_secs(50);
    pair.until("a request", |pair| pair.now > end);
    assert_eq!(
        pair.b.events.len(),
        1,
        "repeats of a request are the same one"
    );
    pair.b.accept();
    pair.until("established", |pair| pair.is_established());
}

#[test]
fn a_peer_that_has_forgotten_starts_again() {
    let mut pair = Pair::connected(6);
    let memory = pair.memory.clone();
    // The same numbers of queue pairs, another first number of connections.
    pair.a = Node::new(1, &memory, 77);
    pair.a.connect(2);
    pair.until("an answer", |pair| !pair.a.events.is_empty());
    let ConnectionEvent::Rejected { reason, .. } = pair.a.last() else {
        panic!("{:?}", pair.a.events);
    };
    assert_eq!(*reason, 10, "a stale connection");
    assert_eq!(pair.b.state(), QpState::Error);
    assert!(matches!(
        pair.b.last(),
        ConnectionEvent::Disconnected { .. }
    ));
    pair.b.nic.modify_qp(pair.b.qpn, QpModify::Reset).unwrap();
    pair.b.events.clear();
    pair.a.connect(2);
    pair.until("a request", |pair| pair.b.requested().is_some());
    pair.b.accept();
    pair.until("established", |pair| established(&pair.a.events).is_some());
}

#[test]
fn an_acceptance_to_a_peer_that_has_gone_is_taken_back() {
    let mut pair = Pair::new(7);
    pair.b.nic.listen(PORT, 1).unwrap();
    pair.a.connect(2);
    pair.until("a request", |pair| pair.b.requested().is_some());
    let memory = pair.memory.clone();
    pair.a = Node::new(1, &memory, 77);
    pair.a.nic.listen(PORT, 1).unwrap();
    pair.b.accept();
    pair.until("an answer", |pair| pair.b.events.len() == 2);
    let ConnectionEvent::Rejected { reason, .. } = pair.b.last() else {
        panic!("{:?}", pair.b.events);
    };
    assert_eq!((*reason, pair.b.state()), (6, QpState::Error));
}

#[test]
fn messages_with_another_key_or_content_are_dropped() {
    let mut pair = Pair::new(8);
    pair.b.nic.listen(PORT, 1).unwrap();
    pair.a.connect(2);
    let mut packet = None;
    while packet.is_none() {
        pair.step();
        let flying = pair.flight.values().map(|(_, packet)| packet);
        packet = flying
            .clone()
            .find(|packet| Headers::of(packet).is_ok())
            .cloned();
    }
    let packet = packet.unwrap();
    let mut headers = Headers::of(&packet).unwrap();
    let bytes = packet.payload.to_vec(&pair.memory).unwrap();
    let Extension::Deth(deth) = headers.extension else {
        panic!("{headers}");
    };
    let send = |pair: &mut Pair, headers: &Headers, bytes: &[u8]| {
        let payload = rackweave_base::Payload::copied(bytes);
        let mut packet = headers.packet(payload);
        assert!(rackweave_wire::icrc::seal(&mut packet, &pair.memory));
        pair.b.nic.handle_packet(pair.now, packet);
        let counters = pair.b.nic.counters();
        (
            counters.drops(DropReason::BadManagement),
            counters.drops_total(),
        )
    };
    headers.extension = Extension::Deth(rackweave_wire::Deth { qkey: 1, ..deth });
    assert_eq!(send(&mut pair, &headers, &bytes), (1, 1));
    headers.extension = Extension::Deth(deth);
    assert_eq!(send(&mut pair, &headers, &bytes[..255]), (2, 2));
    headers.bth.target_qp = Qpn(0);
    assert_eq!(send(&mut pair, &headers, &bytes), (2, 3));
    headers.bth.target_qp = Qpn(1);
    // At a direct cable no switch has checked the source.
    pair.b.nic.set_cable(CableId(1), Some(ip(3)));
    let now = pair.now;
    pair.b.nic.handle_direct(now, CableId(1), packet);
    assert_eq!(pair.b.nic.counters().drops(DropReason::NotFromPeer), 1);
    assert!(pair.b.nic.poll_connection().is_none());
    assert_eq!(send(&mut pair, &headers, &bytes), (2, 4));
    assert!(pair.b.nic.poll_connection().is_some());
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(400))]

    /// Whatever is lost, repeated or late: both ends agree in the end, and no connection stays.
    #[test]
    fn both_ends_agree(
        seed: u64, loss in 0.0..0.4, repeat in 0.0..0.3, delay in 1u64..400_000_000,
        accepts: bool, a_ends: bool,
    ) {
        let mut pair = Pair::new(seed);
        (pair.loss, pair.repeat) = (loss, repeat);
        pair.delay_max = Duration::from_nanos(delay);
        pair.b.nic.listen(PORT, 1).unwrap();
        let a = pair.a.connect(2);
        let is_end = |event: &ConnectionEvent| !matches!(
            event,
            ConnectionEvent::Requested { .. } | ConnectionEvent::Established { .. }
        );
        let ended = |node: &Node| node.events.iter().any(is_end);
        pair.until("a request or its end", |pair| pair.b.requested().is_some() || ended(&pair.a));
        if let Some(id) = pair.b.requested() {
            if accepts {
                pair.b.accept();
            } else {
                pair.b.nic.reject(id, &[]).unwrap();
            }
        }
        let first = pair.b.requested();
        while established(&pair.a.events).is_none() && !ended(&pair.a) {
            prop_assert!(pair.step(), "an answer or its end: {:?}", pair.a.events);
            // A request that was rejected may come again, much later.
            if let Some(id) = pair.b.requested().filter(|_| pair.b.requested() != first) {
                let _ = pair.b.nic.reject(id, &[]);
            }
        }
        prop_assert!(accepts || established(&pair.a.events).is_none());
        if established(&pair.a.events).is_some() {
            prop_assert_eq!(pair.a.state(), QpState::ReadyToSend);
            pair.until("established", |pair| {
                established(&pair.b.events).is_some() || ended(&pair.b)
            });
            let (node, id) = match (a_ends, established(&pair.b.events)) {
                (false, Some((id, _))) => (&mut pair.b, id),
                _ => (&mut pair.a, a),
            };
            let _ = node.nic.disconnect(id);
        }
        // All that was begun ends: no deadline and no packet is left.
        let end = pair.now + Duration::from_secs(60);
        while pair.step() {
            prop_assert!(pair.now < end, "{:?} {:?}", pair.a.events, pair.b.events);
        }
        prop_assert!(ended(&pair.a));
        for node in [&pair.a, &pair.b] {
            let begun = node.events.iter().filter(|event| matches!(
                event, ConnectionEvent::Established { .. })).count();
            let closed = node.events.iter().filter(|event| matches!(
                event, ConnectionEvent::Closed { .. })).count();
            prop_assert!(begun <= closed, "{:?}", node.events);
        }
    }
}
