//! Ternary match: value and mask, the entry of highest priority wins.

use super::{TableError, check_width};

/// A TCAM table with keys of up to 64 bits.
#[derive(Debug)]
pub struct Ternary<V> {
    name: &'static str,
    stage: u8,
    width: u8,
    capacity: usize,
    /// Sorted by descending priority; among equals, oldest first.
    entries: Vec<Entry<V>>,
}

#[derive(Debug)]
struct Entry<V> {
    value: u64,
    mask: u64,
    priority: u32,
    action: V,
}

impl<V: Copy> Ternary<V> {
    /// An empty table in `stage` for at most `capacity` entries over keys of `width` bits.
    pub fn new(name: &'static str, stage: u8, width: u8, capacity: usize) -> Self {
        Self {
            name,
            stage,
            width,
            capacity,
            entries: Vec::with_capacity(capacity),
        }
    }

    /// The action of the first entry that matches `key` under its mask.
    pub fn lookup(&self, key: u64) -> Option<&V> {
        self.entries
            .iter()
            .find(|e| key & e.mask == e.value)
            .map(|e| &e.action)
    }

    /// Adds an entry. Bits of `value` outside `mask` are ignored.
    ///
    /// # Errors
    /// If the table is full or value or mask too wide.
    pub fn insert(
        &mut self,
        value: u64,
        mask: u64,
        priority: u32,
        action: V,
    ) -> Result<(), TableError> {
        check_width(self.name, self.width, value | mask)?;
        if self.entries.len() == self.capacity {
            return Err(TableError::Full {
                table: self.name,
                capacity: self.capacity,
            });
        }
        let at = self.entries.partition_point(|e| e.priority >= priority);
        self.entries.insert(
            at,
            Entry {
                value: value & mask,
                mask,
                priority,
                action,
            },
        );
        Ok(())
    }

    /// Removes the entries with exactly this value and mask; returns how many.
    pub fn remove(&mut self, value: u64, mask: u64) -> usize {
        let before = self.entries.len();
        self.entries
            .retain(|e| e.mask != mask || e.value != value & mask);
        before - self.entries.len()
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
    fn the_longest_prefix_wins_by_priority() {
        let mut routes = Ternary::new("routes", 0, 32, 3);
        routes.insert(0x0a00_0000, 0xff00_0000, 8, 'a').unwrap();
        routes.insert(0x0a01_0000, 0xffff_0000, 16, 'b').unwrap();
        routes.insert(0, 0, 0, 'd').unwrap();
        assert_eq!(routes.lookup(0x0a01_0203), Some(&'b'));
        assert_eq!(routes.lookup(0x0a02_0203), Some(&'a'));
        assert_eq!(routes.lookup(0x0b00_0000), Some(&'d'));
        assert!(matches!(
            routes.insert(1, 1, 1, 'e'),
            Err(TableError::Full { .. })
        ));
        assert_eq!(routes.remove(0, 0), 1);
        assert_eq!(routes.lookup(0x0b00_0000), None);
    }
}
