//! Flows through a real switch and real soft NICs: set-up, loss at every step, restart, death.

use crate::common::{Ends, Fate, TestRack};
use rackweave_base::{Duration, NodeId, Rng};
use rackweave_controller::{AbortReason, Controller, FlowSpec, FlowState};
use rackweave_verbs::Mtu;
use rackweave_wire::fabric::ring::{ByteOrder, NODE_WORD};
use std::cell::Cell;
use std::rc::Rc;

fn spec(producers: &[u16], consumers: &[u16]) -> FlowSpec {
    let nodes = |ids: &[u16]| ids.iter().map(|&id| NodeId(id)).collect::<Vec<_>>();
    FlowSpec {
        producers: nodes(producers),
        consumers: nodes(consumers),
        item_size: 600,
        producer_slots: 8,
        consumer_slots: 8,
        batch_bytes: 2400,
        transfers: 2,
        mtu: Mtu::B1024,
        poll_interval_max: Duration::from_micros(40),
        ..FlowSpec::new(&[], &[], 600, 0)
    }
}

/// Runs a flow to its end and returns the number of packets.
fn run(spec: FlowSpec, total: u64, prepare: impl FnOnce(&mut TestRack)) -> u64 {
    run_on(TestRack::new(4, 1), spec, total, prepare)
}

fn run_on(
    (mut rack, mut controller): (TestRack, Controller),
    spec: FlowSpec,
    total: u64,
    prepare: impl FnOnce(&mut TestRack),
) -> u64 {
    prepare(&mut rack);
    let (id, rings) = controller.create_flow(&mut rack, spec).unwrap();
    let mut ends = Ends::new(&rack, &rings);
    for _ in 0..20_000 {
        ends.work(total);
        rack.step();
        controller.handle_digests(&mut rack);
        if ends.all_ended() && controller.flow_state(id) == Some(FlowState::Ended) {
            let popped: u64 = ends.popped.iter().flatten().sum();
            let pushed: u64 = ends.pushed.iter().flatten().sum();
            assert_eq!(popped, pushed);
            assert_eq!(controller.lanes_used(), 0, "lanes are given back");
            assert!(
                ends.producers
                    .iter_mut()
                    .flatten()
                    .all(|p| p.is_delivered())
            );
            return rack.packets;
        }
    }
    panic!(
        "the flow stalled: {:?} pushed, {:?} popped, {:?}, {:?}",
        ends.pushed,
        ends.popped,
        controller.flow_state(id),
        rack.switch
            .counters()
            .iter()
            .filter(|c| c.1 > 0)
            .collect::<Vec<_>>()
    );
}

#[test]
fn one_to_one() {
    run(spec(&[0], &[1]), 100, |_| {});
}

#[test]
fn on_one_node() {
    run(spec(&[2], &[2]), 50, |_| {});
}

#[test]
fn shuffle_three_to_two() {
    run(spec(&[0, 1, 2], &[2, 3]), 60, |_| {});
}

#[test]
fn one_transfer_at_a_time_or_four() {
    for transfers in [1, 4] {
        run(
            FlowSpec {
                transfers,
                ..spec(&[0, 1], &[3])
            },
            60,
            |_| {},
        );
    }
}

#[test]
fn unequal_rings_and_big_items() {
    let spec = FlowSpec {
        item_size: 5000,
        producer_slots: 16,
        consumer_slots: 2,
        batch_bytes: 40_000,
        ..spec(&[0], &[1])
    };
    run(spec, 50, |_| {});
}

#[test]
fn every_packet_may_be_lost_once() {
    let packets = run(spec(&[0], &[1]), 12, |_| {});
    for lost in 0..packets {
        run(spec(&[0], &[1]), 12, |rack| {
            rack.fate = Box::new(move |number, _| {
                if number == lost {
                    Fate::Lose
                } else {
                    Fate::Deliver
                }
            });
        });
    }
}

#[test]
fn every_packet_may_come_twice_or_late() {
    let packets = run(spec(&[0, 1], &[2]), 8, |_| {});
    for at in 0..packets {
        for fate in [Fate::Duplicate, Fate::Delay] {
            run(spec(&[0, 1], &[2]), 8, |rack| {
                rack.fate =
                    Box::new(move |number, _| if number == at { fate } else { Fate::Deliver });
            });
        }
    }
}

#[test]
fn a_tenth_of_all_packets_lost() {
    for seed in 0..20 {
        let mut rng = Rng::new(seed);
        run(spec(&[0, 1], &[2, 3]), 40, |rack| {
            rack.fate = Box::new(move |_, _| match rng.below(30) {
                0..=2 => Fate::Lose,
                3 => Fate::Duplicate,
                4 => Fate::Delay,
                _ => Fate::Deliver,
            });
        });
    }
}

#[test]
fn trains_go_through_whole_and_are_asked_for_again_when_lost() {
    let spec = || FlowSpec {
        item_size: 50_000,
        batch_bytes: 200_000,
        ..spec(&[0, 1], &[2])
    };
    let (trains, packets) = (Rc::new(Cell::new(0)), Rc::new(Cell::new(0)));
    let (seen, all) = (trains.clone(), packets.clone());
    run_on(TestRack::with_trains(3, 1, 8), spec(), 20, move |rack| {
        rack.fate = Box::new(move |_, packet| {
            all.set(all.get() + 1);
            seen.set(seen.get() + u32::from(packet.fragments() > 1));
            Fate::Deliver
        });
    });
    assert!(trains.get() > 100, "{} trains", trains.get());
    for lost in (0..packets.get()).step_by(7) {
        run_on(TestRack::with_trains(3, 1, 8), spec(), 20, move |rack| {
            rack.fate = Box::new(move |number, _| match number {
                n if n == lost => Fate::Lose,
                n if n == lost + 3 => Fate::Duplicate,
                _ => Fate::Deliver,
            });
        });
    }
}

#[test]
fn big_endian_nodes() {
    let (mut rack, controller) = TestRack::new(2, 1);
    controller.set_byte_order(NodeId(1), ByteOrder::Big);
    let (_, rings) = controller.create_flow(&mut rack, spec(&[0], &[1])).unwrap();
    assert_eq!(rings.consumers[0].order, ByteOrder::Big);
    assert_eq!(rings.producers[0][0].order, ByteOrder::Little);
    let mut ends = Ends::new(&rack, &rings);
    for _ in 0..2000 {
        ends.work(30);
        rack.step();
    }
    assert!(ends.all_ended());
    assert_eq!(ends.popped, [[30]]);
}

#[test]
fn a_restart_of_the_switch_at_any_packet_loses_and_repeats_nothing() {
    let packets = run(spec(&[0, 1], &[2]), 12, |_| {});
    for at in 0..packets {
        let (mut rack, mut controller) = TestRack::new(3, 1);
        let (id, rings) = controller
            .create_flow(&mut rack, spec(&[0, 1], &[2]))
            .unwrap();
        let mut ends = Ends::new(&rack, &rings);
        // From packet `at` on nothing arrives, until the switch is back.
        rack.fate = Box::new(move |number, _| {
            if number >= at {
                Fate::Lose
            } else {
                Fate::Deliver
            }
        });
        for _ in 0..30 {
            ends.work(12);
            rack.step();
        }
        rack.restart_switch();
        rack.fate = Box::new(|_, _| Fate::Deliver);
        controller.switch_restarted(&mut rack).unwrap();
        for _ in 0..3000 {
            ends.work(12);
            rack.step();
            controller.handle_digests(&mut rack);
        }
        assert!(
            ends.all_ended(),
            "restart at packet {at}: {:?} popped, {:?}, {:?}",
            ends.popped,
            controller.flow_state(id),
            rack.switch
                .counters()
                .iter()
                .filter(|c| c.1 > 0)
                .collect::<Vec<_>>()
        );
        assert_eq!(ends.popped, [[12, 12]], "restart at packet {at}");
        assert_eq!(controller.flow_state(id), Some(FlowState::Ended));
    }
}

#[test]
fn a_dead_producer_breaks_the_flow_off_and_the_consumer_keeps_what_it_has() {
    let (mut rack, mut controller) = TestRack::new(3, 1);
    let (id, rings) = controller
        .create_flow(&mut rack, spec(&[0, 1], &[2]))
        .unwrap();
    let mut ends = Ends::new(&rack, &rings);
    for _ in 0..10 {
        ends.work(1000);
        rack.step();
    }
    rack.dead[1] = true;
    for _ in 0..20_000 {
        ends.work(1000);
        rack.step();
        controller.handle_digests(&mut rack);
        if ends.ended[0].is_some() {
            break;
        }
    }
    assert_eq!(ends.ended[0], Some(false), "the consumer is told");
    let Some(FlowState::Aborted(reason)) = controller.flow_state(id) else {
        panic!("not aborted")
    };
    assert_eq!(
        reason.to_string(),
        "producer on node1: the node does not answer"
    );
    assert_eq!(controller.lanes_used(), 0);
    assert!(
        ends.producers[0][0].is_aborted(),
        "the surviving producer is told"
    );
}

#[test]
fn a_report_about_a_flow_that_is_gone_does_not_reach_the_next_one_with_its_numbers() {
    let (mut rack, mut controller) = TestRack::new(2, 1);
    let (first, rings) = controller.create_flow(&mut rack, spec(&[0], &[1])).unwrap();
    let ring = &rings.producers[0][0];
    let nonsense = [0xff; 8];
    let regions = &rack.regions;
    regions.store(ring.node, ring.region.rkey, NODE_WORD, nonsense);
    for _ in 0..1000 {
        rack.step();
    }
    assert!(rack.switch.has_digest(), "the switch has seen it");
    controller.close_flow(&mut rack, first);
    let (second, _) = controller.create_flow(&mut rack, spec(&[0], &[1])).unwrap();
    controller.handle_digests(&mut rack);
    let closed = FlowState::Aborted(AbortReason::Closed);
    assert_eq!(controller.flow_state(first), Some(closed));
    assert_eq!(controller.flow_state(second), Some(FlowState::Running));
}

#[test]
fn bad_specifications_are_refused_and_leave_nothing_behind() {
    let (mut rack, controller) = TestRack::new(2, 1);
    let mut refuse = |spec: FlowSpec| {
        let error = controller
            .create_flow(&mut rack, spec)
            .unwrap_err()
            .to_string();
        assert_eq!(controller.lanes_used(), 0, "{error}");
        error
    };
    let good = || spec(&[0], &[1]);
    assert_eq!(
        refuse(FlowSpec {
            producer_slots: 6,
            ..good()
        }),
        "producer_slots is 6: a power of two from 2 to 2^30 is needed"
    );
    assert_eq!(
        refuse(FlowSpec {
            batch_bytes: 599,
            ..good()
        }),
        "batch_bytes is 599: at least one item must fit a transfer"
    );
    assert_eq!(
        refuse(FlowSpec {
            transfers: 3,
            ..good()
        }),
        "transfers is 3: 1, 2 or 4 are possible"
    );
    assert_eq!(
        refuse(spec(&[], &[1])),
        "the number of producers is 0: at least one is needed"
    );
    assert_eq!(
        refuse(spec(&[0], &[9])),
        "node9 does not exist or does not answer"
    );
    assert_eq!(
        refuse(spec(&[0; 5], &[1; 16])),
        "the switch has room for 64 more producer rings, 80 are needed; raise switch.producer_rings"
    );
    assert_eq!(
        refuse(FlowSpec {
            item_size: 1 << 20,
            consumer_slots: 1024,
            batch_bytes: 1 << 20,
            ..good()
        }),
        "node1: 1073741952 bytes asked for, 268435456 of the rack's 268435456 left; raise memory_limit"
    );
}
