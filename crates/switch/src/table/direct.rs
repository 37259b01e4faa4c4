//! Exact match on a small dense key: in hardware an ordinary exact table, here an array.

use super::TableError;

/// Maps keys `0..capacity` to values.
#[derive(Debug)]
pub struct Direct<V> {
    name: &'static str,
    stage: u8,
    entries: Box<[Option<V>]>,
}

impl<V: Copy> Direct<V> {
    /// An empty table in `stage` for keys `0..capacity`.
    pub fn new(name: &'static str, stage: u8, capacity: usize) -> Self {
        Self {
            name,
            stage,
            entries: vec![None; capacity].into(),
        }
    }

    /// The value of `key`.
    #[inline]
    pub fn lookup(&self, key: usize) -> Option<&V> {
        self.entries.get(key)?.as_ref()
    }

    /// Sets or removes the value of `key`.
    ///
    /// # Errors
    /// If `key` is beyond the capacity.
    pub fn set(&mut self, key: usize, value: Option<V>) -> Result<(), TableError> {
        let capacity = self.entries.len();
        let entry = self.entries.get_mut(key).ok_or(TableError::Full {
            table: self.name,
            capacity,
        })?;
        *entry = value;
        Ok(())
    }

    /// The number of keys.
    pub fn capacity(&self) -> usize {
        self.entries.len()
    }

    /// Name, stage, key width in bits, capacity and bytes of one value: what the budget counts.
    pub fn shape(&self) -> (&'static str, u8, u8, usize, usize) {
        let width = self.entries.len().next_power_of_two().trailing_zeros() as u8;
        (
            self.name,
            self.stage,
            width,
            self.entries.len(),
            size_of::<V>(),
        )
    }
}
