//! Every reason to refuse; the refused node receives it.

use super::rig::{Pair, RigNode, START, Side, dialer, greeted, greeter, hello, keys, offer};
use crate::messaging::handshake::{HandshakeError, RefusalCode};
use crate::messaging::{NodeTerms, Role};
use rackweave_base::{Memory, Qpn};
use rackweave_wire::fabric::message::handshake::{Message, Terms};

/// A storage node fails with this code, reports it and holds nothing; the text contains these
/// words.
fn check(mut storage: Side, bytes: &[u8], code: RefusalCode, says: &str) -> RefusalCode {
    storage.hear(START, bytes);
    let error = storage.error().clone();
    assert_eq!(error.code(), code, "{error}");
    assert!(error.to_string().contains(says), "{error}");
    let refusal = storage.refusal();
    assert_eq!(refusal.code, code, "{refusal}");
    assert!(refusal.text().contains(says), "{refusal}");
    assert!(storage.node.holds_nothing());
    code
}

/// A storage node refuses a Hello with these terms.
fn terms(change: impl FnOnce(&mut Terms), code: RefusalCode, says: &str) -> RefusalCode {
    check(greeter(), &hello(change), code, says)
}

fn open() -> Vec<u8> {
    Message::Open(keys(|_| {})).emit()
}

/// A storage node with fewer resources.
fn poor(nic: impl FnOnce(&mut rackweave_nic::NicConfig), bytes: usize, modifies: u32) -> Side {
    let mut node = RigNode::shaped(Role::Storage, 2, |_| {}, nic, bytes);
    node.verbs.modifies_left = modifies;
    greeted(Side::new(node))
}

#[test]
#[expect(clippy::too_many_lines, reason = "a list of cases, one for each code")]
fn every_code_is_reached() {
    use RefusalCode as Code;
    let plenty = 1 << 20;
    let mut newer = hello(|_| {});
    newer[10..14].copy_from_slice(&[4, 0, 3, 0]);
    let mut stray = hello(|_| {});
    stray[14] = 1;
    let mut busy = greeter();
    busy.machine
        .refuse(Code::Busy, "64 handshakes are under way");
    busy.sent.extend(busy.machine.poll_send().unwrap());
    let mut stopping = greeted(greeter());
    stopping.machine.refuse(Code::Stopping, "");
    stopping.sent.extend(stopping.machine.poll_send().unwrap());
    // The Offer is ready, and the Refuse is sent instead.
    let mut greedy = greeter();
    greedy.machine.handle_bytes(START, &hello(|_| {}));
    let RigNode {
        verbs,
        memory,
        keys,
        ..
    } = &mut greedy.node;
    greedy.machine.poll(START, verbs, memory, keys);
    assert!(greedy.machine.agreed().is_some());
    greedy.machine.refuse(Code::OverQuota, "3 connections");
    greedy.sent.extend(greedy.machine.poll_send().unwrap());
    let mut late = greeter();
    late.act(START + super::rig::PATIENCE);

    let reached = [
        check(
            greeter(),
            b"GET / HTTP/1.1\r\n",
            Code::NotSpoken,
            "it sends `GET /",
        ),
        check(
            greeter(),
            &newer,
            Code::Version,
            "speaks versions 3 to 4, this node 2 to 2",
        ),
        check(
            greeter(),
            &stray,
            Code::Malformed,
            "a byte set that must be zero",
        ),
        check(
            greeter(),
            &open(),
            Code::OutOfOrder,
            "an Open where a Hello or a Refuse is due",
        ),
        terms(
            |terms| terms.fabric = 8,
            Code::ForeignRack,
            "0x0000000000000008",
        ),
        terms(
            |terms| terms.receive_buffers = 0,
            Code::ReceiveBuffers,
            "is 0; 1 to 7",
        ),
        terms(
            |terms| terms.receive_bytes = 100,
            Code::BufferSize,
            "receive_bytes is 100",
        ),
        terms(
            |terms| terms.channels_up = 8,
            Code::Channels,
            "channels_up is 8",
        ),
        terms(
            |terms| terms.message_max = 0,
            Code::MessageMax,
            "message_max is 0",
        ),
        terms(
            |terms| terms.mtu_bytes = 1500,
            Code::Address,
            "the MTU is 1500",
        ),
        busy.refusal().code,
        check(
            poor(|_| {}, 4096, 99),
            &open(),
            Code::NoMemory,
            "no memory for",
        ),
        check(
            poor(|nic| nic.qps_max = 4, plenty, 99),
            &open(),
            Code::NoRoom,
            "holds 4 queue",
        ),
        check(
            poor(|_| {}, plenty, 7),
            &open(),
            Code::BadKeys,
            "is out of range",
        ),
        stopping.refusal().code,
        late.refusal().code,
        greedy.refusal().code,
    ];
    assert_eq!(reached, Code::NAMED);
}

/// Whatever the NIC runs out of, and whichever queue pair does not connect, nothing is left, and
/// the next compute node can be connected when resources are available again.
#[test]
fn a_set_up_that_fails_midway_leaves_nothing_behind() {
    use RefusalCode as Code;
    for limit in 1..5 {
        let storage = poor(|nic| nic.qps_max = limit, 1 << 20, 99);
        check(storage, &open(), Code::NoRoom, "queue pairs already");
        let storage = poor(|nic| nic.cqs_max = limit, 1 << 20, 99);
        check(storage, &open(), Code::NoRoom, "completion queues already");
    }
    for limit in 1..3 {
        let storage = poor(|nic| nic.regions_max = limit, 1 << 20, 99);
        check(storage, &open(), Code::NoRoom, "regions already");
    }
    // Three for each of the five queue pairs.
    for modifies in 0..15 {
        let mut storage = poor(|_| {}, 1 << 20, modifies);
        storage.hear(START, &open());
        assert_eq!(storage.error().code(), Code::BadKeys);
        assert!(storage.node.holds_nothing());
        storage.node.verbs.modifies_left = 99;
        let node = storage.node;
        let mut again = greeted(Side::new(node));
        again.hear(START, &open());
        assert!(again.is_connected());
    }
}

/// The arena has space for one connection, so each failure must have released all of it.
#[test]
fn memory_comes_back() {
    let mut pair = Pair::new(1);
    pair.settle();
    let bytes = [&pair.compute.node, &pair.storage.node].map(|node| node.memory.bytes_held());
    pair.clear();

    let mut node = RigNode::shaped(Role::Compute, 1, |_| {}, |_| {}, bytes[0]);
    for _ in 0..5 {
        let mut compute = Side::new(node);
        compute.act(START);
        compute.hear(START, &offer(|_| {}));
        assert!(!compute.node.holds_nothing());
        compute.machine.handle_end(START);
        compute.act(START);
        assert!(matches!(compute.error(), HandshakeError::Ended { .. }));
        node = compute.node;
    }
    let mut storage_node = RigNode::shaped(Role::Storage, 1, |_| {}, |_| {}, bytes[1]);
    for _ in 0..5 {
        storage_node.verbs.modifies_left = 9;
        let mut storage = greeted(Side::new(storage_node));
        storage.hear(START, &open());
        assert_eq!(storage.error().code(), RefusalCode::BadKeys);
        storage_node = storage.node;
    }
    storage_node.verbs.modifies_left = 99;
    let mut pair = Pair::of(node, storage_node);
    pair.settle();
    pair.check_traffic();
    pair.clear();
}

#[test]
fn terms_that_do_not_fit_are_refused_by_both() {
    // Three channels lead to a storage node with two buffers: it reports that first.
    let mut node = RigNode::shaped(
        Role::Storage,
        2,
        |config| (config.receive_buffers, config.channels_up) = (2, 2),
        |_| {},
        1 << 20,
    );
    node.terms.channels_up = 3;
    let storage = Side::new(node);
    check(
        storage,
        &hello(|_| {}),
        RefusalCode::Channels,
        "3 channels towards",
    );

    let mut compute = dialer();
    compute.hear(START, &offer(|terms| terms.receive_buffers = 2));
    assert_eq!(compute.error().code(), RefusalCode::Channels);
    assert_eq!(compute.refusal().code, RefusalCode::Channels);
    let mut compute = dialer();
    compute.hear(START, &offer(|terms| terms.fabric = 9));
    assert_eq!(compute.refusal().code, RefusalCode::ForeignRack);
    assert_eq!(compute.node.memory.bytes_held(), 0);
    // A node that does not name its rack may belong to any.
    let mut compute = dialer();
    compute.hear(START, &offer(|terms| terms.fabric = 0));
    assert!(compute.end.is_none());
}

#[test]
fn keys_that_cannot_be_are_refused_by_both() {
    use RefusalCode::BadKeys;
    let storage = |change: fn(&mut _), says: &str| {
        let bytes = Message::Open(keys(change)).emit();
        let storage = greeted(greeter());
        let memory: Memory = storage.node.memory.clone();
        check(storage, &bytes, BadKeys, says);
        assert_eq!(memory.bytes_held(), 0, "it was not even tried");
    };
    storage(
        |keys| keys.queue_pairs.truncate(4),
        "4 queue pairs, but 5 channels",
    );
    storage(
        |keys| keys.queue_pairs[4].qpn = Qpn(100),
        "names queue pair 0x64 twice",
    );
    storage(|keys| keys.queue_pairs[0].qpn = Qpn(1), "a queue pair is 1");
    storage(
        |keys| keys.buffer_info.address = u64::MAX - 1023,
        "its buffer info, 4096 bytes",
    );
    storage(
        |keys| keys.receive.address = u64::MAX - 63,
        "its receive buffers, 6144 bytes",
    );
    storage(|keys| keys.receive.address = 8, "it is a multiple of 64");

    let compute = |change: fn(&mut _)| {
        let mut compute = dialer();
        compute.hear(START, &offer(|_| {}));
        assert!(matches!(compute.messages()[..], [Message::Open(_)]));
        compute.hear(START, &Message::Accept(keys(change)).emit());
        assert_eq!(compute.error().code(), BadKeys);
        assert_eq!(compute.refusal().code, BadKeys);
    };
    compute(|keys| keys.queue_pairs.truncate(4));
    compute(|keys| keys.queue_pairs[4].qpn = Qpn(100));
    compute(|keys| keys.buffer_info.address = u64::MAX - 1023);
    compute(|keys| keys.receive.address = u64::MAX - 63);
    compute(|keys| keys.queue_pairs[0].qpn = Qpn(0));
}

/// Each side receives the other's reason as text.
#[test]
fn who_is_refused_hears_why() {
    let poor = RigNode::shaped(Role::Storage, 2, |_| {}, |nic| nic.qps_max = 1, 1 << 20);
    let mut pair = Pair::of(RigNode::new(Role::Compute, 1), poor);
    pair.settle();
    assert_eq!(
        pair.compute.error().to_string(),
        "the storage node refused: no room in the NIC: the NIC holds 1 queue pairs already; raise \
         nic.qps_max"
    );
    assert_eq!(
        pair.storage.error().to_string(),
        "this node cannot connect to a compute node: the NIC holds 1 queue pairs already; raise \
         nic.qps_max"
    );
    pair.clear();

    let poor = RigNode::shaped(Role::Compute, 1, |_| {}, |_| {}, 4096);
    let mut pair = Pair::of(poor, RigNode::new(Role::Storage, 2));
    pair.settle();
    let error = pair.storage.error();
    assert!(matches!(
        error,
        HandshakeError::Refused {
            by: Role::Compute,
            ..
        }
    ));
    assert_eq!(error.code(), RefusalCode::NoMemory);
    assert_eq!(pair.compute.error().code(), RefusalCode::NoMemory);
    pair.clear();

    let mut node = RigNode::new(Role::Storage, 2);
    node.terms = NodeTerms {
        fabric: 1,
        ..node.terms
    };
    let mut pair = Pair::of(RigNode::new(Role::Compute, 1), node);
    pair.settle();
    assert_eq!(pair.compute.error().code(), RefusalCode::ForeignRack);
    pair.clear();
}
