//! Each kind of violation, planted.

use super::*;
use crate::checkers::StampError;

const SEED: u64 = 9;

fn item(producer: u16, destination: u16, sequence: u64) -> Vec<u8> {
    let mut item = vec![0; 40];
    stamp::fill(&mut item, producer, destination, sequence, SEED);
    item
}

/// A history in which producers 0 and 1 each pushed `count` items to each destination and closed.
fn pushed(shape: Shape, consumers: u16, destinations: u16, count: u64) -> FlowHistory {
    let mut history = FlowHistory::new(shape, consumers, SEED);
    for producer in 0..2 {
        for destination in 0..destinations {
            for sequence in 0..count {
                let hash = FlowHistory::item_hash(&item(producer, destination, sequence));
                history.push(producer, destination, sequence, hash);
            }
        }
        history.close(producer);
    }
    history
}

fn routed(pops: &[(u16, u64)]) -> FlowHistory {
    let mut history = pushed(Shape::Routed, 1, 1, 3);
    pops.iter()
        .for_each(|&(producer, sequence)| history.pop(0, &item(producer, 0, sequence)));
    history
}

const ALL: [(u16, u64); 6] = [(0, 0), (1, 0), (1, 1), (0, 1), (0, 2), (1, 2)];

fn stamp(producer: u16, sequence: u64) -> Stamp {
    Stamp {
        producer,
        destination: 0,
        sequence,
    }
}

#[track_caller]
fn check(history: FlowHistory, expect: &[Violation]) {
    let violations = history.finish().err().unwrap_or_default();
    assert_eq!(violations, expect);
}

#[test]
fn a_faultless_history_passes() {
    let mut history = routed(&ALL);
    history.end(0);
    assert_eq!((history.pushed(), history.popped()), (6, 6));
    check(history, &[]);
}

#[test]
fn a_lost_item_is_found() {
    let lost = |producer, first, count| Violation::Lost {
        producer,
        destination: 0,
        whom: Some(0),
        first,
        count,
        pushed: 3,
    };
    let no_end = Violation::NoEnd { consumer: 0 };
    check(
        routed(&ALL[..4]),
        &[lost(0, 2, 1), lost(1, 2, 1), no_end.clone()],
    );
    check(
        routed(&[(0, 0), (0, 2), (1, 0), (1, 1), (1, 2)]),
        &[lost(0, 1, 1), no_end.clone()],
    );
    check(routed(&[]), &[lost(0, 0, 3), lost(1, 0, 3), no_end]);
}

#[test]
fn an_end_with_items_missing_is_early() {
    let mut history = routed(&ALL[..4]);
    history.end(0);
    let early = |producer| Violation::EarlyEnd {
        consumer: 0,
        producer,
        left: 1,
    };
    assert_eq!(history.violations(), [early(0), early(1)]);
    history.pop(0, &item(0, 0, 2));
    assert_eq!(
        history.violations()[2],
        Violation::AfterEnd {
            consumer: 0,
            stamp: stamp(0, 2)
        }
    );
    assert_eq!(history.violation_count(), 3);
}

#[test]
fn an_end_before_a_producer_closed_is_early() {
    let mut history = FlowHistory::new(Shape::Routed, 1, SEED);
    history.push(0, 0, 0, FlowHistory::item_hash(&item(0, 0, 0)));
    history.pop(0, &item(0, 0, 0));
    history.end(0);
    check(
        history,
        &[Violation::EarlyEnd {
            consumer: 0,
            producer: 0,
            left: 0,
        }],
    );
}

#[test]
fn a_duplicate_is_found() {
    let mut history = routed(&ALL);
    history.pop(0, &item(1, 0, 1));
    history.end(0);
    check(
        history,
        &[Violation::Duplicated {
            consumer: 0,
            stamp: stamp(1, 1),
        }],
    );
}

#[test]
fn a_reordering_is_found() {
    let mut history = routed(&[(0, 0), (0, 2), (1, 0), (0, 1), (1, 1), (1, 2)]);
    history.end(0);
    check(
        history,
        &[Violation::Reordered {
            consumer: 0,
            stamp: stamp(0, 1),
            after: 2,
        }],
    );
}

#[test]
fn changed_bytes_are_found() {
    let mut history = routed(&ALL[..5]);
    let mut damaged = item(1, 0, 2);
    damaged[30] ^= 4;
    history.pop(0, &damaged);
    assert!(
        matches!(
            history.violations(),
            [Violation::Content {
                consumer: 0,
                index: 5,
                error: StampError::Damaged { at: 30, .. },
            }]
        ),
        "{:?}",
        history.violations()
    );
    // Its stamp is right, but it is shorter than the pushed item.
    let mut history = routed(&ALL[..5]);
    history.pop(0, &item(1, 0, 2)[..32]);
    history.end(0);
    check(
        history,
        &[Violation::Changed {
            consumer: 0,
            stamp: stamp(1, 2),
        }],
    );
}

#[test]
fn an_item_from_nowhere_is_found() {
    let mut history = routed(&ALL);
    history.pop(0, &item(0, 0, 3));
    history.pop(0, &item(7, 0, 0));
    history.end(0);
    let never = |stamp| Violation::NeverPushed { consumer: 0, stamp };
    check(history, &[never(stamp(0, 3)), never(stamp(7, 0))]);
}

#[test]
fn an_item_at_the_wrong_consumer_is_found() {
    let mut history = pushed(Shape::Routed, 2, 2, 1);
    for (consumer, producer, destination) in [(0, 0, 0), (0, 1, 0), (1, 1, 1), (0, 0, 1)] {
        history.pop(consumer, &item(producer, destination, 0));
    }
    (0..2).for_each(|consumer| history.end(consumer));
    let stamp = Stamp {
        producer: 0,
        destination: 1,
        sequence: 0,
    };
    check(history, &[Violation::WrongConsumer { consumer: 0, stamp }]);
    let mut history = pushed(Shape::Routed, 2, 1, 0);
    history.pop(5, &item(0, 0, 0));
    assert_eq!(
        history.violations(),
        [Violation::UnknownConsumer {
            consumer: 5,
            consumers: 2
        }]
    );
}

#[test]
fn a_push_out_of_order_is_the_harness_fault() {
    let mut history = pushed(Shape::Routed, 1, 1, 1);
    history.push(0, 0, 5, 0);
    let expect = Violation::PushOrder {
        producer: 0,
        destination: 0,
        sequence: 5,
        expect: 1,
    };
    assert_eq!(history.violations(), [expect]);
}

#[test]
fn an_aborted_flow_delivers_prefixes() {
    let mut history = routed(&[(0, 0), (1, 0), (1, 1)]);
    history.abort();
    check(history, &[]);
    let mut history = routed(&[(0, 0), (1, 0), (1, 2)]);
    history.abort();
    let hole = Violation::NotPrefix {
        producer: 1,
        destination: 0,
        whom: Some(0),
        first: 1,
        later: 2,
    };
    check(history, &[hole]);
}

#[test]
fn the_dead_excuse_only_what_was_theirs() {
    let mut history = routed(&[(0, 0), (1, 0), (1, 1), (1, 2)]);
    history.abandon_producer(0);
    history.end(0);
    check(history, &[]);
    let mut history = routed(&[(0, 0), (1, 0), (1, 1), (1, 2)]);
    history.abandon_producer(1);
    history.end(0);
    assert_eq!(
        history.finish().unwrap_err().len(),
        2,
        "an early end and the lost items"
    );
    let mut history = pushed(Shape::Routed, 2, 2, 1);
    history.abandon_consumer(1);
    (0..2).for_each(|producer| history.pop(0, &item(producer, 0, 0)));
    history.end(0);
    check(history, &[]);
}

#[test]
fn balanced_items_go_to_one_consumer_each() {
    let fill = || {
        let mut history = pushed(Shape::Balanced, 2, 1, 4);
        for sequence in 0..4 {
            history.pop((sequence % 2) as u16, &item(0, 0, sequence));
            history.pop(1, &item(1, 0, sequence));
        }
        history
    };
    let mut history = fill();
    (0..2).for_each(|consumer| history.end(consumer));
    check(history, &[]);
    let mut history = fill();
    history.pop(0, &item(1, 0, 3));
    (0..2).for_each(|consumer| history.end(consumer));
    check(
        history,
        &[Violation::Duplicated {
            consumer: 0,
            stamp: stamp(1, 3),
        }],
    );
    let mut history = pushed(Shape::Balanced, 2, 1, 1);
    history.pop(1, &item(0, 0, 0));
    (0..2).for_each(|consumer| history.end(consumer));
    let lost = Violation::Lost {
        producer: 1,
        destination: 0,
        whom: None,
        first: 0,
        count: 1,
        pushed: 1,
    };
    check(history, &[lost]);
}

#[test]
fn replicated_items_come_to_all_in_one_order() {
    let fill = |orders: [&[(u16, u64)]; 2]| {
        let mut history = pushed(Shape::Replicated, 2, 1, 2);
        for (consumer, order) in orders.into_iter().enumerate() {
            for &(producer, sequence) in order {
                history.pop(consumer as u16, &item(producer, 0, sequence));
            }
            history.end(consumer as u16);
        }
        history
    };
    let one: &[(u16, u64)] = &[(0, 0), (1, 0), (0, 1), (1, 1)];
    check(fill([one, one]), &[]);
    let other: &[(u16, u64)] = &[(0, 0), (0, 1), (1, 0), (1, 1)];
    let differs = Violation::OrderDiffers {
        consumer: 1,
        index: 1,
        got: stamp(0, 1),
        expect: stamp(1, 0),
    };
    check(fill([one, other]), &[differs]);
    let lost = Violation::Lost {
        producer: 1,
        destination: 0,
        whom: Some(1),
        first: 1,
        count: 1,
        pushed: 2,
    };
    let early = Violation::EarlyEnd {
        consumer: 1,
        producer: 1,
        left: 1,
    };
    check(fill([one, &one[..3]]), &[early, lost]);
}

#[test]
fn a_flood_of_violations_is_counted_and_not_kept() {
    let mut history = FlowHistory::new(Shape::Routed, 1, SEED);
    (0..1000).for_each(|sequence| history.pop(0, &item(0, 0, sequence)));
    assert_eq!(history.violation_count(), 1000);
    assert_eq!(history.violations().len(), VIOLATIONS_MAX);
}

#[test]
fn violations_read_as_sentences() {
    let lost = Violation::Lost {
        producer: 3,
        destination: 1,
        whom: Some(1),
        first: 17,
        count: 2,
        pushed: 100,
    };
    insta::assert_snapshot!(lost, @"2 items of producer 3, ring 1, never came to consumer 1; the first is number 17 of 100");
}
