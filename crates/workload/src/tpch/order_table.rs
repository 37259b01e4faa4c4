//! The build side of the join: a compact hash table from order key to priority.

use super::codes::OrderPriority;
use super::rows::RowError;

/// Order keys and their priorities, in one word each, with open addressing.
#[derive(Debug)]
pub struct OrderTable {
    /// Key in the high 56 bits, priority in the low 8; zero is a free slot. A power of two of
    /// slots, at most half of them used.
    slots: Vec<u64>,
    /// Right shift of a hash that gives its slot.
    shift: u32,
    taken: usize,
}

/// Slots of an empty table.
const SLOTS_MIN: usize = 1 << 10;
/// Keys are nonzero and have fewer bits than this.
const KEY_BITS: u32 = 56;
const KEY_SHIFT: u32 = u64::BITS - KEY_BITS;

impl OrderTable {
    pub fn new() -> Self {
        Self::with_slots(SLOTS_MIN)
    }

    fn with_slots(slots: usize) -> Self {
        Self {
            slots: vec![0; slots],
            shift: u64::BITS - slots.trailing_zeros(),
            taken: 0,
        }
    }

    /// Adds an order.
    pub fn insert(&mut self, key: i64, priority: OrderPriority) -> Result<(), RowError> {
        if key <= 0 || key >> KEY_BITS != 0 {
            return Err(RowError::Range {
                column: "o_orderkey",
                value: key,
            });
        }
        if self.taken * 2 >= self.slots.len() {
            self.grow();
        }
        if self.place((key as u64) << 8 | u64::from(priority.code())) {
            Ok(())
        } else {
            Err(RowError::Duplicate { key })
        }
    }

    /// The priorities' codes of the orders with these keys; zero where there is none. The slots of
    /// all keys are loaded before any is looked at, so that the processor waits for them together.
    #[inline]
    pub fn priority_codes<const N: usize>(&self, keys: &[i64; N]) -> [u8; N] {
        let keys = keys.map(|key| key as u64);
        let first = keys.map(|key| self.slots[self.home(key)]);
        core::array::from_fn(|at| match first[at] {
            slot if slot >> KEY_SHIFT == keys[at] => slot as u8,
            0 => 0,
            _ => self.priority_behind(keys[at]),
        })
    }

    /// The same for a key that is not in its home.
    fn priority_behind(&self, key: u64) -> u8 {
        let mut at = self.home(key);
        loop {
            at = (at + 1) & (self.slots.len() - 1);
            match self.slots[at] {
                slot if slot >> KEY_SHIFT == key => return slot as u8,
                0 => return 0,
                _ => {}
            }
        }
    }

    /// Puts a word in the first free slot from its home on. Returns false if its key is present
    /// already.
    fn place(&mut self, word: u64) -> bool {
        let mut at = self.home(word >> 8);
        while self.slots[at] != 0 {
            if self.slots[at] >> 8 == word >> 8 {
                return false;
            }
            at = (at + 1) & (self.slots.len() - 1);
        }
        self.slots[at] = word;
        self.taken += 1;
        true
    }

    fn grow(&mut self) {
        let larger = Self::with_slots(self.slots.len() * 2);
        let smaller = core::mem::replace(self, larger);
        for word in smaller.slots.into_iter().filter(|word| *word != 0) {
            let placed = self.place(word);
            assert!(placed, "keys are unique");
        }
    }

    /// Multiplication by 2^64 divided by the golden ratio (Knuth, volume 3, section 6.4). It must
    /// differ from the hash that spreads orders over nodes, or each node would use only some slots.
    #[inline]
    fn home(&self, key: u64) -> usize {
        (key.wrapping_mul(0x9e37_79b9_7f4a_7c15) >> self.shift) as usize
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_was_inserted_is_found_and_nothing_else() {
        let mut table = OrderTable::new();
        for key in 1..=10_000 {
            let priority = OrderPriority::ALL[key as usize % 5];
            table.insert(key * 3, priority).unwrap();
        }
        for key in 1..=30_000i64 {
            let expect = match key % 3 {
                0 => OrderPriority::ALL[key as usize / 3 % 5].code(),
                _ => 0,
            };
            assert_eq!(table.priority_codes(&[key]), [expect], "{key}");
        }
        for stranger in [0, -1, i64::MIN, i64::MAX, 3 + (1 << 56)] {
            assert_eq!(table.priority_codes(&[stranger]), [0]);
        }
    }

    #[test]
    fn bad_keys_are_refused() {
        let mut table = OrderTable::new();
        for key in [0, -1, 1 << 56, i64::MIN] {
            assert_eq!(
                table.insert(key, OrderPriority::Low),
                Err(RowError::Range {
                    column: "o_orderkey",
                    value: key
                })
            );
        }
        table.insert(7, OrderPriority::Low).unwrap();
        assert_eq!(
            table.insert(7, OrderPriority::High),
            Err(RowError::Duplicate { key: 7 })
        );
    }
}
