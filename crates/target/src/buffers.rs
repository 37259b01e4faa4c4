//! Transfer buffers, which hold data between the host and the backend.

use crate::RegionRange;
use rackweave_verbs::{Region, Segment};

/// Buffers of equal size in one region. Each is aligned to 4096 bytes, since the memory block is
/// and the size is a multiple.
pub(crate) struct Buffers {
    pub(crate) region: Region,
    size: u32,
    free: Vec<u32>,
    taken: Vec<bool>,
}

impl Buffers {
    pub(crate) fn new(region: Region, size: u32, count: u32) -> Self {
        Self {
            region,
            size,
            free: (0..count).rev().collect(),
            taken: vec![false; count as usize],
        }
    }

    pub(crate) fn take(&mut self) -> Option<u32> {
        let index = self.free.pop()?;
        self.taken[index as usize] = true;
        Some(index)
    }

    pub(crate) fn give(&mut self, index: u32) {
        let taken = &mut self.taken[index as usize];
        assert!(*taken, "transfer buffer {index} is given back twice");
        *taken = false;
        self.free.push(index);
    }

    pub(crate) fn free(&self) -> usize {
        self.free.len()
    }

    pub(crate) fn place(&self, index: u32) -> RegionRange {
        RegionRange {
            block: self.region.block.clone(),
            offset: index as usize * self.size as usize,
        }
    }

    pub(crate) fn segment(&self, index: u32, len: u32) -> Segment {
        debug_assert!(len <= self.size);
        let offset = u64::from(index) * u64::from(self.size);
        self.region.segment(offset, len)
    }
}
