//! Pinned tree nodes, fan-out limits and outlines: checked against a map, and with concurrent
//! threads.

use super::*;
use proptest::prelude::*;
use rackweave_base::{Memory, Rng};
use rackweave_wire::fabric::tree::{NodePointer, ROOT, SuperblockError};
use std::collections::{BTreeMap, BTreeSet};

fn tree(fan_out: u16) -> Tree {
    let config = TreeConfig {
        node_size: 512,
        tree_nodes: 1500,
        heap_bytes: 0,
        fan_out,
        ..TreeConfig::default()
    };
    let memory = Memory::new(1 << 24);
    let block = memory.allocate(config.bytes() as usize).unwrap();
    Tree::create(block, &config).unwrap()
}

fn word(key: u64) -> [u8; 8] {
    key.to_le_bytes()
}

/// All tree nodes that an outline names, with their low fences.
fn places(tree: &Tree) -> Vec<(NodePointer, u64)> {
    let outline = tree.outline(usize::MAX);
    let children = outline.iter().flat_map(|node| &node.children);
    let children = children.map(|&(low, pointer)| (pointer, low));
    let root = outline.first().map(|root| (root.pointer(), root.low));
    root.into_iter().chain(children).collect()
}

fn holds(tree: &Tree, (pointer, low): (NodePointer, u64)) -> bool {
    let node = tree.node(pointer.index);
    node.pointer() == pointer && node.meta().is_live() && node.low() == low
}

/// Checks that the outline has as many tree nodes as `check` counts, from the root down, and within
/// the limit.
#[track_caller]
fn check_outline(tree: &Tree, fan_out: usize) {
    let summary = tree.check().unwrap();
    let outline = tree.outline(usize::MAX);
    assert_eq!(outline.len(), summary.inner as usize);
    assert!(outline.is_sorted_by_key(|node| core::cmp::Reverse(node.level)));
    let mut known: BTreeMap<u32, (u64, u8)> = BTreeMap::from([(ROOT, (0, u8::MAX))]);
    for node in &outline {
        let (low, level) = known.remove(&node.index).expect("parents come first");
        assert!(node.low == low && (level == u8::MAX || node.level == level));
        assert!(node.children.len() <= fan_out, "{node:?}");
        let children = node.children.iter();
        known.extend(children.map(|&(low, child)| (child.index, (low, node.level - 1))));
    }
    // The remaining tree nodes are the leaves.
    let leaves = if outline.is_empty() { 1 } else { known.len() };
    assert_eq!(leaves, summary.leaves as usize);
    let few = tree.outline(3);
    assert_eq!(few, outline[..outline.len().min(3)]);
}

#[derive(Clone, Debug)]
enum Op {
    Put(u64),
    Remove(u64),
    PutRange(u64, u64),
    RemoveRange(u64, u64),
    Pin(bool, u64),
    Unpin(bool),
}

fn op() -> impl Strategy<Value = Op> {
    let key = 0..3000_u64;
    prop_oneof![
        6 => key.clone().prop_map(Op::Put),
        4 => key.clone().prop_map(Op::Remove),
        2 => (key.clone(), 0..500_u64).prop_map(|(from, len)| Op::PutRange(from, from + len)),
        2 => (key, 0..900_u64).prop_map(|(from, len)| Op::RemoveRange(from, from + len)),
        2 => (any::<bool>(), any::<u64>()).prop_map(|(bank, seed)| Op::Pin(bank, seed)),
        1 => any::<bool>().prop_map(Op::Unpin),
    ]
}

/// A tree, the expected map, and what each bank has pinned.
struct Fixture {
    tree: Tree,
    map: BTreeMap<u64, [u8; 8]>,
    pinned: [BTreeSet<(u32, u32, u64)>; PIN_BANKS],
}

impl Fixture {
    fn apply(&mut self, op: &Op) {
        let (tree, map) = (&self.tree, &mut self.map);
        match *op {
            Op::Put(key) => {
                let new = map.insert(key, word(key)).is_none();
                assert_eq!(tree.put(key, &word(key)), Ok(new));
            }
            Op::Remove(key) => assert_eq!(tree.remove(key), Ok(map.remove(&key).is_some())),
            Op::PutRange(from, to) => {
                for key in from..to {
                    tree.put(key, &word(key)).unwrap();
                    map.insert(key, word(key));
                }
            }
            Op::RemoveRange(from, to) => {
                for key in from..to {
                    assert_eq!(tree.remove(key), Ok(map.remove(&key).is_some()));
                }
            }
            Op::Pin(bank, seed) => {
                let mut rng = Rng::new(seed);
                let mut wanted = places(tree);
                wanted.retain(|_| rng.chance(0.3));
                assert!(tree.pin(usize::from(bank), &wanted).is_empty());
                let wanted = wanted.iter().map(|&(at, low)| (at.index, at.epoch, low));
                self.pinned[usize::from(bank)].extend(wanted);
            }
            Op::Unpin(bank) => {
                tree.unpin(usize::from(bank));
                self.pinned[usize::from(bank)].clear();
            }
        }
    }

    fn check(&self) {
        for &(index, epoch, low) in self.pinned.iter().flatten() {
            let pointer = NodePointer { index, epoch };
            assert!(self.tree.is_pinned(index));
            assert!(holds(&self.tree, (pointer, low)), "{pointer} is gone");
        }
        self.tree.check().unwrap();
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(32))]

    #[test]
    fn what_is_pinned_stays(
        ops in prop::collection::vec(op(), 1..120),
        fan_out in prop_oneof![Just(0_u16), 4..=28_u16],
    ) {
        let tree = tree(fan_out);
        let mut stage = Fixture { tree, map: BTreeMap::new(), pinned: Default::default() };
        for op in &ops {
            stage.apply(op);
            stage.check();
        }
        let limit = if fan_out == 0 { 28 } else { usize::from(fan_out) };
        check_outline(&stage.tree, limit);
        let mut found = Vec::new();
        stage.tree.scan(0..=u64::MAX, Direction::Forward, &mut |key, value| {
            found.push((key, value.to_vec()));
            true
        });
        let expected = stage.map.iter().map(|(&key, value)| (key, value.to_vec()));
        prop_assert_eq!(found, expected.collect::<Vec<_>>());
        // Without pins it shrinks again.
        (0..PIN_BANKS).for_each(|bank| stage.tree.unpin(bank));
        stage.apply(&Op::PutRange(0, 3500));
        stage.apply(&Op::RemoveRange(0, 3500));
        prop_assert_eq!(stage.tree.check().unwrap().levels, 1);
        prop_assert_eq!(stage.tree.statistics().tree_nodes, 2);
    }
}

#[test]
fn a_pinned_tree_node_outlives_all_its_keys() {
    for pinned in [false, true] {
        let tree = tree(16);
        tree.bulk_load((0..5000).map(|key| (key, word(key))))
            .unwrap();
        check_outline(&tree, 16);
        let all = places(&tree);
        assert!(all.len() > 200 && tree.levels() > 2);
        if pinned {
            assert!(tree.pin(1, &all).is_empty());
        }
        for key in 0..5000 {
            assert_eq!(tree.remove(key), Ok(true));
        }
        tree.check().unwrap();
        let alive = all.iter().filter(|&&place| holds(&tree, place)).count();
        let expect = if pinned { all.len() } else { 1 };
        assert_eq!(alive, expect, "the root stays in any case");
        assert_eq!(tree.levels() > 1, pinned);
    }
}

#[test]
fn what_cannot_be_pinned_is_told() {
    let tree = tree(0);
    for key in 0..200 {
        tree.put(key, &word(key)).unwrap();
    }
    let all = places(&tree);
    let (leaf, low) = all[1];
    let with = |index, epoch, low| (NodePointer { index, epoch }, low);
    let wanted = [
        (leaf, low),
        with(leaf.index, leaf.epoch + 2, low),
        (leaf, low + 1),
        all[2],
        with(0, 1, 0),
        with(1500, 1, 0),
        with(1400, 0, 0),
        all[0],
    ];
    assert_eq!(tree.pin(0, &wanted), [1, 2, 4, 5, 6]);
    let pinned = |at: usize| tree.is_pinned(all[at].0.index);
    assert!(pinned(0) && pinned(1) && pinned(2) && !pinned(3));
    assert!(!tree.is_pinned(1499) && !tree.is_pinned(u32::MAX));
    // The other bank pins on its own.
    assert!(tree.pin(1, &wanted[..1]).is_empty());
    tree.unpin(0);
    assert!(pinned(1) && !pinned(2));
    tree.unpin(1);
    assert!(!pinned(1));
}

#[test]
fn a_limit_of_children_is_kept_when_the_tree_is_opened_again() {
    let tree = tree(5);
    for key in 0..2000 {
        tree.put(key * 7 % 2003, &word(key)).unwrap();
    }
    check_outline(&tree, 5);
    let again = Tree::open(tree.block().clone()).unwrap();
    assert_eq!(again.superblock().fan_out, 5);
    for key in 2003..4000 {
        again.put(key, &word(key)).unwrap();
    }
    check_outline(&again, 5);
    // At least half full, except at the edges: no chains of single children.
    assert!(again.levels() <= 8, "{} levels", again.levels());
}

#[test]
fn a_limit_that_makes_no_sense_is_refused() {
    let memory = Memory::new(1 << 24);
    let message = |config: &TreeConfig| {
        let block = memory.allocate(config.bytes() as usize).unwrap();
        Tree::create(block, config)
            .map(|_| ())
            .map_err(|error| error.to_string())
    };
    let config = |fan_out| TreeConfig::for_keys(1000, 512, 8).with_fan_out(fan_out);
    let small = "fan_out = 3: inner tree nodes need room for at least 4 children; 0 is as many as \
                 fit";
    assert_eq!(message(&config(3)), Err(small.into()));
    let large = "fan_out = 29: a tree node of this size (node_size) has no room for so many \
                 children";
    assert_eq!(message(&config(29)), Err(large.into()));
    for fan_out in [0, 4, 28] {
        assert_eq!(message(&config(fan_out)), Ok(()));
    }
    // The capacity suffices for keys in any order.
    for fan_out in [4, 16] {
        let config = config(fan_out);
        let block = memory.allocate(config.bytes() as usize).unwrap();
        let tree = Tree::create(block, &config).unwrap();
        for key in 0..1000_u64 {
            tree.put(key * 617 % 1009, &word(key)).unwrap();
        }
    }
    let error = TreeError::from(SuperblockError::Foreign { found: 0 });
    assert!(error.to_string().contains("never formatted"));
}

/// The effect of the planted bug: the checkers must detect it by the broken guarantee, not by a
/// damaged tree.
#[test]
fn a_split_that_knows_no_pins_frees_what_is_pinned() {
    let tree = tree(16);
    tree.bulk_load((0..1000).map(|key| (key * 10, word(key))))
        .unwrap();
    let outline = tree.outline(usize::MAX);
    let above = outline.iter().find(|node| node.level == 1).unwrap();
    let (low, leaf) = above.children[1];
    let place = (leaf, low);
    assert!(tree.pin(0, &[place]).is_empty());
    let key = place.1 + 10;
    let (leaf, parent) = tree.descend(key, 0).unwrap();
    let parent = parent.unwrap();
    assert_ne!(
        parent.node.child(0).index,
        leaf.node.index,
        "not the first child"
    );
    let parent = parent.node.upgrade(parent.latch).unwrap();
    let leaf = leaf.node.upgrade(leaf.latch).unwrap();
    tree.move_away(parent, leaf, key).unwrap();
    assert!(!holds(&tree, place));
    assert_eq!(tree.check().unwrap().entries, 1000);
    assert_eq!(tree.lookup_word(key), Some(key / 10));
}

#[test]
fn pins_hold_among_threads() {
    const KEYS: u64 = 1500;
    let tree = tree(6);
    let writers = 3_u64;
    std::thread::scope(|scope| {
        let handles: Vec<_> = (0..writers)
            .map(|thread| {
                let tree = tree.clone();
                scope.spawn(move || {
                    let mut rng = Rng::new(thread);
                    let mut own = BTreeSet::new();
                    for step in 0..12_000 {
                        let key = rng.below(KEYS) * writers + thread;
                        if rng.below(10) < if step / 3000 % 2 == 0 { 7 } else { 3 } {
                            assert_eq!(tree.put(key, &word(key)), Ok(own.insert(key)));
                        } else {
                            assert_eq!(tree.remove(key), Ok(own.remove(&key)));
                        }
                    }
                })
            })
            .collect();
        let mut rng = Rng::new(99);
        let (mut bank, mut pinned) = (0, Vec::new());
        while !handles.iter().all(|handle| handle.is_finished()) {
            // As a controller does it: pin the new bank first, then unpin the old one.
            let mut wanted = places(&tree);
            wanted.retain(|_| rng.chance(0.5));
            let failed: BTreeSet<usize> = tree.pin(1 - bank, &wanted).into_iter().collect();
            let mut next = Vec::new();
            for (at, place) in wanted.into_iter().enumerate() {
                if !failed.contains(&at) {
                    next.push(place);
                }
            }
            for &place in next.iter().chain(&pinned) {
                assert!(holds(&tree, place), "{} is gone", place.0);
            }
            tree.unpin(bank);
            (bank, pinned) = (1 - bank, next);
        }
        for &place in &pinned {
            assert!(holds(&tree, place));
        }
    });
    tree.check().unwrap();
}
