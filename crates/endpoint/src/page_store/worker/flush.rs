//! Writing home all that is changed.

use super::{Flushed, Key, Worker};
use crate::page_store::directory::Directory;
use crate::page_store::pool::table::{DIRTY, EVICTING, UNFIXING};
use crate::page_store::{FixError, FlushError};
use rackweave_wire::fabric::page::PageId;

pub(super) type FlushKey = Key;

/// Pages that one flush has written at a time.
const AT_A_TIME: u32 = 32;

/// A flush under way: goes over the buffer frames once.
#[derive(Debug, Default)]
pub(super) struct Flushing {
    cursor: u32,
    under_way: u32,
    pages: u64,
    written: u64,
    failed: u64,
    first: Option<(PageId, FixError)>,
    pub result: Option<Result<Flushed, FlushError>>,
}

/// What is to be done about a buffer frame.
enum Look {
    /// Nothing to be written.
    Pass,
    /// It is in use in a way that ends.
    Wait,
    Write(PageId),
    /// The worker itself is changing it.
    Own(PageId),
}

impl<D: Directory> Worker<D> {
    pub(super) fn poll_flushes(&mut self) -> bool {
        let mut happened = false;
        let keys: Vec<Key> = self.flushes.keys().collect();
        for key in keys {
            while self.flush_step(key) {
                happened = true;
            }
        }
        happened
    }

    /// One buffer frame further, or to the end. False if it has to wait.
    fn flush_step(&mut self, key: Key) -> bool {
        let frames = self.pool.config.frames;
        let Some(flush) = self.flushes.get(key) else {
            return false;
        };
        if flush.result.is_some() || flush.under_way >= AT_A_TIME {
            return false;
        }
        let cursor = flush.cursor;
        if cursor == frames {
            return self.end_flush(key);
        }
        let (pages, started) = match self.look(cursor) {
            Look::Pass => (0, 0),
            Look::Wait => return false,
            Look::Write(page) if self.begin_eviction(cursor, page, Some(key)) => (1, 1),
            // Somebody was quicker; look again.
            Look::Write(_) => return false,
            Look::Own(page) => {
                self.flush_failed(key, page, FixError::Conflict(page));
                (1, 0)
            }
        };
        if let Some(flush) = self.flushes.get_mut(key) {
            flush.pages += pages;
            flush.under_way += started;
            flush.cursor += 1;
        }
        true
    }

    fn look(&self, frame: u32) -> Look {
        let meta = self.pool.table.meta(frame);
        let Some(page) = meta.page() else {
            return Look::Pass;
        };
        let is_dirty = meta.is(DIRTY);
        if !is_dirty && !meta.is(UNFIXING) {
            return Look::Pass;
        }
        if self.frames.is_written(frame) {
            let is_own = !meta.is(UNFIXING) && self.local.has(page, false);
            return if is_own { Look::Own(page) } else { Look::Wait };
        }
        if !is_dirty || meta.is(EVICTING) {
            return Look::Wait;
        }
        Look::Write(page)
    }

    fn end_flush(&mut self, key: Key) -> bool {
        let Some(flush) = self.flushes.get_mut(key) else {
            return false;
        };
        if flush.under_way > 0 {
            return false;
        }
        flush.result = Some(match flush.first {
            None => Ok(Flushed {
                written: flush.written,
            }),
            Some((page, source)) => Err(FlushError {
                pages: flush.pages,
                failed: flush.failed,
                page,
                source,
            }),
        });
        true
    }

    fn flush_failed(&mut self, key: Key, page: PageId, error: FixError) {
        if let Some(flush) = self.flushes.get_mut(key) {
            flush.failed += 1;
            flush.first.get_or_insert((page, error));
        }
    }

    /// A page of a flush was written, or not.
    pub(super) fn flush_answered(
        &mut self,
        key: FlushKey,
        page: PageId,
        written: bool,
        error: Option<FixError>,
    ) {
        if let Some(flush) = self.flushes.get_mut(key) {
            flush.under_way -= 1;
            flush.written += u64::from(written);
        }
        if let Some(error) = error {
            self.flush_failed(key, page, error);
        }
    }
}
