//! The harness of replication: it detects the order of items.

use super::*;

fn plan(producers: u32, consumers: u32, items: u64) -> ReplicationPlan {
    ReplicationPlan {
        items,
        shape: FlowShape::Shuffle,
        ..ReplicationPlan::new(producers, consumers, Scale::Quick)
    }
}

fn measured(plan: &ReplicationPlan, seed: u64) -> Result<Outcome> {
    let mut run = Run::quick(seed);
    measure(&mut run, plan)
}

#[test]
fn one_to_one_is_the_smallest_case() {
    let outcome = measured(&plan(1, 1, 500), 9).unwrap();
    assert!(outcome.same_order);
    let (producer, consumer) = (outcome.producers[0], outcome.consumers[0]);
    assert!(
        (producer / consumer - 1.0).abs() < 0.05,
        "{producer} {consumer}"
    );
    assert!(consumer < 12.5e9, "a link carries no more");
    let cpu = outcome.producer_cpus[0];
    assert_eq!(
        cpu.communication,
        Duration::ZERO,
        "a producer posts nothing"
    );
}

#[test]
fn producers_share_a_consumer() {
    let outcome = measured(&plan(2, 1, 400), 9).unwrap();
    assert_eq!(outcome.producers.len(), 2);
    let sum: f64 = outcome.producers.iter().sum();
    assert!(
        (sum / outcome.consumers[0] - 1.0).abs() < 0.1,
        "{outcome:?}"
    );
}

#[test]
fn a_flow_that_does_not_replicate_is_refused() {
    // An ordinary flow has a ring per producer and consumer.
    let error = measured(&plan(1, 2, 10), 9).unwrap_err();
    assert!(error.to_string().contains("has 2 ends"), "{error}");
}
