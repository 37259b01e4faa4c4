//! Walks that begin where switches lead, correctly or not.

use super::*;
use rackweave_wire::fabric::tree::{NodePointer, ROOT};
use std::cell::RefCell;
use std::rc::Rc;

/// What the switches know: the tree node for each range, by its least key.
type Known = Rc<RefCell<BTreeMap<u64, u32>>>;

/// Lets the switches answer from what they know, or with a random tree node if they do not know the
/// key.
fn lead_by(fixture: &mut Fixture) -> Known {
    let known = Known::default();
    let (mine, layout) = (known.clone(), fixture.reader.remote.layout);
    let (rkey, places) = (fixture.reader.remote.rkey, fixture.reader.remote.tree_nodes);
    let mut rng = rackweave_base::Rng::new(fixture.now);
    fixture.nic.network = Some(Box::new(move |key| {
        let known = mine.borrow();
        let index = known.range(..=key).next_back().map(|(_, index)| *index);
        let index = index.unwrap_or_else(|| rng.below(places.into()) as u32);
        (rkey, layout.offset(index))
    }));
    known
}

/// A sample of tree nodes of all levels with their low fences.
fn places(fixture: &mut Fixture) -> Vec<(NodePointer, u64)> {
    let outline = fixture.shard.tree().outline(usize::MAX);
    let children = outline.iter().flat_map(|node| &node.children);
    let mut places: Vec<_> = children.map(|&(low, child)| (child, low)).collect();
    places.retain(|_| fixture.nic.rng.chance(0.6));
    let root = fixture.reader.remote.root;
    places.insert(0, (root, 0));
    places
}

fn learn(known: &Known, places: &[(NodePointer, u64)]) {
    let places = places.iter().map(|(pointer, low)| (*low, pointer.index));
    // Parents come first: of those with the same low fence, the deepest is kept.
    *known.borrow_mut() = places.collect();
}

/// Pins change with what the switches know: what they knew before stays pinned for as long as a
/// READ may be in flight.
fn check_pinned(seed: u64, cache_bytes: u64) -> ReaderStatistics {
    let mut fixture = Fixture::with(seed, cache_bytes, &[8, 60], true);
    let known = lead_by(&mut fixture);
    let mut bank = 0;
    run_history(&mut fixture, seed, |fixture, step| {
        if step % 3000 == 0 {
            bank = 1 - bank;
            let tree = fixture.shard.tree().clone();
            tree.unpin(bank);
            let mut places = places(fixture);
            for failed in tree.pin(bank, &places).into_iter().rev() {
                places.remove(failed);
            }
            learn(&known, &places);
        }
    })
}

#[test]
fn what_is_pinned_never_leads_astray() {
    let mut all = ReaderStatistics::default();
    for seed in 1..4 {
        for cache_bytes in [0, 1 << 20] {
            let seen = check_pinned(seed, cache_bytes);
            assert_eq!(seen.network_astray, 0, "seed {seed}: {seen:?}");
            all += seen;
        }
    }
    assert!(all.network_followed > 100, "{all:?}");
    assert!(
        all.network_levels
            .iter()
            .filter(|count| **count > 0)
            .count()
            >= 3,
        "{all:?}"
    );
    // A torn answer is queried again.
    let answers: u64 = all.network_levels.iter().sum();
    assert!(answers < all.network_queries, "{all:?}");
}

#[test]
fn what_is_out_of_date_or_wrong_costs_time_and_nothing_else() {
    let mut all = ReaderStatistics::default();
    for seed in 1..4 {
        for wrong in [false, true] {
            let mut fixture = Fixture::with(seed, 0, &[8], true);
            let known = lead_by(&mut fixture);
            // With `wrong` they know nothing, and lead to random tree nodes.
            all += run_history(&mut fixture, seed, |fixture, step| {
                if step % 20_000 == 10_000 && !wrong {
                    let places = places(fixture);
                    learn(&known, &places);
                }
            });
        }
    }
    assert!(all.network_astray > 1000, "{all:?}");
    assert!(all.network_followed > 100, "{all:?}");
}

/// The result of one lookup, and its counters.
fn ask(fixture: &mut Fixture, query: Query) -> (Found, ReaderStatistics) {
    let before = fixture.reader.statistics();
    assert!(fixture.reader.begin(&mut fixture.nic, 0, query, 1));
    loop {
        fixture.nic.step();
        if let Some((_, found)) = fixture.reader.poll(&mut fixture.nic) {
            let now = fixture.reader.statistics().list().map(|(_, value)| value);
            let before = before.list().map(|(_, value)| value);
            let more: Vec<u64> = now.zip(before).map(|(now, before)| now - before).collect();
            return (
                found,
                ReaderStatistics::from_values(more.into_iter()).unwrap(),
            );
        }
    }
}

#[test]
fn a_lookup_costs_one_read_if_the_network_knows_the_leaf() {
    let mut fixture = Fixture::with(1, 0, &[8], true);
    let known = lead_by(&mut fixture);
    for key in 0..600_u64 {
        fixture.shard.put(key, &key.to_le_bytes()).unwrap();
    }
    let tree = fixture.shard.tree().clone();
    let outline = tree.outline(usize::MAX);
    let levels = outline[0].level;
    assert!(levels >= 2);
    let there = |key: u64| Found::Value(Some((&key.to_le_bytes()[..]).into()));
    // From the root, then from one tree node of each level.
    learn(&known, &[(fixture.reader.remote.root, 0)]);
    let (found, seen) = ask(&mut fixture, Query::Get { key: 300 });
    assert_eq!((found, seen.reads), (there(300), u64::from(levels) + 1));
    assert_eq!(
        (
            seen.network_queries,
            seen.network_levels[usize::from(levels)]
        ),
        (1, 1)
    );
    let children = outline.iter().flat_map(|node| {
        let level = node.level - 1;
        node.children
            .iter()
            .map(move |&(low, child)| (level, child, low))
    });
    for (level, child, low) in children {
        learn(&known, &[(child, low)]);
        let (found, seen) = ask(&mut fixture, Query::Get { key: low });
        assert_eq!((found, seen.reads), (there(low), u64::from(level) + 1));
        assert_eq!(seen.network_levels[usize::from(level)], 1);
    }
    // A leaf to the left: one additional READ.
    let leaves: Vec<_> = outline.iter().filter(|node| node.level == 1).collect();
    let [(low, left), (right_low, _)] = leaves[0].children[..2] else {
        panic!("an inner tree node has two children");
    };
    learn(&known, &[(left, low)]);
    let (found, seen) = ask(&mut fixture, Query::Get { key: right_low });
    assert_eq!(
        (found, seen.reads, seen.network_followed),
        (there(right_low), 2, 1)
    );
    // A leaf to the right, and one that is free: all levels are read in addition.
    *known.borrow_mut() = BTreeMap::from([(0, leaves[0].children[1].1.index)]);
    let (found, seen) = ask(&mut fixture, Query::Get { key: 0 });
    let reads = u64::from(levels) + 2;
    assert_eq!(
        (found, seen.reads, seen.network_astray),
        (there(0), reads, 1)
    );
    for nowhere in [0, tree.superblock().tree_nodes - 1] {
        *known.borrow_mut() = BTreeMap::from([(0, nowhere)]);
        let (found, seen) = ask(&mut fixture, Query::Get { key: 5 });
        assert_eq!(
            (found, seen.reads, seen.network_astray),
            (there(5), reads, 1)
        );
    }
}

#[test]
fn scans_begin_where_the_network_leads() {
    let mut fixture = Fixture::with(1, 0, &[8], true);
    let known = lead_by(&mut fixture);
    for key in 0..600_u64 {
        fixture.shard.put(key, &key.to_le_bytes()).unwrap();
    }
    let outline = fixture.shard.tree().outline(usize::MAX);
    let children = outline.iter().flat_map(|node| &node.children);
    let places: Vec<_> = children.map(|&(low, child)| (child, low)).collect();
    learn(&known, &places);
    for direction in [Direction::Forward, Direction::Backward] {
        let query = Query::Scan {
            low: 100,
            last: 250,
            direction,
            limit: u32::MAX,
        };
        let (found, seen) = ask(&mut fixture, query);
        let Found::Entries(entries, _) = found else {
            panic!("{found:?}");
        };
        let mut keys: Vec<u64> = entries.iter().map(|(key, _)| *key).collect();
        if direction == Direction::Backward {
            keys.reverse();
        }
        assert_eq!(keys, (100..=250).collect::<Vec<_>>());
        // Only leaves and the map version are read, no tree node above them.
        assert_eq!(seen.reads, seen.leaves_scanned + 1, "{seen:?}");
        let asked = match direction {
            Direction::Forward => 1,
            // A leaf does not know its left neighbour.
            Direction::Backward => seen.leaves_scanned,
        };
        assert_eq!(
            (seen.network_queries, seen.network_levels[0]),
            (asked, asked)
        );
    }
}

#[test]
fn keys_of_another_endpoint_are_elsewhere() {
    let mut fixture = Fixture::with(1, 0, &[8], true);
    let known = lead_by(&mut fixture);
    for key in 0..600_u64 {
        fixture.shard.put(key, &key.to_le_bytes()).unwrap();
    }
    let outline = fixture.shard.tree().outline(usize::MAX);
    let (_, last) = *outline.last().unwrap().children.last().unwrap();
    // The endpoint gives away all but a few keys.
    fixture.shard.tree().shrink(0, 20).unwrap();
    for (lead, astray) in [(ROOT, 0), (last.index, 1)] {
        *known.borrow_mut() = BTreeMap::from([(0, lead)]);
        let (found, seen) = ask(&mut fixture, Query::Get { key: 500 });
        assert_eq!(
            (found, seen.network_astray, seen.moved),
            (Found::Moved, astray, 1)
        );
    }
}

#[test]
fn a_torn_answer_is_asked_for_again_and_then_done_without() {
    let mut fixture = Fixture::with(1, 0, &[8], true);
    let known = lead_by(&mut fixture);
    for key in 0..600_u64 {
        fixture.shard.put(key, &key.to_le_bytes()).unwrap();
    }
    let outline = fixture.shard.tree().outline(usize::MAX);
    let (low, leaf) = outline.last().unwrap().children[0];
    learn(&known, &[(leaf, low)]);
    // An entry of a leaf that the plain walk does not visit; its check word is wrong now.
    let (other_low, _) = outline.last().unwrap().children[1];
    let at = fixture.reader.remote.layout.offset(leaf.index) as usize;
    let word = fixture.shard.tree().block().word(at + 80);
    word.fetch_xor(1, core::sync::atomic::Ordering::Relaxed);
    let (found, seen) = ask(&mut fixture, Query::Get { key: other_low });
    assert_eq!(
        found,
        Found::Value(Some((&other_low.to_le_bytes()[..]).into()))
    );
    let torn_max = u64::from(fixture.reader.config.torn_max);
    assert_eq!(
        (seen.torn, seen.network_queries),
        (torn_max + 1, torn_max + 1)
    );
    assert_eq!((seen.restarts, seen.network_levels), (1, [0; 8]));
}

#[test]
fn a_query_that_no_switch_answers_breaks_the_way_and_is_counted() {
    let mut fixture = Fixture::with(1, 0, &[8], true);
    fixture.shard.put(5, &[5; 8]).unwrap();
    let query = Query::Get { key: 5 };
    // Walks that do not query the network fail with the connection, too.
    assert!(
        fixture
            .reader
            .begin_by(&mut fixture.nic, 1, query, 1, false)
    );
    assert!(!fixture.reader.is_refused());
    assert!(fixture.reader.begin(&mut fixture.nic, 2, query, 1));
    let mut ends = Vec::new();
    while let Some((tag, found)) = fixture.reader.poll(&mut fixture.nic) {
        assert_eq!(found, Found::Gone);
        ends.push(tag);
    }
    ends.sort_unstable();
    assert_eq!(ends, [1, 2]);
    assert!(fixture.reader.is_broken() && fixture.reader.is_refused());
    assert_eq!(fixture.reader.statistics().network_refused, 1);
    // A connection that breaks for another reason was not refused.
    let mut fixture = Fixture::with(1, 0, &[8], true);
    assert!(
        fixture
            .reader
            .begin_by(&mut fixture.nic, 1, query, 1, false)
    );
    fixture.nic.break_off();
    assert_eq!(
        fixture.reader.poll(&mut fixture.nic),
        Some((1, Found::Gone))
    );
    assert!(fixture.reader.is_broken() && !fixture.reader.is_refused());
}
