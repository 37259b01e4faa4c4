//! Whose turn it is to change a record, and which version it has.
//!
//! An index has no latch that a client could hold from a read to the write behind it, and two
//! writes of one record that are under way at a time may be done in either order. So that each
//! update makes the next version, writers of one record take turns, as those of the page store do
//! by the page's latch. Readers wait for nobody.

use core::sync::atomic::{AtomicU64, Ordering};

/// The lowest bit says that somebody has the turn; above it is the version.
const HELD: u64 = 1;

/// The turns of all records.
#[derive(Debug)]
pub struct Turns(Box<[AtomicU64]>);

impl Turns {
    /// For records below `records_max`, all in version 0.
    pub fn new(records_max: u64) -> Self {
        Self((0..records_max).map(|_| AtomicU64::new(0)).collect())
    }

    /// Takes the turn of a record, unless somebody has it; the version that the record has.
    pub fn take(&self, record: u64) -> Option<u64> {
        let word = self.0.get(usize::try_from(record).ok()?)?;
        let before = word.fetch_or(HELD, Ordering::Acquire);
        (before & HELD == 0).then_some(before >> 1)
    }

    /// Gives the turn back: the record has this version now.
    pub fn give_back(&self, record: u64, version: u64) {
        if let Some(word) = usize::try_from(record).ok().and_then(|at| self.0.get(at)) {
            word.store(version << 1, Ordering::Release);
        }
    }

    /// The version of a record, and whether nobody has its turn.
    pub fn version(&self, record: u64) -> Option<(u64, bool)> {
        let word = self.0.get(usize::try_from(record).ok()?)?;
        let word = word.load(Ordering::Acquire);
        Some((word >> 1, word & HELD == 0))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn one_has_the_turn_at_a_time() {
        let turns = Turns::new(2);
        assert_eq!(turns.take(1), Some(0));
        assert_eq!((turns.take(1), turns.version(1)), (None, Some((0, false))));
        assert_eq!(turns.take(0), Some(0));
        turns.give_back(1, 1);
        assert_eq!(
            (turns.version(1), turns.take(1)),
            (Some((1, true)), Some(1))
        );
        assert_eq!((turns.take(2), turns.version(2)), (None, None));
    }
}
