//! A namespace of pages that hold nothing but their number.

use rackweave_base::Instant;
use rackweave_target::{Backend, Io, IoDone, IoKind};
use rackweave_wire::fabric::page::{PageHeader, PageId};
use std::collections::VecDeque;

/// Bytes of a block.
pub const BLOCK_BYTES: u32 = 4096;

/// Pages that are generated when they are read: a header with the page's number, then whatever the
/// buffer holds. Nothing else of a page is read, so a store may be far larger than this machine's
/// memory. Writes are discarded.
#[derive(Debug)]
pub struct BlankBackend {
    pages: u64,
    blocks_per_page: u64,
    ended: VecDeque<IoDone>,
}

impl BlankBackend {
    /// A backend with this many pages of `page_bytes` bytes, the pages of store 0.
    pub fn new(pages: u64, page_bytes: u32) -> Self {
        Self {
            pages,
            blocks_per_page: u64::from((page_bytes / BLOCK_BYTES).max(1)),
            ended: VecDeque::new(),
        }
    }
}

impl Backend for BlankBackend {
    fn block_size(&self) -> u32 {
        BLOCK_BYTES
    }

    fn blocks(&self) -> u64 {
        self.pages * self.blocks_per_page
    }

    fn submit(&mut self, _: Instant, io: Io) -> Result<(), Io> {
        if let (IoKind::Read, Some(place)) = (io.kind, &io.buffer) {
            let page = PageId::new(0, io.block / self.blocks_per_page);
            let header = PageHeader {
                page: page.map_or(0, PageId::tag),
                ..PageHeader::default()
            };
            place.block.write(place.offset, &header.emit());
        }
        self.ended.push_back(IoDone {
            tag: io.tag,
            result: Ok(()),
        });
        Ok(())
    }

    fn poll(&mut self, _: Instant, done: &mut Vec<IoDone>) {
        done.extend(self.ended.drain(..));
    }

    fn poll_timeout(&self) -> Option<Instant> {
        (!self.ended.is_empty()).then_some(Instant::ZERO)
    }
}
