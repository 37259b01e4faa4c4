//! Creating and removing objects, their limits, drain, flush, overflow.

use crate::common::*;
use rackweave_base::packet::Pool;
use rackweave_base::{Duration, Instant, KeyRng, MacAddr, Memory, Qpn, Rng};
use rackweave_nic::{Nic, NicConfig, QPS_MAX};
use rackweave_verbs::CompletionStatus::*;
use rackweave_verbs::*;
use std::net::Ipv4Addr;

fn nic(change: impl FnOnce(&mut NicConfig)) -> (Nic, Memory) {
    let memory = Memory::new(1 << 20);
    let mut config = NicConfig::new(Ipv4Addr::new(10, 0, 0, 9), MacAddr([2, 0, 0, 0, 0, 9]));
    (config.qps_max, config.cqs_max, config.regions_max) = (2, 2, 2);
    config.cq_entries_max = 100;
    config.queue_entries_max = 100;
    change(&mut config);
    (
        Nic::new(
            config,
            memory.clone(),
            Pool::new(8),
            KeyRng::seeded(Rng::new(3)),
        ),
        memory,
    )
}

#[test]
#[expect(clippy::too_many_lines, reason = "a list of cases, one for each limit")]
fn limits_are_kept_and_named() {
    let (mut nic, memory) = nic(|_| {});
    let pd = nic.create_pd();
    let mut register = |pd, access| nic.register(pd, memory.allocate(1).unwrap(), access);
    let unknown = RegisterError::UnknownPd(PdId(1));
    assert_eq!(register(PdId(1), Access::empty()).unwrap_err(), unknown);
    let contradictory = RegisterError::NeedsLocalWrite;
    assert_eq!(
        register(pd, Access::REMOTE_WRITE).unwrap_err(),
        contradictory
    );
    assert_eq!(
        register(pd, Access::REMOTE_ATOMIC).unwrap_err(),
        contradictory
    );
    register(pd, Access::REMOTE_READ).unwrap();
    register(pd, Access::empty()).unwrap();
    let full = RegisterError::TooMany { limit: 2 };
    assert_eq!(register(pd, Access::empty()).unwrap_err(), full);

    let bad = |asked| CqError::BadCapacity { asked, limit: 100 };
    assert_eq!(nic.create_cq(0), Err(bad(0)));
    assert_eq!(nic.create_cq(101), Err(bad(101)));
    let cq = nic.create_cq(100).unwrap();
    let other = nic.create_cq(1).unwrap();
    assert_eq!(nic.create_cq(1), Err(CqError::TooMany { limit: 2 }));
    assert_eq!(nic.destroy_cq(CqId(7)), Err(CqError::Unknown(CqId(7))));
    nic.destroy_cq(other).unwrap();
    assert_eq!(nic.destroy_cq(other), Err(CqError::Unknown(other)));

    let some = QpCapabilities {
        send_max: 100,
        receive_max: 100,
        segments_max: 4,
    };
    let mut create = |pd, cq, capabilities| nic.create_qp(pd, cq, cq, capabilities);
    assert_eq!(create(PdId(1), cq, some), Err(QpError::UnknownPd(PdId(1))));
    assert_eq!(create(pd, other, some), Err(QpError::UnknownCq(other)));
    for (bad, asked, limit) in [
        (
            QpCapabilities {
                send_max: 0,
                ..some
            },
            0,
            100,
        ),
        (
            QpCapabilities {
                receive_max: 101,
                ..some
            },
            101,
            100,
        ),
        (
            QpCapabilities {
                segments_max: 5,
                ..some
            },
            5,
            4,
        ),
    ] {
        assert_eq!(
            create(pd, cq, bad),
            Err(QpError::BadCapabilities { asked, limit })
        );
    }
    let qpn = create(pd, cq, some).unwrap();
    create(pd, cq, some).unwrap();
    assert_eq!(create(pd, cq, some), Err(QpError::TooMany { limit: 2 }));
    assert_eq!(nic.destroy_cq(cq), Err(CqError::Busy(cq)));
    nic.destroy_qp(qpn).unwrap();
    assert_eq!(nic.destroy_qp(qpn), Err(QpError::Unknown(qpn)));
}

#[test]
fn numbers_are_not_given_out_again_soon_and_never_reserved() {
    for qps_max in [1, 2, 3, 14, 15, QPS_MAX] {
        let (mut nic, _) = nic(|config| config.qps_max = qps_max);
        let pd = nic.create_pd();
        let cq = nic.create_cq(1).unwrap();
        let mut seen = std::collections::BTreeSet::new();
        for _ in 0..16 {
            let capabilities = QpCapabilities {
                send_max: 1,
                receive_max: 1,
                segments_max: 1,
            };
            let qpn = nic.create_qp(pd, cq, cq, capabilities).unwrap();
            assert!(qpn.0 > 1 && qpn.0 < 1 << 24);
            assert!(seen.insert(qpn), "{qpn} twice");
            nic.destroy_qp(qpn).unwrap();
            assert_eq!(nic.qp_state(qpn), None);
        }
    }
}

#[test]
fn keys_and_addresses_repeat_with_the_seed_and_do_not_overlap() {
    let regions = |_| {
        let (mut nic, memory) = nic(|config| config.regions_max = 10);
        let pd = nic.create_pd();
        let sizes = [1, 4096, 4097];
        let blocks = sizes.map(|size| memory.allocate(size).unwrap());
        blocks.map(|block| nic.register(pd, block, Access::empty()).unwrap())
    };
    let [first, again] = [0, 1].map(regions);
    for (a, b) in first.iter().zip(&again) {
        assert_eq!((a.address, a.lkey, a.rkey), (b.address, b.lkey, b.rkey));
        assert_eq!(a.address % 4096, 0);
    }
    assert_eq!(
        first.map(|region| region.address - 0x1_0000_0000),
        [0, 0x2000, 0x4000]
    );
}

#[test]
fn attributes_out_of_range_are_named() {
    let setup = Setup::default();
    let pair = Pair::new();
    let receive = Node::receive_side(&setup, pair.b.peer(), 0);
    let send = Node::send_side(&setup, 0);
    let longest = Duration::from_micros(655_360);
    let bad = [
        ReceiveSide {
            reads_in_flight_max: 0,
            ..receive
        },
        ReceiveSide {
            reads_in_flight_max: 17,
            ..receive
        },
        ReceiveSide {
            rnr_wait: longest + Duration::from_nanos(1),
            ..receive
        },
        ReceiveSide {
            peer: Peer {
                qpn: Qpn(1 << 24),
                ..receive.peer
            },
            ..receive
        },
    ];
    for side in bad {
        let mut nic = Pair::new().a.nic;
        let pd = nic.create_pd();
        let cq = nic.create_cq(1).unwrap();
        let qpn = nic.create_qp(pd, cq, cq, setup.capabilities).unwrap();
        nic.modify_qp(qpn, QpModify::Init).unwrap();
        let error = nic
            .modify_qp(qpn, QpModify::ReadyToReceive(side))
            .unwrap_err();
        assert!(matches!(error, ModifyError::OutOfRange { .. }), "{error}");
        assert_eq!(nic.qp_state(qpn), Some(QpState::Init));
        let good = ReceiveSide {
            rnr_wait: longest,
            ..receive
        };
        nic.modify_qp(qpn, QpModify::ReadyToReceive(good)).unwrap();
        for side in [
            SendSide { retries: 8, ..send },
            SendSide {
                rnr_retries: 8,
                ..send
            },
            SendSide {
                reads_in_flight_max: 0,
                ..send
            },
            SendSide {
                timeout: Duration::from_secs(100_000),
                ..send
            },
        ] {
            let error = nic.modify_qp(qpn, QpModify::ReadyToSend(side)).unwrap_err();
            assert!(matches!(error, ModifyError::OutOfRange { .. }), "{error}");
            assert_eq!(nic.qp_state(qpn), Some(QpState::ReadyToReceive));
        }
    }
}

#[test]
fn full_queues_and_bad_requests_are_refused() {
    let capabilities = QpCapabilities {
        send_max: 3,
        receive_max: 2,
        segments_max: 1,
    };
    let mut pair = Pair::with(&Setup {
        capabilities,
        ..Setup::default()
    });
    let segment = pair.a.region.segment(0, 8);
    let qpn = pair.a.qpn;
    let two = WorkRequest::new(0, SEND, &[segment, segment]);
    assert!(matches!(
        pair.a.nic.post_send(qpn, two),
        Err(PostError::Invalid { .. })
    ));
    let region = pair.b.region.clone();
    let unaligned = WorkRequest::new(0, fetch_add(&region, 4, 1), &[segment]);
    assert!(matches!(
        pair.a.nic.post_send(qpn, unaligned),
        Err(PostError::Invalid { .. })
    ));
    let short = pair.a.region.segment(0, 7);
    let short = WorkRequest::new(0, compare_swap(&region, 0, 1, 2), &[short]);
    assert!(matches!(
        pair.a.nic.post_send(qpn, short),
        Err(PostError::Invalid { .. })
    ));
    let good = WorkRequest::new(0, write_to(&region, 0), &[segment]);
    for _ in 0..3 {
        pair.a.nic.post_send(qpn, good).unwrap();
    }
    assert_eq!(pair.a.nic.post_send(qpn, good), Err(PostError::Full(qpn)));
    let receive = ReceiveRequest::new(0, &[segment]);
    for _ in 0..2 {
        pair.a.nic.post_receive(qpn, receive).unwrap();
    }
    assert_eq!(
        pair.a.nic.post_receive(qpn, receive),
        Err(PostError::Full(qpn))
    );
    pair.run();
    pair.a.nic.post_send(qpn, good).unwrap();
}

#[test]
fn drain_finishes_what_was_begun_and_starts_nothing() {
    let mut pair = Pair::new();
    let qpn = pair.a.qpn;
    pair.a.post(1, write_to(&pair.b.region, 0), 0, 5000);
    pair.a.post(2, write_to(&pair.b.region, 0), 0, 5000);
    // One packet of the first has been sent.
    let now = pair.now;
    let packet = pair.a.nic.poll_transmit(now).unwrap();
    pair.inject(B, packet);
    pair.a.nic.modify_qp(qpn, QpModify::Drain).unwrap();
    assert_eq!(pair.a.nic.poll_event(), None);
    pair.a.post(3, write_to(&pair.b.region, 0), 0, 10);
    pair.run();
    assert_eq!(pair.a.statuses(), [(1, Success)]);
    assert_eq!(pair.a.nic.poll_event(), Some(QpEvent::Drained(qpn)));
    assert_eq!(pair.a.nic.poll_event(), None);
    pair.a.nic.modify_qp(qpn, QpModify::Resume).unwrap();
    pair.run();
    assert_eq!(pair.a.statuses(), [(2, Success), (3, Success)]);
    pair.a.nic.modify_qp(qpn, QpModify::Drain).unwrap();
    assert_eq!(
        pair.a.nic.poll_event(),
        Some(QpEvent::Drained(qpn)),
        "there was nothing to wait for"
    );
}

#[test]
fn error_flushes_everything_in_order() {
    let mut pair = Pair::new();
    let qpn = pair.a.qpn;
    pair.filter = Box::new(|_, _, _| Fate::Drop);
    for id in 0..3 {
        pair.a.post(id, write_to(&pair.b.region, 0), 0, 10);
        pair.a.post_receive(10 + id, 0, 10);
    }
    pair.step();
    pair.a.nic.modify_qp(qpn, QpModify::Error).unwrap();
    let flushed = [0, 1, 2, 10, 11, 12].map(|id| (id, Flushed));
    assert_eq!(pair.a.statuses(), flushed);
    pair.a.post(5, write_to(&pair.b.region, 0), 0, 10);
    pair.a.post_receive(15, 0, 10);
    assert_eq!(pair.a.statuses(), [(5, Flushed), (15, Flushed)]);
    let sent = pair.trace.len();
    pair.run();
    assert_eq!(pair.trace.len(), sent);
}

#[test]
fn reset_forgets_and_the_queue_pair_works_again() {
    let mut pair = Pair::new();
    let setup = Setup::default();
    pair.filter = Box::new(|_, _, _| Fate::Drop);
    pair.a.post(1, write_to(&pair.b.region, 0), 0, 5000);
    pair.a.post_receive(2, 0, 10);
    pair.step();
    pair.filter = Box::new(|_, _, _| Fate::Deliver);
    for node in [&mut pair.a, &mut pair.b] {
        node.nic.modify_qp(node.qpn, QpModify::Reset).unwrap();
    }
    pair.run();
    assert_eq!(pair.a.statuses(), []);
    let (peer_a, peer_b) = (pair.a.peer(), pair.b.peer());
    pair.a.connect(&setup, peer_b, 5, 6);
    pair.b.connect(&setup, peer_a, 6, 5);
    pair.a.post(3, write_to(&pair.b.region, 0), 0, 5000);
    pair.run();
    assert_eq!(pair.a.statuses(), [(3, Success)]);
}

#[test]
fn a_destroyed_queue_pair_leaves_its_completions_and_nothing_else() {
    let mut pair = Pair::new();
    pair.a.post(1, write_to(&pair.b.region, 0), 0, 10);
    pair.run();
    pair.a.post(2, write_to(&pair.b.region, 0), 0, 10);
    let old = pair.a.qpn;
    pair.a.nic.destroy_qp(old).unwrap();
    assert!(pair.a.nic.poll_transmit(Instant::ZERO).is_none());
    assert_eq!(pair.a.statuses(), [(1, Success)]);
    pair.b.post(1, write_to(&pair.a.region, 0), 0, 10);
    pair.run();
    assert_eq!(pair.b.statuses(), [(1, RetriesExceeded)]);
    assert_eq!(pair.a.counter("drop_unknown_qp"), 8);
}

#[test]
fn an_overflowing_completion_queue_is_an_error_not_a_loss() {
    let mut pair = Pair::new();
    let (nic, pd) = (&mut pair.a.nic, pair.a.pd);
    let small = nic.create_cq(2).unwrap();
    let qpn = nic
        .create_qp(pd, small, pair.a.cq, QpCapabilities::default())
        .unwrap();
    pair.a.qpn = qpn;
    pair.b.nic.modify_qp(pair.b.qpn, QpModify::Reset).unwrap();
    let (peer_a, peer_b) = (pair.a.peer(), pair.b.peer());
    let setup = Setup::default();
    pair.a.connect(&setup, peer_b, 0, 0);
    pair.b.connect(&setup, peer_a, 0, 0);
    pair.a.post_receive(9, 0, 10);
    for id in 0..5 {
        pair.a.post(id, write_to(&pair.b.region, 0), 0, 10);
    }
    pair.run();
    assert_eq!(pair.a.nic.poll_event(), Some(QpEvent::CqOverflow(small)));
    assert_eq!(pair.a.nic.poll_event(), None);
    assert_eq!(pair.a.nic.qp_state(qpn), Some(QpState::Error));
    assert_eq!(pair.a.statuses(), [(9, Flushed)], "of the other queue");
    let mut completions = Vec::new();
    assert_eq!(pair.a.nic.poll_cq(small, 10, &mut completions), 2);
    assert!(pair.a.counter("cq_overflows") >= 1);
}

#[test]
fn memory_is_bounded_and_known() {
    let (mut nic, _) = nic(|_| {});
    let empty = nic.bytes_overhead();
    let config = Pair::new().a.config;
    assert!(config.bytes_overhead_max() > empty);
    let pd = nic.create_pd();
    let cq = nic.create_cq(100).unwrap();
    let with_cq = nic.bytes_overhead();
    assert!(with_cq >= empty + 100 * size_of::<Completion>());
    let capabilities = QpCapabilities {
        send_max: 100,
        receive_max: 100,
        segments_max: 4,
    };
    nic.create_qp(pd, cq, cq, capabilities).unwrap();
    assert!(nic.bytes_overhead() >= with_cq + 100 * size_of::<WorkRequest>());
}
