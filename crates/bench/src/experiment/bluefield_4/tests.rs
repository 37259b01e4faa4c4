//! Few keys, short runs.

use super::*;
use rackweave_base::Duration;

/// Virtual time that suffices.
const SHORT: Duration = Duration::from_micros(800);

fn rate(keys: u64, updates: f64, offload: f64) -> f64 {
    let mut run = Run::quick(5);
    let real = 2_000;
    let plan = IndexPlan::new(real, keys / real, Mix::uniform(real, updates));
    let plan = IndexPlan {
        offload,
        ..plan.counted(SHORT)
    };
    let seen = index::measure(&mut run, &plan);
    let seen = seen.unwrap_or_else(|error| panic!("{keys} keys, {offload}, seed 5: {error}"));
    seen.per_second
}

#[test]
fn host_and_dpu_together_do_more_than_either() {
    let [host, both, dpu] = [0.0, 0.25, 1.0].map(|offload| rate(1_000_000, 0.0, offload));
    assert!(dpu < host && host < both, "{host} {both} {dpu}");
    // Each part is smaller than the whole, and so cheaper to search.
    assert!(both < 1.3 * (host + dpu), "{host} {both} {dpu}");
}

#[test]
fn updates_and_larger_trees_cost_more() {
    let small = rate(1_000_000, 0.0, 1.0);
    let (updates, large) = (rate(1_000_000, 1.0, 1.0), rate(256_000_000, 0.0, 1.0));
    assert!(
        updates < small && large < 0.7 * small,
        "{small} {updates} {large}"
    );
}

#[test]
fn the_rebalancer_comes_near_the_best_split() {
    let mut run = Run::quick(5);
    let course = rebalance::course(&mut run, SCENARIOS[0]);
    let course = course.unwrap_or_else(|error| panic!("seed 5: {error}"));
    assert!(course.reached > 0.95 * course.best.1, "{course:?}");
    assert!(course.offload > 0.1 && course.moves.1 > 1_000, "{course:?}");
}

#[test]
fn one_request_at_a_time_takes_as_long_as_it_takes() {
    let mut run = Run::quick(4);
    let mut median = |offload| {
        let plan = alone(1_000, 1_000, offload, Duration::from_micros(800));
        let seen = index::measure(&mut run, &plan).expect("it runs");
        // One request at a time.
        let product = seen.per_second * seen.median_us / 1e6;
        assert!((0.9..1.1).contains(&product), "{seen:?}");
        seen.median_us
    };
    assert!((0.5..2.0).contains(&(median(1.0) / median(0.0))));
}
