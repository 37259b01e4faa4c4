//! A node's buffer frames in its region, and what lies in which.
//!
//! A frame is a header of 64 bytes, which only its node writes, and a page. The header names the
//! page and the request by which the node holds it, or is void. Whoever reads a frame from outside
//! reads the header, the page, and the header again: if both headers name what he was told, the
//! page was whole and valid all the while, since no id is ever used again.

use super::page::Stamp;
use core::sync::atomic::Ordering;
use rackweave_verbs::{Region, Segment};

/// Bytes in front of a page.
pub const HEADER: u64 = 64;

/// Bytes of a header that say something.
pub const HEADER_WORDS: u32 = 16;

/// The frames of a node.
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

    /// The frames in `region`.
    pub fn new(region: Region, page_size: u32) -> Self {
        Self { region, page_size }
    }

    /// Where the header of a frame lies in the region.
    pub fn offset(&self, frame: u32) -> u64 {
        u64::from(frame) * (HEADER + u64::from(self.page_size))
    }

    /// The page of a frame, for a work request.
    pub fn segment(&self, frame: u32) -> Segment {
        let at = self.offset(frame) + HEADER;
        self.region.segment(at, self.page_size)
    }

    /// Says in the header that the frame holds `page` by request `id`.
    pub fn name(&self, frame: u32, page: u64, id: u64) {
        let at = self.offset(frame) as usize;
        let word = |at| self.region.block.word(at);
        // The id comes last: until then it is void.
        word(at).store(page, Ordering::Release);
        word(at + 8).store(id, Ordering::Release);
    }

    /// Says in the header that the frame holds nothing. What was void stays void.
    pub fn void(&self, frame: u32) {
        let at = self.offset(frame) as usize + 8;
        self.region.block.word(at).store(0, Ordering::SeqCst);
    }

    /// What the page in a frame says; nothing if it is damaged.
    pub fn read(&self, frame: u32) -> Option<Stamp> {
        let at = (self.offset(frame) + HEADER) as usize;
        Stamp::read(&self.region.block, at, self.page_size as usize)
    }

    /// Changes what the page in a frame says.
    pub fn write(&self, frame: u32, stamp: Stamp) {
        let at = (self.offset(frame) + HEADER) as usize;
        stamp.write(&self.region.block, at, self.page_size as usize);
    }
}

/// The hand that goes round the frames and takes those that were not used since it passed last
/// (second chance).
#[derive(Clone, Copy, Default, Debug)]
pub struct Hand(u32);

impl Hand {
    /// The frame under the hand, which goes on to the next of `count`.
    pub fn next(&mut self, count: u32) -> u32 {
        let at = self.0;
        self.0 = (at + 1) % count.max(1);
        at
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_hand_goes_round() {
        let mut hand = Hand::default();
        let seen: Vec<u32> = (0..5).map(|_| hand.next(3)).collect();
        assert_eq!(seen, [0, 1, 2, 0, 1]);
    }
}
