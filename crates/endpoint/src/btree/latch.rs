//! The latch of a tree node: optimistic for readers, exclusive for writers.
//!
//! Bit 0 says that a writer holds the latch, the other bits count changes. A reader loads the word,
//! reads what it needs, and loads the word again. If the word is unchanged, what was read is a
//! consistent state of the tree node (Leis et al., The ART of Practical Synchronization, DaMoN
//! 2016, section 4.1). Readers do not write, so they do not take a cache line away from each other.

use super::sync::{AtomicU64, Ordering, fence, yield_now};

const LOCKED: u64 = 1;

/// Number of spins before the thread yields to the latch's owner.
#[cfg(not(any(loom, shuttle)))]
const SPINS: u32 = 64;
#[cfg(any(loom, shuttle))]
const SPINS: u32 = 0;

/// A latch word.
#[derive(Clone, Copy)]
pub(super) struct Latch<'a>(pub &'a AtomicU64);

impl Latch<'_> {
    /// Waits until no writer holds the latch and returns its word, for [`Self::is_still`] and
    /// [`Self::upgrade`].
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

    /// Whether no thread has written since [`Self::read`] returned `word`.
    #[inline]
    pub fn is_still(self, word: u64) -> bool {
        // Orders earlier reads before the load of the word.
        fence(Ordering::Acquire);
        self.0.load(Ordering::Relaxed) == word
    }

    /// Acquires the latch, if no thread has written since [`Self::read`] returned `word`.
    #[inline]
    pub fn upgrade(self, word: u64) -> bool {
        let locked = word | LOCKED;
        let taken = self
            .0
            .compare_exchange(word, locked, Ordering::Acquire, Ordering::Relaxed)
            .is_ok();
        if taken {
            // A reader that sees a word written from now on also sees the latch held.
            fence(Ordering::Release);
        }
        taken
    }

    /// Acquires the latch. The caller must hold no latch that other threads wait for, or must hold
    /// the parent: writers acquire latches downwards and to the right.
    pub fn lock(self) {
        while !self.upgrade(self.read()) {}
    }

    /// Releases the latch of a changed tree node.
    #[inline]
    pub fn unlock(self) {
        let word = self.0.load(Ordering::Relaxed);
        self.0.store((word | LOCKED) + 1, Ordering::Release);
    }

    /// Releases the latch of an unchanged tree node.
    #[inline]
    pub fn unlock_unchanged(self) {
        let word = self.0.load(Ordering::Relaxed);
        self.0.store(word & !LOCKED, Ordering::Release);
    }
}
