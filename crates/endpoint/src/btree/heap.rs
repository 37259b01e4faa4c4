//! The heap: records of values that are not eight bytes long.
//!
//! Slots come in sizes of whole units, four sizes per doubling. A slot keeps its size permanently
//! and is reused only for records of that size, so the incarnation in its first word counts all its
//! uses.

use super::arena::Arena;
use super::error::TreeError;
use super::sync::{Mutex, Ordering};
use rackweave_wire::fabric::tree::{
    RECORD_HEADER_WORDS, UNIT, VALUE_MAX, ValueRef, check_of_record,
};

const NODE_WORDS: usize = UNIT as usize / 8;

/// Slot sizes: 1 to 8 units, then four per doubling up to the longest value.
const CLASSES: usize = 56;

/// The size class of slots for records of `units` units, and the number of units of such a slot.
fn class_of(units: u64) -> (usize, u64) {
    if units <= 8 {
        let units = units.max(1);
        return (units as usize - 1, units);
    }
    // 2^log < units <= 2^(log + 1)
    let log = 63 - (units - 1).leading_zeros() as u64;
    let step = 1 << (log - 2);
    let quarters = (units - (1 << log)).div_ceil(step);
    (
        8 + (log as usize - 3) * 4 + quarters as usize - 1,
        (1 << log) + quarters * step,
    )
}

/// Units of the slot for a record of this many words.
pub(super) fn class_units(words: usize) -> u64 {
    class_of(words.div_ceil(NODE_WORDS) as u64).1
}

pub(super) struct Heap {
    /// The heap's offset in the arena, in bytes.
    at: usize,
    units: u64,
    free_units: Mutex<FreeUnits>,
}

struct FreeUnits {
    /// The first unit that has never been used.
    unused: u64,
    free: [Vec<u32>; CLASSES],
}

impl Heap {
    pub fn new(at: u64, bytes: u64) -> Self {
        Self {
            at: at as usize,
            units: bytes / UNIT,
            free_units: Mutex::new(FreeUnits {
                unused: 0,
                free: [const { Vec::new() }; CLASSES],
            }),
        }
    }

    fn words<'a>(&self, arena: &'a Arena, unit: u32, words: usize) -> Option<&'a [super::Word]> {
        let end = u64::from(unit) * UNIT + words as u64 * 8;
        let inside = end <= self.units * UNIT;
        inside.then(|| arena.words(self.at + unit as usize * UNIT as usize, words))
    }

    /// Allocates and writes a record.
    pub fn add(&self, arena: &Arena, key: u64, value: &[u8]) -> Result<ValueRef, TreeError> {
        let length = value.len() as u32;
        debug_assert!(length <= VALUE_MAX);
        let words = RECORD_HEADER_WORDS + value.len().div_ceil(8);
        let full = TreeError::HeapFull {
            length: value.len(),
            heap_bytes: self.units * UNIT,
        };
        let unit = self.place(words).ok_or(full)?;
        let record = self.words(arena, unit, words).ok_or(full)?;
        let old = u64::from_le(record[0].load(Ordering::Relaxed)) as u32;
        let incarnation = old.wrapping_add(1) | 1;
        let first = u64::from(incarnation) | u64::from(length) << 32;
        let content = || {
            value.chunks(8).map(|chunk| {
                let mut word = [0; 8];
                word[..chunk.len()].copy_from_slice(chunk);
                u64::from_le_bytes(word)
            })
        };
        let check = check_of_record(first, key, content());
        let head = [first, key, check];
        for (word, value) in record.iter().zip(head.into_iter().chain(content())) {
            word.store(value.to_le(), Ordering::Relaxed);
        }
        Ok(ValueRef {
            unit,
            length,
            incarnation,
        })
    }

    fn place(&self, words: usize) -> Option<u32> {
        let (class, units) = class_of(words.div_ceil(NODE_WORDS) as u64);
        let mut free_units = self
            .free_units
            .lock()
            .expect("no holder of this lock panics");
        if let Some(unit) = free_units.free.get_mut(class)?.pop() {
            return Some(unit);
        }
        let end = free_units.unused.checked_add(units)?;
        if end > self.units {
            return None;
        }
        let unit = u32::try_from(free_units.unused).ok()?;
        free_units.unused = end;
        Some(unit)
    }

    /// Frees a record.
    pub fn free(&self, arena: &Arena, reference: ValueRef) {
        let words = reference.words();
        let Some(record) = self.words(arena, reference.unit, words) else {
            return;
        };
        let first = u64::from_le(record[0].load(Ordering::Relaxed));
        let incarnation = (first as u32).wrapping_add(1) & !1;
        let first = first & !0xffff_ffff | u64::from(incarnation);
        record[0].store(first.to_le(), Ordering::Relaxed);
        let (class, _) = class_of(words.div_ceil(NODE_WORDS) as u64);
        let mut free_units = self
            .free_units
            .lock()
            .expect("no holder of this lock panics");
        free_units.free[class].push(reference.unit);
    }

    /// Copies the bytes of a value into `value`. They are valid only if the leaf's latch is
    /// unchanged.
    pub fn read(&self, arena: &Arena, reference: ValueRef, value: &mut Vec<u8>) {
        value.clear();
        let length = reference.length as usize;
        let Some(record) = self.words(arena, reference.unit, reference.words()) else {
            return;
        };
        value.reserve(length.next_multiple_of(8));
        for word in &record[RECORD_HEADER_WORDS..] {
            value.extend(word.load(Ordering::Relaxed).to_ne_bytes());
        }
        value.truncate(length);
    }

    /// Whether a record matches its check word.
    pub fn verify(&self, arena: &Arena, key: u64, reference: ValueRef) -> bool {
        let Some(record) = self.words(arena, reference.unit, reference.words()) else {
            return false;
        };
        let mut words = record
            .iter()
            .map(|word| u64::from_le(word.load(Ordering::Relaxed)));
        let mut next = || words.next().unwrap_or_default();
        let (first, found_key, check) = (next(), next(), next());
        let fits = reference.fits(first) && found_key == key;
        fits && check_of_record(first, found_key, words) == check
    }

    /// Sets which records are in use, for a tree that was opened. The space between them is divided
    /// into free slots.
    pub fn adopt(&self, mut records: Vec<ValueRef>) -> bool {
        records.sort_unstable_by_key(|record| record.unit);
        let mut free_units = self
            .free_units
            .lock()
            .expect("no holder of this lock panics");
        let mut at = 0;
        for record in &records {
            let from = u64::from(record.unit);
            if from < at {
                return false;
            }
            while at < from {
                let mut class = CLASSES - 1;
                while class_size(class) > from - at {
                    class -= 1;
                }
                free_units.free[class].push(at as u32);
                at += class_size(class);
            }
            at = from + class_of(record.words().div_ceil(NODE_WORDS) as u64).1;
        }
        free_units.unused = at;
        at <= self.units
    }

    /// Units that have ever been used, and the total number of units.
    pub fn usage(&self) -> (u64, u64) {
        let free_units = self
            .free_units
            .lock()
            .expect("no holder of this lock panics");
        (free_units.unused, self.units)
    }
}

/// Units of a slot of a class.
fn class_size(class: usize) -> u64 {
    if class < 8 {
        return class as u64 + 1;
    }
    let (log, quarters) = ((class - 8) / 4 + 3, (class - 8) % 4 + 1);
    (1 << log) + quarters as u64 * (1 << (log - 2))
}

#[cfg(all(test, not(any(loom, shuttle))))]
mod tests {
    use super::*;

    #[test]
    fn places_are_at_most_a_quarter_too_large() {
        for units in 1..=(u64::from(VALUE_MAX) + 24).div_ceil(UNIT) {
            let (class, size) = class_of(units);
            assert!(class < CLASSES, "{units}");
            assert_eq!(class_size(class), size);
            assert!(size >= units && size * 4 <= units * 5 + 3, "{units} {size}");
        }
    }
}
