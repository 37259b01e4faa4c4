//! Several exact-match tables with one dense key, side by side.

use super::TableError;

/// `N` tables that map the same keys `0..capacity`, each to its own value.
///
/// A packet looks up one key in all of them, in one stage or in successive stages, as it would in
/// as many [`super::Direct`]s. In memory the values of one key are adjacent, so a software switch
/// fetches one or two cache lines, whereas separate tables would cost it `N`.
#[derive(Debug)]
pub struct Row<V, const N: usize> {
    name: &'static str,
    stages: [u8; N],
    entries: Box<[Option<[V; N]>]>,
}

impl<V: Copy, const N: usize> Row<V, N> {
    /// Empty tables for keys `0..capacity`; table `n` is in `stages[n]`.
    pub fn new(name: &'static str, stages: [u8; N], capacity: usize) -> Self {
        Self {
            name,
            stages,
            entries: vec![None; capacity].into(),
        }
    }

    /// The values of `key`, table by table.
    #[inline]
    pub fn lookup(&self, key: usize) -> Option<&[V; N]> {
        self.entries.get(key)?.as_ref()
    }

    /// Sets or removes the values of `key`.
    ///
    /// # Errors
    /// If `key` is beyond the capacity.
    pub fn set(&mut self, key: usize, values: Option<[V; N]>) -> Result<(), TableError> {
        let capacity = self.entries.len();
        let entry = self.entries.get_mut(key).ok_or(TableError::Full {
            table: self.name,
            capacity,
        })?;
        *entry = values;
        Ok(())
    }

    /// For each table: name, stage, key width in bits, capacity and bytes of one value.
    pub fn shapes(&self) -> impl Iterator<Item = (&'static str, u8, u8, usize, usize)> + '_ {
        let capacity = self.entries.len();
        let width = capacity.next_power_of_two().trailing_zeros() as u8;
        let shape = move |&stage: &u8| (self.name, stage, width, capacity, size_of::<V>());
        self.stages.iter().map(shape)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_key_has_a_value_in_every_table() {
        let mut rows = Row::new("pivots", [2, 2, 3], 4);
        rows.set(1, Some([7_u64, 8, 9])).unwrap();
        assert_eq!(rows.lookup(1), Some(&[7, 8, 9]));
        assert_eq!(rows.lookup(0), None);
        assert_eq!(rows.lookup(4), None);
        assert!(matches!(
            rows.set(4, None),
            Err(TableError::Full { capacity: 4, .. })
        ));
        rows.set(1, None).unwrap();
        assert_eq!(rows.lookup(1), None);
        let shapes: Vec<_> = rows.shapes().collect();
        assert_eq!(shapes[0], ("pivots", 2, 2, 4, 8));
        assert_eq!(shapes[2], ("pivots", 3, 2, 4, 8));
    }
}
