//! Trees and queries of a small database.

use super::*;
use rackweave_base::Memory;
use rackweave_endpoint::btree::Tree;
use rackweave_sim::testbed_fat_btree::Network;

#[test]
fn a_tree_of_the_real_shape_holds_the_values_that_are_asked_for() {
    let database = Database {
        keys: 20_000,
        value_bytes: 1000,
    };
    let asked = distinct(&[7, 19_999, 0, 7, 12_345]);
    assert_eq!(asked, [0, 7, 12_345, 19_999]);
    for shape in [(512, 16), (512, 0), (1024, 0)] {
        let config = database.tree(20_000, 4, shape);
        let memory = Memory::new(config.bytes() as usize + (1 << 20));
        let block = memory
            .allocate(config.bytes() as usize)
            .expect("there is space");
        let tree = Tree::create(block, &config).expect("a tree");
        let entries = database.entries(0, 20_000, &asked);
        assert_eq!(tree.bulk_load(entries), Ok(20_000));
        let mut value = Vec::new();
        for number in [0, 1, 7, 8, 12_345, 19_998, 19_999] {
            assert!(tree.lookup(database.key(number), &mut value));
            let expect = match asked.contains(&number) {
                true => database.value(number),
                false => number.to_le_bytes().into(),
            };
            assert_eq!(value, expect, "record {number} of {shape:?}");
        }
        let used = tree.statistics().tree_nodes;
        assert!(
            u64::from(used) * 9 / 8 + 64 >= u64::from(config.tree_nodes),
            "no more space than needed"
        );
    }
}

#[test]
fn as_many_queries_vary_as_are_to() {
    let database = Database {
        keys: 1000,
        value_bytes: 8,
    };
    let share = |variation| {
        let popularity = Popularity::new(&database, 1.2, variation, 3).expect("it is");
        let first = popularity.known.apply(0);
        let mut rng = Rng::new(5);
        let asked = (0..10_000).filter(|_| popularity.asked(&mut rng) == first);
        asked.count() as f64 / 10_000.0
    };
    let all = share(0.0);
    assert!(all > 0.15, "{all}");
    assert!((share(0.5) / all - 0.5).abs() < 0.1);
    assert!(share(1.0) < 0.05);
}

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
