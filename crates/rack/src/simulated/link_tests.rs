//! Faults and rates of one node's link affect that link alone.

use super::tests::{ItemSource, Sink};
use super::*;
use core::cell::RefCell;
use rackweave_base::Duration;
use std::rc::Rc;

const ITEMS: u64 = 2000;
const ITEM_BYTES: u32 = 1024;

/// Moves items from node 0 to node 2, and from node 1 to node 3; returns the rack and the duration
/// of the latter.
fn run(config: &RackConfig) -> (SimulatedRack, Duration) {
    let mut rack = SimulatedRack::new(config).unwrap();
    let mut all = Vec::new();
    for (from, to) in [(NodeId(0), NodeId(2)), (NodeId(1), NodeId(3))] {
        let flow = rack
            .flow(&[from], &[to])
            .item_bytes(ITEM_BYTES)
            .ring_bytes(64 << 10)
            .build()
            .unwrap();
        let seen = Rc::new(RefCell::new(Vec::new()));
        let producer = flow.take_producer(0).unwrap();
        rack.spawn(from, Box::new(ItemSource(producer, ITEMS)));
        let consumer = flow.take_consumer(0).unwrap();
        rack.spawn(to, Box::new(Sink(consumer, seen.clone())));
        all.push((seen, flow));
    }
    let end = rack.run(Instant::from_nanos(10_000_000_000));
    assert_eq!(end, RunEnd::Done);
    for (seen, _) in all {
        assert_eq!(*seen.borrow(), (1..=ITEMS).rev().collect::<Vec<_>>());
    }
    let took = rack.now() - Instant::ZERO;
    (rack, took)
}

fn lost(rack: &SimulatedRack) -> Vec<[u64; 2]> {
    let of = |node| {
        let report = rack.link_report(NodeId(node)).unwrap();
        [report.to_switch, report.from_switch].map(|way| way.faults.lost)
    };
    (0..4).map(of).collect()
}

#[test]
fn a_fault_on_one_link_befalls_that_link() {
    let mut config = RackConfig::default();
    config.node[3].faults.loss = Some(0.05);
    let lost = lost(&run(&config).0);
    assert_eq!(lost[..3], [[0, 0]; 3]);
    assert!(lost[3].iter().all(|&way| way > 0), "{lost:?}");
}

#[test]
fn a_link_may_be_better_than_all_others() {
    let mut config = RackConfig::default();
    config.faults.loss = 0.05;
    config.node[3].faults.loss = Some(0.0);
    let lost = lost(&run(&config).0);
    assert_eq!(lost[3], [0, 0]);
    assert!(lost[..3].iter().flatten().all(|&way| way > 0), "{lost:?}");
}

/// 10 Gbit/s move a bit in 100 ps; no flow is faster through that link, but it is faster without
/// it.
#[test]
fn a_slow_link_is_slow() {
    let mut config = RackConfig::default();
    let (_, fast) = run(&config);
    config.node[3].gigabits_per_second = Some(10.0);
    let (rack, slow) = run(&config);
    let bits = ITEMS * u64::from(ITEM_BYTES) * 8;
    assert!(slow >= Duration::from_nanos(bits / 10), "{slow}");
    assert!(fast < Duration::from_nanos(bits / 10), "{fast}");
    let busy = |node| {
        let way = rack.link_report(NodeId(node)).unwrap().from_switch;
        way.link.busy_picos
    };
    assert!(busy(3) > 5 * busy(2), "{} {}", busy(3), busy(2));
}
