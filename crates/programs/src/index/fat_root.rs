//! The fat root: range tables over slices of the key, and the children of the ranges (fat-btree,
//! section 4.1).

use super::entries::{BANKS, Child, FatRange, FatRoot, LoadError, Next, SLICES, SliceEntry};
use rackweave_switch::table::{Direct, Range, TableError};
use rackweave_switch::{Cursor, Ledger, Register};
use std::collections::HashSet;

/// Key bits of the slice tables: bank, table, slice.
const SLICE_KEY_BITS: u8 = 33;

/// A range's entry: its server and its child, packed as action data.
#[derive(Clone, Copy, Debug)]
pub(super) struct Packed {
    server: u16,
    slot: u16,
    node: u32,
}

/// The tables of the fat root.
pub(super) struct FatRootTables {
    ranges_max: usize,
    stages: [Range<Next>; SLICES],
    /// By bank and range.
    ranges: Direct<Packed>,
    /// Queries that met the range.
    hits: Register<u32>,
}

/// The key of a slice in a bank's table.
fn place(bank: usize, table: u16, slice: u16) -> u64 {
    (bank as u64) << 32 | u64::from(table) << 16 | u64::from(slice)
}

/// The slice of `key` that stage `at` matches.
fn slice(key: u64, at: usize) -> u16 {
    (key >> (48 - 16 * at)) as u16
}

impl FatRootTables {
    /// For `ranges` ranges per bank. Slices in four stages from `first` on, ranges in the stage
    /// after them.
    pub(super) fn new(first: u8, ranges: u16) -> Self {
        let ranges_max = usize::from(ranges);
        // A range has two ends, and each stage holds at most the paths to them: two entries per
        // range.
        let capacity = 2 * ranges_max * BANKS;
        let names = [
            "index.slice_0",
            "index.slice_1",
            "index.slice_2",
            "index.slice_3",
        ];
        let stage = |at: usize| Range::new(names[at], first + at as u8, SLICE_KEY_BITS, capacity);
        let behind = first + SLICES as u8;
        Self {
            ranges_max,
            stages: [stage(0), stage(1), stage(2), stage(3)],
            ranges: Direct::new("index.ranges", behind, ranges_max * BANKS),
            hits: Register::new("index.range_hits", behind, ranges_max * BANKS),
        }
    }

    pub(super) fn declare(&self, ledger: &mut Ledger) {
        for stage in &self.stages {
            ledger.range(stage);
        }
        ledger.direct(&self.ranges);
        ledger.register(&self.hits);
    }

    /// Finds and counts the range with `key`.
    pub(super) fn find(&mut self, cursor: &mut Cursor, bank: usize, key: u64) -> Option<FatRange> {
        let range = self.search(bank, key)?;
        let at = bank * self.ranges_max + range;
        let entry = self.ranges.lookup(at)?;
        self.hits
            .update(cursor, at, |hits| *hits = hits.wrapping_add(1));
        Some(FatRange {
            server: entry.server,
            child: Child {
                node: entry.node,
                slot: entry.slot,
            },
        })
    }

    fn search(&self, bank: usize, key: u64) -> Option<usize> {
        let mut table = 0;
        for (at, stage) in self.stages.iter().enumerate() {
            match stage.lookup(place(bank, table, slice(key, at))) {
                Some(Next::Table(next)) => table = *next,
                Some(Next::Range(range)) => return Some(usize::from(*range)),
                // The range of a table's first keys has the table's number and no entry.
                None if at > 0 => {
                    return Some(usize::from(table)).filter(|&range| range < self.ranges_max);
                }
                None => return None,
            }
        }
        None
    }

    /// Replaces the content of a bank. After an error it is empty.
    pub(super) fn load(&mut self, bank: usize, root: &FatRoot) -> Result<(), LoadError> {
        self.clear(bank);
        self.check(root)?;
        let loaded = self.enter(bank, root);
        if loaded.is_err() {
            self.clear(bank);
        }
        loaded.map_err(LoadError::Table)
    }

    fn enter(&mut self, bank: usize, root: &FatRoot) -> Result<(), TableError> {
        for (stage, entries) in self.stages.iter_mut().zip(&root.stages) {
            for &SliceEntry {
                table,
                first,
                last,
                next,
            } in entries
            {
                stage.insert(place(bank, table, first), place(bank, table, last), next)?;
            }
        }
        for (at, range) in root.ranges.iter().enumerate() {
            let packed = Packed {
                server: range.server,
                slot: range.child.slot,
                node: range.child.node,
            };
            self.ranges.set(bank * self.ranges_max + at, Some(packed))?;
        }
        Ok(())
    }

    /// Refuses what is too large, and entries that lead nowhere.
    fn check(&self, root: &FatRoot) -> Result<(), LoadError> {
        let full = |table, capacity| LoadError::Table(TableError::Full { table, capacity });
        if root.ranges.len() > self.ranges_max {
            return Err(full("index.ranges", self.ranges_max));
        }
        for (stage, entries) in root.stages.iter().enumerate() {
            if entries.len() > 2 * self.ranges_max {
                return Err(full(self.stages[stage].shape().0, 2 * self.ranges_max));
            }
            let below = root.stages.get(stage + 1);
            let below: HashSet<u16> = below
                .map(|entries| entries.iter().map(|entry| entry.table).collect())
                .unwrap_or_default();
            for entry in entries {
                let is_there = match entry.next {
                    Next::Table(table) => below.contains(&table),
                    Next::Range(range) => usize::from(range) < root.ranges.len(),
                };
                if !is_there {
                    let next = entry.next;
                    return Err(LoadError::Dangling { stage, next });
                }
            }
        }
        Ok(())
    }

    pub(super) fn clear(&mut self, bank: usize) {
        for stage in &mut self.stages {
            stage.remove_within(place(bank, 0, 0), place(bank, u16::MAX, u16::MAX));
        }
        for at in bank * self.ranges_max..(bank + 1) * self.ranges_max {
            let cleared = self.ranges.set(at, None);
            debug_assert!(cleared.is_ok(), "the table has a place for every range");
        }
    }

    pub(super) fn hits(&self, bank: usize, range: u16) -> u64 {
        let range = usize::from(range);
        if bank >= BANKS || range >= self.ranges_max {
            return 0;
        }
        self.hits.peek(bank * self.ranges_max + range).into()
    }

    pub(super) fn clear_hits(&mut self, bank: usize) {
        for at in bank * self.ranges_max..(bank + 1) * self.ranges_max {
            *self.hits.control(at) = 0;
        }
    }
}
