//! Nodes that follow the protocol.

use super::*;
use crate::EmbeddedRack;
use rackweave_endpoint::messaging::{
    CloseReason, ClosedBy, ConfigError, MessageReceiver, MessageSender,
};
use rackweave_verbs::{Access, Verbs};

#[test]
fn in_one_thread() {
    let rack = rack();
    let mut listener = listener(&rack);
    let (compute, storage) = connect(&rack, &mut listener);
    assert_eq!(compute.peer(), listener.local_addr());
    assert_eq!(storage.peer().ip(), listener.local_addr().ip());
    check_traffic(compute, storage);
    let counters = listener.counters();
    assert_eq!((counters.came, counters.connected), (1, 1));
    assert_eq!(counters.refusals().count(), 0);
    assert!(listener.take_failure().is_none());
}

#[test]
fn in_two_threads() {
    let rack = rack();
    let mut listener = listener(&rack);
    let address = listener.local_addr();
    std::thread::scope(|scope| {
        let compute = scope.spawn(|| dial(&rack, COMPUTE, address, config(), AMPLE));
        let storage = listener.accept(AMPLE).expect("somebody dials");
        let compute = compute.join().expect("it does not panic");
        check_traffic(compute.expect("somebody listens"), storage);
    });
}

/// Each node has sizes of its own; the number of channels is the smaller of both.
#[test]
fn sizes_may_differ() {
    let rack = rack();
    let config_here = MessagingConfig {
        receive_buffers: 7,
        receive_bytes: 1024,
        channels_up: 7,
        channels_down: 3,
        ..config()
    };
    let mut listener =
        Listener::bind(&rack, STORAGE, any_port(), config_here).expect("a free port is found");
    listener.set_patience(AMPLE);
    let theirs = MessagingConfig {
        receive_buffers: 5,
        receive_bytes: 64 << 10,
        channels_up: 2,
        channels_down: 5,
        ..config()
    };
    let address = listener.local_addr();
    let mut dialing = Dialing::start(&rack, COMPUTE, address, theirs, AMPLE).expect("it begins");
    let compute = finish(&mut listener, &mut dialing).expect("they fit");
    let storage = listener.try_accept().expect("it is connected");
    let (up, down) = compute.split();
    assert_eq!((up.len(), down.len()), (2, 3));
    drop((up, down));
    let (down, up) = storage.split();
    assert_eq!((up.len(), down.len()), (2, 3));
}

#[test]
fn one_node_may_be_both_sides() {
    let rack = rack();
    let mut listener = listener(&rack);
    let address = listener.local_addr();
    let mut dialing = Dialing::start(&rack, STORAGE, address, config(), AMPLE).expect("it begins");
    let compute = finish(&mut listener, &mut dialing).expect("nothing is in the way");
    let storage = listener.try_accept().expect("it is connected");
    check_traffic(compute, storage);
}

/// The NICs have capacity for one connection. So whatever has ended, in any way, has freed all its
/// resources.
#[test]
fn nothing_is_held_by_those_who_are_gone() {
    let mut small = RackConfig::default();
    (small.nic.queue_pairs, small.nic.completion_queues) = (2, 2);
    small.nic.regions = 3;
    let rack = EmbeddedRack::new(&small).expect("small NICs will do");
    let mut listener = listener(&rack);
    for round in 0..4 {
        let (compute, storage) = connect(&rack, &mut listener);
        // A second one does not fit at the compute node, which notifies the storage node.
        let mut second = dialing(&rack, &listener);
        let error = finish(&mut listener, &mut second).expect_err("there is no room");
        assert!(error.to_string().contains("regions already"), "{error}");
        poll_until(&mut listener, |listener| {
            listener.counters().refused_by_peer == round + 1
        });
        check_traffic(compute, storage);

        // A compute node that leaves when its end has been made.
        let mut dialing = dialing(&rack, &listener);
        while rack.node_at(COMPUTE).poll(|nic| spare_region(nic, &rack)) {
            listener.poll();
            assert!(dialing.poll().is_none());
        }
        drop(dialing);
        assert!(rack.node_at(COMPUTE).poll(|nic| spare_region(nic, &rack)));
        poll_until(&mut listener, |listener| listener.pending() == 0);
        while let Some(connection) = listener.try_accept() {
            drop(connection);
        }
    }
}

/// Whether a NIC with three regions has all of them free.
fn spare_region(nic: &mut dyn Verbs, rack: &EmbeddedRack) -> bool {
    let pd = nic.create_pd();
    let mut made = Vec::new();
    for _ in 0..3 {
        let block = rack.memory().allocate(64).expect("there is memory");
        made.extend(nic.register(pd, block, Access::empty()));
    }
    for region in &made {
        nic.deregister(region);
    }
    made.len() == 3
}

#[test]
fn a_listener_that_goes_says_so() {
    let rack = rack();
    let mut listener = listener(&rack);
    let mut early = dialing(&rack, &listener);
    let compute = finish(&mut listener, &mut early).expect("nothing is in the way");
    // Its Hello is answered, and nothing else.
    let mut late = dialing(&rack, &listener);
    poll_until(&mut listener, |listener| {
        let _ = late.poll();
        listener.pending() == 1
    });
    drop(listener);
    let error = loop {
        if let Some(end) = late.poll() {
            break end.expect_err("nobody listens any more");
        }
    };
    assert!(error.to_string().contains("listens no more"), "{error}");
    // The other connection had not been accepted.
    let (_up, mut down) = compute.split();
    let closed = down[0].receive(&mut Vec::new()).expect_err("it is closed");
    assert_eq!(closed.by, ClosedBy::Peer);
    assert_eq!(closed.reason, CloseReason::NodeStops);
}

#[test]
fn nodes_that_cannot_be() {
    let rack = rack();
    let nowhere = Listener::bind(&rack, NodeId(99), any_port(), config());
    let error = nowhere.err().expect("there is no such node");
    assert!(error.to_string().starts_with("node99 is not in the rack"));
    let bad = MessagingConfig {
        receive_buffers: 8,
        ..config()
    };
    let error = Listener::bind(&rack, STORAGE, any_port(), bad.clone()).err();
    assert!(matches!(
        error,
        Some(ConnectError::Config(ConfigError::ReceiveBuffers(8)))
    ));
    let error = dial(&rack, COMPUTE, any_port(), bad, AMPLE).expect_err("8 buffers");
    assert!(matches!(
        error,
        ConnectError::Config(ConfigError::ReceiveBuffers(8))
    ));

    let first = listener(&rack);
    let taken = first.local_addr();
    let error = Listener::bind(&rack, STORAGE, taken, config()).err();
    let error = error.expect("the port is taken").to_string();
    assert!(error.starts_with(&format!("cannot listen at {taken}: ")));
    drop(first);
    let error = dial(&rack, COMPUTE, taken, config(), AMPLE).expect_err("nobody listens");
    assert!(matches!(error, ConnectError::Connect { address, .. } if address == taken));
}

#[test]
fn waiting_ends() {
    let rack = rack();
    let mut listener = listener(&rack);
    let after = Duration::from_millis(5);
    let error = listener.accept(after).expect_err("nobody dials");
    assert!(matches!(error, ConnectError::TimedOut { after: limit } if limit == after));
    // The system accepts the stream, but the peer does not answer.
    let address = listener.local_addr();
    let error = dial(&rack, COMPUTE, address, config(), after).expect_err("no answer");
    let due = match &error {
        ConnectError::Handshake {
            error: HandshakeError::TimedOut { due, .. },
            ..
        } => Some(*due),
        // The machine was so slow that not even the stream was connected.
        ConnectError::Connect { .. } => None,
        other => panic!("{other}"),
    };
    assert!(due.is_none_or(|due| due == Kind::Offer));
}

/// What reports that messages were taken may be lost more than once.
#[test]
fn a_receiver_that_is_dropped_at_once_lets_its_sender_finish() {
    fn send(sender: &mut MessageSender) {
        sender.send(1, b"all of it").expect("it is open");
        sender.finish_wait().expect("the receiver takes it");
    }
    fn receive(receiver: &mut MessageReceiver) {
        let mut bytes = Vec::new();
        while receiver.receive(&mut bytes).expect("it is open").is_some() {}
        assert_eq!(bytes, b"all of it");
    }
    let mut config = RackConfig::default();
    // A packet and its acknowledgement take four links: 19 % of packets are sent again. That all
    // eight of a NIC's attempts fail, which breaks a connection, has a probability of 10^-6.
    config.faults.loss = 0.05;
    let rack = EmbeddedRack::new(&config).expect("the default can be built");
    let mut listener = listener(&rack);
    let connections: Vec<_> = (0..48).map(|_| connect(&rack, &mut listener)).collect();
    std::thread::scope(|scope| {
        for (compute, storage) in connections {
            scope.spawn(move || {
                let (mut up, mut down) = compute.split();
                send(&mut up[0]);
                receive(&mut down[0]);
            });
            scope.spawn(move || {
                let (mut down, mut up) = storage.split();
                receive(&mut up[0]);
                send(&mut down[0]);
            });
        }
    });
}
