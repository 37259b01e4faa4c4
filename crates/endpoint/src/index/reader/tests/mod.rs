//! Walks over a tree that changes meanwhile.

pub(in crate::index) mod fake_nic;
mod network;

use super::*;
use crate::btree::{Direction, Tree, TreeConfig};
use crate::index::map::{EndpointId, PartitionMap};
use crate::index::op::Value;
use crate::index::shard::Shard;
use fake_nic::FakeNic;
use rackweave_verbs::Access;
use std::collections::{BTreeMap, HashMap};

const KEYS: u64 = 1500;

/// When a key changed, and to what.
type Change = (u64, Option<Vec<u8>>);

/// The history of the keys' values.
#[derive(Default)]
struct Past(BTreeMap<u64, Vec<Change>>);

impl Past {
    fn note(&mut self, key: u64, now: u64, value: Option<Vec<u8>>) {
        let past = self.0.entry(key).or_insert_with(|| vec![(0, None)]);
        past.push((now, value));
    }

    /// Whether `key` had `value` at some moment from `from` to `to`.
    fn was(&self, key: u64, (from, to): (u64, u64), value: Option<&[u8]>) -> bool {
        let nothing = vec![(0, None)];
        let past = self.0.get(&key).unwrap_or(&nothing);
        let ends = past.iter().skip(1).map(|(at, _)| *at).chain([u64::MAX]);
        past.iter()
            .zip(ends)
            .any(|((at, was), end)| *at <= to && end > from && was.as_deref() == value)
    }

    /// Whether `key` was present throughout from `from` to `to`.
    fn was_there(&self, key: u64, (from, to): (u64, u64)) -> bool {
        !self.was(key, (from, to), None)
    }
}

struct Fixture {
    nic: FakeNic,
    shard: Shard,
    reader: Reader,
    past: Past,
    now: u64,
    under_way: HashMap<u64, (Query, u64)>,
    tags: u64,
    lengths: &'static [usize],
}

impl Fixture {
    fn new(seed: u64, cache_bytes: u64, lengths: &'static [usize]) -> Self {
        Self::with(seed, cache_bytes, lengths, false)
    }

    fn with(seed: u64, cache_bytes: u64, lengths: &'static [usize], network: bool) -> Self {
        let memory = Memory::new(16 << 20);
        let longest = *lengths.iter().max().unwrap() as u32;
        // Fewer children than fit, so that there are more levels; and capacity for pinned tree
        // nodes.
        let config = TreeConfig::for_keys(4 * KEYS, 512, longest).with_fan_out(8);
        let block = memory.allocate(config.bytes() as usize).unwrap();
        let tree = Tree::create(block, &config).unwrap();
        let map = PartitionMap::whole(2, EndpointId(0)).unwrap();
        let shard = Shard::new(&memory, EndpointId(0), tree, map).unwrap();
        let mut nic = FakeNic::new(seed, 6);
        let mut register = |block: &rackweave_base::Block| {
            nic.register(PdId(0), block.clone(), Access::REMOTE_READ)
                .unwrap()
        };
        let tree = register(shard.tree().block());
        let version = register(shard.version_block());
        let remote = shard.remote(&tree, &version);
        let config = ReaderConfig {
            walks: 5,
            cache_bytes,
            records: 3,
            network,
            ..ReaderConfig::default()
        };
        let reader = Reader::new(&mut nic, &memory, PdId(0), remote, config).unwrap();
        Self {
            nic,
            shard,
            reader,
            past: Past::default(),
            now: 1,
            under_way: HashMap::new(),
            tags: 0,
            lengths,
        }
    }

    fn change(&mut self) {
        self.now += 1;
        let rng = &mut self.nic.rng;
        // Waves of inserts and removals, so that tree nodes are split, merged, and reused.
        let growing = (self.now / 1500).is_multiple_of(2);
        let key = rng.below(KEYS);
        if rng.chance(if growing { 0.8 } else { 0.2 }) {
            let mut value = vec![0; *rng.pick(self.lengths)];
            value.fill_with(|| rng.next_u64() as u8);
            self.shard.put(key, &value).unwrap();
            self.past.note(key, self.now, Some(value));
        } else if self.shard.remove(key).unwrap() {
            self.past.note(key, self.now, None);
        }
    }

    fn begin(&mut self) {
        let rng = &mut self.nic.rng;
        let key = rng.below(KEYS);
        let query = match rng.chance(0.2) {
            false => Query::Get { key },
            true => Query::Scan {
                low: key,
                last: key + rng.below(200),
                direction: *rng.pick(&[Direction::Forward, Direction::Backward]),
                limit: rng.between(0, 100) as u32,
            },
        };
        self.tags += 1;
        if self.reader.begin(&mut self.nic, self.tags, query, 1) {
            self.under_way.insert(self.tags, (query, self.now));
        }
    }

    fn take(&mut self) {
        while let Some((tag, found)) = self.reader.poll(&mut self.nic) {
            let (query, begun) = self.under_way.remove(&tag).expect("it ends once");
            self.check(query, (begun, self.now), &found);
        }
    }

    fn check(&self, query: Query, span: (u64, u64), found: &Found) {
        match (query, found) {
            // Allowed, if the tree changes between any two lines; counted below.
            (_, Found::GivenUp) => {}
            (Query::Get { key }, Found::Value(value)) => {
                assert!(
                    self.past.was(key, span, value.as_deref()),
                    "key {key} never was {value:?} in {span:?}"
                );
            }
            (
                Query::Scan {
                    low,
                    last,
                    direction,
                    limit,
                },
                Found::Entries(entries, _),
            ) => self.check_scan((low, last), direction, limit, span, entries),
            other => panic!("{other:?}"),
        }
    }

    fn check_scan(
        &self,
        (low, last): (u64, u64),
        direction: Direction,
        limit: u32,
        span: (u64, u64),
        entries: &[(u64, Value)],
    ) {
        let keys: Vec<u64> = entries.iter().map(|(key, _)| *key).collect();
        let sorted = match direction {
            Direction::Forward => keys.is_sorted_by(|a, b| a < b),
            Direction::Backward => keys.is_sorted_by(|a, b| a > b),
        };
        assert!(sorted && keys.len() <= limit as usize);
        // No key is missing in the range that the scan covered.
        let full = keys.len() == limit as usize;
        let (low, last) = match (direction, keys.last()) {
            (Direction::Forward, Some(&end)) if full => (low, end),
            (Direction::Backward, Some(&end)) if full => (end, last),
            (_, None) if full => return,
            _ => (low, last),
        };
        for key in low..=last {
            let there = keys.contains(&key);
            assert!(
                there || !self.past.was_there(key, span),
                "key {key} is missing in {span:?}"
            );
        }
        for (key, value) in entries {
            assert!((low..=last).contains(key));
            assert!(
                self.past.was(*key, span, Some(value)),
                "key {key}: {value:?}"
            );
        }
    }
}

#[track_caller]
fn check_history(seed: u64, cache_bytes: u64, lengths: &'static [usize]) -> ReaderStatistics {
    let mut fixture = Fixture::new(seed, cache_bytes, lengths);
    run_history(&mut fixture, seed, |_, _| {})
}

/// Changes and walks concurrently; `also` is called before each step.
#[track_caller]
fn run_history(
    fixture: &mut Fixture,
    seed: u64,
    mut also: impl FnMut(&mut Fixture, u32),
) -> ReaderStatistics {
    for step in 0..60_000 {
        also(fixture, step);
        match fixture.nic.rng.below(40) {
            0..4 => fixture.change(),
            4..7 => fixture.begin(),
            7..12 => fixture.take(),
            _ => drop(fixture.nic.step()),
        }
    }
    while !fixture.under_way.is_empty() {
        fixture.nic.step();
        fixture.take();
    }
    let seen = fixture.reader.statistics();
    assert!(seen.lookups > 300, "seed {seed}: {seen:?}");
    assert!(seen.given_up * 20 < seen.lookups, "seed {seed}: {seen:?}");
    seen
}

#[test]
fn whatever_changes_under_it_a_walk_finds_what_was_there() {
    let mut all = ReaderStatistics::default();
    for seed in 1..5 {
        for cache_bytes in [0, 1300, 1 << 20] {
            all += check_history(seed, cache_bytes, &[8]);
            all += check_history(seed, cache_bytes, &[8, 1, 60, 200]);
        }
    }
    // Every possible event has occurred.
    let elsewhere = |name: &str| name == "moved" || name.starts_with("network");
    for (name, count) in all.list().filter(|(name, _)| !elsewhere(name)) {
        let seldom = ["given_up", "records_torn"].contains(&name);
        assert!(count > 0 || seldom, "{name} has not happened: {all:?}");
    }
}

#[test]
fn a_map_version_that_is_another_makes_absence_unbelievable() {
    let mut fixture = Fixture::new(1, 0, &[8]);
    fixture.shard.put(5, b"12345678").unwrap();
    let mut ask = |key: u64, version: u64| {
        assert!(
            fixture
                .reader
                .begin(&mut fixture.nic, 0, Query::Get { key }, version)
        );
        loop {
            fixture.nic.step();
            if let Some((_, found)) = fixture.reader.poll(&mut fixture.nic) {
                return found;
            }
        }
    };
    let there = Found::Value(Some(b"12345678"[..].into()));
    assert_eq!(ask(5, 1), there);
    assert_eq!(ask(6, 1), Found::Value(None));
    assert_eq!(ask(5, 2), there);
    assert_eq!(ask(6, 2), Found::Moved);
}

#[test]
fn a_walk_ends_when_the_endpoint_is_gone() {
    let mut fixture = Fixture::new(1, 0, &[8]);
    for _ in 0..5 {
        fixture.begin();
    }
    fixture.nic.step();
    fixture.nic.break_off();
    let mut gone = 0;
    while let Some((_, found)) = fixture.reader.poll(&mut fixture.nic) {
        gone += u32::from(found == Found::Gone);
    }
    assert_eq!(gone as usize, fixture.under_way.len());
    assert!(fixture.reader.is_broken());
    assert!(
        fixture
            .reader
            .begin(&mut fixture.nic, 9, Query::Get { key: 1 }, 1)
    );
    assert_eq!(
        fixture.reader.poll(&mut fixture.nic),
        Some((9, Found::Gone))
    );
}

#[test]
fn a_reader_that_makes_no_sense_is_refused() {
    let memory = Memory::new(1 << 20);
    let mut fixture = Fixture::new(1, 0, &[8]);
    let remote = *fixture.reader.remote();
    for (config, expect) in [
        (
            ReaderConfig {
                walks: 0,
                ..ReaderConfig::default()
            },
            "a reader with walks = 0; 1 to 4096 are possible",
        ),
        (
            ReaderConfig {
                records: 65,
                ..ReaderConfig::default()
            },
            "a reader with records = 65; 1 to 64 are possible",
        ),
        (
            ReaderConfig {
                network: true,
                mtu: rackweave_verbs::Mtu::B256,
                ..ReaderConfig::default()
            },
            "tree nodes of 512 bytes on a path of MTU 256: the network answers with one packet; \
             make the tree with smaller ones (node_size), or read one-sided",
        ),
    ] {
        let reader = Reader::new(&mut fixture.nic, &memory, PdId(0), remote, config);
        assert_eq!(reader.unwrap_err().to_string(), expect);
    }
}
