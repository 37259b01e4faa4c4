//! Load balancing and replication through a real switch and real soft NICs: loss at every step,
//! restart at every step, members that join, leave and die.

use crate::common::{Fate, TestRack, item, layout};
use rackweave_base::{Duration, NodeId, Rng};
use rackweave_controller::{
    Controller, FlowError, FlowId, FlowRings, FlowShape, FlowSpec, FlowState, LossPolicy, Ring,
};
use rackweave_endpoint::flow::{Consumer, Doorbell, Producer, Taken};
use rackweave_verbs::Mtu;
use std::collections::{BTreeMap, BTreeSet};

pub fn spec(shape: FlowShape, producers: &[u16], consumers: &[u16]) -> FlowSpec {
    let nodes = |ids: &[u16]| ids.iter().map(|&id| NodeId(id)).collect::<Vec<_>>();
    FlowSpec {
        shape,
        item_size: 600,
        producer_slots: 16,
        consumer_slots: 16,
        batch_bytes: 1800,
        transfers: 2,
        mtu: Mtu::B1024,
        poll_interval_max: Duration::from_micros(40),
        ..FlowSpec::new(&nodes(producers), &nodes(consumers), 600, 0)
    }
}

/// The ends of a flow; each ring of a producer counts as one.
pub struct Ends {
    pub producers: Vec<Producer>,
    pub pushed: Vec<u64>,
    pub consumers: Vec<Taker>,
    /// Producers that have finished with fewer items.
    pub done: BTreeSet<usize>,
}

pub struct Taker {
    ring: Consumer,
    /// Producer and number of every item taken.
    pub popped: Vec<(u64, u64)>,
    pub ended: Option<bool>,
    /// It takes no items for now.
    pub asleep: bool,
}

pub fn producer(rack: &TestRack, ring: &Ring) -> Producer {
    let block = rack.regions.block(ring.node, ring.region.rkey).unwrap();
    Producer::new(&block, layout(ring)).unwrap()
}

pub fn taker(rack: &TestRack, ring: &Ring) -> Taker {
    let block = rack.regions.block(ring.node, ring.region.rkey).unwrap();
    Taker {
        ring: Consumer::new(&block, layout(ring)).unwrap(),
        popped: Vec::new(),
        ended: None,
        asleep: false,
    }
}

impl Ends {
    fn new(rack: &TestRack, rings: &FlowRings) -> Self {
        let all = rings.producers.iter().flatten();
        let producers: Vec<_> = all.map(|ring| producer(rack, ring)).collect();
        Self {
            pushed: vec![0; producers.len()],
            done: BTreeSet::new(),
            producers,
            consumers: rings.consumers.iter().map(|r| taker(rack, r)).collect(),
        }
    }

    pub fn work(&mut self, total: u64) {
        for (p, producer) in self.producers.iter_mut().enumerate() {
            while !self.done.contains(&p)
                && self.pushed[p] < total
                && producer.push(&item(p, self.pushed[p], 600)).is_ok()
            {
                self.pushed[p] += 1;
                if self.pushed[p] == total {
                    producer.finish();
                }
            }
        }
        for (c, taker) in self.consumers.iter_mut().enumerate() {
            taker.take(c);
        }
    }

    fn all_ended(&self) -> bool {
        self.consumers.iter().all(|taker| taker.ended.is_some())
    }

    /// How many times each item was taken, by any consumer.
    pub fn counts(&self) -> BTreeMap<(u64, u64), usize> {
        let mut counts = BTreeMap::new();
        for item in self.consumers.iter().flat_map(|taker| &taker.popped) {
            *counts.entry(*item).or_default() += 1;
        }
        counts
    }

    /// Every item went to exactly one consumer, and to each consumer in its producer's order.
    pub fn assert_balanced(&self, what: &str) {
        let counts = self.counts();
        for (p, &pushed) in self.pushed.iter().enumerate() {
            for number in 0..pushed {
                let count = counts.get(&(p as u64, number)).copied();
                assert_eq!(count, Some(1), "{what}: item {number} of producer {p}");
            }
        }
        self.assert_order(what);
    }

    pub fn assert_order(&self, what: &str) {
        for taker in &self.consumers {
            for p in 0..self.pushed.len() as u64 {
                let numbers = taker.popped.iter().filter(|item| item.0 == p).map(|i| i.1);
                assert!(numbers.is_sorted(), "{what}: order of producer {p}");
            }
        }
    }

    /// Every consumer got every item, all in the same order.
    fn assert_replicated(&self, what: &str) {
        let all: u64 = self.pushed.iter().sum();
        for taker in &self.consumers {
            assert_eq!(taker.popped.len() as u64, all, "{what}");
            assert_eq!(taker.popped, self.consumers[0].popped, "{what}");
        }
        self.assert_order(what);
    }
}

impl Taker {
    fn take(&mut self, index: usize) {
        while !self.asleep {
            match self.ring.peek(1) {
                Taken::Items(bytes) => {
                    let (p, number) = (bytes.u64_le(0), bytes.u64_le(8));
                    assert_eq!(
                        bytes.to_vec(),
                        item(p as usize, number, 600),
                        "consumer {index}, producer {p}"
                    );
                    self.popped.push((p, number));
                    self.ring.release(1);
                }
                Taken::Empty => return,
                Taken::Ended => return self.ended = Some(true),
                Taken::Aborted => return self.ended = Some(false),
            }
        }
    }
}

pub struct Run {
    pub rack: TestRack,
    pub controller: Controller,
    pub id: FlowId,
    pub ends: Ends,
}

pub fn start(spec: FlowSpec) -> Run {
    let (mut rack, controller) = TestRack::new(6, 1);
    let (id, rings) = controller.create_flow(&mut rack, spec).unwrap();
    let ends = Ends::new(&rack, &rings);
    Run {
        rack,
        controller,
        id,
        ends,
    }
}

impl Run {
    pub fn step(&mut self, total: u64) {
        self.ends.work(total);
        self.rack.step();
        self.controller.handle_digests(&mut self.rack);
    }

    pub fn finish(&mut self, total: u64, what: &str) {
        for _ in 0..30_000 {
            self.step(total);
            let state = self.controller.flow_state(self.id);
            if self.ends.all_ended() && state == Some(FlowState::Ended) {
                assert_eq!(self.controller.lanes_used(), 0, "lanes are given back");
                return;
            }
        }
        let popped: Vec<_> = self.ends.consumers.iter().map(|t| t.popped.len()).collect();
        let counters = self.rack.switch.counters();
        panic!(
            "{what}: stalled, {:?} pushed, {popped:?} popped, {:?}, {:?}",
            self.ends.pushed,
            self.controller.flow_state(self.id),
            counters.iter().filter(|c| c.1 > 0).collect::<Vec<_>>()
        );
    }

    fn check(&self, shape: FlowShape, what: &str) {
        match shape {
            FlowShape::Replicate => self.ends.assert_replicated(what),
            _ => self.ends.assert_balanced(what),
        }
    }
}

const SHAPES: [FlowShape; 2] = [FlowShape::Balance, FlowShape::Replicate];

#[test]
fn some_of_each() {
    for shape in SHAPES {
        for (producers, consumers) in [
            (&[0u16][..], &[1u16][..]),
            (&[0], &[1, 2]),
            (&[0, 1], &[2]),
            (&[0, 1, 2], &[3, 4]),
            (&[0, 1], &[1, 2, 3, 4]),
            (&[5], &[5, 5]),
        ] {
            let what = format!("{shape:?} {producers:?} to {consumers:?}");
            let mut run = start(spec(shape, producers, consumers));
            run.finish(70, &what);
            run.check(shape, &what);
        }
    }
}

#[test]
fn every_packet_may_be_lost_once_or_come_twice_or_late() {
    for shape in SHAPES {
        let spec = || spec(shape, &[0, 1], &[2, 3]);
        let mut smooth = start(spec());
        smooth.finish(12, "smooth");
        let packets = smooth.rack.packets;
        for fate in [Fate::Lose, Fate::Duplicate, Fate::Delay] {
            for at in 0..packets {
                let mut run = start(spec());
                run.rack.fate =
                    Box::new(move |number, _| if number == at { fate } else { Fate::Deliver });
                let what = format!("{shape:?}, {fate:?} {at}");
                run.finish(12, &what);
                run.check(shape, &what);
            }
        }
    }
}

#[test]
fn a_tenth_of_all_packets_lost() {
    for shape in SHAPES {
        for seed in 0..20 {
            let mut rng = Rng::new(seed);
            let mut run = start(spec(shape, &[0, 1], &[2, 3, 4]));
            run.rack.fate = Box::new(move |_, _| match rng.below(30) {
                0..=2 => Fate::Lose,
                3 => Fate::Duplicate,
                4 => Fate::Delay,
                _ => Fate::Deliver,
            });
            let what = format!("{shape:?}, seed {seed}");
            run.finish(60, &what);
            run.check(shape, &what);
        }
    }
}

#[test]
fn a_restart_of_the_switch_at_any_packet_loses_and_repeats_nothing() {
    for shape in SHAPES {
        let spec = || spec(shape, &[0, 1], &[2, 3]);
        let mut smooth = start(spec());
        smooth.finish(12, "smooth");
        for at in 0..smooth.rack.packets {
            let mut run = start(spec());
            run.rack.fate = Box::new(move |number, _| match number {
                n if n >= at => Fate::Lose,
                _ => Fate::Deliver,
            });
            for _ in 0..30 {
                run.ends.work(12);
                run.rack.step();
            }
            run.rack.restart_switch();
            run.rack.fate = Box::new(|_, _| Fate::Deliver);
            run.controller.switch_restarted(&mut run.rack).unwrap();
            let what = format!("{shape:?}, restart at packet {at}");
            run.finish(12, &what);
            run.check(shape, &what);
        }
    }
}

#[test]
fn members_come_and_go_at_any_time_and_nobody_notices() {
    for shape in SHAPES {
        for at in 0..25 {
            let mut run = start(spec(shape, &[0, 1], &[2, 3]));
            let what = format!("{shape:?}, changes from step {at}");
            for _ in 0..at {
                run.step(700);
            }
            let (rack, controller) = (&mut run.rack, &mut run.controller);
            let (index, ring) = controller.add_consumer(rack, run.id, NodeId(4)).unwrap();
            assert_eq!(index, 2);
            let joined = taker(rack, &ring);
            run.ends.consumers.push(joined);
            for _ in 0..7 {
                run.step(700);
            }
            let (rack, controller) = (&mut run.rack, &mut run.controller);
            let (index, rings) = controller.add_producer(rack, run.id, NodeId(5)).unwrap();
            assert_eq!(index, 2);
            run.ends.producers.push(producer(rack, &rings[0]));
            run.ends.pushed.push(0);
            for _ in 0..7 {
                run.step(700);
            }
            let (rack, controller) = (&mut run.rack, &mut run.controller);
            controller.remove_consumer(rack, run.id, 0).unwrap();
            run.finish(700, &what);
            if shape == FlowShape::Balance {
                run.ends.assert_balanced(&what);
                continue;
            }
            // The one that stayed saw everything; the one that left a prefix of it, the one that
            // joined a suffix.
            let all = &run.ends.consumers[1].popped;
            assert_eq!(all.len() as u64, run.ends.pushed.iter().sum(), "{what}");
            assert!(all.starts_with(&run.ends.consumers[0].popped), "{what}");
            assert!(all.ends_with(&run.ends.consumers[2].popped), "{what}");
            run.ends.assert_order(&what);
        }
    }
}

#[test]
fn a_dead_consumer_of_a_replicated_flow_is_not_missed() {
    let mut run = start(FlowSpec {
        on_loss: LossPolicy::Report,
        ..spec(FlowShape::Replicate, &[0, 1], &[2, 3, 4])
    });
    for _ in 0..10 {
        run.step(100);
    }
    run.rack.dead[3] = true;
    run.ends.consumers[1].ended = Some(false);
    run.ends.consumers[1].asleep = true;
    run.finish(100, "dead replica");
    run.ends.consumers.remove(1);
    run.ends.assert_replicated("dead replica");
    let losses = run.controller.losses(run.id);
    assert_eq!(losses.len(), 1);
    assert_eq!((losses[0].node, losses[0].index), (NodeId(3), 1));
}

/// A consumer stops taking items, its node dies, and the switch detects that or is notified.
fn with_a_dead_consumer(policy: LossPolicy, steps: u64, is_reported: bool) -> Run {
    let mut run = start(FlowSpec {
        on_loss: policy,
        ..spec(FlowShape::Balance, &[0, 1, 0, 1], &[2, 3])
    });
    for step in 0..steps {
        run.ends.consumers[0].asleep = step > steps / 2;
        run.step(60);
    }
    run.ends.consumers[0].asleep = true;
    run.ends.consumers[0].ended = Some(false);
    run.rack.dead[2] = true;
    if is_reported {
        run.controller.node_died(&mut run.rack, NodeId(2));
    }
    run
}

#[test]
fn what_a_dead_consumer_had_is_reported() {
    for steps in 0..40 {
        for is_reported in [true, false] {
            let mut run = with_a_dead_consumer(LossPolicy::Report, steps, is_reported);
            let what = format!("after {steps} steps, reported {is_reported}");
            if run.controller.flow_state(run.id) == Some(FlowState::Ended) {
                continue;
            }
            run.finish(60, &what);
            let lost: u64 = run.controller.losses(run.id).iter().map(|l| l.items).sum();
            let counts = run.ends.counts();
            assert!(counts.values().all(|&count| count == 1), "{what}: twice");
            let missing = run.ends.pushed.iter().sum::<u64>() - counts.len() as u64;
            assert!(
                missing <= lost,
                "{what}: {missing} missing, {lost} reported"
            );
            run.ends.assert_order(&what);
        }
    }
}

#[test]
fn what_a_dead_consumer_had_goes_to_the_others() {
    for steps in 0..40 {
        for is_reported in [true, false] {
            let mut run = with_a_dead_consumer(LossPolicy::Redeliver, steps, is_reported);
            let what = format!("after {steps} steps, reported {is_reported}");
            run.finish(60, &what);
            let all = run.ends.pushed.iter().sum::<u64>();
            assert_eq!(run.ends.counts().len() as u64, all, "{what}: all there");
            let dead: Vec<_> = run.ends.consumers[0].popped.clone();
            for (item, count) in run.ends.counts() {
                assert!(count == 1 || dead.contains(&item), "{what}: {item:?} twice");
            }
        }
    }
}

#[test]
fn a_dead_producer_is_left_out() {
    for shape in SHAPES {
        let mut run = start(FlowSpec {
            on_loss: LossPolicy::Report,
            ..spec(shape, &[0, 1], &[2, 3])
        });
        for _ in 0..12 {
            run.step(900);
        }
        run.rack.dead[1] = true;
        run.controller.node_died(&mut run.rack, NodeId(1));
        run.finish(900, "dead producer");
        let of = |taker: &Taker, p| taker.popped.iter().filter(|item| item.0 == p).count();
        let first: usize = run.ends.consumers.iter().map(|t| of(t, 0)).sum();
        let copies = if shape == FlowShape::Replicate { 2 } else { 1 };
        assert_eq!(first, 900 * copies, "{shape:?}");
        assert!(run.ends.producers[1].is_aborted());
    }
}

/// Rings every bell of a flow, as its nodes would after every change.
fn ring_bells(rack: &mut TestRack, rings: &FlowRings) {
    for ring in rings.all() {
        let bell = ring.bell.expect("the flow has doorbells");
        let bell = Doorbell::new(bell.qpn, ring.region.address, ring.region.lkey);
        // A full send queue is harmless.
        let _ = bell.ring(&mut rack.nics[usize::from(ring.node.0)]);
    }
}

#[test]
fn with_doorbells_nothing_waits_for_polls() {
    for shape in [FlowShape::Shuffle, FlowShape::Balance, FlowShape::Replicate] {
        for seed in 0..10 {
            let never = Duration::from_secs(1000);
            let (mut rack, controller) = TestRack::new(6, 1);
            let spec = FlowSpec {
                doorbells: true,
                poll_interval: never,
                poll_interval_max: never,
                ..spec(shape, &[0, 1], &[2])
            };
            let (id, rings) = controller.create_flow(&mut rack, spec).unwrap();
            let ends = Ends::new(&rack, &rings);
            let mut rng = Rng::new(seed);
            // Bells are also delayed, duplicated or lost: then an older word follows a newer one.
            rack.fate = Box::new(move |_, _| match rng.below(30) {
                0 if seed > 0 => Fate::Lose,
                1 if seed > 0 => Fate::Duplicate,
                2..=4 if seed > 0 => Fate::Delay,
                _ => Fate::Deliver,
            });
            let mut run = Run {
                rack,
                controller,
                id,
                ends,
            };
            let what = format!("{shape:?}, seed {seed}");
            for _ in 0..200_000 {
                run.ends.work(100);
                run.rack.tick();
                run.controller.handle_digests(&mut run.rack);
                if run.controller.flow_state(id) != Some(FlowState::Running) {
                    break;
                }
                ring_bells(&mut run.rack, &rings);
            }
            let state = run.controller.flow_state(id);
            assert_eq!(state, Some(FlowState::Ended), "{what}: a poll was needed");
            run.ends.work(100);
            run.check(shape, &what);
        }
    }
}

#[test]
fn what_a_shape_forbids_is_refused_and_changes_nothing() {
    let mut run = start(spec(FlowShape::Shuffle, &[0, 1], &[2]));
    let (rack, controller) = (&mut run.rack, &mut run.controller);
    let refusal = controller
        .add_consumer(rack, run.id, NodeId(3))
        .unwrap_err();
    assert_eq!(
        refusal.to_string(),
        "a flow of shape shuffle cannot take another consumer: its producers choose among the \
         consumers that it began with"
    );
    let refusal = controller.set_weight(rack, run.id, Some(0)).unwrap_err();
    assert_eq!(refusal.to_string(), "weight is 0: 1 to 65536 are possible");
    let refusal = controller.remove_producer(rack, run.id, 0).unwrap_err();
    assert_eq!(refusal, FlowError::ProducerBusy { index: 0 });
    run.finish(40, "a shuffle that was asked for what it forbids");
    run.ends.assert_balanced("shuffle");
    let (rack, controller) = (&mut run.rack, &mut run.controller);
    let refusal = controller
        .add_producer(rack, run.id, NodeId(3))
        .unwrap_err();
    assert_eq!(refusal, FlowError::NotRunning);

    let mut run = start(spec(FlowShape::Balance, &[0], &[2]));
    let (rack, controller) = (&mut run.rack, &mut run.controller);
    let refusal = controller.remove_consumer(rack, run.id, 0).unwrap_err();
    assert_eq!(
        refusal.to_string(),
        "it is the flow's last consumer; close the flow instead"
    );
    let refusal = controller.remove_consumer(rack, run.id, 7).unwrap_err();
    assert_eq!(
        refusal.to_string(),
        "the flow has no consumer 7, or it has left"
    );
    let refusal = controller
        .add_consumer(rack, run.id, NodeId(77))
        .unwrap_err();
    assert_eq!(
        refusal.to_string(),
        "node77 does not exist or does not answer"
    );
    run.finish(40, "a balanced flow that was asked for what cannot be");
    run.ends.assert_balanced("balance");
}

#[test]
fn whoever_joins_when_all_is_over_but_nobody_has_heard_of_it() {
    for shape in [FlowShape::Shuffle, FlowShape::Balance, FlowShape::Replicate] {
        let mut run = start(spec(shape, &[0], &[2]));
        while !run.ends.all_ended() {
            run.ends.work(20);
            run.rack.step();
        }
        let (rack, controller) = (&mut run.rack, &mut run.controller);
        assert_eq!(controller.flow_state(run.id), Some(FlowState::Running));
        let producer = controller.add_producer(rack, run.id, NodeId(3));
        match shape {
            FlowShape::Shuffle => assert_eq!(
                producer.unwrap_err().to_string(),
                "a flow of shape shuffle cannot take another producer: one of its consumers has \
                 seen the end of its stream"
            ),
            _ => assert_eq!(producer.unwrap_err(), FlowError::NotRunning),
        }
        run.finish(20, "all over");
    }
    let mut run = start(spec(FlowShape::Balance, &[0], &[2]));
    while !run.ends.all_ended() {
        run.ends.work(20);
        run.rack.step();
    }
    let (rack, controller) = (&mut run.rack, &mut run.controller);
    let (_, ring) = controller.add_consumer(rack, run.id, NodeId(3)).unwrap();
    let joined = taker(rack, &ring);
    run.ends.consumers.push(joined);
    run.finish(20, "joined at the end");
    assert_eq!(run.ends.consumers[1].ended, Some(true));
    assert!(run.ends.consumers[1].popped.is_empty());
}

/// A source that dies in the middle of a transfer was active before; its consumer must not be
/// blamed.
#[test]
fn a_source_that_falls_silent_in_mid_transfer_is_the_one_to_blame() {
    for steps in 0..25 {
        let mut run = start(FlowSpec {
            on_loss: LossPolicy::Report,
            batch_bytes: 4800,
            ..spec(FlowShape::Balance, &[0, 1], &[2, 3])
        });
        for _ in 0..steps {
            run.step(400);
        }
        run.rack.dead[1] = true;
        run.finish(400, "a silent source");
        let losses = run.controller.losses(run.id);
        let blamed: Vec<_> = losses.iter().map(|loss| (loss.role, loss.node)).collect();
        assert!(
            blamed.iter().all(|&who| who == ("producer", NodeId(1))),
            "after {steps} steps: {blamed:?}"
        );
    }
}
