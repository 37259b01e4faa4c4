//! Trees and queries of a small database.

use super::*;
use rackweave_base::Memory;
use rackweave_endpoint::btree::Tree;

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
            .expect("there is room");
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
            "no more room than needed"
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
