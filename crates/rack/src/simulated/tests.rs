//! A simulated rack: same seed, same trace; items arrive despite faults of links.

use super::*;
use crate::config::FaultSection;
use core::cell::RefCell;
use rackweave_base::Duration;
use rackweave_endpoint::flow::{Consumer, Producer, Taken};
use rackweave_sim::world::{Context, Step};
use std::rc::Rc;

pub(super) struct ItemSource(pub Producer, pub u64);

impl Actor for ItemSource {
    fn step(&mut self, _: &mut Context<'_>) -> Step {
        while self.1 > 0 {
            if self.0.push(&self.1.to_le_bytes()).is_err() {
                return Step::WaitForPacket;
            }
            self.1 -= 1;
        }
        self.0.finish();
        Step::Done
    }
}

pub(super) struct Sink(pub Consumer, pub Rc<RefCell<Vec<u64>>>);

impl Actor for Sink {
    fn step(&mut self, _: &mut Context<'_>) -> Step {
        loop {
            match self.0.peek(1) {
                Taken::Items(item) => {
                    let number = item.u64_le(0);
                    self.1.borrow_mut().push(number);
                    self.0.release(1);
                }
                Taken::Empty => return Step::WaitForPacket,
                Taken::Ended | Taken::Aborted => return Step::Done,
            }
        }
    }
}

/// Runs one flow; returns the items that arrived, the trace hash and the duration.
fn run(seed: u64, faults: FaultSection, items: u64) -> (Vec<u64>, u64, Duration) {
    let config = RackConfig {
        seed,
        faults,
        ..RackConfig::default()
    };
    let mut rack = SimulatedRack::new(&config).unwrap();
    let flow = rack
        .flow(&[NodeId(0)], &[NodeId(2)])
        .item_bytes(1024)
        .ring_bytes(64 << 10)
        .build()
        .unwrap();
    let seen = Rc::new(RefCell::new(Vec::new()));
    rack.spawn(
        NodeId(0),
        Box::new(ItemSource(flow.take_producer(0).unwrap(), items)),
    );
    rack.spawn(
        NodeId(2),
        Box::new(Sink(flow.take_consumer(0).unwrap(), seen.clone())),
    );
    let end = rack.run(Instant::from_nanos(1_000_000_000));
    assert_eq!(end, RunEnd::Done, "{:?}", flow.state());
    let seen = seen.borrow().clone();
    (seen, rack.trace_hash(), rack.now() - Instant::ZERO)
}

#[test]
fn items_arrive_in_order_and_a_seed_repeats_its_run() {
    let bad = FaultSection {
        loss: 0.02,
        duplicate: 0.02,
        reorder: 0.02,
        corrupt: 0.02,
        ..Default::default()
    };
    for faults in [FaultSection::default(), bad] {
        let (seen, hash, _) = run(3, faults, 2000);
        assert_eq!(seen, (1..=2000).rev().collect::<Vec<_>>());
        assert_eq!(
            run(3, faults, 2000).1,
            hash,
            "the same seed gives the same trace"
        );
        assert_ne!(run(4, faults, 2000).1, hash);
    }
}
