//! Members that join and leave while items are on the way, under loss and restarts: only the
//! member's own node, queue pairs and lanes are touched.

use crate::common::Fate;
use crate::shapes::{Run, producer, spec, start, taker};
use rackweave_base::{NodeId, Rng};
use rackweave_controller::{FlowError, FlowShape, FlowSpec, FlowState, LossPolicy};
use rackweave_switch::transfer::{Lane, LaneId, LaneKind};
use std::collections::BTreeMap;

const ALL: [FlowShape; 3] = [FlowShape::Shuffle, FlowShape::Balance, FlowShape::Replicate];

/// Items of each producer ring.
const TOTAL: u64 = 700;

#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Change {
    ConsumerJoins,
    ConsumerLeaves,
    ProducerJoins,
    ProducerLeaves,
}

const CHANGES: [Change; 4] = [
    Change::ConsumerJoins,
    Change::ConsumerLeaves,
    Change::ProducerJoins,
    Change::ProducerLeaves,
];

impl Change {
    /// Whether flows of the shape allow it.
    fn fits(self, shape: FlowShape) -> bool {
        let of_consumer = matches!(self, Change::ConsumerJoins | Change::ConsumerLeaves);
        shape != FlowShape::Shuffle || !of_consumer
    }

    /// The node of the member.
    fn node(self) -> NodeId {
        NodeId(match self {
            Change::ConsumerJoins => 4,
            Change::ConsumerLeaves => 2,
            Change::ProducerJoins => 5,
            Change::ProducerLeaves => 1,
        })
    }

    /// Whether the controller has completed it.
    fn is_complete(self, lanes: usize, before: usize) -> bool {
        match self {
            Change::ConsumerJoins | Change::ProducerJoins => lanes > before,
            Change::ConsumerLeaves | Change::ProducerLeaves => lanes < before,
        }
    }
}

/// The switch's lanes to a flow's nodes; what a member of a group knows of others is left out.
fn lanes(run: &Run) -> BTreeMap<u16, Lane> {
    let engine = &run.rack.switch.program().engine;
    let lanes = (0..run.rack.config.engine.lanes).filter_map(|at| {
        let mut lane = *engine.lane(LaneId(at))?;
        if let LaneKind::Member { next, bit, .. } = &mut lane.kind {
            (*next, *bit) = (LaneId(0), 0);
        }
        (!matches!(lane.kind, LaneKind::Group { .. })).then_some((at, lane))
    });
    lanes.collect()
}

/// Requests the change. A producer leaves when it is done: its last items are on the way.
fn request(run: &mut Run, change: Change) -> Result<(), FlowError> {
    let (rack, controller, node) = (&mut run.rack, &mut run.controller, change.node());
    match change {
        Change::ConsumerJoins => {
            let (_, ring) = controller.add_consumer(rack, run.id, node)?;
            let joined = taker(rack, &ring);
            run.ends.consumers.push(joined);
            Ok(())
        }
        Change::ConsumerLeaves => controller.remove_consumer(rack, run.id, 0),
        Change::ProducerJoins => {
            let (_, rings) = controller.add_producer(rack, run.id, node)?;
            for ring in &rings {
                run.ends.producers.push(producer(rack, ring));
                run.ends.pushed.push(0);
            }
            Ok(())
        }
        Change::ProducerLeaves => controller.remove_producer(rack, run.id, 1),
    }
}

fn run_of(shape: FlowShape) -> Run {
    start(spec(shape, &[0, 1], &[2, 3]))
}

/// Makes the producers on node 1 finish after a few items.
fn finish_second(run: &mut Run, shape: FlowShape) {
    let rings = if shape == FlowShape::Shuffle {
        vec![1, 3]
    } else {
        vec![1]
    };
    for ring in rings {
        run.ends.producers[ring].finish();
        run.ends.done.insert(ring);
    }
}

fn check(run: &Run, shape: FlowShape, change: Change, what: &str) {
    run.ends.assert_order(what);
    if shape != FlowShape::Replicate {
        return run.ends.assert_balanced(what);
    }
    // Who stayed saw everything, who left a prefix of it, who joined a suffix.
    let all = &run.ends.consumers[1].popped;
    assert_eq!(
        all.len() as u64,
        run.ends.pushed.iter().sum::<u64>(),
        "{what}"
    );
    assert!(all.starts_with(&run.ends.consumers[0].popped), "{what}");
    if change == Change::ConsumerJoins {
        assert!(all.ends_with(&run.ends.consumers[2].popped), "{what}");
    } else if change != Change::ConsumerLeaves {
        assert_eq!(all, &run.ends.consumers[0].popped, "{what}");
    }
}

/// Requests a change until it is accepted, with items on the way.
fn request_when_possible(run: &mut Run, shape: FlowShape, change: Change, what: &str) {
    if change == Change::ProducerLeaves {
        finish_second(run, shape);
    }
    for _ in 0..10_000 {
        match request(run, change) {
            Ok(()) => return,
            Err(FlowError::ProducerBusy { .. }) => run.step(TOTAL),
            Err(error) => panic!("{what}: {error}"),
        }
    }
    panic!("{what}: the producer stays busy");
}

#[test]
fn only_the_member_that_joins_or_leaves_is_touched() {
    for shape in ALL {
        for change in CHANGES.into_iter().filter(|it| it.fits(shape)) {
            for steps in (0..25).step_by(4) {
                let what = format!("{shape:?}, {change:?} after {steps} steps");
                let mut run = run_of(shape);
                for _ in 0..steps {
                    run.step(TOTAL);
                }
                let before = lanes(&run);
                run.rack.touched.clear();
                request_when_possible(&mut run, shape, change, &what);
                let count = run.controller.lanes_used();
                let mut left = 10_000;
                while !change.is_complete(lanes(&run).len(), before.len()) {
                    run.step(TOTAL);
                    left -= 1;
                    assert!(left > 0, "{what}: never completed, {count} lanes");
                }
                let state = run.controller.flow_state(run.id);
                assert_eq!(state, Some(FlowState::Running), "{what}");
                let touched: Vec<NodeId> = run.rack.touched.iter().copied().collect();
                assert_eq!(touched, [change.node()], "{what}");
                let after = lanes(&run);
                let changed = before
                    .iter()
                    .filter(|(at, lane)| after.get(at) != Some(lane));
                let changed = changed.count();
                let gone = before.len().saturating_sub(after.len());
                assert_eq!(changed, gone, "{what}: lanes of others changed");
                run.finish(TOTAL, &what);
                check(&run, shape, change, &what);
            }
        }
    }
}

#[test]
fn every_change_under_loss_loses_repeats_and_reorders_nothing() {
    for shape in ALL {
        for change in CHANGES.into_iter().filter(|it| it.fits(shape)) {
            for seed in (0..25).step_by(4) {
                let what = format!("{shape:?}, {change:?}, seed {seed}");
                let mut rng = Rng::new(seed);
                let mut run = run_of(shape);
                for _ in 0..rng.below(25) {
                    run.step(TOTAL);
                }
                run.rack.fate = Box::new(move |_, _| match rng.below(30) {
                    0..=1 => Fate::Lose,
                    2 => Fate::Duplicate,
                    3 => Fate::Delay,
                    _ => Fate::Deliver,
                });
                request_when_possible(&mut run, shape, change, &what);
                run.finish(TOTAL, &what);
                check(&run, shape, change, &what);
            }
        }
    }
}

#[test]
fn a_restart_of_the_switch_in_the_middle_of_a_change_completes_it() {
    for shape in ALL {
        for change in CHANGES.into_iter().filter(|it| it.fits(shape)) {
            for at in (0..40).step_by(5) {
                let what = format!("{shape:?}, {change:?}, restart {at} packets later");
                let mut run = run_of(shape);
                for _ in 0..11 {
                    run.step(TOTAL);
                }
                request_when_possible(&mut run, shape, change, &what);
                let lost_from = run.rack.packets + at;
                run.rack.fate = Box::new(move |number, _| match number {
                    n if n >= lost_from => Fate::Lose,
                    _ => Fate::Deliver,
                });
                while run.rack.packets <= lost_from {
                    run.step(TOTAL);
                }
                run.rack.restart_switch();
                run.rack.fate = Box::new(|_, _| Fate::Deliver);
                run.controller.switch_restarted(&mut run.rack).unwrap();
                run.finish(TOTAL, &what);
                check(&run, shape, change, &what);
            }
        }
    }
}

#[test]
fn a_consumer_that_dies_while_it_leaves_is_not_a_loss_of_the_flow() {
    for shape in [FlowShape::Balance, FlowShape::Replicate] {
        for steps in (0..25).step_by(4) {
            let what = format!("{shape:?}, after {steps} steps");
            let mut run = run_of(shape);
            for _ in 0..steps {
                run.step(TOTAL);
            }
            request(&mut run, Change::ConsumerLeaves).unwrap();
            run.rack.dead[2] = true;
            run.controller.node_died(&mut run.rack, NodeId(2));
            run.ends.consumers[0].ended = Some(false);
            run.ends.consumers[0].asleep = true;
            run.finish(TOTAL, &what);
            assert_eq!(run.ends.consumers[1].ended, Some(true), "{what}");
            run.ends.assert_order(&what);
        }
    }
}

/// Loses all packets after the next `count`, and requests the change then. Returns whether it was
/// accepted and waits for a packet.
fn request_in_the_middle(run: &mut Run, change: Change, count: u64) -> bool {
    let lost_from = run.rack.packets + count;
    run.rack.fate = Box::new(move |number, _| match number {
        n if n >= lost_from => Fate::Lose,
        _ => Fate::Deliver,
    });
    while run.rack.packets <= lost_from {
        run.step(TOTAL);
    }
    run.rack.fate = Box::new(|_, _| Fate::Deliver);
    let before = lanes(run).len();
    let accepted = request(run, change).is_ok();
    accepted && !change.is_complete(lanes(run).len(), before)
}

#[test]
fn what_a_consumer_had_that_dies_while_it_leaves_is_reported() {
    let mut died_leaving = 0;
    for at in 0..60 {
        let what = format!("after {at} packets");
        let mut run = start(FlowSpec {
            on_loss: LossPolicy::Report,
            ..spec(FlowShape::Balance, &[0, 1, 0, 1], &[2, 3])
        });
        if !request_in_the_middle(&mut run, Change::ConsumerLeaves, at) {
            continue;
        }
        died_leaving += 1;
        run.ends.consumers[0].asleep = true;
        run.ends.consumers[0].ended = Some(false);
        run.rack.dead[2] = true;
        run.controller.node_died(&mut run.rack, NodeId(2));
        run.finish(TOTAL, &what);
        let lost: u64 = run.controller.losses(run.id).iter().map(|l| l.items).sum();
        let counts = run.ends.counts();
        assert!(counts.values().all(|&count| count == 1), "{what}: twice");
        let missing = run.ends.pushed.iter().sum::<u64>() - counts.len() as u64;
        assert!(missing <= lost, "{what}: {missing} missing, {lost} known");
        run.ends.assert_order(&what);
    }
    assert!(died_leaving > 0, "it always left at once");
}

#[test]
fn a_producer_that_dies_while_it_leaves_is_not_a_loss_of_the_flow() {
    let change = Change::ProducerLeaves;
    for shape in ALL {
        let mut died_leaving = 0;
        for at in 0..300 {
            let what = format!("{shape:?}, after {at} packets");
            let mut run = run_of(shape);
            run.ends.work(TOTAL);
            finish_second(&mut run, shape);
            if !request_in_the_middle(&mut run, change, at) {
                continue;
            }
            died_leaving += 1;
            run.rack.dead[1] = true;
            run.controller.node_died(&mut run.rack, NodeId(1));
            run.finish(TOTAL, &what);
            assert_eq!(run.controller.losses(run.id), [], "{what}");
            check(&run, shape, change, &what);
        }
        assert!(died_leaving > 0, "{shape:?}: it always left at once");
    }
}

#[test]
fn a_consumer_that_takes_nothing_more_can_leave() {
    for on_loss in [LossPolicy::Report, LossPolicy::Redeliver] {
        for steps in (0..25).step_by(4) {
            let what = format!("{on_loss:?}, after {steps} steps");
            let mut run = start(FlowSpec {
                on_loss,
                ..spec(FlowShape::Balance, &[0, 1, 1], &[2, 3])
            });
            run.ends.consumers[0].asleep = true;
            for _ in 0..steps {
                run.step(TOTAL);
            }
            request(&mut run, Change::ConsumerLeaves).unwrap();
            for _ in 0..100 {
                run.step(TOTAL);
            }
            run.ends.consumers[0].asleep = false;
            run.finish(TOTAL, &what);
            run.ends.assert_balanced(&what);
        }
    }
}

#[test]
fn members_come_and_go_all_the_time() {
    for shape in [FlowShape::Balance, FlowShape::Replicate] {
        for seed in 0..20 {
            let what = format!("{shape:?}, seed {seed}");
            let mut rng = Rng::new(seed);
            let mut run = run_of(shape);
            let mut here = vec![0, 1];
            for _ in 0..12 {
                for _ in 0..rng.below(6) {
                    run.step(1 << 40);
                }
                let (rack, controller) = (&mut run.rack, &mut run.controller);
                if here.len() < 2 || rng.below(2) == 0 {
                    let node = NodeId(rng.below(6) as u16);
                    let (index, ring) = controller.add_consumer(rack, run.id, node).unwrap();
                    let joined = taker(rack, &ring);
                    run.ends.consumers.push(joined);
                    here.push(index);
                } else {
                    let index = here.remove(rng.below(here.len() as u64) as usize);
                    let left = controller.remove_consumer(rack, run.id, index);
                    assert_eq!(left, Ok(()), "{what}");
                }
            }
            let most = run.ends.pushed.iter().copied().max().unwrap_or(0);
            run.finish(most + 50, &what);
            if shape == FlowShape::Balance {
                run.ends.assert_balanced(&what);
            }
            run.ends.assert_order(&what);
        }
    }
}
