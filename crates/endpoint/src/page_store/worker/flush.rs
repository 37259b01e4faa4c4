//! Writing changed pages home, and making them durable.
//!
//! First every changed page is written, several at a time. When all of these writes have ended,
//! each store that this pool has written to since it was last made durable gets one NVMe Flush,
//! which also covers the writes of evictions.

use super::replies::Job;
use super::{Flushed, Key, Worker};
use crate::page_store::directory::{Answer, Directory, Op};
use crate::page_store::pool::table::{DIRTY, EVICTING, UNFIXING};
use crate::page_store::{FixError, FlushError};
use rackweave_base::Instant;
use rackweave_base::canary::{Canary, planted};
use rackweave_verbs::Verbs;
use rackweave_wire::fabric::page::PageId;
use std::sync::atomic::Ordering;

pub(super) type FlushKey = Key;

/// Maximum number of pages that one flush has in flight.
const AT_A_TIME: u32 = 32;

/// A flush in flight: it passes over the buffer frames once, or looks for one page.
#[derive(Debug)]
pub(super) struct Flushing {
    only: Option<PageId>,
    pub began: Instant,
    cursor: u32,
    end: u32,
    under_way: u32,
    pages: u64,
    written: u64,
    failed: u64,
    first: Option<(PageId, FixError)>,
    /// Since when it has waited for the page in the buffer frame at the cursor.
    waits_since: Option<Instant>,
    /// It has waited for a page without success, and no longer waits for any.
    is_late: bool,
    /// The directory does not respond, and gets no further write requests.
    is_gone: bool,
    syncs: Syncs,
    pub result: Option<Result<Flushed, FlushError>>,
}

/// The stores that are to be made durable.
#[derive(Debug)]
enum Syncs {
    /// Pages are still being written.
    NotYet,
    /// These stores remain, and this many requests are unanswered.
    Wait {
        due: Vec<Sync>,
        asked: u32,
        failed: Option<(u8, FixError)>,
    },
}

/// A store that is to be made durable.
#[derive(Clone, Copy, Debug)]
pub(super) struct Sync {
    store: u8,
    attempts: u32,
    not_before: Instant,
    gone_since: Option<Instant>,
}

/// What to do about a buffer frame.
enum Look {
    /// Nothing to write.
    Pass,
    /// It is in use temporarily. If that takes too long, this is the error.
    Wait(PageId, FixError),
    Write(PageId),
    /// It cannot be written: this is the error.
    Fail(PageId, FixError),
}

impl Flushing {
    /// A flush of one page, or of all in `frames` buffer frames.
    pub fn new(only: Option<PageId>, frames: u32, began: Instant) -> Self {
        Self {
            only,
            began,
            cursor: 0,
            end: frames,
            under_way: 0,
            pages: 0,
            written: 0,
            failed: 0,
            first: None,
            waits_since: None,
            is_late: false,
            is_gone: false,
            syncs: Syncs::NotYet,
            result: None,
        }
    }
}

impl<D: Directory> Worker<D> {
    pub(super) fn poll_flushes(&mut self, verbs: &mut dyn Verbs) -> bool {
        let mut happened = false;
        let keys: Vec<Key> = self.flushes.keys().collect();
        for key in keys {
            while self.flush_step(key, verbs) {
                happened = true;
            }
        }
        happened
    }

    /// Advances by one buffer frame, or to the end. False if it must wait.
    fn flush_step(&mut self, key: Key, verbs: &mut dyn Verbs) -> bool {
        let Some(flush) = self.flushes.get(key) else {
            return false;
        };
        if flush.result.is_some() || flush.under_way >= AT_A_TIME {
            return false;
        }
        let is_gone = flush.is_gone;
        if flush.cursor == flush.end {
            return self.flush_synced(key, verbs);
        }
        let frame = match flush.only {
            Some(page) => self.pool.table.find(page),
            None => Some(flush.cursor),
        };
        let (pages, started) = match frame.map_or(Look::Pass, |frame| self.look(key, frame)) {
            Look::Pass => (0, 0),
            Look::Wait(page, why) => {
                if !self.is_late(key) {
                    return false;
                }
                self.flush_failed(key, page, why);
                (1, 0)
            }
            Look::Write(page) if is_gone => {
                self.flush_failed(key, page, FixError::Gone);
                (1, 0)
            }
            Look::Write(page) if self.begin_eviction(frame.unwrap_or(0), page, Some(key)) => (1, 1),
            // Another worker was faster; look again.
            Look::Write(_) => return false,
            Look::Fail(page, error) => {
                self.flush_failed(key, page, error);
                (1, 0)
            }
        };
        if let Some(flush) = self.flushes.get_mut(key) {
            flush.pages += pages;
            flush.under_way += started;
            flush.cursor += 1;
            flush.waits_since = None;
        }
        true
    }

    /// Whether a flush has waited long enough.
    fn is_late(&mut self, key: Key) -> bool {
        let Some(flush) = self.flushes.get_mut(key) else {
            return false;
        };
        let since = *flush.waits_since.get_or_insert(self.now);
        flush.is_late |= flush.is_gone || self.now.since(since) >= self.pool.config.patience;
        flush.is_late
    }

    fn look(&self, key: Key, frame: u32) -> Look {
        let meta = self.pool.table.meta(frame);
        let Some(page) = meta.page() else {
            return Look::Pass;
        };
        let is_dirty = meta.is(DIRTY);
        if !is_dirty && !meta.is(UNFIXING) {
            return Look::Pass;
        }
        if self.frames.is_written(frame) {
            return if !meta.is(UNFIXING) {
                match self.local.has(page, false) {
                    true => Look::Fail(page, FixError::Conflict(page)),
                    false => Look::Wait(page, FixError::TimedOut(page)),
                }
            } else if self.pool.may_leave(meta.lsn.load(Ordering::Acquire)) {
                Look::Wait(page, FixError::Gone)
            } else if self.is_log_stuck(Some(key)) {
                Look::Wait(page, FixError::NotLogged(page))
            } else {
                // The log makes progress, and the page will be changed again as soon as possible.
                Look::Wait(page, FixError::TimedOut(page))
            };
        }
        if !is_dirty || meta.is(EVICTING) {
            return Look::Wait(page, FixError::Gone);
        }
        Look::Write(page)
    }

    /// All page writes are in flight or have ended: makes the stores durable, then ends the flush.
    /// False if it must wait.
    fn flush_synced(&mut self, key: Key, verbs: &mut dyn Verbs) -> bool {
        let Some(flush) = self.flushes.get_mut(key) else {
            return false;
        };
        if flush.under_way > 0 {
            return false;
        }
        if let Syncs::NotYet = flush.syncs {
            let only = flush.only.map(PageId::store);
            let stores = self.pool.used_stores().filter(|store| {
                only.is_none_or(|only| only == *store) && !planted(Canary::PagesFlushNotDurable)
            });
            let due = stores.map(|store| Sync {
                store,
                attempts: 0,
                not_before: Instant::ZERO,
                gone_since: None,
            });
            flush.syncs = Syncs::Wait {
                due: due.collect(),
                asked: 0,
                failed: None,
            };
        }
        let Syncs::Wait { due, asked, failed } = &mut flush.syncs else {
            return false;
        };
        if due.is_empty() && *asked == 0 {
            let failed = *failed;
            self.end_flush(key, failed);
            return true;
        }
        let ready = due.iter().position(|sync| sync.not_before <= self.now);
        let Some(at) = ready else { return false };
        let op = Op::Flush {
            store: due[at].store,
        };
        match self.directory.begin(self.now, verbs, op) {
            Some(ticket) => {
                let sync = due.swap_remove(at);
                *asked += 1;
                self.jobs.push((ticket, Job::Sync(key, sync)));
                true
            }
            None => false,
        }
    }

    /// Handles the answer to a request to make a store durable.
    pub(super) fn synced(&mut self, key: FlushKey, mut sync: Sync, answer: Answer) {
        let error = match answer {
            Answer::Done => None,
            Answer::Storage(status) => Some(FixError::Storage { status }),
            Answer::Full => Some(FixError::StorageFull),
            Answer::Invalid => PageId::new(sync.store, 0).map(FixError::NoSuchPage),
            Answer::NotMember => PageId::new(sync.store, 0).map(FixError::NotMember),
            Answer::Fenced => Some(FixError::Fenced),
            _ => {
                self.statistics.gone += 1;
                let since = *sync.gone_since.get_or_insert(self.now);
                if self.now.since(since) < self.pool.config.patience {
                    sync.not_before = self.gone_until(sync.attempts);
                    sync.attempts += 1;
                    if let Some(Syncs::Wait { due, asked, .. }) = self.syncs(key) {
                        *asked -= 1;
                        due.push(sync);
                    }
                    return;
                }
                Some(FixError::Gone)
            }
        };
        if let Some(Syncs::Wait { asked, failed, .. }) = self.syncs(key) {
            *asked -= 1;
            *failed = failed.or(error.map(|error| (sync.store, error)));
        }
    }

    fn syncs(&mut self, key: FlushKey) -> Option<&mut Syncs> {
        self.flushes.get_mut(key).map(|flush| &mut flush.syncs)
    }

    fn end_flush(&mut self, key: Key, not_durable: Option<(u8, FixError)>) {
        let Some(flush) = self.flushes.get_mut(key) else {
            return;
        };
        flush.result = Some(match (flush.first, not_durable) {
            (Some((page, source)), _) => Err(FlushError::Pages {
                pages: flush.pages,
                failed: flush.failed,
                page,
                source,
            }),
            (None, Some((store, source))) => Err(FlushError::Store { store, source }),
            (None, None) => Ok(Flushed {
                written: flush.written,
            }),
        });
    }

    pub(super) fn flush_failed(&mut self, key: Key, page: PageId, error: FixError) {
        if let Some(flush) = self.flushes.get_mut(key) {
            flush.failed += 1;
            flush.first.get_or_insert((page, error));
        }
    }

    /// A page of a flush was written (true), or need not be any more, or could not be.
    pub(super) fn flush_answered(
        &mut self,
        key: FlushKey,
        page: PageId,
        result: Result<bool, FixError>,
    ) {
        if let Some(flush) = self.flushes.get_mut(key) {
            flush.under_way -= 1;
            flush.written += u64::from(result == Ok(true));
            flush.is_gone |= result == Err(FixError::Gone);
        }
        if let Err(error) = result {
            self.flush_failed(key, page, error);
        }
    }
}
