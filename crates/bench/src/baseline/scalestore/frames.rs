//! The memory of a node's frames.
//!
//! A frame is a header of 64 bytes, which only its node writes, and a page. The header names the
//! page and the request by which the node holds it, or is void. A remote reader reads the header,
//! the page, and the header again: if both headers have the expected content, the page was complete
//! and valid all the while, because ids are never reused.
//!
//! A page begins with its number. The last word of every sector and the first of every sector but
//! the first are seals, which show whether all its parts belong together.

use crate::harness::prelude::*;

/// Bytes in front of a page.
pub const HEADER: u64 = 64;

/// Used bytes of a header.
pub const HEADER_WORDS: u32 = 16;

/// Bytes of a sector: the smallest write of a drive.
pub const SECTOR: usize = 4096;

#[derive(Clone, Debug)]
pub struct Frames {
    region: Region,
    page_size: u32,
}

impl Frames {
    /// Bytes of a region of `count` frames for pages of `page_size` bytes.
    pub fn bytes(count: u32, page_size: u32) -> usize {
        count as usize * (HEADER as usize + page_size as usize)
    }

    pub fn new(region: Region, page_size: u32) -> Self {
        Self { region, page_size }
    }

    /// The offset of a frame's header in its region, at any node.
    pub fn offset(&self, frame: u32) -> u64 {
        u64::from(frame) * (HEADER + u64::from(self.page_size))
    }

    /// The page of a frame, for a work request.
    pub fn segment(&self, frame: u32) -> Segment {
        let at = self.offset(frame) + HEADER;
        self.region.segment(at, self.page_size)
    }

    /// Writes into the header that the frame holds `page` by request `id`.
    pub fn name(&self, frame: u32, page: u64, id: u64) {
        let at = self.offset(frame) as usize;
        let word = |at| self.region.block.word(at);
        // The id is written last: until then it is void.
        word(at).store(page, Ordering::Release);
        word(at + 8).store(id, Ordering::Release);
    }

    /// Writes into the header that the frame holds nothing.
    pub fn void(&self, frame: u32) {
        let at = self.offset(frame) as usize + 8;
        self.region.block.word(at).store(0, Ordering::SeqCst);
    }

    /// The number of the page in a frame; `None` if its parts do not belong together.
    pub fn read(&self, frame: u32) -> Option<u64> {
        let at = (self.offset(frame) + HEADER) as usize;
        read_page(&self.region.block, at, self.page_size as usize)
    }

    /// Writes a page into a frame; for tests.
    #[cfg(test)]
    pub fn write(&self, frame: u32, page: u64) {
        let at = (self.offset(frame) + HEADER) as usize;
        write_page(&self.region.block, at, self.page_size as usize, page);
    }
}

/// Writes a page of `bytes` bytes at `offset`. The bytes between its seals are unchanged.
pub fn write_page(block: &Block, offset: usize, bytes: usize, page: u64) {
    for at in core::iter::once(0).chain(seals(bytes)) {
        let word = block.word(offset + at);
        word.store(seal(page, at), Ordering::Release);
    }
}

/// The number of the page of `bytes` bytes at `offset`; `None` if its parts do not belong together.
pub fn read_page(block: &Block, offset: usize, bytes: usize) -> Option<u64> {
    let load = |at: usize| block.word(offset + at).load(Ordering::Acquire);
    let page = load(0);
    let is_whole = seals(bytes).all(|at| load(at) == seal(page, at));
    is_whole.then_some(page)
}

/// The word at an offset of a page: the number itself at its beginning.
fn seal(page: u64, at: usize) -> u64 {
    page.wrapping_add(0x9e37_79b9_7f4a_7c15_u64.wrapping_mul(at as u64))
}

fn seals(bytes: usize) -> impl Iterator<Item = usize> {
    let sectors = (0..bytes).step_by(SECTOR);
    sectors.flat_map(|start| {
        let first = (start > 0).then_some(start);
        first.into_iter().chain([start + SECTOR - 8])
    })
}
