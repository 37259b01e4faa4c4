//! Buffer frames: pieces of a block that a NIC reads and writes, each with a latch.
//!
//! Frames begin at equal distances and usually have that size. A larger one
//! ([`Frames::with_sizes`]) covers those after it, which are not used then.
//!
//! A latch only separates the threads that use these frames: a NIC reads and writes a frame for
//! every peer that has the key of its region, and other owners of the block do not see latches.
//! Therefore a [`FrameRead`] and a [`FrameWrite`] give views of the bytes, not slices:
//!
//! ```compile_fail,E0308
//! # use rackweave_base::memory::FrameRead;
//! fn look(frame: &FrameRead) -> &[u8] {
//!     frame.bytes()
//! }
//! ```
//!
//! If the page protocol is followed, nothing writes a frame while it is read: only the switch has
//! the key of a pool's region, and it writes only where a thread holds the [`FrameWrite`] and
//! waits. A program that trusts the switch, and lets nothing else write to the block, may use
//! [`SharedBytes::as_slice`].
//!
//! The first bytes of a frame, its *head*, are not part of any view: they are accessed as words, by
//! any thread at any time.
//!
//! A *latch word* has the number of readers (bits 0–15), a writer (16), whether a writer waits
//! (17), whether the frame is *retired* (18), and from bit 24 on a number that is incremented
//! whenever a writer leaves, which tells an optimistic reader that the bytes may have changed. A
//! retired frame cannot be latched; it returns to use by [`Frames::claim`]. Initially all frames
//! are retired.

use super::{Block, SharedBytes, SharedBytesMut};
use core::sync::atomic::{AtomicU64, Ordering, fence};
use std::sync::Arc;

const READERS: u64 = 0xffff;
const WRITER: u64 = 1 << 16;
const WANTED: u64 = 1 << 17;
const RETIRED: u64 = 1 << 18;
const SEQUENCE: u64 = 1 << 24;

/// Frames of a block. Clones refer to the same frames.
#[derive(Clone, Debug)]
#[expect(
    clippy::redundant_allocation,
    reason = "the outer count is a handle's own, the inner one is shared by all threads"
)]
pub struct Frames(Arc<Arc<Shared>>);

#[derive(Debug)]
struct Shared {
    block: Block,
    frame_size: usize,
    head: usize,
    latches: Box<[Latch]>,
}

/// A separate cache line, because adjacent frames are latched by different threads.
#[derive(Debug)]
#[repr(align(64))]
struct Latch {
    word: AtomicU64,
    /// Bytes of the frame.
    size: usize,
}

/// A frame's latch word at the start of an optimistic read.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Stamp(u64);

/// Whether a retired frame still has readers.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Retired {
    /// It has no readers and may be claimed.
    Idle,
    /// It has readers: the last [`FrameRead::release`] returns true.
    Read,
}

impl Frames {
    /// The first `count` frames of `frame_size` bytes in `block`, each with a head of `head` bytes.
    /// Returns `None` if they are not all in the block, or the sizes are not multiples of eight.
    pub fn new(block: Block, frame_size: usize, count: u32, head: usize) -> Option<Self> {
        Self::with_sizes(block, frame_size, count, head, |_| frame_size)
    }

    /// The same for frames that begin every `frame_size` bytes and have the size of `size_of`. A
    /// larger one covers those after it, which may not be latched.
    pub fn with_sizes(
        block: Block,
        frame_size: usize,
        count: u32,
        head: usize,
        size_of: impl Fn(u32) -> usize,
    ) -> Option<Self> {
        let all = frame_size.checked_mul(count as usize)?;
        let are_words = frame_size.is_multiple_of(8) && head.is_multiple_of(8);
        if all > block.len() || head > frame_size || !are_words {
            return None;
        }
        let latches = (0..count).map(|frame| {
            let (size, before) = (size_of(frame), frame as usize * frame_size);
            (frame_size..=all - before)
                .contains(&size)
                .then_some(Latch {
                    word: AtomicU64::new(RETIRED),
                    size,
                })
        });
        Some(Self(Arc::new(Arc::new(Shared {
            latches: latches.collect::<Option<_>>()?,
            block,
            frame_size,
            head,
        }))))
    }

    /// The same frames under a separate reference count: threads that latch often, each with its
    /// own handle, do not contend for the count.
    pub fn handle(&self) -> Self {
        Self(Arc::new(Arc::clone(&self.0)))
    }

    /// The number of frames.
    pub fn count(&self) -> u32 {
        self.0.latches.len() as u32
    }

    /// The block.
    pub fn block(&self) -> &Block {
        &self.0.block
    }

    /// The word at byte `at` of a frame's head.
    ///
    /// # Panics
    /// If it is not in the head, or `at` is not a multiple of eight.
    pub fn header_word(&self, frame: u32, at: usize) -> &AtomicU64 {
        assert!(at + 8 <= self.0.head, "byte {at} is not in the head");
        self.0.block.word(self.0.start(frame) + at)
    }

    /// A latch for reading; `None` while the frame has a writer, or if it is retired.
    #[inline]
    pub fn try_read(&self, frame: u32) -> Option<FrameRead> {
        let latch = self.0.latch(frame);
        let mut word = latch.load(Ordering::Relaxed);
        loop {
            if word & (WRITER | RETIRED) != 0 || word & READERS == READERS {
                return None;
            }
            let next = word + 1;
            match latch.compare_exchange_weak(word, next, Ordering::Acquire, Ordering::Relaxed) {
                Ok(_) => break,
                Err(now) => word = now,
            }
        }
        Some(FrameRead {
            frames: self.clone(),
            frame,
            held: true,
        })
    }

    /// The latch for writing; `None` while the frame has readers or a writer, or if it is retired.
    #[inline]
    pub fn try_write(&self, frame: u32) -> Option<FrameWrite> {
        self.enter(frame, |word| word & (READERS | WRITER | RETIRED) == 0)
    }

    /// Returns a retired frame without readers to use.
    pub fn claim(&self, frame: u32) -> Option<FrameWrite> {
        self.enter(frame, |word| word & (READERS | WRITER | RETIRED) == RETIRED)
    }

    /// Records that a writer waits for the frame, so that readers can yield ([`Self::is_wanted`]).
    /// Cleared when a writer enters.
    pub fn want(&self, frame: u32) {
        let latch = self.0.latch(frame);
        if latch.load(Ordering::Relaxed) & WANTED == 0 {
            latch.fetch_or(WANTED, Ordering::Relaxed);
        }
    }

    /// Whether a writer waits for the frame.
    #[inline]
    pub fn is_wanted(&self, frame: u32) -> bool {
        self.0.latch(frame).load(Ordering::Relaxed) & WANTED != 0
    }

    /// Whether the frame has a writer.
    #[inline]
    pub fn is_written(&self, frame: u32) -> bool {
        self.0.latch(frame).load(Ordering::Acquire) & WRITER != 0
    }

    /// Whether the frame is in use, and not latched.
    pub fn is_idle(&self, frame: u32) -> bool {
        let word = self.0.latch(frame).load(Ordering::Relaxed);
        word & (READERS | WRITER | RETIRED) == 0
    }

    /// Takes the frame out of use while it may still have readers; `None` while it has a writer, or
    /// if it was retired before.
    pub fn try_retire(&self, frame: u32) -> Option<Retired> {
        let retire = |word| (word & (WRITER | RETIRED) == 0).then_some(word | RETIRED);
        let latch = self.0.latch(frame);
        let before = latch
            .fetch_update(Ordering::AcqRel, Ordering::Relaxed, retire)
            .ok()?;
        Some(if before & READERS == 0 {
            Retired::Idle
        } else {
            Retired::Read
        })
    }

    /// Starts an optimistic read; `None` while the frame has a writer, or if it is retired.
    pub fn stamp(&self, frame: u32) -> Option<Stamp> {
        let word = self.0.latch(frame).load(Ordering::Acquire);
        (word & (WRITER | RETIRED) == 0).then_some(Stamp(word / SEQUENCE))
    }

    /// Whether the bytes cannot have changed since `stamp`.
    pub fn is_unchanged(&self, frame: u32, stamp: Stamp) -> bool {
        fence(Ordering::Acquire);
        let word = self.0.latch(frame).load(Ordering::Relaxed);
        word & (WRITER | RETIRED) == 0 && word / SEQUENCE == stamp.0
    }

    /// Copies bytes after the head from `at` on, latched or not: they may change meanwhile. Returns
    /// false if the frame does not contain them.
    #[must_use]
    pub fn peek(&self, frame: u32, at: usize, target: &mut [u8]) -> bool {
        let (start, len) = self.0.range(frame);
        if at.checked_add(target.len()).is_none_or(|end| end > len) {
            return false;
        }
        self.0.block.read(start + at, target);
        true
    }

    fn enter(&self, frame: u32, may: impl Fn(u64) -> bool) -> Option<FrameWrite> {
        let latch = self.0.latch(frame);
        let enter = |word| may(word).then_some(word & !(WANTED | RETIRED) | WRITER);
        latch
            .fetch_update(Ordering::Acquire, Ordering::Relaxed, enter)
            .ok()?;
        // An optimistic reader that sees a byte written after this also sees that there is a
        // writer.
        fence(Ordering::Release);
        Some(FrameWrite {
            frames: self.clone(),
            frame,
            held: true,
        })
    }
}

impl Shared {
    #[inline]
    fn latch(&self, frame: u32) -> &AtomicU64 {
        &self.latches[frame as usize].word
    }

    fn start(&self, frame: u32) -> usize {
        assert!((frame as usize) < self.latches.len(), "no frame {frame}");
        frame as usize * self.frame_size
    }

    /// The offset in the block of the bytes after the head, and their number.
    #[inline]
    fn range(&self, frame: u32) -> (usize, usize) {
        let size = self.latches[frame as usize].size;
        (self.start(frame) + self.head, size - self.head)
    }
}

/// A frame latched for reading.
#[derive(Debug)]
pub struct FrameRead {
    frames: Frames,
    frame: u32,
    held: bool,
}

impl FrameRead {
    /// The frame's index.
    pub fn frame(&self) -> u32 {
        self.frame
    }

    /// Never releases the latch: the frame cannot be written any more, as long as these frames
    /// exist.
    pub fn abandon(mut self) {
        self.held = false;
    }

    /// Releases the latch. Returns true for the last reader of a frame that was retired meanwhile.
    #[must_use]
    pub fn release(mut self) -> bool {
        self.held = false;
        self.leave()
    }

    /// The bytes after the head.
    #[inline]
    pub fn bytes(&self) -> SharedBytes<'_> {
        let (at, len) = self.frames.0.range(self.frame);
        self.frames.0.block.bytes(at, len)
    }

    #[inline]
    fn leave(&self) -> bool {
        let latch = self.frames.0.latch(self.frame);
        let before = latch.fetch_sub(1, Ordering::AcqRel);
        before & (READERS | RETIRED) == RETIRED | 1
    }
}

impl Drop for FrameRead {
    fn drop(&mut self) {
        if self.held {
            self.leave();
        }
    }
}

/// A frame latched for writing, by a thread or by the NIC.
#[derive(Debug)]
pub struct FrameWrite {
    frames: Frames,
    frame: u32,
    held: bool,
}

impl FrameWrite {
    /// The frame's index.
    pub fn frame(&self) -> u32 {
        self.frame
    }

    /// The bytes after the head.
    #[inline]
    pub fn bytes(&self) -> SharedBytes<'_> {
        let (at, len) = self.frames.0.range(self.frame);
        self.frames.0.block.bytes(at, len)
    }

    /// The bytes after the head, mutable.
    #[inline]
    pub fn bytes_mut(&mut self) -> SharedBytesMut<'_> {
        let (at, len) = self.frames.0.range(self.frame);
        self.frames.0.block.bytes_mut(at, len)
    }

    /// Turns into a reader without letting another writer in between.
    pub fn downgrade(mut self) -> FrameRead {
        self.leave(1);
        FrameRead {
            frames: self.frames.clone(),
            frame: self.frame,
            held: true,
        }
    }

    /// Releases the latch and takes the frame out of use.
    pub fn retire(mut self) {
        self.leave(RETIRED);
    }

    /// Never releases the latch: the frame cannot be used any more, as long as these frames exist.
    pub fn abandon(mut self) {
        self.held = false;
    }

    /// Leaves and sets `state`, of which no bit is set in the word.
    fn leave(&mut self, state: u64) {
        self.held = false;
        // One addition removes the writer and increments the number, which overflows at the top of
        // the word.
        let change = (SEQUENCE + state).wrapping_sub(WRITER);
        let latch = self.frames.0.latch(self.frame);
        latch.fetch_add(change, Ordering::Release);
    }
}

impl Drop for FrameWrite {
    fn drop(&mut self) {
        if self.held {
            self.leave(0);
        }
    }
}

#[cfg(test)]
mod tests;
