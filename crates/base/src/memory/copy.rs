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

/// Copies `source` into `target`, of the same length, with stores that go past the caches where the
/// processor has such (non-temporal stores): the target's lines are neither fetched before nor kept
/// afterwards. Whoever publishes the bytes calls [`fence_streaming`] first.
///
/// SSE2 has all that is needed and every x86-64 processor has SSE2, so nothing is detected at run
/// time; wider stores fill the same lines. Other processors copy as usual.
#[cfg(target_arch = "x86_64")]
pub(super) fn copy_streaming(target: &mut [u8], source: &[u8]) {
    use core::arch::x86_64::{__m128i, _mm_loadu_si128, _mm_stream_si128};
    const STEP: usize = size_of::<__m128i>();
    assert_eq!(target.len(), source.len(), "a copy needs equal lengths");
    // Streaming stores need an aligned target. What is in front of it and behind it is copied.
    let head = target.as_ptr().align_offset(STEP).min(target.len());
    let (target_head, target) = target.split_at_mut(head);
    let (source_head, source) = source.split_at(head);
    target_head.copy_from_slice(source_head);
    let mut targets = target.chunks_exact_mut(STEP);
    let mut sources = source.chunks_exact(STEP);
    for (to, from) in (&mut targets).zip(&mut sources) {
        // SAFETY: both are `STEP` bytes long, and `to` is aligned: it lies a multiple of `STEP`
        // behind an aligned address.
        unsafe {
            _mm_stream_si128(
                to.as_mut_ptr().cast(),
                _mm_loadu_si128(from.as_ptr().cast()),
            )
        };
    }
    targets
        .into_remainder()
        .copy_from_slice(sources.remainder());
}

/// Copies `source` into `target`, of the same length.
#[cfg(not(target_arch = "x86_64"))]
pub(super) fn copy_streaming(target: &mut [u8], source: &[u8]) {
    target.copy_from_slice(source);
}

/// Orders what [`copy_streaming`] stored before all later stores. It is needed before the release
/// store that publishes the bytes: on x86 that is an ordinary store, which the processor may let
/// pass streaming stores that are still on their way to memory.
pub(super) fn fence_streaming() {
    // SAFETY: it takes no operands, and every x86-64 processor has it.
    #[cfg(target_arch = "x86_64")]
    unsafe {
        core::arch::x86_64::_mm_sfence();
    }
}
