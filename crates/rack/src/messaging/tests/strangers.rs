//! Peers that are not nodes, nodes of other racks, or too many nodes.

use super::*;
use crate::EmbeddedRack;
use rackweave_endpoint::messaging::handshake::Handshake;
use std::collections::VecDeque;

/// The listener works as before: a node can connect.
fn check_alive(rack: &EmbeddedRack, listener: &mut Listener) {
    let (compute, storage) = connect(rack, listener);
    check_traffic(compute, storage);
}

#[test]
fn nodes_of_another_rack_are_refused() {
    let (here, elsewhere) = (rack(), rack());
    let mut listener = listener(&here);
    let mut stranger = dialing(&elsewhere, &listener);
    let error = finish(&mut listener, &mut stranger).expect_err("another rack");
    let code = match &error {
        ConnectError::Handshake { error, .. } => error.code(),
        other => panic!("{other}"),
    };
    assert_eq!(code, RefusalCode::ForeignRack);
    assert!(
        error
            .to_string()
            .contains("the storage node refused: the nodes are in different")
    );
    let counters = listener.counters();
    assert_eq!((counters.came, counters.refused), (1, 1));
    assert_eq!(counters.refused_with(RefusalCode::ForeignRack), 1);
    let failure = listener.take_failure().expect("it is kept");
    assert_eq!(failure.error.code(), RefusalCode::ForeignRack);
    assert!(listener.take_failure().is_none());
    check_alive(&here, &mut listener);
}

#[test]
fn clients_of_other_protocols_are_told() {
    let rack = rack();
    let mut listener = listener(&rack);
    let sentences: [&[u8]; 3] = [
        b"GET / HTTP/1.1\r\nHost: localhost\r\n\r\n",
        &[22, 3, 1, 0, 200, 1, 0, 0, 196, 3, 3],
        &[0xff; 5000],
    ];
    for sentence in sentences {
        let mut stream = TcpStream::connect(listener.local_addr()).expect("it listens");
        stream.write_all(sentence).expect("it takes some bytes");
        let refusal = hear_refusal(&mut listener, &mut stream);
        assert_eq!(refusal.code, RefusalCode::NotSpoken);
    }
    assert_eq!(listener.counters().refused_with(RefusalCode::NotSpoken), 3);
    let first = listener.take_failure().expect("it is kept");
    assert!(
        first.error.to_string().contains("`GET / HTTP/1.1"),
        "{}",
        first.error
    );
    check_alive(&rack, &mut listener);
}

#[test]
fn a_server_of_another_protocol_is_recognised() {
    let rack = rack();
    let web = TcpListener::bind(any_port()).expect("a free port is found");
    let address = web.local_addr().expect("it is bound");
    let mut dialing = Dialing::start(&rack, COMPUTE, address, config(), AMPLE).expect("it begins");
    let (mut client, _) = web.accept().expect("it dials");
    client
        .write_all(b"HTTP/1.1 400 Bad Request\r\n\r\n")
        .expect("it is there");
    let error = loop {
        if let Some(end) = dialing.poll() {
            break end.expect_err("no storage node");
        }
    };
    assert!(error.to_string().contains("`HTTP/1.1 400 Bad`"), "{error}");
}

/// Ten thousand peers open a stream and send nothing. The listener waits for 64 of them, and
/// refuses the oldest as busy when one more arrives: a node can connect meanwhile, and when they
/// have left nothing remains.
#[test]
fn half_open_streams_keep_nobody_out() {
    const STRANGERS: u64 = 10_000;
    let rack = rack();
    let mut listener = listener(&rack);
    let held = rack.memory().bytes_held();
    let mut silent = VecDeque::new();
    for at in 0..STRANGERS {
        let came = TcpStream::connect(listener.local_addr()).expect("it listens");
        silent.push_back(came);
        poll_until(&mut listener, |listener| listener.counters().came > at);
        assert!(listener.pending() <= PENDING_MAX);
        if silent.len() > 2 * PENDING_MAX {
            let mut first = silent.pop_front().expect("many");
            let refusal = hear_refusal(&mut listener, &mut first);
            assert_eq!(refusal.code, RefusalCode::Busy);
        }
    }
    let turned_away = STRANGERS - PENDING_MAX as u64;
    assert_eq!(listener.counters().busy, turned_away);
    assert_eq!(
        listener.counters().refused_with(RefusalCode::Busy),
        turned_away
    );
    assert_eq!(rack.memory().bytes_held(), held, "strangers get no memory");
    check_alive(&rack, &mut listener);
    drop(silent);
    poll_until(&mut listener, |listener| listener.pending() == 0);
    assert_eq!(listener.counters().ended, PENDING_MAX as u64 - 1);
}

/// Nodes that have proven that they are of this rack are not evicted.
#[test]
fn nodes_that_are_known_are_not_turned_away() {
    let rack = rack();
    let mut listener = listener(&rack);
    let greeted: Vec<_> = (0..PENDING_MAX)
        .map(|_| greet(&rack, &mut listener))
        .collect();
    let mut late = TcpStream::connect(listener.local_addr()).expect("it listens");
    let refusal = hear_refusal(&mut listener, &mut late);
    assert_eq!(refusal.code, RefusalCode::Busy);
    assert_eq!(
        (listener.pending(), listener.counters().busy),
        (PENDING_MAX, 1)
    );
    drop(greeted);
    poll_until(&mut listener, |listener| listener.pending() == 0);
    check_alive(&rack, &mut listener);
}

#[test]
fn who_says_nothing_is_told_that_time_is_over() {
    let rack = rack();
    let mut listener = listener(&rack);
    listener.set_patience(Duration::from_millis(20));
    let mut silent = TcpStream::connect(listener.local_addr()).expect("it listens");
    let refusal = hear_refusal(&mut listener, &mut silent);
    assert_eq!(refusal.code, RefusalCode::TooLate);
    assert_eq!(listener.counters().timed_out, 1);
    assert_eq!(listener.counters().refused_with(RefusalCode::TooLate), 1);
    listener.set_patience(AMPLE);
    check_alive(&rack, &mut listener);
}

/// The first message of a node of this rack.
fn hello(rack: &EmbeddedRack) -> Vec<u8> {
    let local = LocalNode::new(rack, COMPUTE, Role::Compute, config()).expect("a sound node");
    let now = local.node.now();
    let (config, terms) = (local.config.clone(), local.terms());
    let deadline = now + AMPLE.into();
    let mut dialer = Handshake::new(now, Role::Compute, config, terms, deadline);
    dialer.poll_send().expect("it begins")
}

/// A peer that has sent a valid Hello, and received an Offer.
fn greet(rack: &EmbeddedRack, listener: &mut Listener) -> TcpStream {
    let mut stream = TcpStream::connect(listener.local_addr()).expect("it listens");
    stream.write_all(&hello(rack)).expect("it is there");
    stream.set_nonblocking(true).expect("a stream");
    let mut offer = [0; 52];
    poll_until(listener, |_| {
        stream.peek(&mut offer).is_ok_and(|len| len == 52)
    });
    stream.read_exact(&mut offer).expect("it is all there");
    let said = Message::take(&offer);
    assert!(matches!(said, Ok(Some((Message::Offer(_), 52)))));
    stream
}

/// A valid Hello, and then invalid bytes, nothing or the end.
#[test]
fn who_says_hello_and_no_more_leaves_nothing() {
    let rack = rack();
    let mut listener = listener(&rack);
    let held = rack.memory().bytes_held();
    let mut stream = greet(&rack, &mut listener);
    stream.write_all(&hello(&rack)).expect("it is there");
    let refusal = hear_refusal(&mut listener, &mut stream);
    assert_eq!(refusal.code, RefusalCode::OutOfOrder);
    drop(greet(&rack, &mut listener));
    poll_until(&mut listener, |listener| listener.pending() == 0);
    assert_eq!(listener.counters().ended, 1);
    assert_eq!(rack.memory().bytes_held(), held);
    check_alive(&rack, &mut listener);
}

/// A node dials; returns the outcome.
fn dial_from(
    rack: &EmbeddedRack,
    listener: &mut Listener,
    node: NodeId,
) -> Result<(MessageConnection, MessageConnection), RefusalCode> {
    let address = listener.local_addr();
    let mut dialing = Dialing::start(rack, node, address, config(), AMPLE).expect("it begins");
    match finish(listener, &mut dialing) {
        Ok(compute) => Ok((compute, listener.accept(AMPLE).expect("it is connected"))),
        Err(ConnectError::Handshake { error, .. }) => Err(error.code()),
        Err(other) => panic!("{other}"),
    }
}

/// One peer opens connections without end, and is refused at its quota. Another one is served
/// meanwhile, and the first again when it has closed one.
fn check_quota(quota: PeerQuota, fit: usize) {
    let other = NodeId(3);
    let rack = rack();
    let mut listener = listener(&rack);
    listener.set_peer_quota(quota);
    let mut greedy = Vec::new();
    let refused = loop {
        match dial_from(&rack, &mut listener, COMPUTE) {
            Ok(both) => greedy.push(both),
            Err(code) => break code,
        }
    };
    assert_eq!((greedy.len(), refused), (fit, RefusalCode::OverQuota));
    let in_use = rack.memory().bytes_in_use();
    for _ in 0..10 {
        let again = dial_from(&rack, &mut listener, COMPUTE).map(drop);
        assert_eq!(again, Err(RefusalCode::OverQuota));
    }
    assert_eq!(rack.memory().bytes_in_use(), in_use, "it gets no memory");
    let counters = listener.counters();
    assert_eq!(counters.refused_with(RefusalCode::OverQuota), 11);
    assert_eq!(counters.refused, 11);
    let failure = listener.take_failure().expect("it is kept");
    assert!(failure.error.to_string().contains("this peer has"));

    let (compute, storage) = dial_from(&rack, &mut listener, other).expect("another peer");
    check_traffic(compute, storage);

    // The compute node has left, but the storage node still has its end: its memory is not free.
    let (compute, storage) = greedy.pop().expect("at least one");
    drop(compute);
    let again = dial_from(&rack, &mut listener, COMPUTE).map(drop);
    assert_eq!(again, Err(RefusalCode::OverQuota));
    let (_, mut receivers) = storage.split();
    let closed = receivers[0].receive(&mut Vec::new());
    assert!(closed.is_err(), "its peer has gone");
    drop(receivers);
    let (compute, storage) = dial_from(&rack, &mut listener, COMPUTE).expect("there is room");
    check_traffic(compute, storage);
}

#[test]
fn a_peer_opens_no_more_connections_than_one_may_have() {
    check_quota(
        PeerQuota {
            connections: 3,
            bytes: u64::MAX,
        },
        3,
    );
}

#[test]
fn a_peer_takes_no_more_memory_than_one_may_have() {
    // Two receive buffers of 4 KiB each way; a send buffer for the peer's two; the words.
    let of_one = 1024 + 2 * 4096 + 2 * 4096 + 64 * (2 + 2 + 2);
    check_quota(
        PeerQuota {
            connections: usize::MAX,
            bytes: 5 * of_one - 1,
        },
        4,
    );
}

/// Handshakes with a valid Hello count: they may become connections at any time.
#[test]
fn handshakes_under_way_count() {
    let rack = rack();
    let mut listener = listener(&rack);
    let quota = PeerQuota {
        connections: 2,
        bytes: u64::MAX,
    };
    listener.set_peer_quota(quota);
    let greeted = [greet(&rack, &mut listener), greet(&rack, &mut listener)];
    let late = dial_from(&rack, &mut listener, COMPUTE).map(drop);
    assert_eq!(late, Err(RefusalCode::OverQuota));
    drop(greeted);
    poll_until(&mut listener, |listener| listener.pending() == 0);
    check_alive(&rack, &mut listener);
}
