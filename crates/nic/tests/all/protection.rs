//! Access control: keys, bounds, permissions, domains, peers.

use crate::common::*;
use rackweave_base::{Packet, Payload, Rkey};
use rackweave_nic::DropReason;
use rackweave_verbs::*;
use rackweave_wire::{Headers, icrc};
use std::net::Ipv4Addr;

/// Posts one operation that B must refuse, and checks that nothing of B's memory has changed.
fn refused(
    setup: &Setup,
    operation: impl Fn(&Pair) -> Operation,
    len: u32,
    status: CompletionStatus,
) {
    let mut pair = Pair::with(setup);
    pair.a.block.write(0, &pattern(100, 1));
    let operation = operation(&pair);
    pair.a.post(1, operation, 0, len);
    pair.a.post(2, SEND, 0, 1);
    pair.run();
    assert_eq!(
        pair.a.statuses(),
        [(1, status), (2, CompletionStatus::Flushed)]
    );
    assert_eq!(pair.b.bytes(0, REGION_LEN), vec![0; REGION_LEN]);
    assert_eq!(pair.b.nic.qp_state(pair.b.qpn), Some(QpState::Error));
    let remote_access = status == CompletionStatus::RemoteAccess;
    assert_eq!(
        pair.b.counter("resp_remote_access_errors"),
        u64::from(remote_access)
    );
}

fn moved(operation: Operation, by: u64) -> Operation {
    match operation {
        Operation::Write {
            address,
            rkey,
            immediate,
        } => Operation::Write {
            address: address.wrapping_add(by),
            rkey,
            immediate,
        },
        Operation::Read { address, rkey } => Operation::Read {
            address: address.wrapping_add(by),
            rkey,
        },
        Operation::FetchAdd { address, rkey, add } => Operation::FetchAdd {
            address: address.wrapping_add(by),
            rkey,
            add,
        },
        other => other,
    }
}

/// Every kind of remote access, with its length.
fn accesses(region: &Region) -> [(Operation, u32); 3] {
    [
        (write_to(region, 0), 100),
        (read_from(region, 0), 100),
        (fetch_add(region, 0, 1), 8),
    ]
}

#[test]
fn bounds() {
    let setup = Setup::default();
    for at in 0..3 {
        let len = accesses(&Pair::new().b.region)[at].1;
        // By one byte (a word, for atomics) beyond either end, and around the end of addresses.
        let beyond = [
            REGION_LEN as u64 - u64::from(len) + 8,
            8_u64.wrapping_neg(),
            1 << 40,
        ];
        for by in beyond {
            let operation = |pair: &Pair| moved(accesses(&pair.b.region)[at].0, by);
            refused(&setup, operation, len, CompletionStatus::RemoteAccess);
        }
        let operation = |pair: &Pair| {
            let operation = accesses(&pair.b.region)[at].0;
            moved(
                operation,
                0_u64.wrapping_sub(pair.b.region.address).wrapping_sub(8),
            )
        };
        refused(&setup, operation, len, CompletionStatus::RemoteAccess);
    }
}

#[test]
fn keys() {
    for at in 0..3 {
        let len = accesses(&Pair::new().b.region)[at].1;
        for wrong in [
            |_: &Pair| Rkey(0),
            |p: &Pair| Rkey(p.b.region.lkey.0),
            |p: &Pair| p.a.region.rkey,
        ] {
            let operation = |pair: &Pair| {
                let mut region = pair.b.region.clone();
                region.rkey = wrong(pair);
                accesses(&region)[at].0
            };
            refused(
                &Setup::default(),
                operation,
                len,
                CompletionStatus::RemoteAccess,
            );
        }
    }
}

#[test]
fn permissions_of_the_region() {
    let rights = [
        Access::REMOTE_WRITE,
        Access::REMOTE_READ,
        Access::REMOTE_ATOMIC,
    ];
    for (at, right) in rights.into_iter().enumerate() {
        let setup = Setup {
            region_access: Access::all() - right,
            ..Setup::default()
        };
        let len = accesses(&Pair::new().b.region)[at].1;
        let operation = |pair: &Pair| accesses(&pair.b.region)[at].0;
        refused(&setup, operation, len, CompletionStatus::RemoteAccess);
    }
}

#[test]
fn permissions_of_the_queue_pair() {
    // An operation that the queue pair itself does not allow is an invalid request (specification
    // 9.7.4.1.2).
    let rights = [
        Access::REMOTE_WRITE,
        Access::REMOTE_READ,
        Access::REMOTE_ATOMIC,
    ];
    for (at, right) in rights.into_iter().enumerate() {
        let setup = Setup {
            access: Access::all() - right,
            ..Setup::default()
        };
        let len = accesses(&Pair::new().b.region)[at].1;
        let operation = |pair: &Pair| accesses(&pair.b.region)[at].0;
        refused(
            &setup,
            operation,
            len,
            CompletionStatus::RemoteInvalidRequest,
        );
    }
}

#[test]
fn domains() {
    let mut pair = Pair::new();
    let pd = pair.b.nic.create_pd();
    let block = pair.memory.allocate(4096).unwrap();
    let foreign = pair.b.nic.register(pd, block, Access::all()).unwrap();
    pair.a.post(1, write_to(&foreign, 0), 0, 10);
    pair.run();
    assert_eq!(pair.a.statuses(), [(1, CompletionStatus::RemoteAccess)]);
}

#[test]
fn local_segments_are_checked_too() {
    let pair = Pair::new();
    let good = pair.a.region.segment(0, 100);
    let beyond = pair.a.region.segment(REGION_LEN as u64 - 99, 100);
    let wrong_key = Segment {
        lkey: rackweave_base::Lkey(good.lkey.0 ^ 1),
        ..good
    };
    let overflow = Segment {
        address: u64::MAX - 10,
        ..good
    };
    for bad in [beyond, wrong_key, overflow] {
        for operation in [write_to(&pair.b.region, 0), read_from(&pair.b.region, 0)] {
            let mut pair = Pair::new();
            pair.a.post(1, write_to(&pair.b.region, 0), 0, 10);
            pair.a
                .nic
                .post_send(pair.a.qpn, WorkRequest::new(2, operation, &[good, bad]))
                .unwrap();
            pair.a.post(3, SEND, 0, 1);
            pair.run();
            use CompletionStatus::*;
            assert_eq!(
                pair.a.statuses(),
                [(1, Success), (2, LocalProtection), (3, Flushed)]
            );
        }
    }
}

#[test]
fn a_read_needs_local_write_access() {
    let region_access = Access::REMOTE_READ;
    let mut pair = Pair::with(&Setup {
        region_access,
        ..Setup::default()
    });
    let source = read_from(&pair.b.region, 0);
    pair.a.post(1, source, 0, 10);
    pair.run();
    assert_eq!(pair.a.statuses(), [(1, CompletionStatus::LocalProtection)]);
}

#[test]
fn lengths_of_zero_need_no_key() {
    let mut pair = Pair::new();
    let write = Operation::Write {
        address: 0,
        rkey: Rkey(0),
        immediate: None,
    };
    pair.a.post(1, write, 0, 0);
    pair.a.post(
        2,
        Operation::Read {
            address: 7,
            rkey: Rkey(0),
        },
        0,
        0,
    );
    pair.run();
    let ok = CompletionStatus::Success;
    assert_eq!(pair.a.statuses(), [(1, ok), (2, ok)]);
}

#[test]
fn a_deregistered_region_is_out_of_reach() {
    let mut pair = Pair::new();
    let region = pair.b.region.clone();
    assert!(pair.b.nic.deregister(&region));
    assert!(!pair.b.nic.deregister(&region));
    pair.a.post(1, write_to(&region, 0), 0, 10);
    pair.run();
    assert_eq!(pair.a.statuses(), [(1, CompletionStatus::RemoteAccess)]);
}

/// Changes one packet of a WRITE in flight and returns the reason for which B drops it.
fn dropped(change: impl Fn(&mut Headers)) -> Vec<(&'static str, u64)> {
    let mut pair = Pair::new();
    pair.a.post(1, write_to(&pair.b.region, 0), 0, 10);
    let now = pair.now;
    let packet = pair.a.nic.poll_transmit(now).unwrap();
    let mut headers = Headers::of(&packet).unwrap();
    change(&mut headers);
    let mut changed: Packet = headers.packet(packet.payload.clone());
    assert!(icrc::seal(&mut changed, &pair.memory));
    pair.b.nic.handle_packet(now, changed);
    assert_eq!(pair.b.bytes(0, 10), [0; 10]);
    assert!(pair.b.nic.poll_transmit(now).is_none());
    pair.b.counters()
}

#[test]
fn strangers_are_not_heard() {
    let only = |reason: DropReason| vec![(reason.name(), 1)];
    let stranger = Ipv4Addr::new(10, 0, 0, 3);
    assert_eq!(
        dropped(|h| h.ipv4.source = stranger),
        only(DropReason::NotFromPeer)
    );
    assert_eq!(
        dropped(|h| h.ipv4.target = stranger),
        only(DropReason::NotForUs)
    );
    assert_eq!(
        dropped(|h| h.bth.pkey = 0x8001),
        only(DropReason::BadPartition)
    );
    for flip in [1, 2, 1 << 20, 1 << 23] {
        assert_eq!(
            dropped(|h| h.bth.target_qp.0 ^= flip),
            only(DropReason::UnknownQp)
        );
    }
}

#[test]
fn what_peers_may_vary_is_accepted() {
    let mut pair = Pair::new();
    pair.filter = Box::new(|from, headers, packet| {
        if from != A {
            return Fate::Deliver;
        }
        let mut headers = *headers;
        headers.bth.pkey = 0x7fff;
        headers.bth.migrated = true;
        headers.bth.solicited = true;
        headers.bth.fecn = true;
        headers.udp.source_port = 1;
        headers.ipv4.ttl = 1;
        headers.ipv4.identification = 0x1234;
        let mut changed = headers.packet(packet.payload.clone());
        changed.set_pad(packet.pad());
        let memory = rackweave_base::Memory::new(0);
        assert!(icrc::seal(&mut changed, &memory), "the payload is inline");
        Fate::Replace(Box::new(changed))
    });
    pair.a.post(1, write_to(&pair.b.region, 0), 0, 10);
    pair.run();
    assert_eq!(pair.a.statuses(), [(1, CompletionStatus::Success)]);
}

#[test]
fn a_wrong_or_missing_icrc_is_a_loss() {
    for missing in [false, true] {
        let mut pair = Pair::new();
        let mut done = false;
        pair.filter = Box::new(move |from, _, packet| {
            if from == B || done {
                return Fate::Deliver;
            }
            done = true;
            let mut packet = packet.clone();
            match missing {
                true => packet.check = None,
                false => packet.payload = Payload::copied(&[9; 100]),
            }
            Fate::Replace(Box::new(packet))
        });
        pair.a.post(1, write_to(&pair.b.region, 0), 0, 100);
        pair.run();
        assert_eq!(pair.a.statuses(), [(1, CompletionStatus::Success)]);
        assert_eq!(pair.b.bytes(0, 100), [0; 100]);
        assert_eq!(pair.b.counter("rx_icrc_encapsulated"), 1);
        assert_eq!(pair.b.counter("drop_bad_icrc"), 1);
    }
}

#[test]
fn bytes_that_are_no_packet_are_counted_by_what_is_wrong() {
    let mut pair = Pair::new();
    let now = pair.now;
    pair.b
        .nic
        .handle_packet(now, Packet::new(&[0; 10], Payload::Empty));
    pair.b
        .nic
        .handle_packet(now, Packet::new(&[0; 70], Payload::Empty));
    assert_eq!(pair.b.counters(), [("not_ipv4", 1), ("truncated", 1)]);
    assert_eq!(pair.b.nic.counters().drops_total(), 2);
}
