//! A short replication, and the measure of fairness.

use super::*;

#[test]
fn producers_get_the_same() {
    let mut run = Run::quick(4);
    let plan = ReplicationPlan {
        items: 40,
        ..large_items(3, Scale::Quick)
    };
    let outcome = measure(&mut run, &plan).unwrap();
    assert_eq!(outcome.producers.len(), 3);
    assert_eq!(outcome.consumers.len(), CONSUMERS as usize);
    assert!(spread(&outcome.producers) < 0.01, "{outcome:?}");
    assert!(spread(&outcome.consumers) < 0.01, "{outcome:?}");
}

#[test]
fn the_spread_is_the_worst_deviation() {
    assert_eq!(spread(&[2.0, 2.0]), 0.0);
    assert_eq!(spread(&[1.0, 2.0, 3.0]), 0.5);
}
