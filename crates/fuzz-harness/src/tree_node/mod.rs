//! Remote readers and the owner of a B+tree whose memory has been overwritten.

mod fabric;
mod memory;

use crate::fixture::{Seeds, hex};
use crate::input::Input;
use fabric::Fabric;
use memory::{LAST, NODE_BYTES, SOUND, VALUE_MAX, allocate, change, value_of};
use rackweave_endpoint::btree::{Direction, Tree};
use rackweave_endpoint::index::{Found, Query};
use rackweave_wire::fabric::tree::{Image, LATCH_WORD, LOW_WORD, NodePointer, ROOT, Value};

/// The first byte says how the tree is read, three more which keys are looked for, another where
/// the network leads. Then changes of the memory follow: see `memory::change`.
///
/// # Panics
/// If a parser, the reader or the tree is wrong.
pub fn tree_node(data: &[u8]) {
    let mut input = Input::new(data);
    let (Some(choice), Some(key), Some(limit), Some(leads)) =
        (input.byte(), input.half(), input.byte(), input.byte())
    else {
        return;
    };
    let mut bytes = SOUND.bytes.clone();
    while change(&mut input, &mut bytes).is_some() {}
    let changed = bytes != SOUND.bytes;
    images(&bytes);
    opened(&bytes, changed);

    let key = u64::from(key) % (LAST + 2);
    let direction = match choice & 1 {
        0 => Direction::Forward,
        _ => Direction::Backward,
    };
    let query = match choice & 2 {
        0 => Query::Get { key },
        _ => Query::Scan {
            low: key / 2,
            last: key,
            direction,
            limit: u32::from(limit),
        },
    };
    let mut fabric = Fabric::new(bytes, u32::from(leads));
    let mut reader = fabric.reader(choice);
    let found = fabric.walk(&mut reader, query);
    check_shape(query, &found);
    if !changed {
        check_sound(query, &found, false);
    }
    // Whatever was read before, and may be in the cache: a reader of a valid tree finds what it
    // holds, gives up, or reports that it cannot decide.
    fabric.bytes.clone_from(&SOUND.bytes);
    let found = fabric.walk(&mut reader, query);
    check_sound(query, &found, changed);
    reader.destroy(&mut fabric);
}

/// Checks every changed tree node by itself: an accepted one is in order and within its fences, by
/// every function that reads it; its pointers are checked; every flipped bit is detected.
fn images(bytes: &[u8]) {
    let (layout, superblock) = (SOUND.layout, SOUND.superblock);
    let (tree, nodes) = (superblock.tree, superblock.tree_nodes);
    let sound = &SOUND.bytes;
    for index in ROOT..nodes {
        let at = index as usize * NODE_BYTES;
        let node = &bytes[at..at + NODE_BYTES];
        if node == &sound[at..at + NODE_BYTES] {
            continue;
        }
        let Ok((image, pointer)) = Image::verify_any(layout, node, tree, nodes) else {
            continue;
        };
        assert!((ROOT..nodes).contains(&pointer.index));
        assert_eq!(image.pointer(tree, nodes), Some(pointer));
        assert!(Image::verify(layout, node, tree, pointer).is_ok());
        let other = NodePointer {
            index: pointer.index ^ 1,
            ..pointer
        };
        assert!(Image::verify(layout, node, tree, other).is_err());
        check_entries(&image);
        check_flips(node, tree, pointer);
    }
}

fn check_entries(image: &Image<'_>) {
    let entries: Vec<(u64, Value)> = image.entries().collect();
    assert_eq!(entries.len(), image.count());
    assert!(entries.is_sorted_by(|a, b| a.0 < b.0));
    for (at, (key, value)) in entries.iter().enumerate() {
        assert!((image.low()..=image.last()).contains(key));
        assert_eq!(image.entry(at), Some((*key, *value)));
        assert_eq!(image.find(*key), Some(*value));
    }
    if !image.is_leaf() {
        for key in [image.low(), image.last()] {
            let (low, _) = image.child(key).expect("every key has a child");
            assert!(low <= key);
        }
    }
    assert_eq!(image.entry(image.count()), None);
}

/// A flipped bit is detected, or is in an unused part: the latch, or the bytes after the entries.
fn check_flips(node: &[u8], tree: u64, pointer: NodePointer) {
    let view = |image: Image<'_>| {
        let entries: Vec<_> = image.entries().collect();
        (
            image.meta(),
            image.low(),
            image.last(),
            image.next(),
            entries,
        )
    };
    let before = Image::verify(SOUND.layout, node, tree, pointer).map(view);
    let mut flipped = node.to_vec();
    // One bit of every word, and not the same in each: all of them would be too many.
    for at in (0..NODE_BYTES / 8).filter(|at| *at != LATCH_WORD) {
        let bit = (at * 11 + usize::from(node[LOW_WORD * 8])) % 64;
        flipped[at * 8 + bit / 8] ^= 1 << (bit % 8);
        let after = Image::verify(SOUND.layout, &flipped, tree, pointer).map(view);
        assert!(after.is_err() || after == before, "bit {bit} of word {at}");
        flipped[at * 8 + bit / 8] ^= 1 << (bit % 8);
    }
}

/// A tree that the owner opens is valid in all its parts; otherwise it is refused.
fn opened(bytes: &[u8], changed: bool) {
    let block = allocate(bytes.len());
    block.write(0, bytes);
    let tree = match Tree::open(block) {
        Ok(tree) => tree,
        Err(error) => {
            assert!(changed, "a sound tree is refused: {error}");
            assert!(!error.to_string().contains('\n'));
            return;
        }
    };
    let summary = tree.check().expect("it was verified when it was opened");
    let mut entries = Vec::new();
    tree.scan(0..=u64::MAX, Direction::Forward, &mut |key, value| {
        entries.push((key, value.to_vec()));
        true
    });
    assert!(entries.is_sorted_by(|a, b| a.0 < b.0));
    assert_eq!(entries.len() as u64, summary.entries);
    let mut value = Vec::new();
    for (key, expected) in &entries {
        assert!(tree.lookup(*key, &mut value));
        assert_eq!(value, *expected, "key {key}");
    }
    // It works like any other.
    let (low, last) = tree.bounds();
    for key in [low, last, low.midpoint(last)] {
        if tree.put(key, b"after it was opened").is_ok() {
            assert!(tree.lookup(key, &mut value));
            assert_eq!(value, b"after it was opened");
        }
    }
    tree.check().expect("a change leaves it sound");
}

/// The results that a walk may return on arbitrary memory.
fn check_shape(query: Query, found: &Found) {
    match (query, found) {
        (Query::Get { .. }, Found::Value(value)) => {
            let len = value.as_ref().map_or(0, |value| value.len());
            assert!(len <= VALUE_MAX as usize);
        }
        (
            Query::Scan {
                low,
                last,
                direction,
                limit,
            },
            Found::Entries(entries, _),
        ) => {
            assert!(entries.len() <= limit as usize);
            assert!(entries.is_sorted_by(|a, b| match direction {
                Direction::Forward => a.0 < b.0,
                Direction::Backward => a.0 > b.0,
            }));
            for (key, value) in entries {
                assert!((low..=last).contains(key));
                assert!(value.len() <= VALUE_MAX as usize);
            }
        }
        (_, Found::Moved | Found::GivenUp | Found::Gone | Found::Corrupt) => {}
        other => panic!("an answer to another question: {other:?}"),
    }
}

/// The results of a walk on the valid tree. With earlier reads (`past`), cached tree nodes may stop
/// it.
fn check_sound(query: Query, found: &Found, past: bool) {
    check_shape(query, found);
    match (query, found) {
        (Query::Get { key }, Found::Value(value)) => {
            assert_eq!(value.as_deref(), value_of(key).as_deref(), "key {key}");
        }
        (Query::Get { key }, Found::Moved) if key > LAST => {}
        (
            Query::Scan {
                low,
                last,
                direction,
                limit,
            },
            Found::Entries(entries, _),
        ) => {
            let there = |key| value_of(key).map(|value| (key, value));
            let mut expected: Vec<_> = (low..=last).filter_map(there).collect();
            if direction == Direction::Backward {
                expected.reverse();
            }
            expected.truncate(limit as usize);
            assert_eq!(entries.len(), expected.len());
            for ((key, value), expected) in entries.iter().zip(&expected) {
                assert_eq!((*key, &value[..]), (expected.0, &expected.1[..]));
            }
        }
        (Query::Scan { last, .. }, Found::Moved) if last > LAST => {}
        (_, Found::GivenUp | Found::Corrupt) if past => {}
        other => panic!("of a sound tree: {other:?}"),
    }
}

/// The initial inputs of the corpus: every way to read the valid tree, and every change with and
/// without a correct check.
pub fn seeds() -> Seeds {
    let mut seeds = Vec::new();
    for choice in [0, 2, 3, 6, 7, 12, 14, 15] {
        let start = vec![choice, 44, 1, 9, 5];
        seeds.push((format!("sound-{choice:02}"), start));
    }
    let changes = [
        ("word", "00 03 14 01 02 03 04 05 06 07 08"),
        ("byte", "01 01 10 00 05"),
        ("line", "02 03 04 05"),
        ("pointer", "03 03 05 01 01"),
        ("header", "06 03 02 ff"),
        ("anything", "04 04 08 01 01 01 01 01 01 01 01"),
        ("record", "05 00 04 09 00 09 01"),
    ];
    for (name, change) in changes {
        let mut torn = hex("07 2c 01 63 01");
        torn.extend(hex(change));
        let mut sealed = torn.clone();
        sealed[5] |= 0x80;
        seeds.push((format!("{name}-torn"), torn));
        seeds.push((format!("{name}-sealed"), sealed));
    }
    let sealed = hex("00 2c 01 09 01 81 00 0c 00 c8");
    seeds.push(("superblock-sealed".to_owned(), sealed));
    seeds
}
