//! Time limits: at every step, and for the whole.

use super::rig::{PATIENCE, Pair, RigNode, START, dialer, greeted, greeter, hello, keys, offer};
use crate::messaging::Role;
use crate::messaging::handshake::{HandshakeError, Kind, RefusalCode};
use rackweave_base::Duration;
use rackweave_wire::fabric::message::handshake::Message;

const END: rackweave_base::Instant =
    rackweave_base::Instant::from_nanos(START.as_nanos() + PATIENCE.as_nanos());

fn due(error: &HandshakeError) -> Kind {
    match error {
        HandshakeError::TimedOut { due, after, .. } => {
            assert_eq!(*after, PATIENCE);
            *due
        }
        other => panic!("{other}"),
    }
}

#[test]
fn a_peer_that_says_nothing_more_is_given_up_at_every_step() {
    let mut compute = dialer();
    compute.act(END);
    assert_eq!(due(compute.error()), Kind::Offer);
    assert_eq!(compute.refusal().code, RefusalCode::TooLate);

    let mut compute = dialer();
    compute.hear(START, &offer(|_| {}));
    assert!(!compute.node.holds_nothing(), "its end is made");
    assert!(matches!(compute.messages()[..], [Message::Open(_)]));
    compute.act(END);
    assert_eq!(due(compute.error()), Kind::Accept);
    assert_eq!(compute.refusal().code, RefusalCode::TooLate);
    assert!(compute.node.holds_nothing());

    let mut storage = greeter();
    storage.act(END);
    assert_eq!(due(storage.error()), Kind::Hello);
    assert_eq!(storage.refusal().code, RefusalCode::TooLate);

    let mut storage = greeted(greeter());
    assert!(
        storage.node.holds_nothing(),
        "nothing is made before an Open"
    );
    assert_eq!(storage.node.memory.bytes_held(), 0);
    storage.act(END);
    assert_eq!(due(storage.error()), Kind::Open);
    assert_eq!(
        storage.error().to_string(),
        "an Open of the compute node did not come within 2.000s; is it busy, or no such node at \
         all?"
    );
}

#[test]
fn who_is_in_time_by_a_nanosecond_is_heard() {
    let last = rackweave_base::Instant::from_nanos(END.as_nanos() - 1);
    let mut storage = greeted(greeter());
    assert_eq!(storage.machine.poll_timeout(), Some(END));
    storage.hear(last, &Message::Open(keys(|_| {})).emit());
    assert!(storage.is_connected());

    // Bytes that arrive later are ignored.
    let mut storage = greeted(greeter());
    storage.hear(END, &Message::Open(keys(|_| {})).emit());
    assert_eq!(due(storage.error()), Kind::Open);
    assert_eq!(storage.node.memory.bytes_held(), 0);
}

/// A peer that sends a byte now and then does not extend the deadline.
#[test]
fn a_slow_loris_is_cut_off() {
    let mut storage = greeter();
    let mut now = START;
    for byte in hello(|_| {}) {
        storage.hear(now, &[byte]);
        if storage.end.is_some() {
            break;
        }
        now += Duration::from_millis(100);
    }
    assert_eq!(now, END);
    assert_eq!(due(storage.error()), Kind::Hello);
    assert_eq!(storage.refusal().code, RefusalCode::TooLate);
}

/// A compute node that gives up releases its resources, and the storage node is notified.
#[test]
fn a_compute_node_gives_up() {
    let mut pair = Pair::of(
        RigNode::new(Role::Compute, 1),
        RigNode::new(Role::Storage, 2),
    );
    pair.act(START);
    let hello: Vec<u8> = pair.compute.sent.drain(..).collect();
    pair.storage.hear(START, &hello);
    let offer: Vec<u8> = pair.storage.sent.drain(..).collect();
    pair.compute.hear(START, &offer);
    pair.compute.sent.clear();
    let compute = &mut pair.compute;
    compute.machine.abandon(&mut compute.node.verbs);
    assert!(compute.node.holds_nothing() && compute.machine.is_over());
    let reported = compute.machine.poll_send().expect("it says so");
    pair.storage.hear(START, &reported);
    assert_eq!(
        pair.storage.error().to_string(),
        "the compute node refused: the node takes no more connections: the compute node has given \
         up"
    );
    assert!(pair.storage.sent.is_empty(), "a refusal is not answered");
}
