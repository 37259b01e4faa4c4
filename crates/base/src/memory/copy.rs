//! Copies between memory that others may access meanwhile.

use core::ptr;
use core::sync::atomic::{AtomicU64, Ordering};

/// The most bytes that [`copy_shared`] moves as single words.
const WORDWISE_MAX: usize = 64;

/// Copies `len` bytes between memory that others may access meanwhile.
///
/// Up to [`WORDWISE_MAX`] bytes of aligned words are copied word by word in ascending order, each
/// atomically, with acquire loads and release stores. Everything before a word copy is visible to
/// whoever sees the word: that is what lets a ring's head publish its items.
///
/// # Safety
/// `source` must be valid for reads and `target` for writes of `len` bytes. They may overlap. The
/// source may be mapped read-only: nothing but loads of at most eight bytes touches it, which
/// every 64-bit processor does without a store.
pub(super) unsafe fn copy_shared(source: *const u8, target: *mut u8, len: usize) {
    let aligned = (source as usize | target as usize | len).is_multiple_of(8);
    if aligned && len <= WORDWISE_MAX {
        for word in 0..len / 8 {
            // SAFETY: within the ranges, valid by contract, and aligned, checked just above.
            unsafe {
                let from = AtomicU64::from_ptr(source.cast_mut().cast::<u64>().add(word));
                let to = AtomicU64::from_ptr(target.cast::<u64>().add(word));
                to.store(from.load(Ordering::Acquire), Ordering::Release);
            }
        }
        return;
    }
    // SAFETY: valid by contract.
    unsafe { ptr::copy(source, target, len) };
}
