//! The local B+tree beside other ordered maps of 64-bit keys and values.
//!
//! ```text
//! cargo bench -p rackweave-endpoint --bench ordered_map -- [--keys 1000000,16000000] [--node 1024]
//! ```
//!
//! Keys are distinct and random. Every map is filled by inserts in random order, then asked for
//! keys that it holds, by one thread and by two; the tree also for many of them at once. `std`'s
//! map is measured in the same run; its time with one thread is 1. Maps that are not for threads
//! have no second column.

use congee::Congee;
use crossbeam_skiplist::SkipMap;
use rackweave_base::{Memory, Rng};
use rackweave_endpoint::btree::{Tree, TreeConfig};
use scc::TreeIndex;
use std::collections::BTreeMap;
use std::hint::black_box;
use std::time::Instant;

/// A map that threads share.
trait Map: Sync {
    fn insert(&self, key: u64, value: u64);
    fn lookup(&self, key: u64) -> Option<u64>;

    /// Looks up keys that are there.
    fn lookup_all(&self, keys: &[u64]) {
        for &key in keys {
            assert_eq!(black_box(self.lookup(key)), Some(value_of(key)));
        }
    }
}

/// A tree that is asked for many keys at once.
struct Together(Tree);

impl Map for Together {
    fn insert(&self, key: u64, value: u64) {
        Map::insert(&self.0, key, value);
    }

    fn lookup(&self, key: u64) -> Option<u64> {
        self.0.lookup_word(key)
    }

    fn lookup_all(&self, keys: &[u64]) {
        let mut values = [None; 64];
        for keys in keys.chunks(values.len()) {
            let values = &mut values[..keys.len()];
            self.0.lookup_words(keys, black_box(values));
            let expected = keys.iter().map(|&key| Some(value_of(key)));
            assert!(values.iter().copied().eq(expected));
        }
    }
}

impl Map for Tree {
    fn insert(&self, key: u64, value: u64) {
        Tree::insert(self, key, &value.to_le_bytes()).expect("the tree has room");
    }

    fn lookup(&self, key: u64) -> Option<u64> {
        self.lookup_word(key)
    }
}

impl Map for TreeIndex<u64, u64> {
    fn insert(&self, key: u64, value: u64) {
        let _ = self.insert_sync(key, value);
    }

    fn lookup(&self, key: u64) -> Option<u64> {
        self.peek_with(&key, |_, value| *value)
    }
}

impl Map for SkipMap<u64, u64> {
    fn insert(&self, key: u64, value: u64) {
        SkipMap::insert(self, key, value);
    }

    fn lookup(&self, key: u64) -> Option<u64> {
        self.get(&key).map(|entry| *entry.value())
    }
}

impl Map for Congee<usize, usize> {
    fn insert(&self, key: u64, value: u64) {
        let guard = self.pin();
        let _ = Congee::insert(self, key as usize, value as usize, &guard);
    }

    fn lookup(&self, key: u64) -> Option<u64> {
        let guard = self.pin();
        self.get(&(key as usize), &guard).map(|value| value as u64)
    }
}

/// Small, for maps that keep bits of a value for themselves.
fn value_of(key: u64) -> u64 {
    key >> 32
}

/// Operations per second of `threads` threads, each with its part of `keys`.
fn rate(threads: usize, keys: &[u64], work: impl Fn(&[u64]) + Sync) -> f64 {
    let begun = Instant::now();
    std::thread::scope(|scope| {
        for part in keys.chunks(keys.len().div_ceil(threads)) {
            let work = &work;
            scope.spawn(move || work(part));
        }
    });
    keys.len() as f64 / begun.elapsed().as_secs_f64()
}

fn shared(
    name: &str,
    keys: &[u64],
    asked: &[u64],
    base: (f64, f64),
    make: impl Fn() -> Box<dyn Map>,
) {
    let mut insert = [0.0; 2];
    let mut lookup = [0.0; 2];
    for (at, threads) in [1, 2].into_iter().enumerate() {
        let map = make();
        insert[at] = rate(threads, keys, |part| {
            for &key in part {
                map.insert(key, value_of(key));
            }
        });
        lookup[at] = rate(threads, asked, |part| map.lookup_all(part));
    }
    print_row(name, insert, lookup, base);
}

fn print_row(name: &str, insert: [f64; 2], lookup: [f64; 2], base: (f64, f64)) {
    let million = |rate: f64| rate / 1e6;
    println!(
        "{name:28} {:7.2} {:7.2} {:6.2} {:6.2}   {:7.2} {:7.2} {:6.2} {:6.2}",
        million(insert[0]),
        million(insert[1]),
        insert[0] / base.0,
        insert[1] / insert[0],
        million(lookup[0]),
        million(lookup[1]),
        lookup[0] / base.1,
        lookup[1] / lookup[0],
    );
}

fn compare(count: usize, node_sizes: &[u32]) {
    // Odd multiples of a large odd number are distinct, and in no order.
    let mut rng = Rng::new(count as u64);
    let keys: Vec<u64> = (0..count as u64)
        .map(|at| (at + 1).wrapping_mul(0x9e37_79b9_7f4a_7c15))
        .collect();
    let asked: Vec<u64> = (0..count.min(4 << 20))
        .map(|_| keys[rng.below(count as u64) as usize])
        .collect();
    println!("\n{count} keys: millions of operations per second");
    println!(
        "{:28} {:>30}   {:>30}",
        "", "insert: 1, 2 threads, /std, 2/1", "lookup: 1, 2 threads, /std, 2/1"
    );
    let mut map = BTreeMap::new();
    let begun = Instant::now();
    for &key in &keys {
        map.insert(key, value_of(key));
    }
    let insert = count as f64 / begun.elapsed().as_secs_f64();
    let lookup = rate(1, &asked, |part| {
        for key in part {
            assert_eq!(black_box(map.get(key)), Some(&value_of(*key)));
        }
    });
    drop(map);
    let base = (insert, lookup);
    print_row("std BTreeMap", [insert, 0.0], [lookup, 0.0], base);
    for &node_size in node_sizes {
        let make = || {
            let config = TreeConfig::for_keys(count as u64, node_size, 8);
            let memory = Memory::new(config.bytes() as usize + (4 << 20));
            let block = memory
                .allocate(config.bytes() as usize)
                .expect("under the limit");
            Tree::create(block, &config).expect("the settings are right")
        };
        let name = format!("Tree, {node_size} B");
        shared(&name, &keys, &asked, base, || Box::new(make()));
        let name = format!("{name}, 64 at once");
        shared(&name, &keys, &asked, base, || Box::new(Together(make())));
    }
    shared("scc TreeIndex", &keys, &asked, base, || {
        Box::new(TreeIndex::<u64, u64>::new())
    });
    shared("congee (adaptive radix)", &keys, &asked, base, || {
        Box::new(Congee::<usize, usize>::default())
    });
    shared("crossbeam SkipMap", &keys, &asked, base, || {
        Box::new(SkipMap::<u64, u64>::new())
    });
}

fn main() {
    let arguments: Vec<String> = std::env::args().collect();
    let list = |name: &str, default: &str| -> Vec<u64> {
        let at = arguments.iter().position(|argument| argument == name);
        let text = at
            .and_then(|at| arguments.get(at + 1))
            .map_or(default, String::as_str);
        let numbers = text.split(',').map(str::parse);
        numbers
            .map(|number| number.expect("numbers, separated by commas"))
            .collect()
    };
    // `cargo test` runs benches to see that they work.
    let measured = arguments.iter().any(|argument| argument == "--bench");
    let keys = list(
        "--keys",
        if measured {
            "1000000,16000000"
        } else {
            "10000"
        },
    );
    let nodes: Vec<u32> = list("--node", "512,1024,2048")
        .iter()
        .map(|&size| size as u32)
        .collect();
    for count in keys {
        compare(count as usize, &nodes);
    }
}
