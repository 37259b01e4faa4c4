//! Exact match: a hash table with linear probing and a fixed number of entries.

use super::{TableError, check_width};

/// Maps keys of up to 64 bits to values.
#[derive(Debug)]
pub struct Exact<V> {
    name: &'static str,
    stage: u8,
    width: u8,
    capacity: usize,
    used: usize,
    places: Box<[Option<(u64, V)>]>,
}

impl<V: Copy> Exact<V> {
    /// An empty table in `stage` for at most `capacity` keys of `width` bits.
    pub fn new(name: &'static str, stage: u8, width: u8, capacity: usize) -> Self {
        // The hash table is at most half full, so that probes stay short.
        let places = (capacity * 2).next_power_of_two().max(2);
        Self {
            name,
            stage,
            width,
            capacity,
            used: 0,
            places: vec![None; places].into(),
        }
    }

    /// The value of `key`.
    #[inline]
    pub fn lookup(&self, key: u64) -> Option<&V> {
        let mut at = self.home(key);
        loop {
            match &self.places[at] {
                Some((k, value)) if *k == key => return Some(value),
                Some(_) => at = (at + 1) & (self.places.len() - 1),
                None => return None,
            }
        }
    }

    /// Adds or replaces the value of `key`.
    ///
    /// # Errors
    /// If the table is full or the key too wide.
    pub fn insert(&mut self, key: u64, value: V) -> Result<(), TableError> {
        check_width(self.name, self.width, key)?;
        let mut at = self.home(key);
        while let Some((k, old)) = &mut self.places[at] {
            if *k == key {
                *old = value;
                return Ok(());
            }
            at = (at + 1) & (self.places.len() - 1);
        }
        if self.used == self.capacity {
            return Err(TableError::Full {
                table: self.name,
                capacity: self.capacity,
            });
        }
        self.places[at] = Some((key, value));
        self.used += 1;
        Ok(())
    }

    /// Removes `key`. Returns false if it was absent.
    pub fn remove(&mut self, key: u64) -> bool {
        let mask = self.places.len() - 1;
        let mut hole = self.home(key);
        loop {
            match &self.places[hole] {
                Some((k, _)) if *k == key => break,
                Some(_) => hole = (hole + 1) & mask,
                None => return false,
            }
        }
        // Close the gap, so that no probe for a later key stops at it.
        let mut at = (hole + 1) & mask;
        while let Some((k, _)) = &self.places[at] {
            let home = self.home(*k);
            if (at.wrapping_sub(home) & mask) >= (at.wrapping_sub(hole) & mask) {
                self.places[hole] = self.places[at];
                hole = at;
            }
            at = (at + 1) & mask;
        }
        self.places[hole] = None;
        self.used -= 1;
        true
    }

    /// Every key with its value, in no particular order.
    pub fn iter(&self) -> impl Iterator<Item = (u64, &V)> + '_ {
        let places = self.places.iter().flatten();
        places.map(|(key, value)| (*key, value))
    }

    /// The number of entries.
    pub fn len(&self) -> usize {
        self.used
    }

    /// Whether there are no entries.
    pub fn is_empty(&self) -> bool {
        self.used == 0
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

    fn home(&self, key: u64) -> usize {
        let hash = key.wrapping_mul(0x9e37_79b9_7f4a_7c15);
        (hash >> 32) as usize & (self.places.len() - 1)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use rackweave_base::Rng;
    use std::collections::BTreeMap;

    #[test]
    fn agrees_with_a_map() {
        let mut rng = Rng::new(3);
        let mut table = Exact::new("t", 0, 16, 50);
        let mut model = BTreeMap::new();
        for step in 0..20_000u32 {
            let key = rng.below(100);
            if rng.chance(0.5) {
                let expected = model.contains_key(&key) || model.len() < 50;
                assert_eq!(table.insert(key, step).is_ok(), expected);
                if expected {
                    model.insert(key, step);
                }
            } else {
                assert_eq!(table.remove(key), model.remove(&key).is_some());
            }
            let probe = rng.below(100);
            assert_eq!(table.lookup(probe), model.get(&probe));
            assert_eq!(table.len(), model.len());
        }
    }

    #[test]
    fn a_key_must_fit_the_width() {
        let mut table = Exact::new("narrow", 0, 8, 4);
        assert_eq!(
            table.insert(256, ()).unwrap_err().to_string(),
            "table narrow matches 8 bits; key 0x100 is wider"
        );
    }
}
