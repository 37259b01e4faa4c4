//! Costs by level, size and skew.

use super::*;
use rackweave_sim::testbed_fat_btree::Network;

fn cost(keys: u64, skew: f64) -> WalkCost {
    let database = Database {
        keys,
        value_bytes: 64,
    };
    let caches = Network::Ethernet.caches();
    WalkCost::new((&database, 4), (512, 16), skew, &caches)
}

#[test]
fn sums_of_powers_are_close_to_exact_ones() {
    for skew in [0.5, 0.9, 0.99, 1.0, 1.2] {
        let hot = Hot { records: 1e6, skew };
        let exact: f64 = (1..=1000).map(|rank| f64::from(rank).powf(-skew)).sum();
        assert!((hot.weight(1000.0) / exact - 1.0).abs() < 0.01, "{skew}");
        assert_eq!(hot.share(5000.0, 5000.0), 1.0);
    }
}

#[test]
fn every_level_more_costs_more_and_skew_costs_less() {
    let (even, skewed) = (cost(100_000_000, 0.0), cost(100_000_000, 0.99));
    // 25 million records, 25 to a leaf, 14 children: 1 M leaves and six levels above.
    assert_eq!(even.by_levels.len(), 7);
    for levels in 1..7 {
        assert!(even.lookup(levels) < even.lookup(levels + 1));
        assert!(skewed.lookup(levels) < even.lookup(levels));
    }
    assert_eq!(even.lookup(0), even.lookup(1));
    assert_eq!(even.lookup(99), even.lookup(7));
    assert!(even.update() > even.lookup(7));
    assert!(cost(10_000_000, 0.99).lookup(99) < skewed.lookup(99));
}
