//! A tree compared with a map, in one thread and in several.

use super::*;
use proptest::prelude::*;
use rackweave_base::Memory;
use std::collections::BTreeMap;

fn tree(config: &TreeConfig) -> Tree {
    let memory = Memory::new(1 << 30);
    let block = memory.allocate(config.bytes() as usize).unwrap();
    Tree::create(block, config).unwrap()
}

fn small() -> TreeConfig {
    TreeConfig {
        node_size: 512,
        tree_nodes: 400,
        heap_bytes: 1 << 20,
        value_max: 300,
        ..TreeConfig::default()
    }
}

#[derive(Clone, Debug)]
enum Op {
    Insert(u64, usize),
    Update(u64, usize),
    Put(u64, usize),
    Remove(u64),
    Lookup(u64),
    Scan(u64, u64, bool),
    RemoveRange(u64, u64),
}

fn op() -> impl Strategy<Value = Op> {
    let key = 0..2000_u64;
    let len = prop_oneof![4 => Just(8_usize), 1 => 0..300_usize];
    prop_oneof![
        4 => (key.clone(), len.clone()).prop_map(|(key, len)| Op::Insert(key, len)),
        1 => (key.clone(), len.clone()).prop_map(|(key, len)| Op::Update(key, len)),
        4 => (key.clone(), len).prop_map(|(key, len)| Op::Put(key, len)),
        3 => key.clone().prop_map(Op::Remove),
        2 => key.clone().prop_map(Op::Lookup),
        1 => (key.clone(), key.clone(), any::<bool>())
            .prop_map(|(a, b, back)| Op::Scan(a.min(b), a.max(b), back)),
        1 => (key.clone(), 0..400_u64).prop_map(|(from, len)| Op::RemoveRange(from, from + len)),
    ]
}

fn value(key: u64, len: usize, version: usize) -> Vec<u8> {
    (0..len)
        .map(|at| (key as usize + at + version * 7) as u8)
        .collect()
}

fn entries(tree: &Tree) -> Vec<(u64, Vec<u8>)> {
    let mut all = Vec::new();
    tree.scan(0..=u64::MAX, Direction::Forward, &mut |key, value| {
        all.push((key, value.to_vec()));
        true
    });
    all
}

fn apply(tree: &Tree, map: &mut BTreeMap<u64, Vec<u8>>, op: &Op, version: usize) {
    let mut found = Vec::new();
    match *op {
        Op::Insert(key, len) => {
            let new = !map.contains_key(&key);
            assert_eq!(tree.insert(key, &value(key, len, version)), Ok(new));
            map.entry(key).or_insert_with(|| value(key, len, version));
        }
        Op::Update(key, len) => {
            let there = map.contains_key(&key);
            assert_eq!(tree.update(key, &value(key, len, version)), Ok(there));
            if let Some(old) = map.get_mut(&key) {
                *old = value(key, len, version);
            }
        }
        Op::Put(key, len) => {
            let new = map.insert(key, value(key, len, version)).is_none();
            assert_eq!(tree.put(key, &value(key, len, version)), Ok(new));
        }
        Op::Remove(key) => {
            assert_eq!(tree.remove(key), Ok(map.remove(&key).is_some()));
        }
        Op::RemoveRange(from, to) => {
            for key in from..to {
                assert_eq!(tree.remove(key), Ok(map.remove(&key).is_some()));
            }
        }
        Op::Lookup(key) => {
            assert_eq!(tree.lookup(key, &mut found), map.contains_key(&key));
            assert_eq!(found, map.get(&key).cloned().unwrap_or_default());
        }
        Op::Scan(from, to, back) => {
            let mut seen = Vec::new();
            let direction = if back {
                Direction::Backward
            } else {
                Direction::Forward
            };
            tree.scan(from..=to, direction, &mut |key, value| {
                seen.push((key, value.to_vec()));
                true
            });
            let mut expected: Vec<_> = map
                .range(from..=to)
                .map(|(&key, value)| (key, value.clone()))
                .collect();
            if back {
                expected.reverse();
            }
            assert_eq!(seen, expected);
        }
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(64))]

    #[test]
    fn it_holds_what_a_map_holds(ops in prop::collection::vec(op(), 1..1500)) {
        let tree = tree(&small());
        let mut map = BTreeMap::new();
        for (version, op) in ops.iter().enumerate() {
            apply(&tree, &mut map, op, version);
        }
        let summary = tree.check().unwrap();
        prop_assert_eq!(summary.entries, map.len() as u64);
        prop_assert_eq!(entries(&tree), map.clone().into_iter().collect::<Vec<_>>());
        // It is the same tree when it is opened again.
        let again = Tree::open(tree.block().clone()).unwrap();
        prop_assert_eq!(again.check().unwrap(), summary);
        for key in 0..500 {
            map.insert(key * 3, value(key * 3, 8, 1));
            again.put(key * 3, &value(key * 3, 8, 1)).unwrap();
        }
        again.check().unwrap();
        prop_assert_eq!(entries(&again), map.into_iter().collect::<Vec<_>>());
    }

    #[test]
    fn bounds_move(
        keys in prop::collection::btree_set(0..5000_u64, 0..900),
        cuts in prop::collection::vec((0..5000_u64, 0..5000_u64, any::<bool>()), 1..8),
    ) {
        let tree = tree(&TreeConfig { low: 0, last: 4999, ..small() });
        let mut map = BTreeMap::new();
        for &key in &keys {
            let len = if key % 5 == 0 { 20 } else { 8 };
            tree.insert(key, &value(key, len, 0)).unwrap();
            map.insert(key, value(key, len, 0));
        }
        for (a, b, grow) in cuts {
            let (low, last) = (a.min(b), a.max(b));
            let (old_low, old_last) = tree.bounds();
            if grow {
                tree.extend(low, last).unwrap();
                prop_assert_eq!(tree.bounds(), (old_low.min(low), old_last.max(last)));
            } else if low <= old_last && last >= old_low {
                tree.shrink(low, last).unwrap();
                map.retain(|key, _| (low..=last).contains(key));
                prop_assert_eq!(tree.bounds(), (old_low.max(low), old_last.min(last)));
            } else {
                prop_assert!(tree.shrink(low, last).is_err());
            }
            tree.check().unwrap();
            prop_assert_eq!(entries(&tree), map.clone().into_iter().collect::<Vec<_>>());
            let (low, last) = tree.bounds();
            for key in [low, last, low.midpoint(last)] {
                tree.put(key, &value(key, 8, 3)).unwrap();
                map.insert(key, value(key, 8, 3));
            }
            if let Some(outside) = low.checked_sub(1) {
                let out = TreeError::OutOfBounds { key: outside, low, last };
                prop_assert_eq!(tree.put(outside, &[0; 8]), Err(out));
                prop_assert_eq!(tree.remove(outside), Err(out));
                prop_assert!(!tree.contains(outside));
            }
        }
    }
}

#[test]
fn loading_builds_a_whole_tree() {
    for count in [0, 1, 2, 25, 26, 600, 5000] {
        let tree = tree(&small());
        let keys = (0..count).map(|at| at * 10 + 5);
        let loaded = tree.bulk_load(keys.clone().map(|key| (key, value(key, 8, 0))));
        assert_eq!(loaded, Ok(count));
        assert_eq!(tree.check().unwrap().entries, count);
        for key in 0..100 {
            tree.put(key, &value(key, 9, 0)).unwrap();
        }
        tree.check().unwrap();
        for key in keys {
            assert_eq!(tree.remove(key), Ok(true));
        }
        tree.check().unwrap();
    }
    let tree = tree(&small());
    let error = tree.bulk_load([(5, [0; 8]), (5, [0; 8])]).unwrap_err();
    assert_eq!(
        error,
        TreeError::NotAscending {
            previous: 5,
            key: 5
        }
    );
    tree.put(1, &[0; 8]).unwrap();
    tree.check().unwrap();
    assert_eq!(tree.bulk_load([(7, [0; 8])]), Err(TreeError::NotEmpty));
}

#[test]
fn tree_nodes_and_records_are_used_again() {
    let tree = tree(&TreeConfig {
        tree_nodes: 60,
        heap_bytes: 1 << 17,
        ..small()
    });
    for round in 0..50_u64 {
        for key in 0..600 {
            tree.put(
                key * 2 + round % 2,
                &value(key, 8 + (key % 3) as usize * 40, 0),
            )
            .unwrap();
        }
        for key in 0..600 {
            assert_eq!(tree.remove(key * 2 + round % 2), Ok(true));
        }
        let summary = tree.check().unwrap();
        assert_eq!((summary.entries, summary.levels), (0, 1));
    }
    assert_eq!(tree.statistics().tree_nodes, 2);
}

#[test]
fn a_full_tree_says_so_and_stays_whole() {
    let tree = tree(&TreeConfig {
        tree_nodes: 12,
        heap_bytes: 640,
        ..small()
    });
    let mut key = 0;
    let error = loop {
        if let Err(error) = tree.insert(key, &[0; 8]) {
            break error;
        }
        key += 1;
    };
    assert_eq!(error, TreeError::NodesUsedUp { capacity: 12 });
    assert_eq!(tree.check().unwrap().entries, key);
    let full = loop {
        match tree
            .update(key - 1, &[1; 64])
            .and_then(|_| tree.update(key - 2, &[1; 150]))
        {
            Err(error) => break error,
            Ok(_) => {
                for key in 0..9 {
                    let _ = tree.update(key, &[2; 64]);
                }
            }
        }
    };
    assert!(
        matches!(
            full,
            TreeError::HeapFull {
                heap_bytes: 640,
                ..
            }
        ),
        "{full}"
    );
    assert_eq!(tree.check().unwrap().entries, key);
    let error = tree.insert(u64::MAX, &[0; 301]).unwrap_err();
    assert_eq!(
        error,
        TreeError::ValueTooLarge {
            length: 301,
            limit: 300
        }
    );
}

#[test]
fn images_that_are_no_trees_are_refused() {
    let memory = Memory::new(1 << 24);
    let block = memory.allocate(1 << 20).unwrap();
    assert!(matches!(
        Tree::open(block.clone()),
        Err(TreeError::Superblock(
            rackweave_wire::fabric::tree::SuperblockError::Foreign { found: 0 }
        ))
    ));
    let config = TreeConfig {
        heap_bytes: 1 << 16,
        tree_nodes: 100,
        ..small()
    };
    let tree = Tree::create(block.clone(), &config).unwrap();
    for key in 0..200 {
        tree.put(key, &value(key, if key % 4 == 0 { 30 } else { 8 }, 0))
            .unwrap();
    }
    // Whichever word is damaged: it is either unused, or the damage is detected.
    let mut found = 0;
    let words = config.bytes() as usize / 8;
    for at in 0..words {
        let word = block.word(at * 8);
        let old = word.load(core::sync::atomic::Ordering::Relaxed);
        word.store(
            old ^ (1 << (at % 64)),
            core::sync::atomic::Ordering::Relaxed,
        );
        match Tree::open(block.clone()) {
            Err(_) => found += 1,
            Ok(again) => assert_eq!(entries(&again), entries(&tree), "word {at}"),
        }
        word.store(old, core::sync::atomic::Ordering::Relaxed);
    }
    assert!(found > 500, "{found}");
    let wrong = |config: TreeConfig| {
        Tree::create(block.clone(), &config)
            .unwrap_err()
            .to_string()
    };
    insta_like(
        &wrong(TreeConfig {
            node_size: 32,
            ..config
        }),
        "node_size = 32: too small",
    );
    insta_like(
        &wrong(TreeConfig {
            node_size: 700,
            ..config
        }),
        "not 512, 1024, 2048 or 4096",
    );
    insta_like(
        &wrong(TreeConfig {
            tree_nodes: 1,
            ..config
        }),
        "superblock and the root",
    );
    insta_like(
        &wrong(TreeConfig {
            tree_nodes: 1 << 20,
            ..config
        }),
        "does not fit a block",
    );
}

fn insta_like(message: &str, part: &str) {
    assert!(message.contains(part), "{message}");
}

#[test]
fn threads_share_it() {
    let tree = tree(&TreeConfig {
        tree_nodes: 4000,
        heap_bytes: 4 << 20,
        ..small()
    });
    const THREADS: u64 = 4;
    const KEYS: u64 = 1500;
    // Each thread writes the keys of one remainder; all threads read all keys.
    std::thread::scope(|scope| {
        for thread in 0..THREADS {
            let tree = tree.clone();
            scope.spawn(move || {
                let mut rng = rackweave_base::Rng::new(thread);
                let mut map = BTreeMap::new();
                let mut found = Vec::new();
                for step in 0..12_000 {
                    let key = rng.below(KEYS) * THREADS + thread;
                    let len = if rng.below(4) == 0 { 40 } else { 8 };
                    // Alternating phases of growth and shrinking, so that tree nodes are allocated
                    // and freed.
                    if rng.below(10) < if step / 3000 % 2 == 0 { 7 } else { 3 } {
                        let new = map.insert(key, value(key, len, step)).is_none();
                        assert_eq!(tree.put(key, &value(key, len, step)), Ok(new));
                    } else {
                        assert_eq!(tree.remove(key), Ok(map.remove(&key).is_some()));
                    }
                    let key = rng.below(KEYS) * THREADS + thread;
                    assert_eq!(tree.lookup(key, &mut found), map.contains_key(&key));
                    assert_eq!(found, map.get(&key).cloned().unwrap_or_default());
                    if step % 64 == 0 {
                        let from = rng.below(KEYS * THREADS);
                        let mut previous = None;
                        let mut own = Vec::new();
                        tree.scan(from..=from + 400, Direction::Backward, &mut |key, _| {
                            assert!(previous.is_none_or(|previous| previous > key));
                            previous = Some(key);
                            if key % THREADS == thread {
                                own.push(key);
                            }
                            true
                        });
                        own.reverse();
                        let expected: Vec<u64> =
                            map.range(from..=from + 400).map(|(&key, _)| key).collect();
                        assert_eq!(own, expected);
                    }
                }
            });
        }
    });
    tree.check().unwrap();
}

/// Keys that are there, their neighbours, and both ends, in tree nodes of every size.
#[test]
fn lookups_one_by_one_and_together_agree_with_a_map() {
    for node_size in rackweave_wire::fabric::tree::NODE_SIZES {
        let tree = tree(&TreeConfig::for_keys(20_000, node_size, 8));
        let mut map = BTreeMap::new();
        let mut rng = rackweave_base::Rng::new(u64::from(node_size));
        for step in 0..20_000_u64 {
            let key = rng.below(1 << 20) * 2;
            tree.put(key, &step.to_le_bytes()).unwrap();
            map.insert(key, step);
            if rng.chance(0.2) {
                let key = rng.below(1 << 20) * 2;
                assert_eq!(tree.remove(key).unwrap(), map.remove(&key).is_some());
            }
        }
        let mut asked = vec![0, u64::MAX];
        for &key in map.keys() {
            asked.extend([key.wrapping_sub(1), key, key + 1]);
        }
        let expected: Vec<_> = asked.iter().map(|key| map.get(key).copied()).collect();
        let one: Vec<_> = asked.iter().map(|&key| tree.lookup_word(key)).collect();
        assert_eq!(one, expected, "tree nodes of {node_size}");
        let mut together = vec![None; asked.len()];
        tree.lookup_words(&asked, &mut together);
        assert_eq!(together, expected, "tree nodes of {node_size}");
        tree.lookup_words(&[], &mut []);
    }
}

/// A writer splits and merges leaves around keys that stay.
#[test]
fn lookups_together_find_what_stays_while_others_come_and_go() {
    let tree = tree(&small());
    let kept: Vec<u64> = (0..1000).map(|at| at * 64).collect();
    for &key in &kept {
        tree.insert(key, &key.to_le_bytes()).unwrap();
    }
    let is_over = std::sync::atomic::AtomicBool::new(false);
    std::thread::scope(|scope| {
        scope.spawn(|| {
            for round in 0..20 {
                for &key in &kept {
                    tree.insert(key + 1 + round, &[0; 8]).unwrap();
                }
                for &key in &kept {
                    assert!(tree.remove(key + 1 + round).unwrap());
                }
            }
            is_over.store(true, std::sync::atomic::Ordering::Release);
        });
        let mut found = vec![None; kept.len()];
        while !is_over.load(std::sync::atomic::Ordering::Acquire) {
            tree.lookup_words(&kept, &mut found);
            assert!(
                kept.iter()
                    .zip(&found)
                    .all(|(&key, &word)| word == Some(key))
            );
        }
    });
}
