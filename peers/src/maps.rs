//! Lookups of 64-bit keys by one thread in ordered maps: the project's B+tree, congee, scc's
//! `TreeIndex` and std's `BTreeMap`.
//!
//! All hold the same keys, and are asked for the same ones in turn, a part at a time, so that a
//! disturbance affects all alike. `crates/endpoint/benches/ordered_map.rs` compares more sizes,
//! inserts, and two threads.

use congee::Congee;
use rackweave_base::{Memory, Rng};
use rackweave_endpoint::btree::{Tree, TreeConfig};
use scc::TreeIndex;
use serde_json::{Value, json};
use std::collections::BTreeMap;
use std::hint::black_box;
use std::time::{Duration, Instant};

const KEYS: u64 = 1_000_000;
const LOOKUPS: usize = 1 << 19;
/// Lookups of one map before it is the next one's turn.
const PART: usize = 1 << 16;
/// Keys that the tree is asked for at once.
const TOGETHER: usize = 64;
/// Bytes of a node of the tree; the benchmark's middle size.
const NODE_BYTES: u32 = 1024;

/// Small, for maps that keep bits of a value for themselves.
fn value_of(key: u64) -> u64 {
    key >> 32
}

/// Looks up all of some keys and checks the values.
type LookupAll<'a> = Box<dyn Fn(&[u64]) + 'a>;

/// A filled map.
struct Filled<'a> {
    name: &'static str,
    lookup_all: LookupAll<'a>,
    elapsed: Duration,
}

fn filled<'a>(name: &'static str, lookup: impl Fn(u64) -> Option<u64> + 'a) -> Filled<'a> {
    let lookup_all = Box::new(move |keys: &[u64]| {
        for &key in keys {
            assert_eq!(black_box(lookup(key)), Some(value_of(key)), "{name}");
        }
    });
    Filled {
        name,
        lookup_all,
        elapsed: Duration::ZERO,
    }
}

fn tree(keys: &[u64]) -> Tree {
    let config = TreeConfig::for_keys(KEYS, NODE_BYTES, 8);
    let bytes = config.bytes() as usize;
    let memory = Memory::new(bytes + (4 << 20));
    let block = memory.allocate(bytes).expect("under the limit");
    let tree = Tree::create(block, &config).expect("the settings are right");
    for &key in keys {
        let value = value_of(key).to_le_bytes();
        tree.insert(key, &value).expect("the tree has capacity");
    }
    tree
}

pub fn measure() -> Value {
    let mut rng = Rng::new(KEYS);
    let keys: Vec<u64> = (0..KEYS).map(|_| rng.next_u64()).collect();
    let wanted: Vec<u64> = (0..LOOKUPS)
        .map(|_| keys[rng.below(KEYS) as usize])
        .collect();

    // Each is filled alone, so that its nodes do not lie between those of the others.
    let tree = tree(&keys);
    let congee = Congee::<usize, usize>::default();
    let guard = congee.pin();
    for &key in &keys {
        let _ = congee.insert(key as usize, value_of(key) as usize, &guard);
    }
    drop(guard);
    let scc = TreeIndex::new();
    for &key in &keys {
        let _ = scc.insert_sync(key, value_of(key));
    }
    // By inserts too: a map that is collected is built from sorted keys.
    let mut standard = BTreeMap::new();
    for &key in &keys {
        standard.insert(key, value_of(key));
    }

    let together = |keys: &[u64]| {
        let mut values = [None; TOGETHER];
        for keys in keys.chunks(TOGETHER) {
            let values = &mut values[..keys.len()];
            tree.lookup_words(keys, black_box(values));
            let expected = keys.iter().map(|&key| Some(value_of(key)));
            assert!(values.iter().copied().eq(expected), "rackweave_together");
        }
    };
    let mut maps = [
        filled("rackweave", |key| tree.lookup_word(key)),
        Filled {
            name: "rackweave_together",
            lookup_all: Box::new(together),
            elapsed: Duration::ZERO,
        },
        filled("congee", |key| {
            let guard = congee.pin();
            congee
                .get(&(key as usize), &guard)
                .map(|value| value as u64)
        }),
        filled("scc", |key| scc.peek_with(&key, |_, value| *value)),
        filled("std", |key| standard.get(&key).copied()),
    ];
    for part in wanted.chunks(PART) {
        for map in &mut maps {
            let begun = Instant::now();
            (map.lookup_all)(part);
            map.elapsed += begun.elapsed();
        }
    }
    let rates = maps.iter().map(|map| {
        let rate = LOOKUPS as f64 / map.elapsed.as_secs_f64();
        (map.name.to_owned(), json!(rate))
    });
    json!({"keys": KEYS, "lookups_per_s": Value::Object(rates.collect())})
}
