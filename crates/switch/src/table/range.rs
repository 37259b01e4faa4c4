//! Range match: disjoint ranges of keys, found by bisection.

use super::{TableError, check_width};

/// Maps disjoint ranges of keys of up to 64 bits to values.
#[derive(Debug)]
pub struct Range<V> {
    name: &'static str,
    stage: u8,
    width: u8,
    capacity: usize,
    /// First key, last key, value; in ascending order.
    entries: Vec<(u64, u64, V)>,
}

impl<V: Copy> Range<V> {
    /// An empty table in `stage` for at most `capacity` ranges over keys of `width` bits.
    pub fn new(name: &'static str, stage: u8, width: u8, capacity: usize) -> Self {
        Self {
            name,
            stage,
            width,
            capacity,
            entries: Vec::with_capacity(capacity),
        }
    }

    /// The value of the range that contains `key`.
    pub fn lookup(&self, key: u64) -> Option<&V> {
        let at = self.entries.partition_point(|&(first, ..)| first <= key);
        let (_, last, value) = self.entries.get(at.checked_sub(1)?)?;
        (key <= *last).then_some(value)
    }

    /// Adds the range `first..=last`.
    ///
    /// # Errors
    /// If the table is full, a key too wide, or the range empty or overlapping.
    pub fn insert(&mut self, first: u64, last: u64, value: V) -> Result<(), TableError> {
        check_width(self.name, self.width, last)?;
        let at = self.entries.partition_point(|&(f, ..)| f < first);
        let hits_next = self.entries.get(at).is_some_and(|&(f, ..)| f <= last);
        let hits_previous = at > 0 && self.entries[at - 1].1 >= first;
        if first > last || hits_next || hits_previous {
            return Err(TableError::BadRange {
                table: self.name,
                first,
                last,
            });
        }
        if self.entries.len() == self.capacity {
            return Err(TableError::Full {
                table: self.name,
                capacity: self.capacity,
            });
        }
        self.entries.insert(at, (first, last, value));
        Ok(())
    }

    /// Removes the ranges within `first..=last`.
    pub fn remove_within(&mut self, first: u64, last: u64) {
        self.entries.retain(|&(f, l, _)| f < first || l > last);
    }

    /// Removes all ranges.
    pub fn clear(&mut self) {
        self.entries.clear();
    }

    /// Name, stage, key width in bits, capacity and bytes of one value: what the budget counts.
    pub fn shape(&self) -> (&'static str, u8, u8, usize, usize) {
        (
            self.name,
            self.stage,
            self.width,
            self.capacity,
            size_of::<V>(),
        )
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn finds_the_range_that_contains_the_key() {
        let mut table = Range::new("slices", 0, 16, 8);
        table.insert(10, 19, 'a').unwrap();
        table.insert(20, 20, 'b').unwrap();
        table.insert(30, u64::from(u16::MAX), 'c').unwrap();
        let found: Vec<_> = [9, 10, 19, 20, 21, 30, 65535]
            .map(|k| table.lookup(k).copied())
            .into();
        assert_eq!(
            found,
            [
                None,
                Some('a'),
                Some('a'),
                Some('b'),
                None,
                Some('c'),
                Some('c')
            ]
        );
    }

    #[test]
    fn what_lies_within_is_removed() {
        let mut table = Range::new("slices", 0, 16, 8);
        for (first, last) in [(0, 9), (10, 19), (20, 29), (30, 39)] {
            table.insert(first, last, first).unwrap();
        }
        table.remove_within(10, 29);
        let found = [9, 10, 20, 29, 30].map(|k| table.lookup(k).copied());
        assert_eq!(found, [Some(0), None, None, None, Some(30)]);
        table.remove_within(5, 35);
        assert_eq!(table.lookup(5), Some(&0), "not all of it lies within");
    }

    #[test]
    fn overlaps_are_refused() {
        let mut table = Range::new("slices", 0, 16, 8);
        table.insert(10, 19, ()).unwrap();
        for (first, last) in [(19, 25), (5, 10), (12, 13), (0, 100), (9, 8)] {
            assert!(matches!(
                table.insert(first, last, ()),
                Err(TableError::BadRange { .. })
            ));
        }
    }
}
