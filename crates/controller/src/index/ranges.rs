//! Range tables: find the one of n adjacent ranges that contains a 64-bit key, by four matches of
//! 16 bits each (fat-btree, section III-B, Algorithm 1).
//!
//! A table covers all keys that begin with the same slices; its entries map the next slice either
//! to the range or to the table of the next stage. The paper's algorithm goes through all 2^16
//! slices of a table. This one goes through the bounds between ranges: a slice with a bound inside
//! needs a table of its own, and the slices between two such slices are one entry. All stages
//! together take O(n) steps.
//!
//! # How many entries
//!
//! The paper promises at most 2 n entries a stage, but its construction does not keep that: n − 1
//! bounds, each alone in a slice of the first stage, have n − 1 tables in the second, with three
//! entries each (left of the bound, the slice with the bound, right of it). One rule fixes it. A
//! table has the number of the range of its first key, which no two tables of a stage share, and *a
//! key that no entry of a table matches is in the range with the table's number*. A switch needs no
//! extra work for that: the number that names the table is in the register for the result, and an
//! entry that matches overwrites it. So the first entry of each table, if it leads to that range,
//! is left out. A table with m bounds inside then has at most 2 m entries (at most two for each
//! bound: the slice with the bound, right of it), and a stage at most 2 (n − 1). The first stage
//! keeps its first entry: 2 n − 1.

use rackweave_programs::index::entries::{Next, SLICES, SliceEntry};

/// Bits of a slice.
const WIDTH: u32 = 16;

/// The treatment of the entry at a table's beginning that leads to the range of the table's number.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum FirstRun {
    /// It is left out, except in the first stage.
    Implied,
    /// It is written, as in the paper.
    #[cfg(test)]
    Written,
}

/// A table to be made.
struct Table {
    /// The range of its first key.
    number: u16,
    /// The first of the ranges that begin inside it, not at its first key.
    first: usize,
    /// The range after the last of them.
    end: usize,
}

/// The tables for ranges that cover all keys: range `i` begins at `lows[i]` and ends where the next
/// one begins. At most `2 * lows.len()` entries a stage, since a table has no entry for the range
/// of its first key, whose number it has ([`Next::Table`]).
///
/// # Panics
/// If `lows` does not begin with zero, does not ascend, or has more than 2^16 elements.
pub fn range_tables(lows: &[u64]) -> [Vec<SliceEntry>; SLICES] {
    let stages = slice_tables(lows, WIDTH, SLICES, FirstRun::Implied);
    stages.try_into().expect("as many stages as asked for")
}

/// The tables over `stages` slices of `width` bits each.
pub(super) fn slice_tables(
    lows: &[u64],
    width: u32,
    stages: usize,
    first_run: FirstRun,
) -> Vec<Vec<SliceEntry>> {
    assert_eq!(lows.first(), Some(&0), "ranges cover all keys");
    assert!(lows.is_sorted_by(|a, b| a < b), "ranges ascend");
    assert!(lows.len() <= 1 << u16::BITS, "ranges have 16-bit numbers");
    let mut tables = vec![Table {
        number: 0,
        first: 1,
        end: lows.len(),
    }];
    let mut made = Vec::with_capacity(stages);
    for stage in 0..stages {
        let slices = Slices {
            lows,
            shift: width * (stages - 1 - stage) as u32,
            last: ((1u32 << width) - 1) as u16,
            skip: stage > 0 && first_run == FirstRun::Implied,
        };
        let (mut entries, mut next) = (Vec::new(), Vec::new());
        for table in &tables {
            slices.cut(table, &mut entries, &mut next);
        }
        made.push(entries);
        tables = next;
    }
    debug_assert!(tables.is_empty(), "the last slice has no bits below it");
    made
}

/// One stage's view of the bounds.
struct Slices<'a> {
    lows: &'a [u64],
    /// Bits below the slice.
    shift: u32,
    /// The greatest slice.
    last: u16,
    /// Whether the entry implied by a table's number is left out.
    skip: bool,
}

impl Slices<'_> {
    fn slice(&self, low: u64) -> u16 {
        (low >> self.shift) as u16 & self.last
    }

    /// Whether a bound is exactly between two slices.
    fn is_between(&self, low: u64) -> bool {
        low & ((1 << self.shift) - 1) == 0
    }

    /// Makes a table's entries, and records the tables that they lead to.
    fn cut(&self, table: &Table, entries: &mut Vec<SliceEntry>, next: &mut Vec<Table>) {
        let mut enter = |first: u16, last: u16, next: Next| {
            let is_implied = next == Next::Range(table.number);
            if !(self.skip && is_implied) {
                entries.push(SliceEntry {
                    table: table.number,
                    first,
                    last,
                    next,
                });
            }
        };
        // The slices from `begun` on are in `range`, as far as known.
        let (mut begun, mut range) = (Some(0u16), table.number);
        let mut at = table.first;
        while at < table.end {
            let slice = self.slice(self.lows[at]);
            let here = &self.lows[at..table.end];
            let end = at + here.partition_point(|&low| self.slice(low) == slice);
            if let Some(begun) = begun.filter(|&begun| begun < slice) {
                enter(begun, slice - 1, Next::Range(range));
            }
            if self.is_between(self.lows[at]) {
                range = at as u16;
                at += 1;
            }
            if at < end {
                enter(slice, slice, Next::Table(range));
                next.push(Table {
                    number: range,
                    first: at,
                    end,
                });
                range = (end - 1) as u16;
                begun = slice.checked_add(1).filter(|&begun| begun <= self.last);
            } else {
                begun = Some(slice);
            }
            at = end;
        }
        if let Some(begun) = begun {
            enter(begun, self.last, Next::Range(range));
        }
    }
}

#[cfg(test)]
#[path = "ranges_tests.rs"]
mod tests;
