//! Bytes that others may change at any time, in a form that safe code may use.
//!
//! A `&[u8]` requires that nothing writes the bytes meanwhile, and a `&mut [u8]` that nothing even
//! reads them; a peer that has the key of a region may do both. [`SharedBytes`] and
//! [`SharedBytesMut`] require nothing: a copy returns the bytes at that moment, and the next copy
//! may differ.
//!
//! ```
//! # use rackweave_base::Memory;
//! let block = Memory::new(4096).allocate(64).expect("the memory is large enough");
//! let (mut one, mut other) = (block.bytes_mut(0, 8), block.bytes_mut(0, 8));
//! one.write(0, b"abcdefgh");
//! other.fill(b'x');
//! assert_eq!(block.bytes(0, 8), *b"xxxxxxxx");
//! ```
//!
//! A view is not a slice, neither for reading nor for writing:
//!
//! ```compile_fail,E0308
//! # use rackweave_base::Block;
//! fn read(block: &Block) -> &[u8] {
//!     block.bytes(0, 8)
//! }
//! ```
//! ```compile_fail,E0308
//! # use rackweave_base::Block;
//! fn write(block: &Block) -> &mut [u8] {
//!     block.bytes_mut(0, 8)
//! }
//! ```
//!
//! Code that knows more than the compiler must be `unsafe`:
//!
//! ```compile_fail,E0133
//! # use rackweave_base::Block;
//! fn read(block: &Block) -> &[u8] {
//!     block.bytes(0, 8).as_slice()
//! }
//! ```
//!
//! A view does not outlive its block:
//!
//! ```compile_fail,E0505
//! # use rackweave_base::Block;
//! fn late(block: Block) -> Vec<u8> {
//!     let view = block.bytes(0, 8);
//!     drop(block);
//!     view.to_vec()
//! }
//! ```

use super::Block;
use super::copy::{copy_shared, fill_shared, load_shared, store_shared};
use core::fmt;
use core::marker::PhantomData;
use core::mem::MaybeUninit;
use core::ops::{Bound, Deref, Range, RangeBounds};

/// Maximum bytes of one part in [`SharedBytes::each_part`].
const PART: usize = 4 << 10;

/// Bytes of a block, for copying out of it.
#[derive(Clone, Copy)]
pub struct SharedBytes<'a> {
    pointer: *const u8,
    len: usize,
    block: PhantomData<&'a Block>,
}

/// Bytes of a block, for copying into it; reading is as for [`SharedBytes`].
pub struct SharedBytesMut<'a>(SharedBytes<'a>);

// SAFETY: the pointer is to bytes of a block, which outlives the view, and all access to them is
// atomic.
unsafe impl Send for SharedBytes<'_> {}
// SAFETY: as above.
unsafe impl Sync for SharedBytes<'_> {}

impl Block {
    /// A view of `len` bytes from `offset` on.
    ///
    /// # Panics
    /// If they are not all in the block.
    #[inline]
    pub fn bytes(&self, offset: usize, len: usize) -> SharedBytes<'_> {
        SharedBytes {
            pointer: self.pointer(offset, len),
            len,
            block: PhantomData,
        }
    }

    /// A view of `len` bytes from `offset` on, for writing.
    ///
    /// # Panics
    /// If they are not all in the block.
    #[inline]
    pub fn bytes_mut(&self, offset: usize, len: usize) -> SharedBytesMut<'_> {
        SharedBytesMut(self.bytes(offset, len))
    }
}

/// Resolves `range` in a view of `len` bytes.
fn checked(range: impl RangeBounds<usize>, len: usize) -> Range<usize> {
    let start = match range.start_bound() {
        Bound::Included(&start) => start,
        Bound::Excluded(&before) => before + 1,
        Bound::Unbounded => 0,
    };
    let end = match range.end_bound() {
        Bound::Included(&last) => last + 1,
        Bound::Excluded(&end) => end,
        Bound::Unbounded => len,
    };
    assert!(
        start <= end && end <= len,
        "bytes {start}..{end} of a view of {len} bytes"
    );
    start..end
}

impl<'a> SharedBytes<'a> {
    /// The number of bytes.
    #[inline]
    pub fn len(&self) -> usize {
        self.len
    }

    /// Whether there are no bytes.
    #[inline]
    pub fn is_empty(&self) -> bool {
        self.len == 0
    }

    /// A part of the view.
    ///
    /// # Panics
    /// If the range is not in the view.
    #[inline]
    pub fn slice(&self, range: impl RangeBounds<usize>) -> Self {
        let range = checked(range, self.len);
        Self {
            pointer: self.pointer.wrapping_add(range.start),
            len: range.len(),
            block: PhantomData,
        }
    }

    /// Pieces of `size` bytes; a shorter remainder is left out.
    ///
    /// # Panics
    /// If `size` is zero.
    #[inline]
    pub fn chunks_exact(&self, size: usize) -> impl ExactSizeIterator<Item = Self> + use<'a> {
        let view = *self;
        (0..self.len / size).map(move |at| view.slice(at * size..(at + 1) * size))
    }

    /// Copies all bytes into `target`.
    ///
    /// # Panics
    /// If the length of `target` differs.
    #[inline]
    pub fn copy_to(&self, target: &mut [u8]) {
        assert_eq!(self.len, target.len(), "a copy needs equal lengths");
        // SAFETY: the block outlives the view, and `target` is a distinct Rust slice.
        unsafe { load_shared(self.pointer, target.as_mut_ptr(), self.len) };
    }

    /// Appends a copy of all bytes to `target`.
    pub fn append_to(&self, target: &mut Vec<u8>) {
        target.reserve(self.len);
        let spare: *mut MaybeUninit<u8> = target.spare_capacity_mut().as_mut_ptr();
        // SAFETY: the block outlives the view. The spare capacity is as long, and the length grows
        // only after it was initialised.
        unsafe {
            load_shared(self.pointer, spare.cast(), self.len);
            target.set_len(target.len() + self.len);
        }
    }

    /// A copy of all bytes.
    pub fn to_vec(&self) -> Vec<u8> {
        let mut bytes = Vec::new();
        self.append_to(&mut bytes);
        bytes
    }

    /// A copy of the `N` bytes from `at` on.
    ///
    /// # Panics
    /// If the view does not contain them.
    #[inline]
    pub fn array<const N: usize>(&self, at: usize) -> [u8; N] {
        let mut bytes = [0; N];
        self.slice(at..at + N).copy_to(&mut bytes);
        bytes
    }

    /// The little-endian number in the eight bytes from `at` on.
    ///
    /// # Panics
    /// If the view does not contain them.
    #[inline]
    pub fn u64_le(&self, at: usize) -> u64 {
        u64::from_le_bytes(self.array(at))
    }

    /// Calls `see` with a copy of each part of the bytes and the offset of that part, until `see`
    /// returns false. Returns whether it never did. A part is short enough to stay in the
    /// first-level cache; an empty part is skipped.
    #[inline]
    pub fn each_part(&self, mut see: impl FnMut(usize, &[u8]) -> bool) -> bool {
        let mut copy = [const { MaybeUninit::<u8>::uninit() }; PART];
        (0..self.len).step_by(PART).all(|at| {
            let part = self.slice(at..self.len.min(at + PART));
            let copy = copy.as_mut_ptr().cast::<u8>();
            // SAFETY: the block outlives the view. A part is no longer than `copy`; the slice is
            // of the bytes that were written just before.
            see(at, unsafe {
                load_shared(part.pointer, copy, part.len);
                core::slice::from_raw_parts(copy, part.len)
            })
        })
    }

    /// Whether all bytes are `value`.
    pub fn is_all(&self, value: u8) -> bool {
        self.each_part(|_, part| part.iter().fold(0, |other, byte| other | (byte ^ value)) == 0)
    }

    /// The address of the bytes, for foreign code and the kernel.
    #[inline]
    pub fn as_ptr(&self) -> *const u8 {
        self.pointer
    }

    /// The bytes as a slice, without a copy.
    ///
    /// # Safety
    /// Nothing writes the bytes while the slice lives: neither this process, nor a peer that has a
    /// key of the region, nor the kernel.
    #[inline]
    pub unsafe fn as_slice(&self) -> &'a [u8] {
        // SAFETY: the block outlives the view and is initialised; the caller ensures that nothing
        // writes.
        unsafe { core::slice::from_raw_parts(self.pointer, self.len) }
    }
}

impl PartialEq<[u8]> for SharedBytes<'_> {
    fn eq(&self, other: &[u8]) -> bool {
        self.len == other.len() && self.each_part(|at, part| part == &other[at..at + part.len()])
    }
}

impl<const N: usize> PartialEq<[u8; N]> for SharedBytes<'_> {
    fn eq(&self, other: &[u8; N]) -> bool {
        *self == other[..]
    }
}

/// Compares the current bytes; a later comparison may differ.
impl PartialEq for SharedBytes<'_> {
    fn eq(&self, other: &Self) -> bool {
        *self == other.to_vec()[..]
    }
}

impl Eq for SharedBytes<'_> {}

impl fmt::Debug for SharedBytes<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.to_vec().fmt(f)
    }
}

impl<'a> Deref for SharedBytesMut<'a> {
    type Target = SharedBytes<'a>;
    fn deref(&self) -> &SharedBytes<'a> {
        &self.0
    }
}

impl<'a> SharedBytesMut<'a> {
    /// A part of the view.
    ///
    /// # Panics
    /// If the range is not in the view.
    #[inline]
    pub fn slice(&mut self, range: impl RangeBounds<usize>) -> SharedBytesMut<'_> {
        SharedBytesMut(self.0.slice(range))
    }

    /// As [`Self::slice`], but consumes the view.
    ///
    /// # Panics
    /// If the range is not in the view.
    #[inline]
    pub fn into_slice(self, range: impl RangeBounds<usize>) -> Self {
        Self(self.0.slice(range))
    }

    /// Pieces of `size` bytes; a shorter remainder is left out.
    ///
    /// # Panics
    /// If `size` is zero.
    #[inline]
    pub fn chunks_exact(
        &mut self,
        size: usize,
    ) -> impl ExactSizeIterator<Item = SharedBytesMut<'_>> {
        self.0.chunks_exact(size).map(SharedBytesMut)
    }

    /// Copies `source` to the bytes from `at` on.
    ///
    /// # Panics
    /// If the view does not contain them.
    #[inline]
    pub fn write(&mut self, at: usize, source: &[u8]) {
        let end = at.checked_add(source.len());
        assert!(
            end.is_some_and(|end| end <= self.0.len),
            "{} bytes at {at} of a view of {} bytes",
            source.len(),
            self.0.len
        );
        // SAFETY: in the view, just checked; the block outlives it, and `source` is a distinct Rust
        // slice.
        unsafe { store_shared(source.as_ptr(), self.as_mut_ptr().add(at), source.len()) };
    }

    /// Copies `source` over all bytes.
    ///
    /// # Panics
    /// If the length of `source` differs.
    #[inline]
    pub fn copy_from(&mut self, source: &[u8]) {
        assert_eq!(self.0.len, source.len(), "a copy needs equal lengths");
        self.write(0, source);
    }

    /// Copies the bytes of another view over all bytes; the two may overlap.
    ///
    /// # Panics
    /// If the lengths differ.
    #[inline]
    pub fn copy_from_shared(&mut self, source: SharedBytes<'_>) {
        assert_eq!(self.0.len, source.len, "a copy needs equal lengths");
        // SAFETY: the blocks outlive the views.
        unsafe { copy_shared(source.pointer, self.as_mut_ptr(), self.0.len) };
    }

    /// Sets all bytes to `value`.
    #[inline]
    pub fn fill(&mut self, value: u8) {
        // SAFETY: the block outlives the view.
        unsafe { fill_shared(self.as_mut_ptr(), value, self.0.len) };
    }

    /// The address of the bytes, for foreign code and the kernel.
    #[inline]
    pub fn as_mut_ptr(&mut self) -> *mut u8 {
        self.0.pointer.cast_mut()
    }

    /// The bytes as a slice.
    ///
    /// # Safety
    /// Nothing else accesses the bytes while the slice lives: neither this process, nor a peer that
    /// has a key of the region, nor the kernel.
    #[inline]
    pub unsafe fn as_mut_slice(&mut self) -> &mut [u8] {
        // SAFETY: the block outlives the view and is initialised; the caller ensures that nothing
        // else accesses the bytes.
        unsafe { core::slice::from_raw_parts_mut(self.as_mut_ptr(), self.0.len) }
    }
}

impl fmt::Debug for SharedBytesMut<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.fmt(f)
    }
}

#[cfg(test)]
mod tests;
