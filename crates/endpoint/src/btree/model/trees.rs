//! A tree with tree nodes of four entries, in thousands of schedules.
//!
//! A failure prints a schedule; `shuttle::replay` with it repeats the run.

use super::super::arena::Arena;
use super::super::scan::Direction;
use super::super::tree::Tree;
use rackweave_wire::fabric::tree::{Layout, Superblock};
use shuttle::thread;

/// Number of schedules of each kind for each model.
const SCHEDULES: usize = 3000;

/// Number of preemptions in a schedule.
const DEPTH: usize = 3;

fn explore(model: impl Fn() + Sync + Send + Clone + 'static) {
    shuttle::check_pct(model.clone(), SCHEDULES, DEPTH);
    shuttle::check_random(model, SCHEDULES);
}

/// A tree with tree nodes of four entries that holds these keys.
fn tree(keys: &[u64]) -> Tree {
    const WORDS: usize = 16;
    let superblock = Superblock {
        node_size: WORDS as u32 * 8,
        tree_nodes: 8,
        heap_bytes: 0,
        value_max: 8,
        tree: 1,
        fan_out: 0,
    };
    let layout = Layout::of_words(WORDS);
    assert_eq!(layout.capacity(), 4);
    let tree = Tree::in_arena(Arena::new(WORDS * 8), layout, superblock);
    tree.format(0, u64::MAX);
    for key in keys {
        tree.insert(*key, &key.to_le_bytes()).unwrap();
    }
    tree
}

#[test]
fn a_key_is_found_while_its_leaf_splits() {
    explore(|| {
        // Two leaves: 10 to 30, which is full; 40 and 50.
        let tree = tree(&[10, 20, 30, 40, 50, 15]);
        let before = tree.statistics().splits;
        let writer = {
            let tree = tree.clone();
            thread::spawn(move || {
                assert_eq!(tree.insert(25, &25_u64.to_le_bytes()), Ok(true));
            })
        };
        // This key moves to the new leaf.
        assert_eq!(tree.lookup_word(30), Some(30));
        writer.join().unwrap();
        assert_eq!(tree.statistics().splits, before + 1);
        assert_eq!(tree.lookup_word(25), Some(25));
        assert_eq!(tree.check().unwrap().leaves, 3);
    });
}

#[test]
fn a_key_is_found_while_the_root_grows() {
    explore(|| {
        let tree = tree(&[10, 20, 30, 40]);
        let writer = {
            let tree = tree.clone();
            thread::spawn(move || {
                assert_eq!(tree.insert(25, &25_u64.to_le_bytes()), Ok(true));
            })
        };
        assert_eq!(tree.lookup_word(40), Some(40));
        writer.join().unwrap();
        assert_eq!(tree.check().unwrap().entries, 5);
    });
}

#[test]
fn two_writers_split_one_leaf() {
    explore(|| {
        let tree = tree(&[10, 20, 30, 40]);
        let writer = {
            let tree = tree.clone();
            thread::spawn(move || {
                assert_eq!(tree.insert(15, &15_u64.to_le_bytes()), Ok(true));
            })
        };
        assert_eq!(tree.insert(35, &35_u64.to_le_bytes()), Ok(true));
        writer.join().unwrap();
        assert_eq!(tree.check().unwrap().entries, 6);
        assert_eq!(tree.lookup_word(15), Some(15));
        assert_eq!(tree.lookup_word(35), Some(35));
    });
}

#[test]
fn a_key_is_found_while_its_leaf_is_merged() {
    explore(|| {
        // Three leaves: 10; 40; 50 and 60.
        let tree = tree(&[10, 20, 30, 40, 50, 60, 45]);
        for key in [20, 30, 45] {
            assert_eq!(tree.remove(key), Ok(true));
        }
        let before = tree.statistics().merges;
        let writer = {
            let tree = tree.clone();
            thread::spawn(move || {
                assert_eq!(tree.remove(10), Ok(true));
            })
        };
        // This key moves to the leaf of 10, which is empty.
        assert_eq!(tree.lookup_word(40), Some(40));
        writer.join().unwrap();
        assert!(tree.statistics().merges > before);
        assert_eq!(tree.lookup_word(50), Some(50));
        tree.check().unwrap();
    });
}

#[test]
fn a_leaf_is_pinned_in_time_or_found_merged() {
    explore(|| {
        // Three leaves: 10; 40; 50 and 60.
        let tree = tree(&[10, 20, 30, 40, 50, 60, 45]);
        for key in [20, 30, 45] {
            assert_eq!(tree.remove(key), Ok(true));
        }
        let (low, leaf) = tree.outline(1)[0].children[1];
        let writer = {
            let tree = tree.clone();
            thread::spawn(move || {
                assert_eq!(tree.remove(10), Ok(true));
            })
        };
        let failed = tree.pin(0, &[(leaf, low)]);
        let holds = || {
            let node = tree.node(leaf.index);
            (node.pointer(), node.low()) == (leaf, low) && node.meta().is_live()
        };
        // The merge may be incomplete while the latch is held, but not if the tree node was pinned.
        assert!(!failed.is_empty() || holds());
        writer.join().unwrap();
        assert_eq!(holds(), failed.is_empty());
        assert_eq!(tree.lookup_word(40), Some(40));
        tree.check().unwrap();
    });
}
