//! The tables compared with a plain search.

use super::*;
use rackweave_base::Rng;

/// Reads the tables as the switch does.
fn read(stages: &[Vec<SliceEntry>], width: u32, key: u64) -> u16 {
    let mut table = 0;
    for (stage, entries) in stages.iter().enumerate() {
        let shift = width * (stages.len() - 1 - stage) as u32;
        let slice = (key >> shift) & ((1 << width) - 1);
        let hit = |entry: &&SliceEntry| {
            entry.table == table
                && (u64::from(entry.first)..=u64::from(entry.last)).contains(&slice)
        };
        // Entries are sorted by table and slice, and do not overlap.
        let at =
            entries.partition_point(|entry| (entry.table, u64::from(entry.last)) < (table, slice));
        match entries.get(at).filter(hit).map(|entry| entry.next) {
            Some(Next::Range(range)) => return range,
            Some(Next::Table(next)) => table = next,
            None => return table,
        }
    }
    panic!("the last stage leads to another table");
}

/// The same by searching the ranges.
fn search(lows: &[u64], key: u64) -> u16 {
    (lows.partition_point(|&low| low <= key) - 1) as u16
}

fn check(lows: &[u64], context: &str) {
    let stages = range_tables(lows);
    for (stage, entries) in stages.iter().enumerate() {
        let (has, most) = (entries.len(), 2 * lows.len());
        assert!(
            has <= most,
            "{context}: stage {stage} has {has} entries of {most}"
        );
        let order = |a: &SliceEntry, b: &SliceEntry| (a.table, a.last) < (b.table, b.first);
        assert!(
            entries.is_sorted_by(order),
            "{context}: stage {stage} is out of order"
        );
        assert!(
            entries.iter().all(|entry| entry.first <= entry.last),
            "{context}"
        );
        let mut tables: Vec<u16> = entries.iter().map(|entry| entry.table).collect();
        tables.dedup();
        assert!(tables.len() <= lows.len(), "{context}: stage {stage}");
        let above = stage.checked_sub(1).map(|above| &stages[above]);
        let led: Vec<u16> = above.map_or(vec![0], |above| {
            let next = above.iter().filter_map(|entry| match entry.next {
                Next::Table(table) => Some(table),
                Next::Range(_) => None,
            });
            next.collect()
        });
        assert_eq!(
            tables, led,
            "{context}: the tables of stage {stage} are those led to"
        );
    }
    let at_bounds = lows
        .iter()
        .flat_map(|&low| [low.wrapping_sub(1), low, low.saturating_add(1)]);
    let fixed = [48, 32, 16].into_iter().flat_map(|bit| {
        let at = 1u64 << bit;
        [at - 1, at, at + 1, u64::MAX - at, u64::MAX - at + 1]
    });
    for key in at_bounds.chain(fixed).chain([0, 1, u64::MAX - 1, u64::MAX]) {
        let found = read(&stages, WIDTH, key);
        assert_eq!(found, search(lows, key), "{context}: key {key:#x}");
    }
}

fn sorted(mut lows: Vec<u64>) -> Vec<u64> {
    lows.push(0);
    lows.sort_unstable();
    lows.dedup();
    lows
}

#[test]
fn one_range_is_one_entry() {
    let [first, rest @ ..] = range_tables(&[0]);
    let all = SliceEntry {
        table: 0,
        first: 0,
        last: u16::MAX,
        next: Next::Range(0),
    };
    assert_eq!(first, [all]);
    assert_eq!(rest, [const { Vec::new() }; 3]);
}

#[test]
fn ranges_around_every_border_of_slices() {
    let at = |bit: u32| 1u64 << bit;
    for (name, lows) in [
        ("single keys at the beginning", (1..40).collect()),
        (
            "single keys at the end",
            (0..40).map(|back| u64::MAX - back).collect(),
        ),
        ("the last key alone", vec![u64::MAX]),
        ("the first key alone", vec![1]),
        ("halves", vec![at(63)]),
        (
            "single keys around 2^16",
            (0..9).map(|k| at(16) - 4 + k).collect(),
        ),
        (
            "single keys around 2^32",
            (0..9).map(|k| at(32) - 4 + k).collect(),
        ),
        (
            "single keys around 2^48",
            (0..9).map(|k| at(48) - 4 + k).collect(),
        ),
        (
            "whole slices of the first stage",
            (1..50).map(|k| k * at(48)).collect(),
        ),
        (
            "whole slices of the second stage",
            (1..50).map(|k| k * at(32)).collect(),
        ),
        (
            "whole slices of the third stage",
            (1..50).map(|k| k * at(16)).collect(),
        ),
        (
            "just before slices",
            (1..50).map(|k| k * at(48) - 1).collect(),
        ),
        (
            "just after slices",
            (1..50).map(|k| k * at(48) + 1).collect(),
        ),
        (
            "a bound in each slice",
            (0..64).map(|k| (k << 48) + (k << 20) + 5).collect(),
        ),
        (
            "the last slice of each stage",
            vec![u64::MAX << 48, u64::MAX << 32, u64::MAX << 16],
        ),
        (
            "the first slices of each stage",
            vec![at(48), at(32), at(16), 1],
        ),
    ] {
        check(&sorted(lows), name);
    }
}

#[test]
fn as_many_entries_as_promised_where_the_paper_would_need_more() {
    // Each bound alone in a slice of the first stage, and slices without any in between.
    let lows = sorted(
        (1..100)
            .map(|k| ((2 * k) << 48) + (7 << 32) + (7 << 16) + 7)
            .collect(),
    );
    let stages = range_tables(&lows);
    assert_eq!(stages.map(|stage| stage.len()), [199, 198, 198, 99]);
    let papers = slice_tables(&lows, WIDTH, SLICES, FirstRun::Written);
    let lens: Vec<usize> = papers.iter().map(Vec::len).collect();
    assert_eq!(lens, [199, 297, 297, 198]);
}

#[test]
fn any_ranges_against_a_plain_search() {
    for seed in 0..120 {
        let mut rng = Rng::new(seed);
        let count = match seed % 4 {
            0 => rng.between(1, 8),
            1 => rng.between(9, 200),
            _ => rng.between(201, 2048),
        };
        // Clusters of close bounds, some at round numbers, or bounds anywhere.
        let centres: Vec<u64> = (0..rng.between(1, 20))
            .map(|_| {
                let shift = *rng.pick(&[0, 16, 32, 48, 60]);
                rng.next_u64() >> shift << shift
            })
            .collect();
        let spread = *rng.pick(&[4, 300, 1 << 17, 1 << 33, 1 << 49, u64::MAX]);
        let lows = (0..count).map(|_| {
            let away = rng.below(spread);
            let near = rng.pick(&centres).wrapping_add(away);
            if rng.chance(0.2) {
                near >> 16 << 16
            } else {
                near
            }
        });
        check(&sorted(lows.collect()), &format!("seed {seed}"));
    }
}

#[test]
fn the_example_of_the_paper() {
    // Figure 4(ii): five ranges over keys of six bits, two bits at a time.
    let lows = [0, 11, 15, 38, 57];
    for (first_run, lens) in [
        (FirstRun::Written, [4, 9, 8]),
        (FirstRun::Implied, [4, 6, 4]),
    ] {
        let stages = slice_tables(&lows, 2, 3, first_run);
        let found: Vec<usize> = stages.iter().map(Vec::len).collect();
        assert_eq!(found, lens);
        for key in 0..64 {
            assert_eq!(read(&stages, 2, key), search(&lows, key), "key {key}");
        }
    }
}
