//! The arena behind [`Memory`](super::Memory): slots of blocks, their generations, and where their
//! bytes are.

use super::{BLOCK_ALIGNMENT, BLOCKS_MAX, MemoryError, Origin, foreign, mapping, shared};
use core::sync::atomic::{AtomicPtr, AtomicU16, AtomicU32, AtomicUsize, Ordering, fence};
use std::alloc::{Layout, alloc_zeroed, dealloc};
use std::sync::Mutex;

/// Blocks of this size and more begin at a multiple of it and ask the system for huge pages: page
/// table walks limit the speed of copying large rings.
pub(super) const HUGE_PAGE: usize = 2 << 20;

pub(super) struct Arena {
    pub(super) slots: Box<[Slot]>,
    pub(super) allocations: Mutex<Allocations>,
    /// The name by which other processes know this arena.
    pub(super) origin: AtomicU16,
    /// The segment of the blocks, if other processes may map them; otherwise blocks are on the
    /// heap.
    #[cfg(target_os = "linux")]
    pub(super) segment: Option<shared::Segment>,
    #[cfg(target_os = "linux")]
    pub(super) imports: foreign::Imports,
}

pub(super) struct Allocations {
    pub(super) limit: usize,
    pub(super) used: usize,
    slots_used: usize,
    pub(super) free: Vec<u32>,
    /// The end of the used part of the segment.
    #[cfg(target_os = "linux")]
    segment_end: usize,
}

#[derive(Default)]
pub(super) struct Slot {
    pub(super) pointer: AtomicPtr<u8>,
    pub(super) capacity: AtomicUsize,
    /// Odd while the slot holds a block; incremented at every allocation and every release.
    pub(super) generation: AtomicU32,
}

/// The alignment of blocks of `capacity` bytes.
fn alignment(capacity: usize) -> usize {
    if capacity >= HUGE_PAGE {
        HUGE_PAGE
    } else {
        BLOCK_ALIGNMENT
    }
}

/// The heap layout of a block of `capacity` bytes.
fn layout(capacity: usize) -> Layout {
    Layout::from_size_align(capacity, alignment(capacity))
        .expect("capacity is bounded by the limit")
}

/// Requests huge pages for a block. A system without them uses small ones.
fn advise(pointer: *mut u8, capacity: usize) {
    #[cfg(target_os = "linux")]
    if capacity >= HUGE_PAGE {
        // SAFETY: the range was just obtained, whole pages of it.
        unsafe { mapping::advise_huge(pointer, capacity) };
    }
    #[cfg(not(target_os = "linux"))]
    let _ = (pointer, capacity);
}

impl Arena {
    /// An arena on the heap, whose generations start from the even number `first_generation`.
    pub(crate) fn new(limit: usize, first_generation: u32) -> Self {
        let slot = |_| Slot {
            generation: AtomicU32::new(first_generation),
            ..Slot::default()
        };
        Self {
            slots: (0..BLOCKS_MAX).map(slot).collect(),
            allocations: Mutex::new(Allocations {
                limit,
                used: 0,
                slots_used: 0,
                free: Vec::new(),
                #[cfg(target_os = "linux")]
                segment_end: shared::DATA_AT,
            }),
            origin: AtomicU16::new(Origin::OWN.0),
            #[cfg(target_os = "linux")]
            segment: None,
            #[cfg(target_os = "linux")]
            imports: foreign::Imports::default(),
        }
    }

    /// Creates a slot with `capacity` zero bytes, for a block of `len`.
    pub(super) fn obtain(
        &self,
        allocations: &mut Allocations,
        len: usize,
        capacity: usize,
    ) -> Result<u32, MemoryError> {
        let (limit, left) = (allocations.limit, allocations.limit - allocations.used);
        let limit_reached = |left| MemoryError::LimitReached {
            asked: len,
            left,
            limit,
        };
        if capacity > left {
            return Err(limit_reached(left));
        }
        if allocations.slots_used == BLOCKS_MAX {
            return Err(MemoryError::TooManyBlocks);
        }
        let index = allocations.slots_used as u32;
        let pointer = self.bytes(allocations, index, capacity);
        if pointer.is_null() {
            return Err(limit_reached(0));
        }
        advise(pointer, capacity);
        allocations.slots_used += 1;
        allocations.used += capacity;
        let slot = &self.slots[index as usize];
        slot.pointer.store(pointer, Ordering::Release);
        slot.capacity.store(capacity, Ordering::Release);
        Ok(index)
    }

    /// Zero bytes from the segment or the heap; null if the heap is exhausted.
    pub(super) fn bytes(
        &self,
        allocations: &mut Allocations,
        index: u32,
        capacity: usize,
    ) -> *mut u8 {
        #[cfg(target_os = "linux")]
        if let Some(segment) = &self.segment {
            let offset = allocations
                .segment_end
                .next_multiple_of(alignment(capacity));
            allocations.segment_end = offset + capacity;
            segment.place(index, offset, capacity);
            return segment.block(offset);
        }
        #[cfg(not(target_os = "linux"))]
        let _ = (allocations, index);
        // SAFETY: the layout has a size above zero.
        unsafe { alloc_zeroed(layout(capacity)) }
    }

    /// Increments the generation of a slot when its block is allocated or released.
    pub(super) fn next_generation(&self, index: u32) -> u32 {
        let slot = &self.slots[index as usize];
        let generation = slot
            .generation
            .fetch_add(1, Ordering::AcqRel)
            .wrapping_add(1);
        #[cfg(target_os = "linux")]
        if let Some(segment) = &self.segment {
            segment.set_generation(index, generation);
        }
        // A reader that sees a byte written from now on, and then loads the generation, sees this
        // one (`Memory::with_source`).
        fence(Ordering::Release);
        generation
    }
}

impl Drop for Arena {
    fn drop(&mut self) {
        #[cfg(target_os = "linux")]
        if self.segment.is_some() {
            // The blocks are freed with the segment.
            return;
        }
        for slot in &self.slots {
            let pointer = slot.pointer.load(Ordering::Acquire);
            if !pointer.is_null() {
                let capacity = slot.capacity.load(Ordering::Acquire);
                let layout = layout(capacity);
                // SAFETY: allocated with this layout; every block holds the arena, so none is left.
                unsafe { dealloc(pointer, layout) };
            }
        }
    }
}
