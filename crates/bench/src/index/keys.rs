//! Which key of the index a record has.

/// Spreads records evenly over all keys, in order: record 0 has key 0, and neighbouring keys have
/// equal distances.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Keys {
    step: u64,
}

impl Keys {
    /// For records below `records_max`.
    pub fn new(records_max: u64) -> Self {
        Self {
            step: u64::MAX / records_max.max(1),
        }
    }

    /// The key of a record.
    ///
    /// A record that is not below `records_max` has the greatest key.
    #[inline]
    pub fn key(self, record: u64) -> u64 {
        record.saturating_mul(self.step)
    }

    /// The record that has a key, if one can have it.
    #[inline]
    pub fn record(self, key: u64) -> Option<u64> {
        key.is_multiple_of(self.step).then(|| key / self.step)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_key_tells_its_record() {
        for records in [1, 2, 1000, (1 << 40) + 1] {
            let keys = Keys::new(records);
            for record in [0, 1, records / 2, records - 1] {
                let key = keys.key(record);
                assert_eq!(keys.record(key), Some(record), "{record} of {records}");
                if key > 0 && keys.step > 1 {
                    assert_eq!(keys.record(key - 1), None);
                }
            }
            assert!(keys.key(records) > u64::MAX - records);
        }
    }
}
