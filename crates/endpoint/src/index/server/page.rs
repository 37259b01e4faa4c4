//! Replies that are pages of entries.

use crate::index::message::{self, ENTRY_HEADER, Outcome, PAGE_HEADER};
use crate::rpc::Writer;

/// A reply that is a page of entries.
pub(super) struct PageWriter<'a, 'b> {
    reply: &'a mut Writer<'b>,
    limit: u32,
    left: u32,
    /// Whether an entry does not fit into an empty page.
    oversized: bool,
}

impl<'a, 'b> PageWriter<'a, 'b> {
    pub fn new(reply: &'a mut Writer<'b>, limit: u32) -> Self {
        Self {
            reply,
            limit,
            left: limit,
            oversized: false,
        }
    }

    /// Clears the page.
    pub fn begin(&mut self) {
        self.reply.clear();
        self.reply.push(&[Outcome::Done as u8]);
        self.reply.push(&[0; PAGE_HEADER]);
        self.left = self.limit;
        self.oversized = false;
    }

    /// Returns false if the page is full.
    pub fn push(&mut self, key: u64, value: &[u8]) -> bool {
        if self.left == 0 {
            return false;
        }
        if self.reply.left() < ENTRY_HEADER + value.len() {
            self.oversized = self.reply.len() == 1 + PAGE_HEADER;
            return false;
        }
        self.left -= 1;
        self.reply.push(&message::entry_header(key, value)) && self.reply.push(value)
    }

    /// Writes where the scan continues.
    pub fn end(self, next: Option<u64>) {
        if self.oversized {
            self.reply.clear();
            self.reply.push(&[Outcome::ValueTooLarge as u8]);
        } else if let Some(header) = self.reply.written().get_mut(1..=PAGE_HEADER) {
            header.copy_from_slice(&message::page_header(next));
        }
    }
}
