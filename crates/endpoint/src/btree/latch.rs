//! The latch of a tree node: optimistic for readers, exclusive for writers.
//!
//! Bit 0 tells that a writer is in the tree node, the others count its changes. A reader notes the
//! word, reads what it wants, and looks at the word again: if it is the same, what was read is
//! what the tree node held (Leis et al., The ART of Practical Synchronization, DaMoN 2016, section
//! 4.1). Readers write nothing, so they do not take a cache line away from each other.

use super::sync::{AtomicU64, Ordering, fence, yield_now};

const LOCKED: u64 = 1;

/// Looks at a latch before its owner's thread may run.
#[cfg(not(any(loom, shuttle)))]
const SPINS: u32 = 64;
#[cfg(any(loom, shuttle))]
const SPINS: u32 = 0;

/// A latch word.
#[derive(Clone, Copy)]
pub(super) struct Latch<'a>(pub &'a AtomicU64);

impl Latch<'_> {
    /// What [`Self::is_still`] and [`Self::upgrade`] compare with; waits for a writer to leave.
    #[inline]
    pub fn read(self) -> u64 {
        let word = self.0.load(Ordering::Acquire);
        if word & LOCKED == 0 {
            return word;
        }
        self.wait()
    }

    #[cold]
    fn wait(self) -> u64 {
        for spins in 0.. {
            let word = self.0.load(Ordering::Acquire);
            if word & LOCKED == 0 {
                return word;
            }
            if spins < SPINS {
                core::hint::spin_loop();
            } else {
                yield_now();
            }
        }
        unreachable!("the loop ends by returning")
    }

    /// Whether nobody has written since [`Self::read`] gave `word`.
    #[inline]
    pub fn is_still(self, word: u64) -> bool {
        // What was read before is not read after the word.
        fence(Ordering::Acquire);
        self.0.load(Ordering::Relaxed) == word
    }

    /// Becomes the writer, if nobody has written since [`Self::read`] gave `word`.
    #[inline]
    pub fn upgrade(self, word: u64) -> bool {
        let locked = word | LOCKED;
        let taken = self
            .0
            .compare_exchange(word, locked, Ordering::Acquire, Ordering::Relaxed)
            .is_ok();
        if taken {
            // Whoever sees a word that is written from now on sees the latch taken, too.
            fence(Ordering::Release);
        }
        taken
    }

    /// Becomes the writer. Only for who holds nothing that others wait for, or holds the parent:
    /// writers go down and to the right.
    pub fn lock(self) {
        while !self.upgrade(self.read()) {}
    }

    /// Leaves a tree node that was changed.
    #[inline]
    pub fn unlock(self) {
        let word = self.0.load(Ordering::Relaxed);
        self.0.store((word | LOCKED) + 1, Ordering::Release);
    }

    /// Leaves a tree node that is as it was.
    #[inline]
    pub fn unlock_unchanged(self) {
        let word = self.0.load(Ordering::Relaxed);
        self.0.store(word & !LOCKED, Ordering::Release);
    }
}
