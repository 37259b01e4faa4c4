//! Lookups from every index, compared with lookups from the root.

use super::*;
use crate::btree::TreeConfig;
use rackweave_base::{Memory, Rng};
use std::sync::atomic::{AtomicBool, Ordering};

const NODES: u32 = 600;

fn tree() -> Tree {
    let config = TreeConfig {
        node_size: 512,
        tree_nodes: NODES,
        heap_bytes: 1 << 20,
        value_max: 100,
        ..TreeConfig::default()
    };
    let memory = Memory::new(1 << 24);
    let block = memory.allocate(config.bytes() as usize).unwrap();
    Tree::create(block, &config).unwrap()
}

fn value(key: u64) -> Vec<u8> {
    let len = if key.is_multiple_of(5) { 20 } else { 8 };
    key.to_le_bytes().into_iter().cycle().take(len).collect()
}

#[test]
fn whatever_the_hint_the_answer_is_the_same() {
    let tree = tree();
    for key in 0..4000 {
        tree.put(key * 3, &value(key * 3)).unwrap();
    }
    // This frees some tree nodes again.
    for key in 500..1500 {
        tree.remove(key * 3).unwrap();
    }
    assert!(tree.levels() >= 3);
    let mut rng = Rng::new(7);
    let (mut found, mut expect) = (Vec::new(), Vec::new());
    let (mut leaves, mut inner, mut followed) = (0, 0, 0);
    for node in (0..NODES + 3).chain([u32::MAX]) {
        for _ in 0..40 {
            let key = rng.below(12_100);
            let (there, begun) = tree.lookup_from(node, key, &mut found);
            assert_eq!(there, tree.lookup(key, &mut expect), "{node} {key}");
            assert_eq!(found, expect);
            assert_eq!(u32::from(begun.walked + begun.skipped), tree.levels());
            assert!(begun.followed <= FOLLOWED_MAX);
            match begun.level {
                Some(0) => leaves += 1,
                Some(_) => inner += 1,
                None => assert_eq!((begun.skipped, begun.followed), (0, 0)),
            }
            followed += u32::from(begun.followed > 0);
        }
    }
    assert!(
        leaves > 50 && inner > 50 && followed > 50,
        "{leaves} {inner} {followed}"
    );
}

#[test]
fn a_hint_spares_levels() {
    let tree = tree();
    for key in 0..4000 {
        tree.put(key, &value(key)).unwrap();
    }
    let mut bytes = Vec::new();
    let leaf = tree.descend(2000, 0).unwrap().0.node.index;
    let (found, begun) = tree.lookup_from(leaf, 2000, &mut bytes);
    let skipped = tree.levels() as u8 - 1;
    let expect = Begun {
        level: Some(0),
        walked: 1,
        skipped,
        followed: 0,
    };
    assert_eq!((found, begun), (true, expect));
    // The keys to the right of it are in its neighbour.
    let last = tree.node(leaf).last();
    let (found, begun) = tree.lookup_from(leaf, last + 1, &mut bytes);
    assert_eq!(
        (found, begun),
        (
            true,
            Begun {
                followed: 1,
                ..expect
            }
        )
    );
    // The keys to the left of it are found from the root.
    let low = tree.node(leaf).low();
    let (found, begun) = tree.lookup_from(leaf, low - 1, &mut bytes);
    assert_eq!((found, begun.level), (true, None));
}

/// Keys below 1000 are always present. Keys around them are inserted and removed, so that tree
/// nodes are split, merged, freed and reused under the hints.
#[test]
fn writers_do_not_lead_astray() {
    let tree = tree();
    for key in 0..1000 {
        tree.put(key * 4, &value(key * 4)).unwrap();
    }
    let stop = AtomicBool::new(false);
    std::thread::scope(|scope| {
        for thread in 1..3 {
            let (tree, stop) = (tree.clone(), &stop);
            scope.spawn(move || {
                let mut rng = Rng::new(thread);
                while !stop.load(Ordering::Relaxed) {
                    let from = rng.below(900) * 4 + thread;
                    for key in 0..100 {
                        tree.put(from + key * 4, &value(from + key * 4)).unwrap();
                    }
                    for key in 0..100 {
                        tree.remove(from + key * 4).unwrap();
                    }
                }
            });
        }
        let (mut rng, mut bytes) = (Rng::new(9), Vec::new());
        for _ in 0..60_000 {
            let (node, key) = (rng.below(u64::from(NODES)) as u32, rng.below(1000) * 4);
            let (found, _) = tree.lookup_from(node, key, &mut bytes);
            assert!(found && bytes == value(key), "{node} {key}");
        }
        stop.store(true, Ordering::Relaxed);
    });
    tree.check().unwrap();
}
