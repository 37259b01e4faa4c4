use super::*;

fn plan(producers: u32, consumers: u32, items: u64) -> Plan {
    Plan {
        items,
        ..Plan::new(producers, consumers, Scale::Quick)
    }
}

fn measured(plan: &Plan, seed: u64) -> Result<Outcome, ExperimentError> {
    let mut run = Run {
        scale: Scale::Quick,
        seed,
        progress: &mut |_| true,
    };
    measure(&mut run, plan, ordinary)
}

#[test]
fn one_to_one_is_the_smallest_case() {
    let outcome = measured(&plan(1, 1, 500), 9).unwrap();
    assert!(outcome.same_order);
    assert_eq!(outcome.items, 500);
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
    assert!(error.to_string().contains("2 rings"), "{error}");
}

/// Measures; run it with `--ignored --nocapture`.
#[test]
#[ignore = "prints what it measures"]
fn measure_ordinary() {
    for items in [64, 128, 256, 512] {
        for producers in [1, 2, 4] {
            let plan = Plan {
                ring_bytes: items * ITEM_BYTES,
                ..Plan::new(producers, 1, Scale::Full)
            };
            let outcome = measured(&plan, 1).unwrap();
            let giga = |rates: &[f64]| rates.iter().map(|r| r * 1e-9).collect::<Vec<_>>();
            let (each, all) = (giga(&outcome.producers), giga(&outcome.consumers));
            println!("{producers}:1, {items} slots: producers {each:.2?}, consumer {all:.2?} GB/s");
        }
    }
}

#[test]
#[ignore = "explores"]
fn explore() {
    let var = |name: &str, or: u64| -> u64 {
        std::env::var(name).ok().and_then(|v| v.parse().ok()).unwrap_or(or)
    };
    for (producers, consumers) in [(1, 1), (1, 2), (1, 4), (2, 4), (3, 4), (4, 4)] {
        let plan = Plan {
            item_bytes: var("ITEM", 8192) as u32,
            ring_bytes: var("RING", 1 << 20) as u32,
            batch_bytes: var("BATCH", 1 << 20) as u32,
            cores: 2,
            items: var("ITEMS", 8000),
            ..Plan::new(producers, consumers, Scale::Full)
        };
        let mut run = Run { scale: Scale::Quick, seed: 1, progress: &mut |_| true };
        let outcome = measure(&mut run, &plan, |rack, plan| {
            let (p, c) = (plan.producer_nodes(), plan.consumer_nodes());
            let mut spec = rack.flow_spec(&p, &c, plan.item_bytes, plan.ring_bytes);
            spec.shape = FlowShape::Replicate;
            spec.batch_bytes = plan.batch_bytes;
            spec.consumer_slots = var("CSLOTS", u64::from(spec.consumer_slots)) as u32;
            spec.transfers = var("TRANSFERS", 4) as u8;
            spec.poll_interval = Duration::from_nanos(var("POLL", 5000));
            spec.poll_interval_max = Duration::from_nanos(var("POLLMAX", 200_000));
            rack.create_flow(spec)
        }).unwrap();
        let giga = |rates: &[f64]| rates.iter().map(|r| r * 1e-9).collect::<Vec<_>>();
        println!("{producers}:{consumers} P {:.3?} C {:.3?} order {}", giga(&outcome.producers), giga(&outcome.consumers), outcome.same_order);
    }
}
