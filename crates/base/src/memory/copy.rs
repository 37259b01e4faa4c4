//! Copies into, out of and between memory that others may access meanwhile.
//!
//! Bytes that a peer may write at any time must not be accessed by ordinary loads and stores. The
//! compiler may assume that nothing else writes the bytes that those access, and two conflicting
//! ones are undefined behaviour; so are two atomic accesses of different sizes. Everything here
//! accesses the aligned words that contain the bytes, atomically and relaxed, and replaces parts of
//! words. On x86-64, assembly has the same effect with wider loads and stores. Bytes that are
//! written during a copy are read as old or new. Miri and ThreadSanitizer (`cfg(rackweave_tsan)`)
//! do not see the accesses of assembly, so they get the portable code.
//!
//! *Shared* memory belongs to a block: it begins and ends at a word boundary. *Own* memory is
//! accessed by the caller only.

#[cfg(test)]
mod tests;
#[cfg(all(target_arch = "x86_64", not(any(miri, rackweave_tsan))))]
mod x86_64;

use core::ops::Range;
use core::ptr;
use core::sync::atomic::{AtomicU64, Ordering, fence};

/// Maximum bytes that are moved as single words with acquire and release order.
const WORDWISE_MAX: usize = 64;

/// Bytes of a word.
const WORD: usize = size_of::<u64>();

/// Copies `len` bytes of shared memory.
///
/// Up to [`WORDWISE_MAX`] bytes of whole words are loaded word by word in ascending order with
/// acquire order: writes made before a word was stored, by one of these functions or as an atomic,
/// are visible once that word is loaded.
///
/// # Safety
/// `source` must be shared memory, valid for reads of `len` bytes, and `target` own memory, valid
/// for writes of `len` bytes. The source may be mapped read-only: it is only accessed by loads.
#[inline]
pub(super) unsafe fn load_shared(source: *const u8, target: *mut u8, len: usize) {
    if is_wordwise(source, len) {
        for at in (0..len).step_by(WORD) {
            // SAFETY: within the ranges, valid by contract, and the shared word is aligned.
            unsafe {
                let word = load_word(source.add(at));
                target.add(at).cast::<u64>().write_unaligned(word);
            }
        }
        return;
    }
    // SAFETY: as the caller promises.
    unsafe {
        #[cfg(all(target_arch = "x86_64", not(any(miri, rackweave_tsan))))]
        x86_64::copy(source, target, len);
        #[cfg(not(all(target_arch = "x86_64", not(any(miri, rackweave_tsan)))))]
        load_words(source, target, len);
    }
}

/// Copies `len` bytes into shared memory.
///
/// Up to [`WORDWISE_MAX`] bytes of whole words are stored word by word in ascending order with
/// release order: this lets a ring's head publish its items. Of a longer range that ends with a
/// whole word, this word is stored after all other bytes, with release order: it can publish them.
///
/// # Safety
/// `source` must be own memory, valid for reads of `len` bytes, and `target` shared memory, valid
/// for writes of `len` bytes.
#[inline]
pub(super) unsafe fn store_shared(source: *const u8, target: *mut u8, len: usize) {
    if is_wordwise(target, len) {
        for at in (0..len).step_by(WORD) {
            // SAFETY: within the ranges, valid by contract, and the shared word is aligned.
            unsafe {
                let word = source.add(at).cast::<u64>().read_unaligned();
                store_word(target.add(at), word);
            }
        }
        return;
    }
    let before = before_last(target, len);
    // SAFETY: as the caller promises.
    unsafe {
        #[cfg(all(target_arch = "x86_64", not(any(miri, rackweave_tsan))))]
        x86_64::copy(source, target, before);
        #[cfg(not(all(target_arch = "x86_64", not(any(miri, rackweave_tsan)))))]
        store_words(source, target, before);
        if before < len {
            let word = source.add(before).cast::<u64>().read_unaligned();
            store_word(target.add(before), word);
        }
    }
}

/// Copies `len` bytes within or between shared memories, in the order of [`load_shared`] and
/// [`store_shared`]. If they overlap, no order is promised.
///
/// # Safety
/// Both must be shared memory, `source` valid for reads and `target` for writes of `len` bytes.
/// They may overlap.
#[inline]
pub(super) unsafe fn copy_shared(source: *const u8, target: *mut u8, len: usize) {
    let overlap = source.addr().abs_diff(target.addr()) < len;
    if is_wordwise(source, len) && target.addr().is_multiple_of(WORD) && !overlap {
        for at in (0..len).step_by(WORD) {
            // SAFETY: within the ranges, valid by contract, and both words are aligned.
            unsafe { store_word(target.add(at), load_word(source.add(at))) };
        }
        return;
    }
    if overlap {
        // SAFETY: valid by contract.
        return unsafe { copy_words(source, target, len) };
    }
    let before = before_last(target, len);
    // SAFETY: valid by contract; the last word is whole and aligned.
    unsafe {
        #[cfg(all(target_arch = "x86_64", not(any(miri, rackweave_tsan))))]
        x86_64::copy(source, target, before);
        #[cfg(not(all(target_arch = "x86_64", not(any(miri, rackweave_tsan)))))]
        copy_words(source, target, before);
        if before < len {
            let mut word = [0; WORD];
            load_shared(source.add(before), word.as_mut_ptr(), WORD);
            store_word(target.add(before), u64::from_ne_bytes(word));
        }
    }
}

/// Sets `len` bytes of shared memory to `value`.
///
/// # Safety
/// `target` must be shared memory, valid for writes of `len` bytes.
pub(super) unsafe fn fill_shared(target: *mut u8, value: u8, len: usize) {
    // SAFETY: as the caller promises.
    unsafe { each_word(target, len, |_, word, part| set(word, part, [value; WORD])) };
}

/// Copies `source` into shared memory with stores that bypass the caches, where the processor has
/// them (non-temporal stores): the target's lines are neither fetched before nor kept afterwards.
/// Before the bytes are published, [`fence_streaming`] must be called.
///
/// # Safety
/// `target` must be shared memory, valid for writes of as many bytes as `source` has.
pub(super) unsafe fn stream_shared(source: &[u8], target: *mut u8) {
    // Streaming stores need an aligned target. The bytes before and after the aligned part are
    // copied.
    #[cfg(all(target_arch = "x86_64", not(any(miri, rackweave_tsan))))]
    let streamed = {
        let head = target.addr().wrapping_neg() % x86_64::STREAMED;
        let head = head.min(source.len());
        let len = (source.len() - head) / x86_64::STREAMED * x86_64::STREAMED;
        // SAFETY: within the ranges, valid by contract; `head` aligns the target.
        unsafe { x86_64::stream(source.as_ptr().add(head), target.add(head), len) };
        head..head + len
    };
    #[cfg(not(all(target_arch = "x86_64", not(any(miri, rackweave_tsan)))))]
    let streamed = 0..0;
    for part in [0..streamed.start, streamed.end..source.len()] {
        // SAFETY: within the ranges, valid by contract.
        unsafe {
            store_shared(
                source[part.clone()].as_ptr(),
                target.add(part.start),
                part.len(),
            );
        }
    }
}

/// Orders the stores of [`stream_shared`] before all later stores. It is needed before the release
/// store that publishes the bytes: on x86 that is an ordinary store, which may pass streaming
/// stores that have not reached memory yet.
pub(super) fn fence_streaming() {
    // SAFETY: the instruction takes no operands, and every x86-64 processor has it.
    #[cfg(all(target_arch = "x86_64", not(any(miri, rackweave_tsan))))]
    unsafe {
        core::arch::x86_64::_mm_sfence();
    }
}

/// Whether a copy from or to `shared` uses ordered word accesses.
#[inline]
fn is_wordwise(shared: *const u8, len: usize) -> bool {
    len <= WORDWISE_MAX && (shared.addr() | len).is_multiple_of(WORD)
}

/// Bytes of a range before the word that is stored last: all, if it does not end with a whole word.
#[inline]
fn before_last(target: *const u8, len: usize) -> usize {
    match len > WORDWISE_MAX && (target.addr() + len).is_multiple_of(WORD) {
        true => len - WORD,
        false => len,
    }
}

/// A word of shared memory, with acquire order.
///
/// # Safety
/// `word` must be an aligned word of shared memory.
#[inline]
unsafe fn load_word(word: *const u8) -> u64 {
    // SAFETY: as the caller promises. On memory that is mapped read-only, only relaxed loads are
    // defined, so the order comes from a fence.
    let found = unsafe { AtomicU64::from_ptr(word.cast_mut().cast()) }.load(Ordering::Relaxed);
    fence(Ordering::Acquire);
    found
}

/// Sets a word of shared memory, with release order.
///
/// # Safety
/// As for [`load_word`], and the word must be writable.
#[inline]
unsafe fn store_word(word: *mut u8, value: u64) {
    // SAFETY: as the caller promises.
    unsafe { AtomicU64::from_ptr(word.cast()) }.store(value, Ordering::Release);
}

/// Calls `see` for every word that contains some of `len` bytes of shared memory, with the offset
/// in the range of the word's first byte that is in it, the word, and the part of the word that is
/// in the range.
///
/// # Safety
/// `shared` must be shared memory, valid for `len` bytes, and for writes if `see` writes.
#[inline]
unsafe fn each_word(
    shared: *mut u8,
    len: usize,
    mut see: impl FnMut(usize, &AtomicU64, Range<usize>),
) {
    let mut at = 0;
    while at < len {
        let start = (shared.addr() + at) % WORD;
        let end = WORD.min(start + len - at);
        // SAFETY: aligned, and shared memory consists of whole words.
        let word = unsafe { AtomicU64::from_ptr(shared.add(at).sub(start).cast()) };
        see(at, word, start..end);
        at += end - start;
    }
}

/// Sets a part of a word.
#[inline]
fn set(word: &AtomicU64, part: Range<usize>, bytes: [u8; WORD]) {
    if part.len() == WORD {
        word.store(u64::from_ne_bytes(bytes), Ordering::Relaxed);
        return;
    }
    let merge = |before: u64| {
        let mut merged = before.to_ne_bytes();
        merged[part.clone()].copy_from_slice(&bytes[part.clone()]);
        Some(u64::from_ne_bytes(merged))
    };
    let _always = word.fetch_update(Ordering::Relaxed, Ordering::Relaxed, merge);
}

/// [`load_shared`], with relaxed order throughout.
///
/// # Safety
/// As for [`load_shared`].
unsafe fn load_words(source: *const u8, target: *mut u8, len: usize) {
    // SAFETY: as the caller promises.
    unsafe {
        each_word(source.cast_mut(), len, |at, word, part| {
            let bytes = word.load(Ordering::Relaxed).to_ne_bytes();
            ptr::copy_nonoverlapping(bytes[part.clone()].as_ptr(), target.add(at), part.len());
        });
    }
}

/// [`store_shared`], with relaxed order throughout.
///
/// # Safety
/// As for [`store_shared`].
unsafe fn store_words(source: *const u8, target: *mut u8, len: usize) {
    // SAFETY: as the caller promises.
    unsafe {
        each_word(target, len, |at, word, part| {
            let mut bytes = [0; WORD];
            let place = bytes[part.clone()].as_mut_ptr();
            ptr::copy_nonoverlapping(source.add(at), place, part.len());
            set(word, part, bytes);
        });
    }
}

/// [`copy_shared`], with relaxed order throughout.
///
/// # Safety
/// As for [`copy_shared`].
unsafe fn copy_words(source: *const u8, target: *mut u8, len: usize) {
    let mut piece = [0; 4 * WORDWISE_MAX];
    let mut done = 0;
    while done < len {
        let size = piece.len().min(len - done);
        // If the ranges overlap, bytes that are still to be read must not be written yet.
        let at = if source.addr() < target.addr() {
            len - done - size
        } else {
            done
        };
        // SAFETY: within the ranges, valid by contract; `piece` is own memory.
        unsafe {
            load_words(source.add(at), piece.as_mut_ptr(), size);
            store_words(piece.as_ptr(), target.add(at), size);
        }
        done += size;
    }
}
