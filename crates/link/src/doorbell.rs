//! Doorbells: which of several machines have something to do, or which ports of one.
//!
//! The end of a link that has sent rings the doorbell of the machine at the other end. So a thread
//! that drives many machines looks at one word for 64 of them, and at no link of those that are
//! idle.
//!
//! A ring is not lost: who takes it sees everything that was stored before it, and a ring that
//! comes later stays for the next look. `tests/all/loom_ring.rs` shows that with every order of
//! accesses.

use crate::sync::{Arc, AtomicU64, Ordering};
use rackweave_base::BitSet;

/// The doorbells of several machines, by number. Clones are the same ones.
#[derive(Clone, Debug)]
pub struct Doorbells(Arc<Vec<AtomicU64>>);

/// One of several doorbells.
#[derive(Clone, Debug)]
pub struct Doorbell {
    all: Doorbells,
    number: usize,
}

impl Doorbells {
    /// Doorbells with the numbers below `count`, which do not ring.
    pub fn new(count: usize) -> Self {
        Self(Arc::new(
            (0..count.div_ceil(64)).map(|_| AtomicU64::new(0)).collect(),
        ))
    }

    /// The doorbell of this number.
    pub fn doorbell(&self, number: usize) -> Doorbell {
        let all = self.clone();
        Doorbell { all, number }
    }

    /// Rings a doorbell, after what it announces.
    #[inline]
    pub fn ring(&self, number: usize) {
        // Not even a doorbell that rings already may be left out: who takes the earlier ring may
        // not see what this one announces.
        self.0[number / 64].fetch_or(1 << (number % 64), Ordering::AcqRel);
    }

    /// Stops a doorbell, before looking for what it announced.
    #[inline]
    pub fn take(&self, number: usize) {
        self.0[number / 64].fetch_and(!(1 << (number % 64)), Ordering::AcqRel);
    }

    /// Stops all, and adds the numbers of those that rang to `rung`.
    #[inline]
    pub fn take_all(&self, rung: &mut BitSet) {
        for (at, word) in self.0.iter().enumerate() {
            if word.load(Ordering::Relaxed) != 0 {
                rung.insert_word(at, word.swap(0, Ordering::AcqRel));
            }
        }
    }

    /// Whether any rings.
    #[inline]
    pub fn any(&self) -> bool {
        self.0.iter().any(|word| word.load(Ordering::Relaxed) != 0)
    }

    /// A bit for each that rings, 64 to a word.
    pub fn words(&self) -> impl Iterator<Item = u64> {
        self.0.iter().map(|word| word.load(Ordering::Relaxed))
    }

    /// The numbers of those that ring, each as found when the iterator comes to its word.
    #[inline]
    pub fn rung(&self) -> impl Iterator<Item = usize> {
        self.words().enumerate().flat_map(|(at, word)| {
            let mut left = word;
            core::iter::from_fn(move || {
                let bit = left.trailing_zeros() as usize;
                left &= left.wrapping_sub(1);
                (bit < 64).then_some(64 * at + bit)
            })
        })
    }
}

impl Doorbell {
    /// Rings it.
    #[inline]
    pub fn ring(&self) {
        self.all.ring(self.number);
    }
}

#[cfg(all(test, not(loom)))]
mod tests {
    use super::*;

    #[test]
    fn each_rings_until_it_is_taken() {
        let bells = Doorbells::new(130);
        assert!(!bells.any());
        for number in [129, 3, 64, 3] {
            bells.doorbell(number).ring();
        }
        assert_eq!(bells.rung().collect::<Vec<_>>(), [3, 64, 129]);
        bells.take(64);
        bells.take(65);
        assert!(bells.any());
        let mut rung = BitSet::new(129);
        bells.take_all(&mut rung);
        assert!(!bells.any());
        assert_eq!((rung.next(0), rung.next(4)), (Some(3), None));
    }
}
